"""The committed records of the studies: today's code reads them, and makes the same tables of them."""

import json

import pytest

from ergodic_studies.bench import (
    calibration,
    family,
    hard_calibration,
    posterior_tables,
    posteriors,
    refinement,
    scaling,
)
from ergodic_studies.bench.documents import ROOT, put, summary, tables_of
from ergodic_studies.harness.tables import Table
from ergodic_studies.paper import (
    bnn_tables,
    floor_tables,
    generative_tables,
    safeguards,
    safeguards_tables,
    synthetic_tables,
)
from ergodic_studies.paper.bnn import EXACT
from ergodic_studies.paper.bnn_methods import ablations

RESULTS = ROOT / "studies" / "results"
FOLDERS = sorted(path.parent.name for path in RESULTS.glob("*/results.json"))


def record(folder):
    document = json.loads((RESULTS / folder / "results.json").read_text())
    return document["results"], [Table.read(table) for table in document.get("tables", [])], document["config"]


def same(made, kept):
    """Tables alike but for their words."""
    assert [table.columns for table in made] == [table.columns for table in kept]
    assert [table.rows for table in made] == [table.rows for table in kept]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_record_is_read(folder):
    results, tables, config = record(folder)
    assert results and isinstance(config, dict) and all(table.title and table.columns for table in tables)


def test_the_benchmarks_make_the_same_tables():
    results, tables, _ = record("posteriors")
    same(posterior_tables.all_tables(results["cells"], posteriors.BAR), tables)
    results, tables, _ = record("scaling")
    points = results["points"]
    made = (scaling._dimensions, scaling._certificates, scaling._particles, scaling._bars)
    same([table(points) for table in made], tables)
    for folder, module in (("refine", refinement), ("certificate", calibration)):
        results, tables, _ = record(folder)
        same([module._table(results)], tables)
    results, tables, _ = record("family")
    same(family._tables(results), tables)
    results, tables, _ = record("certificate-hard")
    same([hard_calibration.table(results)], tables)


@pytest.mark.parametrize("folder", ["floor", "floor-check"])
def test_the_floor_makes_the_same_tables(folder):
    results, tables, config = record(folder)
    labels = ["initial", *(f"Ĥ + {margin:g}" for margin in config["margins"]), "Ĥ + d/2", "covering", "auto"]
    made = [floor_tables.estimate_table(results)]
    made += [floor_tables.quality_table(results, labels, [], measure) for measure in ("distance", "logdensity_error")]
    same(made, tables)


@pytest.mark.parametrize("folder", ["safeguards", "safeguards-check"])
def test_the_safeguards_make_the_same_tables(folder):
    results, tables, config = record(folder)
    names, labels = config["targets"], list(safeguards.VARIANTS)
    same([safeguards_tables.summary_table(results["cells"], labels, names, "")], tables[:1])
    made = [safeguards_tables.measure_table(results["cells"], labels, names, m) for m in safeguards_tables.MEASURES]
    same(made, tables[2:6])


def test_the_synthetic_study_makes_the_same_tables():
    results, tables, config = record("synthetic")
    cells, names, methods = results["cells"], list(results["exact"]), config["methods"]
    made = [
        synthetic_tables.method_table(cells, names, results["exact"], results["noise_floor"], methods),
        synthetic_tables.ranking_table(cells, names, results["exact"], results["noise_floor"]),
        synthetic_tables.time_table(cells, names, methods),
        synthetic_tables.tuning_table(results["tuning_seconds_per_100"]),
    ]
    same(made, tables)


@pytest.mark.parametrize("data", ["digits", "mnist"])
def test_the_generative_study_makes_the_same_tables(data):
    results, tables, config = record(f"generative-{data}")
    labels, chains = list(config["recipes"]), config["annealing"]["chains"]
    same([generative_tables.likelihood_table(results["cells"], labels, chains, data)], tables[:1])
    same([generative_tables.timing_table(results["timing"])], tables[2:3])


def test_the_network_study_makes_the_same_tables():
    results, tables, config = record("bnn")
    cells, names, changes = results["cells"], config["tables"], list(ablations(1))
    labels = [row[0] for row in tables[1].rows]
    main = ["long chain", *labels]
    made = [bnn_tables.score_table(cells, names, main), bnn_tables.difference_table(cells, names, main)]
    same([*made, bnn_tables.ablation_table(cells, changes)], [*tables[:2], tables[3]])
    assert {cell["label"] for cell in cells} == {*main, *changes, EXACT}


def test_documents_have_the_tables_of_the_records():
    named = {"posteriors": summary(tables_of("posteriors")), "bars": tables_of("posteriors")[0]}
    readme, results = (ROOT / "README.md").read_text(), (ROOT / "docs" / "results.md").read_text()
    posteriors = (ROOT / "docs" / "studies" / "posteriors.md").read_text()
    assert put(posteriors, "posteriors", named["posteriors"].markdown()) == posteriors
    assert put(readme, "models 1", tables_of("models")[1].markdown()) == readme
    assert put(results, "bars", named["bars"].markdown()) == results
    assert put(results, "bars", "") != results

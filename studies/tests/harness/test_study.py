"""The one runner of studies: its preset, its options, its record; and a table."""

import json
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer

from ergodic.runtime.errors import ConfigError
from ergodic_studies.harness.presets import Preset, changed, choose
from ergodic_studies.harness.study import Report, Study
from ergodic_studies.harness.tables import Figure, Table
from ergodic_studies.harness.timing import in_turns


@dataclass(frozen=True)
class Size:
    seeds: int = 2
    draws: int = 10


SIZES = {"smoke": Size(1), "cpu": Size()}


def work(
    run,
    *,
    seeds: Annotated[int | None, typer.Option(help="Seeds.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="Some.")] = None,
    collect: Annotated[bool, typer.Option("--collect", help="Run nothing.")] = False,
    hidden: bool = False,
):
    """Count seeds."""
    size = changed(run.size, seeds=seeds)
    run.say(f"{size.seeds} seeds")
    table = Table.of("Seeds", ["n"], [[size.seeds]], "No more.")
    figure = Figure("a.png", "A", "a picture")
    return Report({"seeds": size.seeds}, [table], [figure], Preset(run.preset.name, size).config(), whole=not methods,
                  documents=True)  # fmt: skip


STUDY = Study("count", "bench", SIZES, work, title="counting")


def test_a_study_runs_and_is_recorded(tmp_path):
    said = []
    report = STUDY.run("cpu", tmp_path, said.append, seeds=5)
    assert said == ["5 seeds"] and report.tables[0].rows == [[5]]
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["experiment"] == "counting" and document["results"] == {"seeds": 5}
    assert document["command"] == "ergodic bench count --preset cpu --seeds 5"
    assert document["config"] == {"preset": "cpu", "seeds": 5, "draws": 10}
    assert document["tables"] == [{"title": "Seeds", "note": "No more.", "columns": ["n"], "rows": [[5]]}]
    assert document["figures"] == [{"file": "a.png", "title": "A", "caption": "a picture"}]
    assert Table.read(document["tables"][0]) == report.tables[0]
    assert (tmp_path / "tables.md").read_text() == "**Seeds**\n\n| n |\n|---|\n| 5 |\n\nNo more.\n"


def test_a_part_of_a_study_is_not_recorded(tmp_path):
    STUDY.run("smoke", tmp_path, lambda _: None, methods=["HEI, long"])
    assert not (tmp_path / "results.json").exists()


def test_the_command_has_the_options_that_were_given():
    assert [option.name for option in STUDY.options()] == ["seeds", "methods", "collect"]
    given = {"seeds": None, "methods": ["HEI, long", "NUTS"], "collect": True}
    assert STUDY.command("cpu", given) == (
        'ergodic bench count --preset cpu --methods "HEI, long" --methods NUTS --collect'
    )


def test_unknown_presets_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="'smoke', 'cpu'"):
        STUDY.run("huge", tmp_path)
    assert choose(SIZES, "smoke") == Preset("smoke", Size(1))


def test_rows_of_a_table_are_even():
    with pytest.raises(ValueError, match="2 values for 1 columns"):
        Table("T", ["a"], [[1, 2]])


def test_in_turns_leaves_the_first_out():
    calls = []
    seconds = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b"] * 3 and set(seconds) == {"a", "b"}

"""The torture of the library: its trials, at their smallest."""

import random

import pytest

from ergodic_studies.bench import torture_files, torture_kills, torture_lines
from ergodic_studies.bench.torture import PRESETS, STUDY
from ergodic_studies.bench.torture_densities import densities, trial
from ergodic_studies.bench.torture_kills import COMMANDS


def test_a_hundred_densities_are_labelled_and_can_be_evaluated():
    import jax.numpy as jnp

    found = densities()
    assert len(found) >= 100
    labels = [made.label for made in found.values()]
    assert all(labels.count(label) >= 8 for label in ("proper", "walled", "improper", "broken"))
    for made in found.values():
        assert made.logdensity(jnp.full(made.dim, 0.1)).shape == ()


def test_a_bad_density_is_refused_in_a_sentence():
    for name in ("constant 0", "all inf", "an offset of 1e+30"):
        assert trial(name, "GEI", 0) == {"trials": 1, "passed": 0, "refused": 1, "certified wrongly": 0, "raw": 0}


def test_damage_changes_the_bytes_and_a_crafted_document_the_document():
    rng, data = random.Random(0), bytes(range(256)) * 4
    assert sum(torture_files.damaged(data, rng) != data for _ in range(100)) > 90
    document = {"a": [1, {"b": 2}], "c": None}
    spoilt = [torture_files.spoilt(document, rng) for _ in range(100)]
    assert sum(made != document for made in spoilt) > 90 and document == {"a": [1, {"b": 2}], "c": None}


def test_lines_are_made_of_every_command_and_none_raises():
    names = {" ".join(words) for words, _ in torture_lines.commands()}
    assert {"fit", "sample", "verify", "bnn fit", "generative train"} <= names
    found = torture_lines.lines(0, 8)
    assert (found["trials"], found["raw"], found["hung"]) == (8, 0, 0), found


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_was_killed_ends_as_if_it_had_not_been(command):
    found = torture_kills.trial(command, 0)
    assert (found["raw"], found["changed"], found["left over"]) == (0, 0, 0), found


def test_the_full_setting_is_what_was_asked_for():
    full = PRESETS["full"]
    assert full.kills * len(full.commands) >= 200 and full.lines >= 200 and full.seeds == 3 and full.every == 1
    assert full.rounds * len(("sampler", "GEI", "networks", "checkpoint")) * 2 + full.rounds * 4 >= 1000
    assert STUDY.name == "torture"

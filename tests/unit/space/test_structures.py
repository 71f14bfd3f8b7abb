"""Structures are made by their decisions: what is drawn, changed and crossed is what was asked for."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.lang.instructions import Ref
from metasched.space.source_runs import SourceRun
from metasched.space.structures import Structures
from tests.support.programs import RELU_PAD_MATMUL
from tests.support.schedules import program


def module(sch: ms.Schedule) -> None:
    """Choices, one of which opens another, and a compute location whose options depend on them."""
    if sch.choose("first", ["a", "b"]) == "a":
        sch.choose("second", [1, 2, 3])
    sch.choose("third", ["x", "y", "z"])


def structures() -> Structures:
    return Structures(ms.space(program(RELU_PAD_MATMUL), module=module))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def made(run: SourceRun | None) -> SourceRun:
    assert run is not None
    return run


def test_the_first_has_first_options() -> None:
    assert made(structures().first()).decisions == {"first": "a", "second": 1, "third": "x"}


def test_draws_are_those_of_the_generator_whatever_was_made_before() -> None:
    fresh, used = structures(), structures()
    for seed in range(9):
        used.draw(rng(seed))
    for seed in range(20):
        assert made(fresh.draw(rng(seed))).decisions == made(used.draw(rng(seed))).decisions
    assert len({tuple(made(fresh.draw(rng(seed))).decisions.items()) for seed in range(60)}) == 12


def test_the_same_structure_is_made_once() -> None:
    some = structures()
    assert some.of({"first": "b", "third": "y"}) is some.of({"first": "b", "third": "y", "gone": 1})


@pytest.mark.parametrize("seed", range(12))
def test_a_mutation_changes_one_decision_and_what_that_requires(seed: int) -> None:
    some = structures()
    start = made(some.of({"first": "a", "second": 3, "third": "z"}))
    before, after = start.decisions, made(some.mutate(rng(seed), start)).decisions
    changed = [address for address in before if after.get(address) != before[address]]
    assert changed in (["first", "second"], ["second"], ["third"])
    assert changed != ["first", "second"] or "second" not in after


def test_a_crossing_has_decisions_of_both() -> None:
    some = structures()
    mother, father = (
        made(some.of({"first": "a", "second": 3, "third": "z"})),
        made(some.of({"first": "b", "third": "y"})),
    )
    seen = {tuple(made(some.cross(rng(seed), mother, father)).decisions.values()) for seed in range(30)}
    assert seen == {("a", 3, "z"), ("a", 3, "y"), ("b", "z"), ("b", "y")}


def test_nothing_to_change() -> None:
    alone = Structures(ms.space(program(RELU_PAD_MATMUL), module=lambda sch: None))
    assert alone.mutate(rng(), made(alone.first())) is None


def test_compute_locations_are_decisions_like_any_other() -> None:
    some = Structures(ms.space(program(RELU_PAD_MATMUL)))
    runs = {run for seed in range(40) if (run := some.draw(rng(seed))) is not None}
    places = {taken for run in runs for taken in run.decisions.values() if isinstance(taken, Ref)}
    assert len(places) > 3
    start = made(some.first())
    moved = {made(some.mutate(rng(seed), start)) for seed in range(40)}
    assert any(
        isinstance(taken, Ref) and taken != start.decisions.get(address)
        for run in moved
        for address, taken in run.decisions.items()
    )


def test_a_location_that_is_no_option_any_more_is_repaired() -> None:
    some = Structures(ms.space(program(RELU_PAD_MATMUL)))
    start = made(some.first())
    wrong = {a: Ref("nowhere") if isinstance(d, Ref) else d for a, d in start.decisions.items()}
    repaired = made(some.of(wrong)).decisions
    assert repaired.keys() == start.decisions.keys()
    assert Ref("nowhere") not in repaired.values()

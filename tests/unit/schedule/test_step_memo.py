from __future__ import annotations

import pytest

import metasched as ms
from metasched.schedule.handlers import DrawFromPrior, Symbolic
from metasched.schedule.step_memo import StepMemo
from tests.support.programs import DENSE_RELU
from tests.support.schedules import program


@pytest.fixture
def memo() -> StepMemo:
    return StepMemo()


def tile(sch: ms.Schedule) -> ms.Schedule:
    i, *_ = sch.get_loops(sch.get_block("dense"))
    sch.split(i, [None, 8])
    return sch


def loops(sch: ms.Schedule) -> tuple[str, ...]:
    return sch.describe(sch.get_block("dense")).loops


def test_a_step_that_was_tried_is_not_computed_again(memo: StepMemo) -> None:
    sch = ms.Schedule(program(DENSE_RELU), memo=memo)
    trial = tile(sch.trial())
    assert tile(sch).func is trial.func


def test_names_taken_since_then_are_not_given_again(memo: StepMemo) -> None:
    outer, *inner = loops(tile(ms.Schedule(program(DENSE_RELU), memo=memo)))
    other = ms.Schedule(program(DENSE_RELU), memo=memo)
    other.choose(outer, ["a"])  # a choice's name is its label
    tile(other)
    assert outer not in loops(other)
    assert loops(other)[-2:] == tuple(inner[-2:])


def test_constraints_are_added_once_for_each_schedule(memo: StepMemo) -> None:
    def constraints() -> list[object]:
        sch = ms.Schedule(program(DENSE_RELU), handler=Symbolic(DrawFromPrior(0)), memo=memo)
        i, *_ = sch.get_loops(sch.get_block("dense"))
        _, inner = sch.sample_tile(i)
        sch.split(i, [3, inner])
        return list(sch.context.constraints)

    first = constraints()
    assert len(first) == 1
    assert constraints() == first


def test_true_is_not_one(memo: StepMemo) -> None:
    assert ms.Schedule(program(DENSE_RELU), memo=memo).choose("how", [1]) == 1
    assert ms.Schedule(program(DENSE_RELU), memo=memo).choose("how", [True]) is True

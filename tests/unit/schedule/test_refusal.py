"""Asking whether steps would be legal."""

from __future__ import annotations

from typing import Any

import pytest

import metasched as ms
from metasched.errors import MetaschedError
from tests.support.programs import DENSE_RELU


@pytest.fixture
def sch() -> ms.Schedule:
    return ms.Schedule(ms.parse_program(DENSE_RELU))


def test_steps_that_are_legal_have_no_refusal_and_leave_no_mark(sch: ms.Schedule) -> None:
    relu, dense = sch.get_block("relu"), sch.get_block("dense")
    before = (sch.func, sch.trace, sch.sites)
    assert sch.refusal(lambda s: s.reverse_compute_at(relu, s.get_loops(dense)[0])) is None
    assert (sch.func, sch.trace, sch.sites) == before


def test_what_is_no_function_of_a_schedule_is_told(sch: ms.Schedule) -> None:
    steps: Any = 5
    with pytest.raises(ms.ScheduleError, match=r"refusal: 5 is no function of a schedule\n  hint: refusal\(lambda s"):
        sch.refusal(steps)


def test_the_refusal_is_the_primitives_own(sch: ms.Schedule) -> None:
    relu, dense = sch.get_block("relu"), sch.get_block("dense")
    reason = sch.refusal(lambda s: s.reverse_compute_at(relu, s.get_loops(dense)[-1]))
    with pytest.raises(ms.ScheduleError) as error:
        sch.reverse_compute_at(relu, sch.get_loops(dense)[-1])
    assert reason == error.value.reason


def test_numbers_stay_open(sch: ms.Schedule) -> None:
    loop = sch.get_loops(sch.get_block("relu"))[0]

    def steps(s: ms.Schedule) -> None:
        s.split(loop, s.sample_tile(loop, parts=2))
        assert s.context.free

    assert sch.refusal(steps) is None
    assert not sch.context.free


def test_a_choice_of_structure_is_not_asked(sch: ms.Schedule) -> None:
    with pytest.raises(MetaschedError, match='"how" is a choice of structure'):
        sch.refusal(lambda s: s.choose("how", [1, 2]))
    assert sch.refusal(lambda s: s.choose("how", [1, 2], decision=2)) is None


def test_steps_may_be_asked_about_on_a_trial(sch: ms.Schedule) -> None:
    trial = sch.trial()
    loop = trial.get_loops(trial.get_block("relu"))[0]
    outer, _ = trial.split(loop, trial.sample_tile(loop, parts=2))
    assert trial.refusal(lambda s: s.parallel(outer)) is None
    assert len(sch.trace.instructions) == 0

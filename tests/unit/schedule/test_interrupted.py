"""Steps that end in the middle, as by Ctrl-C in a notebook."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.lang.instructions import Instruction
from metasched.schedule.handlers import DrawFromPrior, Symbolic
from metasched.schedule.primitives import compute_at
from tests.support.programs import RELU_PAD_MATMUL
from tests.support.schedules import checked, loops_of, schedule


@pytest.fixture(params=[KeyboardInterrupt, MemoryError, RecursionError])
def interrupted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[BaseException]:
    """`compute_at` ends half way, when the block is nowhere in the program."""
    kind: type[BaseException] = request.param

    def insert(*args: object) -> None:
        raise kind

    monkeypatch.setattr(compute_at, "insert", insert)
    return kind


def test_a_step_that_is_interrupted_leaves_the_schedule_as_it_was(interrupted: type[BaseException]) -> None:
    sch = schedule(RELU_PAD_MATMUL, handler=Symbolic(DrawFromPrior(0)))
    i, j, _ = loops_of(sch, "matmul")
    sch.split(j, sch.sample_tile(j, parts=2))
    text, trace, taken = str(sch), sch.trace, set(sch.context.taken)
    constraints = list(sch.context.constraints)
    with pytest.raises(interrupted):
        sch.compute_at(sch.get_block("pad"), i)
    assert str(sch) == text
    assert sch.trace.instructions[: len(trace)] == trace.instructions
    assert [x.op for x in sch.trace.instructions[len(trace) :]] == ["get_block"]
    assert type(sch.context.taken) is set
    assert sch.context.taken == taken | {"pad"}
    assert sch.context.constraints == constraints
    sch.unroll(i)
    assert ms.Trace.parse(str(sch.trace)) == sch.trace


def test_a_step_that_is_interrupted_once_recorded_is_not_in_the_trace() -> None:
    class Interrupted(list[Instruction]):
        def append(self, instruction: Instruction) -> None:
            super().append(instruction)
            if instruction.op in ("sample_tile", "split"):
                raise KeyboardInterrupt

    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    before, kept = sch.func, sch.trace
    recorded = sch._instructions
    sch._instructions = Interrupted(recorded)
    for step in (lambda: sch.split(i, [None, 2]), lambda: sch.sample_tile(i, parts=2)):
        with pytest.raises(KeyboardInterrupt):
            step()
        assert sch.func is before
        assert sch.trace == kept
    sch._instructions = recorded
    sch.split(i, sch.sample_tile(i, parts=2))
    checked(sch)
    assert [site.site.address for site in sch.sites] == ["i"]


def test_all_or_nothing_undoes_what_is_interrupted(interrupted: type[BaseException]) -> None:
    sch = schedule()
    dense, (i, j) = sch.get_block("dense"), loops_of(sch, "relu")
    before, trace = sch.func, sch.trace

    def steps() -> None:
        with sch.all_or_nothing():
            sch.reorder(j, i)
            sch.compute_at(dense, j)

    with pytest.raises(interrupted):
        steps()
    assert sch.func is before
    assert sch.trace == trace

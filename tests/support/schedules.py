"""Schedules and checks for the tests of what records and replays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.schedule.handlers import Handler
from metasched.schedule.trace import Schedule, Trace
from metasched.schedule.values import LoopRV
from tests.support.programs import DENSE_RELU
from tests.support.structural import same


def program(text: str = DENSE_RELU, **params: int) -> Program:
    return parse_program(text, **params)


def schedule(text: str = DENSE_RELU, *, seed: int = 0, handler: Handler | None = None, **params: int) -> Schedule:
    return Schedule(program(text, **params), seed=seed, handler=handler)


def loops_of(sch: Schedule, block: str) -> list[LoopRV]:
    loops: list[LoopRV] = sch.get_loops(sch.get_block(block))
    return loops


def vars_of(sch: Schedule, block: str) -> list[str]:
    """The names of the loops around a block now; looks without a line in the trace."""
    return [loop.var for loop in query.loops_above(sch.func, block)]


def checked(sch: Schedule) -> None:
    """The schedule is legal, gives the program's results, and its trace replays to it through its text."""
    same(sch.program.func, sch.func)
    again = Trace.parse(str(sch.trace))
    assert again == sch.trace
    assert again.apply_to(sch.program).func == sch.func


@contextmanager
def fails(message: str, hint: str | None = None) -> Iterator[None]:
    """Expect a ScheduleError of exactly this `op: message`, and this hint where one is given."""
    with pytest.raises(ScheduleError) as info:
        yield
    assert info.value.reason == message
    if hint is not None:
        assert info.value.hint == hint


def lines(trace: Trace) -> list[str]:
    """The lines of a trace's text below the first."""
    return [line.strip() for line in str(trace).splitlines()[1:]]

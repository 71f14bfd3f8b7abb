"""Random legal schedules give the reference's result in machine code, and their traces survive text and replay."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from random_schedules import Case, Step, apply, cases, steps

from metasched.backend.kernel import Kernel, build
from metasched.backend.reference import reference
from metasched.backend.target import Target
from metasched.errors import BuildError, ScheduleError
from metasched.ir.program import Program
from metasched.ir.validate import validate
from metasched.schedule.handlers import Policy
from metasched.schedule.schedule import Schedule
from metasched.schedule.trace import Trace

TARGET = Target.detect(threads=2)
# What a schedule may ask of the machine and not get.
UNBUILDABLE = frozenset(
    {
        "register tile does not fit",
        "register buffers too large",
        "register buffer crosses a parallel loop",
        "unroll too large",
    }
)


def arguments(program: Program) -> list[Any]:
    """Small integers, on which every order of sums gives the same."""
    rng = np.random.default_rng(0)
    out = []
    for buffer in program.func.inputs:
        shape = [int(n.value) for n in buffer.shape]  # type: ignore[attr-defined]
        out.append(rng.integers(-4, 5, shape).astype(buffer.dtype.numpy))
    return out


def require_equal(got: Any, expected: Any) -> None:
    both = [x if isinstance(x, tuple) else (x,) for x in (got, expected)]
    for x, y in zip(*both, strict=True):
        np.testing.assert_array_equal(x, y)


@given(cases(), steps(), st.integers(0, 3))
def test_the_native_result_is_that_of_the_program(case: Case, todo: list[Step], seed: int) -> None:
    program = case.program
    sch = Schedule(program, seed)
    apply(sch, todo, validate)
    given_ = arguments(program)
    kept = [a.copy() for a in given_]
    try:
        kernel = Kernel(build(sch.func, TARGET))
    except BuildError as error:
        assert error.reason in UNBUILDABLE
        return
    require_equal(kernel(*given_), reference(program)(*given_))
    require_equal(tuple(given_), tuple(kept))


@given(cases(), steps(16), st.integers(0, 3))
def test_every_trace_survives_text_and_replay(case: Case, todo: list[Step], seed: int) -> None:
    program = case.program
    sch = Schedule(program, seed)
    apply(sch, todo, validate)
    trace = Trace.parse(str(sch.trace))
    assert trace == sch.trace
    for other in (trace, trace.canonical(), trace.simplified()):
        again = other.apply_to(program)
        assert again.func == sch.func
        assert again.trace == other
    assert trace.apply_to(program, Policy.REPAIR).repairs == []


@given(cases(), steps(), st.integers(0, 1000))
def test_mutants_are_legal_and_give_the_result(case: Case, todo: list[Step], seed: int) -> None:
    program = case.program
    sch = Schedule(program, seed)
    apply(sch, todo, validate)
    try:
        mutant = sch.trace.mutate(np.random.default_rng(seed), program)
    except ScheduleError:
        return  # nothing to move, or what it moved to is not legal for what follows
    moved = mutant.apply_to(program)
    assert moved.trace == mutant
    validate(moved.func)
    given_ = arguments(program)
    require_equal(reference(moved.func)(*given_), reference(program)(*given_))

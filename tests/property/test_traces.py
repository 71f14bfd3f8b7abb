"""Laws of traces, of random schedules: forms, simplifying, differences, mutation, holes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.errors import ScheduleError
from metasched.lang import print_instruction
from metasched.lang.instructions import Instruction
from metasched.schedule.primitive import registry
from tests.property.fuzz.fuzz_actions import attempt
from tests.property.fuzz.fuzz_case import SOURCES
from tests.property.fuzz.fuzz_programs import pick, small

STEPS = 14
SEEDS = range(15)


@cache
def scheduled(seed: int) -> ms.Schedule:
    """A random legal schedule of a small program."""
    for number in range(100):
        rng = np.random.default_rng([seed, number])
        source = pick(rng, SOURCES)(rng)
        if not small(source):
            continue
        sch = ms.Schedule(source.program(), seed=seed)
        for _ in range(STEPS):
            with suppress(ScheduleError):
                attempt(sch, rng)
        if any(line.random for line in sch.trace.instructions):
            return sch
    raise AssertionError("no source gave a schedule with a random variable")


def searchable(seed: int) -> ms.Schedule:
    """One whose structure does not follow from sizes, as that of `loop_partition` does."""
    if any(line.op == "loop_partition" for line in scheduled(seed).trace.instructions):
        return searchable(seed + 100)
    return scheduled(seed)


def ran(code: str, program: ms.Program) -> ms.Schedule:
    space: dict[str, Any] = {}
    exec(compile(code, "<trace>", "exec"), space)
    sch = ms.Schedule(program)
    space["schedule"](sch)
    return sch


@pytest.mark.parametrize("seed", SEEDS)
def test_every_form_is_the_trace(seed: int) -> None:
    sch = scheduled(seed)
    for trace in (sch.trace, sch.trace.simplified()):
        assert ms.parse_trace(str(trace)) == trace
        assert ms.Trace.from_json(trace.as_json()) == trace
        assert ran(trace.as_python(sch.program), sch.program).trace == trace
    again = ran(ms.parse_trace(str(sch.trace)).as_python(), sch.program)
    assert (again.trace, again.func) == (sch.trace, sch.func)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_schedule_s_own_trace_is_valid_and_does_not_differ_from_itself(seed: int) -> None:
    sch = scheduled(seed)
    assert sch.trace.problems(sch.program) == ()
    assert not sch.trace.diff(sch.trace.canonical())
    assert not sch.trace.canonical().diff(sch.trace)


@pytest.mark.parametrize("seed", SEEDS)
def test_simplifying(seed: int) -> None:
    """Again it is the same, the program is the same, and what only looks is used."""
    sch = scheduled(seed)
    short = sch.trace.simplified()
    assert short.simplified() == short
    assert short.apply_to(sch.program).func == sch.func
    declared = registry()
    for n, line in enumerate(short.instructions):
        if declared[line.op].pure and line.op != "choose":
            assert any(_is_used(label, short.instructions[n + 1 :]) for label in line.outputs), f"nothing uses {line}"


def _is_used(label: str, later: Sequence[Instruction]) -> bool:
    """Whether a line uses a label before another one makes it again."""
    for line in later:
        arguments = print_instruction(replace(line, outputs=(), address=None, decision=None))
        if re.search(rf"\b{label}\b", arguments.partition("(")[2]):
            return True
        if label in line.outputs:
            return False
    return False


def test_mutants_print_parse_and_apply() -> None:
    mutants = 0
    for seed in SEEDS:
        sch = scheduled(seed)
        trace = sch.trace
        for mutant in mutants_in_turn(sch, np.random.default_rng(seed)):
            again = ms.parse_trace(str(mutant)).apply_to(sch.program)
            assert again.trace == mutant
            assert again.repairs == []
            moved = trace.diff(mutant)
            assert moved.decisions
            assert (moved.removed, moved.added, moved.changed) == ((), (), ())
            trace = mutant
            mutants += 1
    assert mutants > 2 * len(SEEDS)


def mutants_in_turn(sch: ms.Schedule, rng: np.random.Generator) -> Iterator[ms.Trace]:
    """Up to four, each of the one before: fewer where nothing can move, or what moved is not legal for what follows."""
    trace = sch.trace
    with suppress(ScheduleError):
        for _ in range(4):
            trace = trace.mutate(rng, sch.program)
            yield trace


@pytest.mark.parametrize("seed", SEEDS)
def test_holes_hold_what_they_were(seed: int) -> None:
    """With its numbers left open a trace is a sketch, of which it is a row; every legal row fills the holes."""
    sch = searchable(seed)
    trace = sch.trace.simplified()
    numbers = {r.site.address for r in sch.sites if not r.site.dist.structural} & trace.decisions.keys()
    space = ms.space(sch.program, trace.with_decisions(dict.fromkeys(numbers)))
    assert space.holds(trace)
    assert len(space) == 1
    (sketch,) = space
    assert {v.address for v in sketch.variables} == numbers
    row = sketch.row_of(trace)
    assert row is not None
    assert sketch.mask(np.array([row], dtype=np.int64).reshape(1, -1)).all()
    assert sketch.trace_of(row) == trace
    rows = sketch.repair(sketch.sample(np.random.default_rng(seed), 8))
    for other in rows[sketch.mask(rows)][:3]:
        filled = sketch.trace_of(other)
        assert space.holds(filled)
        assert filled.apply_to(sch.program).trace == filled


@pytest.mark.parametrize("seed", SEEDS)
def test_half_of_the_holes(seed: int) -> None:
    sch = searchable(seed)
    trace = sch.trace.simplified()
    numbers = sorted({r.site.address for r in sch.sites if not r.site.dist.structural} & trace.decisions.keys())
    space = ms.space(sch.program, trace.with_decisions(dict.fromkeys(numbers[::2])))
    (sketch,) = space
    assert [v.address for v in sketch.variables if v.address not in numbers[::2]] == []
    assert sketch.row_of(trace) is not None
    rest = {address: trace.decisions[address] for address in numbers[1::2]}
    filled = ms.space(sch.program, ms.condition(trace.with_decisions(dict.fromkeys(numbers)), rest))
    assert filled[0].trace == sketch.trace

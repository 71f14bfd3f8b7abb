"""Random programs under random schedules give the reference's results where their arguments are parts of larger arrays,
and leave what is around them alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided

from metasched.errors import BuildError, ScheduleError
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Buffer
from metasched.ir.pitch import set_strides, span
from metasched.ir.validate import validate
from metasched.measure.checking.arithmetic import arithmetic_of
from metasched.measure.checking.check import CheckCase, mismatch
from metasched.measure.records import CheckError
from metasched.runtime.compiled import CompiledKernel, build
from tests.property.fuzz.fuzz_case import PER_PROGRAM, TARGETS, UNBUILDABLE, Case, Oracle, Watched, oracle_of, schedules
from tests.property.fuzz.fuzz_programs import pick

SEED = 11
PROGRAMS = 6
FILL = 0xFF


@dataclass(frozen=True)
class PartOfArray:
    """An array with gaps between its rows, and guards around all of it: every byte that is not its own is FILL."""

    memory: np.ndarray
    own: np.ndarray

    @classmethod
    def like(cls, array: np.ndarray, strides: tuple[int, ...]) -> PartOfArray:
        guard = 64
        memory = np.full((span(array.shape, strides) + 2 * guard) * array.itemsize, FILL, np.uint8).view(array.dtype)
        own = as_strided(memory[guard:], array.shape, [stride * array.itemsize for stride in strides])
        return cls(memory, own)

    def rest_is_intact(self) -> bool:
        kept = self.own.copy()
        self.own[...] = np.frombuffer(bytes([FILL]) * self.own.itemsize, self.own.dtype)[0]
        intact = bool((self.memory.view(np.uint8) == FILL).all())
        self.own[...] = kept
        return intact


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    return tuple(as_int(extent) or 0 for extent in buffer.shape)


def random_strides(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    step, strides = 1, []
    for extent in reversed(shape):
        if (step > 1 or (strides and shape[-1] == 1)) and rng.random() < 0.5:
            step += int(rng.integers(1, 20))
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def wrong_result(
    oracle: Oracle, kernel: CompiledKernel, strides: dict[str, tuple[int, ...]], case: CheckCase
) -> str | None:
    func = oracle.program.func
    parts = {
        name: PartOfArray.like(array, strides[name])
        for name, array in [
            *((n, a) for n, a in zip(func.order, case.inputs, strict=True) if n in strides),
            *((b.name, e.astype(b.dtype.numpy)) for b, e in zip(func.outputs, case.expected, strict=True)),
        ]
    }
    given: list[object] = []
    for name, array in zip(func.order, case.inputs, strict=True):
        if name in parts:
            parts[name].own[...] = array
        given.append(parts[name].own if name in parts else array.item())
    kernel(*given, *(parts[b.name].own for b in func.outputs))
    for buffer, expected, tolerance in zip(func.outputs, case.expected, case.tolerance, strict=True):
        wrong = mismatch(parts[buffer.name].own, expected, tolerance)
        if wrong is not None:
            return f"`{buffer.name}`: {wrong}"
    changed = [name for name, part in parts.items() if not part.rest_is_intact()]
    return f"memory around {changed} changed" if changed else None


def test_random_schedules_of_parts_of_arrays() -> None:
    compared = 0
    for group in range(PROGRAMS):
        with suppress(CheckError):  # of a program that cannot be checked
            compared += compare(group)
    assert compared > PROGRAMS


def compare(group: int) -> int:
    """Compare a kernel of a random program with the reference; on how many data, none where it cannot be built."""
    rng = np.random.default_rng([SEED, group])
    oracle = oracle_of(Case(SEED, group * PER_PROGRAM).source)
    program = oracle.program
    watched = Watched(program, pick(rng, TARGETS), seed=group)
    schedule = watched
    with suppress(ScheduleError):
        for schedule in schedules(program, watched, rng):  # noqa: B007 - the last of them is taken
            pass
    strides = {b.name: random_strides(rng, shape_of(b)) for b in (*program.inputs, *program.outputs)}
    func = set_strides(schedule.func, strides)
    validate(func)
    try:
        kernel = build(func, schedule.target)
    except BuildError as error:
        assert error.reason in UNBUILDABLE or error.reason.startswith("target lacks"), error
        return 0
    cases = oracle.cases_by(arithmetic_of(str(schedule.trace)))
    data = (cases.integers, cases.random)
    for case in data:
        wrong = wrong_result(oracle, kernel, strides, case)
        assert wrong is None, f"{wrong}\nstrides {strides}\n{program}\n{schedule.trace}"
    return len(data)

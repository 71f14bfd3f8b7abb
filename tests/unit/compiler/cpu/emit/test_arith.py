"""The instructions of maxima and minima that pass NaN on, for CPUs with and without masks: the rest of arithmetic is in
test_expressions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from metasched.lang import parse_program
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.cross import AVX2, WIDE, assembly, plain

ROWS = """program rows[N=4, M=50](X: f32[N, M]) -> Y: f32[M]:
    Y[j] = {reducer}[i](X[i, j])"""
TRIPLE = "x86_64-unknown-linux-gnu"
CPUS = {"skylake-avx512": (*AVX2, *WIDE), "haswell": AVX2}


def columns(reducer: str, vectors: int, lanes: int) -> Schedule:
    """Vectors of extrema over rows, all in one iteration."""
    sch = Schedule(parse_program(ROWS.format(reducer=reducer), N=100, M=vectors * lanes))
    block = sch.get_block("Y")
    j, i = sch.get_loops(block)
    sch.reorder(i, j)
    sch.vectorize(j, lanes=lanes)
    sch.annotate(block, "unroll_limit", 128)
    return sch


def instructions(sch: Schedule, cpu: str) -> Counter[str]:
    text = assembly(sch.func, plain(cpu, frozenset(CPUS[cpu])), TRIPLE, cpu, "")
    return Counter(line.split()[0] for line in text.splitlines() if line.startswith("\tv"))


@pytest.mark.parametrize(("cpu", "lanes"), [("skylake-avx512", 16), ("haswell", 8)])
@pytest.mark.parametrize(("reducer", "instruction"), [("max", "vmaxps"), ("min", "vminps")])
def test_an_extremum_is_one_instruction_and_two_for_nan(cpu: str, lanes: int, reducer: str, instruction: str) -> None:
    found = instructions(columns(reducer, 4, lanes), cpu)
    assert found[instruction] >= 4
    assert found["vcmpunordps"] == found[instruction]
    assert not any(name.startswith(("vcmplt", "vcmpgt", "vor")) for name in found), found


def test_totals_in_memory_are_not_written_under_masks() -> None:
    """A load does not forward from a store under a mask, which some CPUs do lane by lane besides."""
    found = instructions(columns("max", 40, 8), "haswell")  # more vectors than registers
    assert found["vmaxps"] >= 40
    assert found["vmaskmovps"] == 0


@pytest.mark.parametrize("place", [0, 1, 3])
def test_nan_passes_from_every_place(place: int) -> None:
    kernel = Kernel(build(columns("max", 2, 8).func, Target.detect(threads=1)))
    x = np.random.default_rng(1).normal(size=(100, 16)).astype(np.float32)
    x[place, 5], x[99 - place, 11] = np.nan, np.nan
    np.testing.assert_array_equal(kernel(x), np.maximum.reduce(x))


KNOWN = """program known[N=64](X: {dtype}[4 * N]) -> Y: {dtype}[N]:
    Y[j] = min[r < 4]({dtype}(inf) if X[4 * j + r] != X[4 * j + r] else X[4 * j + r])"""


def known(dtype: str) -> Schedule:
    """Vectors of the least number of each four."""
    sch = Schedule(parse_program(KNOWN.format(dtype=dtype)))
    block = sch.get_block("Y")
    j, r = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 32])
    sch.reorder(j0, r, j1)
    sch.vectorize(j1, lanes=32)
    sch.annotate(block, "unroll_limit", 16)
    return sch


def test_what_is_no_number_is_found_after_lanes_are_picked() -> None:
    """LLVM would compare all that is loaded, and pick from the bits of that one by one."""
    cpu = "znver4"
    lines = assembly(known("f32").func, plain(cpu, frozenset((*AVX2, *WIDE))), TRIPLE, cpu, "").splitlines()
    assert not any(line.startswith(("\tkunpck", "\tkshift")) for line in lines)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_numbers_are_told_from_nan(dtype: str) -> None:
    sch = known(dtype)
    given = np.arange(256).astype(sch.func.inputs[0].dtype.numpy)
    given[[4, 5, 7, *range(12, 16)]] = np.nan
    found = Kernel(build(sch.func, Target.detect(threads=1)))(given)
    assert found.tolist() == [{1: 6, 3: np.inf}.get(n, 4 * n) for n in range(64)]

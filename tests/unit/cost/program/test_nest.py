"""How lanes are loaded, as a nest tells it and as emission does it: gathers, or vectors that are shuffled."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.statement import StatementView
from metasched.cost.program.nest import Analyses, analyse
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Func
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from metasched.target import Target

AVX512 = Target("skylake-avx512", frozenset({"avx512f", "avx512vl", "avx512bw", "fma"}), 1, 48 << 10, 2 << 20, 64 << 20)

UNPACKED = """program unpacked(W: u8[64, 128]) -> Y: u8[64, 256]:
    Y[n, k < 256] = W[n, k // 2] // u8(16) if k % 2 == 1 else W[n, k // 2] % u8(16)
"""
MOVED = """program moved(W: u8[64, 128]) -> Y: u8[64, 256]:
    Y[n, k < 256] = W[n, (k - 8) // 2] if k >= 8 else u8(0)
"""
IMAGES = "program sums(X: f32[4, 8, 28, 28]) -> S: f32[8]:\n    S[c] = sum[n, h, w](X[n, c, h, w])\n"


def loads_of_lanes(func: Func) -> list[float]:
    """Of each read of the first statement, loads for a vector."""
    analyses = Analyses()
    statement = analyse(func, analyses).statements[0]
    sizes = [np.asarray(size, np.float32) for size in Evaluator(analyses.table.exprs)({})]
    return [float(loads[0]) for loads in StatementView(statement, sizes, 1, AVX512, DEFAULT_CORE).loads_of_one[1:]]


def gathers(func: Func) -> bool:
    return "llvm.masked.gather" in emit(lower(func, AVX512), AVX512).text


def test_a_read_that_is_always_inside_needs_no_condition() -> None:
    schedule = Schedule(parse_program(UNPACKED), seed=0)
    schedule.vectorize(schedule.get_loops(schedule.get_block("Y"))[-1], lanes=32)
    assert loads_of_lanes(schedule.func) == [2]
    assert not gathers(schedule.func)


def test_a_read_that_a_condition_keeps_inside_is_gathered_under_it() -> None:
    schedule = Schedule(parse_program(MOVED), seed=0)
    schedule.vectorize(schedule.get_loops(schedule.get_block("Y"))[-1], lanes=32)
    assert loads_of_lanes(schedule.func) == [32]
    assert gathers(schedule.func)


@pytest.mark.parametrize(("lanes", "loads"), [(16, 1), (64, 16)])
def test_pixels_of_many_images_are_neighbours_within_each(lanes: int, loads: int) -> None:
    """784 pixels are 49 vectors of 16, and no whole number of vectors of 64, which are four of a register each."""
    schedule = Schedule(parse_program(IMAGES), seed=0)
    _, n, h, w = schedule.get_loops(schedule.get_block("S"))
    _, pixels = schedule.split(schedule.fuse(n, h, w), [None, 64])
    schedule.vectorize(pixels, lanes=lanes)
    assert loads_of_lanes(schedule.func) == [loads]
    assert gathers(schedule.func) == (loads > 1)

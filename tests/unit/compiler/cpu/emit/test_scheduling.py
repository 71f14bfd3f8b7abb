"""Unrolled register tiles keep the order that they were written in, whatever LLVM's model of the CPU is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.cpu.emit.scheduling import scheduling_attribute
from metasched.compiler.cpu.spills import inner_loops
from metasched.compiler.lower import lower
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from tests.support.cross import AVX2, WIDE, assembly, plain

DENSE = """program dense[N=13, M=32, K=64](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])"""
TRIPLE = "x86_64-unknown-linux-gnu"
ZEN4 = plain("znver4", frozenset((*AVX2, *WIDE)))


def unrolled_tile() -> Schedule:
    """26 accumulators, and 16 terms of each in straight code."""
    sch = Schedule(parse_program(DENSE))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    k0, k1 = sch.split(k, [None, 16])
    sch.reorder(k0, k1, i, j)
    sch.vectorize(j, lanes=32)
    sch.annotate(block, "unroll_limit", 256)
    return sch


@pytest.mark.parametrize("cpu", ["znver4", "sapphirerapids"])
def test_no_accumulator_or_operand_is_spilled(cpu: str) -> None:
    text = assembly(unrolled_tile().func, replace(ZEN4, name=cpu), TRIPLE, cpu, "", comments=True)
    loops = list(inner_loops(text))
    assert loops
    assert sum(loop.stores + loop.loads for loop in loops) == 0


def test_other_cpus_are_left_to_their_own_model() -> None:
    there = replace(ZEN4, name="sapphirerapids")
    assert scheduling_attribute(there) == ""
    assert "tune-cpu" not in emit(lower(unrolled_tile().func, there), there).text
    assert "tune-cpu" in emit(lower(unrolled_tile().func, ZEN4), ZEN4).text

"""What is rounded to f16 stays rounded on CPUs that compute in f16. Values are checked in test_types."""

from __future__ import annotations

import re

import pytest

from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from tests.support.cross import AVX2, WIDE, assembly, plain

CAST = """program cast[N=64](A: f16[N], B: f16[N], E: f16[N]) -> C: f16[N]:
    C[i] = f16(A[i] * B[i]) + E[i]"""
STAGES = """program stages[N=64](A: f16[N], B: f16[N], E: f16[N]) -> C: f16[N]:
    T[i] = A[i] * B[i]
    C[i] = T[i] + E[i]"""
MACHINES = pytest.mark.parametrize(
    ("triple", "cpu", "features", "fused"),
    [
        ("x86_64-unknown-linux-gnu", "sapphirerapids", (*AVX2, *WIDE), r"\tvfn?m\w+[ps]h\b"),
        ("aarch64-unknown-linux-gnu", "cortex-a76", ("neon", "fullfp16"), r"\tfml[as]\tv\d+\.8h|\tfn?madd\th"),
    ],
)


@MACHINES
@pytest.mark.parametrize("text", [CAST, STAGES])
@pytest.mark.parametrize("lanes", [0, 16])
def test_a_rounded_product_and_a_sum_are_not_one_instruction(
    text: str, lanes: int, triple: str, cpu: str, features: tuple[str, ...], fused: str
) -> None:
    """It would round once, where the program rounds twice, and every other CPU does."""
    sch = Schedule(parse_program(text))
    if text is STAGES:
        sch.compute_inline(sch.get_block("T"))
    if lanes:
        sch.vectorize(sch.get_loops(sch.get_block("C"))[-1], lanes=lanes)
    llvm_features = "+neon,+fullfp16" if "neon" in features else ""
    code = assembly(sch.func, plain(cpu, frozenset(features)), triple, cpu, llvm_features)
    assert not re.search(fused, code)
    assert re.search(r"\tvmul[ps]h\b|\tfmul\t(v\d+\.[48]h|h)", code)  # in f16, as there is nothing else between

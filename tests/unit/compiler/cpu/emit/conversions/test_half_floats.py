"""What is rounded to f16 stays so on CPUs that compute in f16; bf16 is rounded exactly by an instruction that is not.

Other values are checked in test_types.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import metasched as ms
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from tests.support.cross import AVX2, WIDE, assembly, for_sapphire_rapids, plain

HERE = ms.Target.detect(threads=1)
ROUND = "program round[N=48000](A: f32[N]) -> C: bf16[N]:\n    C[i] = bf16(A[i])"
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


def rounding(lanes: int) -> Schedule:
    sch = Schedule(parse_program(ROUND))
    (i,) = sch.get_loops(sch.get_block("C"))
    sch.vectorize(sch.split(i, [None, lanes])[1], lanes=lanes)
    return sch


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("value", ["0.0 * f64(A[i])", "f64(f32(0.0 * f64(A[i]))) + 0.0", "tanh(f64(A[i]))"])
def test_a_sign_of_f64_calls_no_library(value: str, lanes: int) -> None:
    """LLVM would round the f64 that has the sign to f16, which CPUs have no instruction for."""
    sch = Schedule(parse_program(f"program signed(A: i8[64]) -> C: f16[64]:\n    C[i] = f16({value})"))
    if lanes:
        sch.vectorize(sch.get_loops(sch.get_block("C"))[-1], lanes=lanes)
    code = assembly(sch.func, plain("haswell", frozenset(AVX2)), "x86_64-unknown-linux-gnu", "haswell", "")
    assert "vcvtps2ph" in code
    assert "__trunc" not in code


def test_a_vector_is_rounded_to_bf16_by_one_instruction_and_three_for_denormals() -> None:
    code = for_sapphire_rapids(rounding(16).func)
    loop = code[: code.index("vcvtneps2bf16")].splitlines()[-8:]
    assert [line.split()[0] for line in loop if "%k" in line] == ["vptestnmd", "vpord"]
    assert "vpmovdw" not in code
    assert "vcmpunordps" not in code


@pytest.mark.parametrize("lanes", [1, 4, 5, 12, 16, 32])
@pytest.mark.parametrize("without", [(), ("avx512bf16",)])
def test_rounding_to_bf16_is_to_nearest_ties_to_even(lanes: int, without: tuple[str, ...]) -> None:
    """Also of denormals, which the instruction takes for zero, and of NaN and infinities."""
    target = HERE.without(set(without) & HERE.features)
    kernel = ms.compile(parse_program(ROUND), trace=rounding(lanes).trace, target=target)
    starts = [0, 0x7FFF00, 0x807F00, 0x3F7F0000, 0x7F7F0000, 0x7F7FFF00, 0x7F800000, 0x80000000, 0x807FFF00, 0xFF7FFF00]
    edges = [start + np.arange(2400, dtype=np.uint64) for start in starts]
    bits = np.concatenate([*edges, np.linspace(0, 2**32 - 1, 24000).astype(np.uint64)])
    upper = bits >> 16
    nan = (bits & 0x7FFFFFFF) > 0x7F800000
    expected = np.where(nan, upper | 0x40, (bits + 0x7FFF + (upper & 1)) >> 16)
    got = np.asarray(kernel(bits.astype(np.uint32).view(np.float32)))
    np.testing.assert_array_equal(got.view(np.uint16), expected.astype(np.uint16))

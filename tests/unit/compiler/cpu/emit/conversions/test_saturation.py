"""Conversions to short integers: rounded and within bounds by few instructions, with the values of the plain way."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.cross import AVX2, WIDE, assembly, plain

N = 96
TRIPLE = "x86_64-unknown-linux-gnu"
CPUS = {"skylake-avx512": (*AVX2, *WIDE), "haswell": AVX2}
TIES = [0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 128.5, 254.5, 255.5, 0.49999997, 127.49999, 254.49998, -127.5, -128.5]
ENDS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 2.0**31, -(2.0**31), 1e-40, 32767.5, -32768.5, 65535.5]


def convert(value: str, short: str, lanes: int) -> Schedule:
    sch = Schedule(parse_program(f"program p(A: f32[{N}]) -> Y: {short}[{N}]:\n    Y[i] = {short}({value})\n"))
    if lanes:
        sch.vectorize(sch.get_loops(sch.get_block("Y"))[0], lanes=lanes)
    return sch


@pytest.mark.parametrize("lanes", [0, 16, 64])
@pytest.mark.parametrize("short", ["u8", "i8", "u16", "i16"])
@pytest.mark.parametrize(
    "value",
    [
        "rint(A[i])",
        "A[i]",
        "min(max(rint(A[i]), 0.0), 255.0)",
        "max(-128.0, min(127.0, rint(A[i])))",
        "min(max(rint(A[i]) + 3.0, 0.0), 255.0)",
        "min(max(A[i], -5.0), 9.0)",
        "min(max(rint(A[i]), -70000.0), 70000.0)",
        "max(min(A[i], 300.0), 7.5)",
    ],
)
def test_short_integers_are_as_of_the_plain_way(value: str, short: str, lanes: int) -> None:
    sch = convert(value, short, lanes)
    given = np.array([*TIES, *ENDS, *np.linspace(-300.0, 300.0, N - len(TIES) - len(ENDS))], np.float32)
    found = Kernel(build(sch.func, Target.detect(threads=1)))(given)
    np.testing.assert_array_equal(found, reference(sch.program)(given))


@pytest.mark.parametrize(("cpu", "lanes"), [("skylake-avx512", 16), ("haswell", 8)])
def test_a_rounded_byte_is_brought_into_range_once(cpu: str, lanes: int) -> None:
    """NaN is not asked for, and the sum that rounds is an integer already."""
    sch = convert("min(max(rint(A[i]), 0.0), 255.0)", "u8", lanes)
    text = assembly(sch.func, plain(cpu, frozenset(CPUS[cpu])), TRIPLE, cpu, "")
    names = [line.split()[0] for line in text.splitlines() if line.startswith("\tv")]
    assert not any(name.startswith(("vcmp", "vround", "vrndscale", "vcvt", "vblend")) for name in names), names
    assert names.count("vmaxps") == names.count("vminps") == names.count("vaddps")


@pytest.mark.parametrize("value", ["min(max(rint(A[i]), 1.0), 255.0)", "min(max(rint(A[i]), 0.0), 254.0)"])
def test_narrower_bounds_stay(value: str) -> None:
    sch = convert(value, "u8", 16)
    given = np.full(N, 300.0, np.float32)
    given[::2], given[1] = -300.0, np.nan
    found = Kernel(build(sch.func, Target.detect(threads=1)))(given)
    np.testing.assert_array_equal(found, reference(sch.program)(given))

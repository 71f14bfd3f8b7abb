"""What an iteration takes over from the one before is in a register."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.lir_interpreter import run_lir

HERE = Target.detect(threads=1)
TEXT = """
program running[N=3, M=19](X: i64[N, M]) -> Y: i64[N, M]:
    Y[i, j < M] = sum[k < M if k <= j](X[i, k])
"""


def carried(text: str = TEXT, **sizes: int) -> Schedule:
    sch = Schedule(parse_program(text, **sizes))
    sch.carry(sch.get_loops(sch.get_block("Y"))[-2])
    return sch


@pytest.mark.parametrize("relation", ["<=", "<"])
@pytest.mark.parametrize("reducer", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("length", [1, 2, 19])
def test_elements_are_not_read_back(relation: str, reducer: str, length: int) -> None:
    sch = carried(TEXT.replace("<= j", f"{relation} j").replace("sum", reducer), M=length)
    lowered = lower(sch.func, HERE)
    written = print_kernel(lowered)
    assert "= Y[" not in written, written
    assert ("Y.last" in written) == (length > 1)
    x = np.random.default_rng(0).integers(-5, 6, (3, length))
    expected = reference(sch.program)(x)
    np.testing.assert_array_equal(Kernel(build(sch.func, HERE))(x), expected)
    np.testing.assert_array_equal(run_lir(lowered, [x]).data["Y"].reshape(expected.shape), expected)


def test_a_sum_of_negative_zeros_is_one() -> None:
    sch = carried(TEXT.replace("i64", "f32"))
    x = np.full((3, 19), -0.0, np.float32)
    assert np.signbit(Kernel(build(sch.func, HERE))(x)).all()


def test_rows_of_columns_stay_in_memory() -> None:
    text = "program running[N=9, M=16](X: f32[N, M]) -> Y: f32[N, M]:\n"
    sch = Schedule(parse_program(f"{text}    Y[i < N, j] = sum[k < N if k <= i](X[k, j])"))
    i, j, k = sch.get_loops(sch.get_block("Y"))
    sch.reorder(i, k, j)
    sch.carry(i)
    sch.vectorize(j, lanes=16)
    assert "Y.last" not in print_kernel(lower(sch.func, HERE))

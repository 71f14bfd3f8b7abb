"""Long operations that are the same in all iterations come before a loop, and nothing else does."""

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
ROWS = """
program rows[N=3, M=36](X: f32[N, M], S: f32[N]) -> Y: f32[N, M]:
    scale: T[i] = S[i] + 1
    Y[i, j] = {value}
"""


def rows(value: str) -> Schedule:
    return Schedule(parse_program(ROWS.format(value=value)))


def lowered_text(sch: Schedule) -> str:
    """The low-level program, once its results and those of its machine code are those of the reference."""
    lowered = lower(sch.func, HERE)
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(0.5, 2, shape).astype(np.float32) for shape in ((3, 36), 3)]
    expected = reference(sch.program)(*inputs)
    np.testing.assert_allclose(Kernel(build(sch.func, HERE))(*inputs), expected, rtol=1e-5)
    np.testing.assert_allclose(run_lir(lowered, inputs).data["Y"].reshape(expected.shape), expected, rtol=1e-5)
    return print_kernel(lowered)


@pytest.mark.parametrize(
    "value", ["X[i, j] - log(T[i])", "X[i, j] * (1 / T[i])", "X[i, j] / sqrt(T[i]) + X[i, j] * sqrt(T[i])"]
)
@pytest.mark.parametrize("vector", [False, True])
def test_a_long_operation_comes_before_the_loop(value: str, vector: bool) -> None:
    sch = rows(value)
    if vector:
        sch.vectorize(sch.get_loops(sch.get_block("Y"))[1], lanes=8)
    text = lowered_text(sch)
    assert text.count("Y.same[0] =") == 1, text


def test_of_two_loops_it_comes_before_both() -> None:
    sch = rows("X[i, j] - log(T[i])")
    sch.split(sch.get_loops(sch.get_block("Y"))[1], [4, 9])
    lines = lowered_text(sch).splitlines()
    depths = [len(line) - len(line.lstrip()) for line in lines if "Y.same[0] =" in line or "Y[" in line]
    assert depths[0] < min(depths[1:]), lines


@pytest.mark.parametrize(
    "value",
    [
        "log(X[i, j]) * T[i]",  # another one in each iteration
        "X[i, j] - T[i] * 2",  # not long
        "log(T[i]) if X[i, j] > 1 else X[i, j]",  # what a condition leaves out is not read
    ],
)
def test_anything_else_stays_in_the_loop(value: str) -> None:
    assert ".same" not in lowered_text(rows(value))


def test_what_the_loop_writes_stays_in_it() -> None:
    sch = rows("X[i, j] - log(T[i])")
    sch.compute_at(sch.get_block("scale"), sch.get_loops(sch.get_block("Y"))[1])
    assert ".same" not in lowered_text(sch)


def test_loops_inside_of_a_vector_have_no_register_of_lanes() -> None:
    """A register holds one element: each lane has its own value of what only an inner loop does not change."""
    text = """
program columns[N=16, M=5](X: f32[M, N], S: f32[N]) -> Y: f32[M, N]:
    Y[j, i] = X[j, i] - log(S[i])
"""
    sch = Schedule(parse_program(text))
    j, i = sch.get_loops(sch.get_block("Y"))
    sch.reorder(i, j)
    sch.vectorize(i, lanes=16)
    assert ".same" not in print_kernel(lower(sch.func, HERE))

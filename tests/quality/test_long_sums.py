"""How far long sums of f32 are from the right ones, as the space of the preset and guesses take them."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched import operators

TERMS = 300_000
# Of NumPy's pairwise sums it is 1e-7; one after another 2e-5 and more.
ERROR = 3e-6
SUM = "program s[N=4](X: f32[N]) -> Y: f32[1]:\n    Y[j < 1] = sum[i](X[i])\n"
DOT = "program d[N=4](X: f32[N], Z: f32[N]) -> Y: f32[1]:\n    Y[j < 1] = sum[i](X[i] * Z[i])\n"
MEAN = "program m[N=4](X: f32[N]) -> Y: f32[1]:\n    S[j < 1] = sum[i](X[i])\n    Y[j] = S[j] / f32(N)\n"
NORM = "program n[N=4](X: f32[N]) -> Y: f32[1]:\n    S[j < 1] = sum[i](X[i] * X[i])\n    Y[j] = sqrt(S[j])\n"
COLUMNS = "program c[N=4](X: f32[N, 5]) -> Y: f32[5]:\n    Y[j] = sum[i](X[i, j])\n"
PRODUCT = "program p[N=4](X: f32[3, N], Z: f32[N, 5]) -> Y: f32[3, 5]:\n    Y[i, j] = sum[k](X[i, k] * Z[k, j])\n"
PROGRAMS = {"sum": SUM, "dot": DOT, "mean": MEAN, "norm": NORM, "columns": COLUMNS, "product": PRODUCT}


def error(kernel: ms.Kernel) -> float:
    """The largest relative error on positive numbers, where nothing cancels; programs compute in f32 throughout."""
    rng = np.random.default_rng(0)
    args = [rng.random([e.value for e in b.shape], dtype=np.float32) for b in kernel.program.func.inputs]  # type: ignore[union-attr]
    wide = [a.astype(np.float64) for a in args]
    return float(np.abs(kernel(*args) / RIGHT[kernel.program.name](*wide) - 1).max())


RIGHT = {
    "s": lambda x: x.sum(),
    "d": lambda x, z: x @ z,
    "m": lambda x: x.mean(),
    "n": lambda x: np.sqrt(x @ x),
    "c": lambda x: x.sum(0),
    "p": lambda x, z: x @ z,
    "matmul_nn": lambda x, z: x @ z,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_guesses(name: str) -> None:
    assert error(ms.compile(ms.parse_program(PROGRAMS[name], N=TERMS))) < ERROR


def test_an_experts_trace() -> None:
    kernel = ms.compile(operators.load("matmul_nn", M=1, N=64, K=TERMS), knowledge="none")
    assert kernel.report.expert is not None
    assert "blocked_sum" in str(kernel.trace)
    assert error(kernel) < ERROR


@pytest.mark.parametrize("name", ["sum", "columns", "product"])
def test_any_schedule_of_the_space(name: str) -> None:
    program = ms.parse_program(PROGRAMS[name], N=TERMS)
    rng = np.random.default_rng(1)
    for sketch in ms.space(program):
        trace = sketch.trace_of(sketch.sample(rng, 1)[0])
        assert error(ms.compile(program, trace=trace)) < ERROR, trace


def test_short_sums_are_as_they_were() -> None:
    assert "blocked_sum" not in str(ms.guess(operators.load("matmul_nn", M=4, N=16, K=4096)))
    assert "blocked_sum" not in str(ms.guess(ms.parse_program(COLUMNS, N=4096)))

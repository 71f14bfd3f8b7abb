"""Indices brought into range: clamp and mirror."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.reference.execution import reference

TEXT = """
program pad[N=7, P=3](X: u16[N]) -> (A: u16[N + 2*P], B: u16[N + 2*P], C: u16[N]):
    A[i] = X[clamp(i - P, 0, N - 1)]
    B[i] = X[mirror(i - P, N)]
    C[i] = clamp(X[i], 10, 200)
"""


@pytest.mark.parametrize(("n", "p"), [(7, 3), (4, 3), (1, 0), (2, 1), (9, 0)])
def test_values_are_those_of_numpy(n: int, p: int) -> None:
    x = np.random.default_rng(n).integers(0, 300, n).astype(np.uint16)
    a, b, c = reference(ms.parse_program(TEXT, N=n, P=p))(x)
    np.testing.assert_array_equal(a, np.pad(x, p, mode="edge"))
    np.testing.assert_array_equal(b, np.pad(x, p, mode="reflect"))
    np.testing.assert_array_equal(c, np.clip(x, 10, 200))


def test_an_index_is_inside_however_far_beyond_it_is() -> None:
    """A mirror reflects once; what is still outside is clamped, and never read beyond the end."""
    program = ms.parse_program("program p[N=3](X: i32[N]) -> Y: i32[N + 20]:\n    Y[i] = X[mirror(i - 10, N)]\n")
    expected = np.array([min(max(min(abs(i), 4 - i), 0), 2) for i in range(-10, 13)])
    np.testing.assert_array_equal(reference(program)(np.arange(3, dtype=np.int32)), expected)


def test_python_builds_the_same_program() -> None:
    n, p = ms.param("N", 7), ms.param("P", 3)
    x = ms.placeholder("X", (n,), "u16")
    a = ms.compute("A", (n + 2 * p,), lambda i: x[ms.clamp(i - p, 0, n - 1)])
    b = ms.compute("B", (n + 2 * p,), lambda i: x[ms.mirror(i - p, n)])
    c = ms.compute("C", (n,), lambda i: ms.clamp(x[i], 10, 200))
    assert str(ms.program("pad", [x], [a, b, c], params=[n, p])) == str(ms.parse_program(TEXT))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("clamp(i, 0)", "`clamp` takes 3 arguments, not 2"),
        ("mirror(i)", "write `mirror(x, size)`"),
        ("clip(i, 0, 3)", "write `clamp(x, low, high)`"),
        ("clamp(i + 1, 0, N)", "4"),
    ],
)
def test_mistakes(call: str, message: str) -> None:
    with pytest.raises(ms.LanguageError) as caught:
        ms.parse_program(f"program p[N=4](X: f32[N]) -> Y: f32[N]:\n    Y[i] = X[{call}]\n")
    assert message in str(caught.value)

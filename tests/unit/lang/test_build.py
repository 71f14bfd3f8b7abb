"""Programs built in Python equal those from text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metasched.errors import LanguageError
from metasched.functions.registry import functions
from metasched.lang import build as ms
from metasched.lang import calls, parse_program


def test_dense_relu() -> None:
    n, m, k_ = ms.param("N", 512), ms.param("M", 512), ms.param("K", 512)
    a, b = ms.placeholder("A", (n, k_), "f32"), ms.placeholder("B", (k_, m), "f32")
    c = ms.compute("C", (n, m), lambda i, j: ms.sum(lambda k: a[i, k] * b[k, j], k_), label="dense")
    d = ms.compute("D", (n, m), lambda i, j: ms.max(c[i, j], 0))
    text = """program dense_relu[N=512, M=512, K=512](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    D[i, j] = max(C[i, j], 0)
"""
    program = ms.program("dense_relu", [a, b], [d])
    assert program == parse_program(text)
    assert str(program) == text


def test_convolution() -> None:
    h, w, r, s, p = sizes = [ms.param(name, size) for name, size in zip("HWRSP", (14, 14, 3, 1, 1), strict=True)]
    oh, ow = ms.let("OH", (h + 2 * p - r) // s + 1), ms.let("OW", (w + 2 * p - r) // s + 1)
    x, k = ms.placeholder("X", (h, w)), ms.placeholder("K", (r, r), const=True)
    xp = ms.compute(
        "Xp",
        (h + 2 * p, w + 2 * p),
        lambda y, x_: ms.where((y >= p) & (y < h + p) & (x_ >= p) & (x_ < w + p), x[y - p, x_ - p], 0),
        label="pad",
    )
    out = ms.compute(
        "Y", (oh, ow), lambda y, x_: ms.sum(lambda a, b: xp[s * y + a, s * x_ + b] * k[a, b], r, r), label="conv"
    )
    text = """
    program conv[H=14, W=14, R=3, S=1, P=1](X: f32[H, W], const K: f32[R, R]) -> Y: f32[OH, OW]:
        let OH = (H + 2*P - R) // S + 1
        let OW = (W + 2*P - R) // S + 1
        Xp: f32[H + 2*P, W + 2*P]
        pad: Xp[y, x_] = X[y - P, x_ - P] if y >= P and y < H + P and x_ >= P and x_ < W + P else 0
        conv: Y[y, x_] = sum[a, b](Xp[S * y + a, S * x_ + b] * K[a, b])
    """
    assert ms.program("conv", [x, k], [out], params=sizes) == parse_program(text)


def test_relu_pad_matmul() -> None:
    n, k_, m = ms.param("N", 8), ms.param("K", 512), ms.param("M", 4)
    a, d = ms.placeholder("A", (n, k_)), ms.placeholder("D", (k_, m))
    b = ms.compute("B", (n, k_), lambda i, k: ms.max(a[i, k], 0))
    c = ms.compute("C", (n, k_), lambda i, k: ms.where(k < 400, b[i, k], 0))
    e = ms.compute("E", (n, m), lambda i, j: ms.sum(lambda k: c[i, k] * d[k, j], k_))
    text = """program relu_pad_matmul[N=8, K=512, M=4](A: f32[N, K], D: f32[K, M]) -> E: f32[N, M]:
    B[i, k] = max(A[i, k], 0)
    C[i, k] = B[i, k] if k < 400 else 0
    E[i, j] = sum[k](C[i, k] * D[k, j])
"""
    program = ms.program("relu_pad_matmul", [a, d], [e], params=[n, k_, m])
    assert program == parse_program(text)
    assert str(program) == text


def test_every_operator() -> None:
    x, n = ms.placeholder("X", (6,), "i32"), ms.scalar("n", "i32")
    y = ms.compute(
        "Y",
        (6,),
        lambda i: ms.where(
            ((x[i] == 0) | ~(x[i] != n)) & (x[i] >= 1),
            -x[i] // 2 + 3 % calls.abs(x[i]),
            ms.min(ms.max(x[i], -1), n) - ms.cast(7.0 / 2.0, "i32"),
        ),
    )
    # Python turns `1 <= x` into `x >= 1`, and computes with numbers alone itself.
    text = """program p(X: i32[6], n: i32) -> Y: i32[6]:
    Y[i] = -X[i] // 2 + 3 % abs(X[i]) if (X[i] == 0 or not X[i] != n) and X[i] >= 1 \
else min(max(X[i], -1), n) - i32(3.5)
"""
    assert str(ms.program("p", [x, n], [y])) == text


def test_declarations_stay_where_the_reads_do_not_show_the_shape() -> None:
    x = ms.placeholder("X", (8,))
    t = ms.compute("T", (10,), lambda i: ms.where(i < 8, x[i], 0))
    ones = ms.compute("Ones", (3,), lambda i: 1, dtype="f32")
    y = ms.compute("Y", (8,), lambda i: ms.sum(lambda r: t[i + r] * ones[r], 3))
    text = """program p(X: f32[8]) -> Y: f32[8]:
    T: f32[10]
    Ones: f32[3]
    T[i] = X[i] if i < 8 else 0
    Ones[i] = 1
    Y[i] = sum[r](T[i + r] * Ones[r])
"""
    program = ms.program("p", [x], [y])
    assert str(program) == text
    assert program == parse_program(text)


def test_ranges_stay_where_the_reads_do_not_show_them() -> None:
    x = ms.placeholder("X", (10,))
    y = ms.compute("Y", (8,), lambda i: ms.max(lambda r: x[i + r], 3))
    assert "Y[i] = max[r < 3](X[i + r])" in str(ms.program("p", [x], [y]))


def test_parameters_of_equal_size_are_different_sizes() -> None:
    """The shape a person wrote is kept unless it is written the same where it is read."""
    n, m = ms.param("N", 8), ms.param("M", 8)
    x = ms.placeholder("X", (n,))
    t = ms.compute("T", (m,), lambda i: ms.where(i < 4, x[i], 0))
    y = ms.compute("Y", (m,), lambda i: t[i] + 1)
    assert "    T: f32[M]\n" in str(ms.program("p", [x], [y]))


def test_no_dimensions() -> None:
    x = ms.placeholder("X", (4,))
    s = ms.compute("s", (), lambda: ms.sum(lambda i: x[i], 4))
    t = ms.compute("t", (4,), lambda i: x[i] / s[()])
    assert str(ms.program("p", [x], [t])) == (
        "program p(X: f32[4]) -> t: f32[4]:\n    s[] = sum[i](X[i])\n    t[i] = X[i] / s[]\n"
    )


def test_mistakes_show_the_text() -> None:
    x = ms.placeholder("X", (4,))
    y = ms.compute("Y", (4,), lambda i: x[i + 1])
    with pytest.raises(LanguageError) as caught:
        ms.program("p", [x], [y])
    assert "<python>:2:14: `X[i + 1]` leaves `X`" in str(caught.value)
    assert "    Y[i] = X[i + 1]\n" in str(caught.value)


def test_every_math_function_is_offered() -> None:
    assert list(functions()) == calls.__all__


def test_wrong_use() -> None:
    x, other = ms.placeholder("X", (4,)), ms.placeholder("X", (4,))
    alpha = ms.scalar("alpha")
    with pytest.raises(LanguageError, match=r"takes 2 arguments, and there is 1 extent"):
        ms.compute("Y", (4,), lambda i, j: x[i])
    with pytest.raises(LanguageError, match=r"'a b' is no name"):
        ms.placeholder("a b", (4,))
    with pytest.raises(LanguageError, match="several things are named `X`"):
        ms.program("p", [x, other], [ms.compute("Y", (4,), lambda i: x[i] + other[i])])
    with pytest.raises(LanguageError, match="`alpha` not among the inputs"):
        ms.program("p", [x], [ms.compute("Y", (4,), lambda i: x[i] * alpha)])
    with pytest.raises(LanguageError, match="the output `X` is an input"):
        ms.program("p", [x], [x])
    with pytest.raises(LanguageError, match="nothing says which element type `Y` has"):
        ms.program("p", [], [ms.compute("Y", (4,), lambda i: 1)])
    with pytest.raises(TypeError, match="index it"):
        ms.max(x, 0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="write where"):
        ms.compute("Y", (4,), lambda i: x[i] if i < 3 else 0)
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(x)  # type: ignore[call-overload]


def test_a_shape_or_a_range_that_is_less_than_a_read_shows() -> None:
    n, k_ = ms.param("N", 16), ms.param("K", 5)
    x, z = ms.placeholder("X", (n, k_)), ms.placeholder("Z", (k_ + 2,))
    t = ms.compute("T", (n - 2,), lambda i: ms.sum(lambda k: x[i, k] * z[k], k_))
    y = ms.compute("Y", (n - 4,), lambda i: t[i] + t[i + 2] + ms.cast(i, "f32"))
    program = ms.program("p", [x, z], [y], params=[n, k_])
    text = """program p[N=16, K=5](X: f32[N, K], Z: f32[K + 2]) -> Y: f32[N - 4]:
    T: f32[N - 2]
    T[i] = sum[k < K](X[i, k] * Z[k])
    Y[i] = T[i] + T[i + 2] + f32(i)
"""
    assert str(program) == text
    assert program == parse_program(text)


@pytest.mark.parametrize(
    ("number", "text"),
    [(np.float32(0.5), "0.5"), (np.float16(2), "2.0"), (np.float64("inf"), "inf"), (np.int32(3), "3")],
)
def test_numbers_of_numpy_are_numbers_on_either_side(number: Any, text: str) -> None:
    x = ms.placeholder("X", (8,), "f32")
    assert (repr(number * x[0]), repr(x[0] * number)) == (f"{text} * X[0]", f"X[0] * {text}")
    assert repr(ms.where(x[0] < number, number, 0)) == f"{text} if X[0] < {text} else 0"


def test_a_number_that_no_program_has_is_refused() -> None:
    other: Any = np.complex64(1)
    with pytest.raises(TypeError, match="is no expression of a program"):
        ms.placeholder("X", (8,), "f32")[0] + other


@pytest.mark.parametrize(
    ("call", "hint"),
    [(np.exp, r"write `ms\.exp\(x\)`"), (np.arctan, r"write `ms\.atan\(x\)`"), (np.abs, r"write `.*abs\(x\)`")],
)
def test_functions_of_numpy_on_expressions_are_errors_with_a_hint(call: Any, hint: str) -> None:
    with pytest.raises(
        TypeError, match=rf"np\.\w+ takes numbers, and `X\[0\]` is an expression of a program\n  hint: {hint}"
    ):
        call(ms.placeholder("X", (8,), "f32")[0])


def test_an_array_times_an_expression_is_an_array_of_expressions() -> None:
    x: Any = ms.placeholder("X", (8,), "f32")
    weights: Any = np.array([1.0, 2.0], np.float32)
    first, second = weights * x[0]
    assert (repr(first), repr(second), repr(np.sum(weights * x[1]))) == (
        "1.0 * X[0]",
        "2.0 * X[0]",
        "1.0 * X[1] + 2.0 * X[1]",
    )

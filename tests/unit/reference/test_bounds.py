"""Floats that are rounded to integers or compared: where rounding may change the result, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.measure.checking.arithmetic import Computation
from metasched.measure.checking.check import mismatch, prepare
from metasched.measure.checking.inputs import Given
from metasched.measure.checking.tolerance import DataKind, position_tolerances, tolerances
from metasched.reference.bounds import rounded_buffers
from metasched.reference.execution import reference, reference_with_bound

N = 200_000
TREE_STEPS = "    B0: i32[N]\n    B0[i] = 1 if A[i] <= Z[0] else 2\n" + "".join(
    f"    B{n}: i32[N]\n    B{n}[i] = 2 * B{n - 1}[i] + (1 if A[i] <= Z[B{n - 1}[i] & 127] else 2)\n"
    for n in range(1, 6)
)
ROUNDED = {
    "to bytes": "Y: u8[N]:\n    Y[i] = u8((X[i] + 1.25) * 0.299 * 100.0 + Z[i] * Z[i])",
    "to the nearest": "Y: i8[N]:\n    Y[i] = i8(min(max(rint(X[i] * 50.3 + Z[i]), -128.0), 127.0))",
    "and back": "Y: f32[N]:\n    Y[i] = rint((X[i] * 3.7 + Z[i]) * 8.1) * 0.125",
    "down": "Y: f32[N]:\n    Y[i] = floor(X[i] * 31.7 + Z[i]) + ceil(Z[i] * 17.3)",
    "a step": "Y: f32[N]:\n    Y[i] = 1.0 if X[i] * X[i] + Z[i] > 0.3 else 0.0",
    "a truth value": "Y: bool[N]:\n    Y[i] = X[i] * 3.1 - Z[i] > Z[i] * 0.7",
    "two steps": "Y: i32[N]:\n    Y[i] = 3 if X[i] * 1.1 > Z[i] and X[i] * 1.3 < Z[i] * Z[i] + 0.2 else -3",
    "looked up": "Y: f32[N]:\n    B[i] = i32(X[i] * 39.7 + 50.0)\n    Y[i] = Z[B[i]] if B[i] >= 0 and B[i] < N else 0",
    "of what is rounded": "Y: i32[N]:\n    B[i] = i32(X[i] * 401.3 + Z[i])\n    Y[i] = 3 * B[i] - max(B[i], 2)",
    "steps through a tree": "Y: f32[N]:\n    A[i] = X[i] * 1.3 + 0.2\n" + TREE_STEPS + "    Y[i] = Z[B5[i] & 127]",
    "counted": "Y: i32[16]:\n    B[i] = i32((X[i] + Z[i] + 2.5) * 3.2)\n    Y[b] = sum[i if i64(B[i]) == b](1)",
}


def program(rest: str) -> Program:
    return parse_program(f"program p[N={N}](X: f32[N], Z: f32[N]) -> {rest}\n")


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1.25, 1.25, N).astype(np.float32) for _ in range(2)]


@pytest.mark.parametrize("rest", ROUNDED.values(), ids=ROUNDED)
def test_what_f32_gives_is_right_and_nearly_all_elements_are_told_from_others(rest: str) -> None:
    p, given = program(rest), inputs()
    ((expected, bound),) = reference_with_bound(p)(*given)
    (output,) = p.func.outputs
    allowed = tolerances(Computation(p.func), bound, output.dtype, DataKind.DRAWN)
    assert allowed is not None
    found = reference(p)(*given)
    assert isinstance(found, np.ndarray)
    assert mismatch(found, expected, allowed) is None
    size = np.abs(np.asarray(expected, np.float64)).max()
    assert np.count_nonzero(allowed > 0.01 * size) < 0.02 * N
    assert mismatch(found[::-1].copy(), expected, allowed) is not None


def test_rounding_is_seen_where_a_float_is_next_to_a_jump() -> None:
    p = parse_program("program p(X: f32[4]) -> Y: i32[4]:\n    Y[i] = i32(X[i] * 1.0)\n")
    next_to = np.nextafter(np.float32(3), np.float32(2))
    ((_, bound),) = reference_with_bound(p)(np.array([2.5, next_to, 0.25, -0.25], np.float32))
    assert bound[1] > 2**22
    assert bound[[0, 2, 3]].max() < 10, "what is around zero becomes zero on both sides"


def test_what_is_whole_already_has_no_jump_at_whole_numbers() -> None:
    p = parse_program("program p(X: f32[3]) -> Y: i32[3]:\n    Y[i] = i32(max(rint(X[i] * 1.0) + 7.0, 0.0))\n")
    ((_, bound),) = reference_with_bound(p)(np.array([1.25, -2.25, 3.0], np.float32))
    assert bound.max() < 100


def test_integers_that_no_float_is_in_are_exact() -> None:
    p = parse_program(
        "program p(X: i32[8], Z: f32[8]) -> (Y: i32[8], V: f32[8]):\n"
        "    Y[i] = X[i] * 3 if X[i] > 2 else X[i]\n    V[i] = Z[i] + f32(Y[i])\n"
    )
    assert rounded_buffers(p.func) == frozenset()
    (_, exact), _ = reference_with_bound(p)(np.arange(8, dtype=np.int32), np.ones(8, np.float32))
    assert not exact.any()


def test_steps_by_arguments_that_are_compared_are_exact() -> None:
    """A walk through a tree: what it reads is an argument, at a place that such comparisons have led to."""
    text = """
program walk(X: f32[50, 4], const G: i32[16], const V: f32[16]) -> Y: f32[50]:
    A: i32[50]
    B: i32[50]
    A[n] = (G[3] & 15) + (0 if X[n, G[3] & 3] <= V[3] else 1)
    B[n] = (G[A[n] & 15] & 15) + (0 if X[n, G[A[n] & 15] & 3] <= V[A[n] & 15] else 1)
    Y[n] = V[B[n] & 15]
"""
    rng = np.random.default_rng(0)
    x, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((50, 4), 16))
    ((value, bound),) = reference_with_bound(parse_program(text).func)(x, rng.integers(0, 99, 16, np.int32), v)
    np.testing.assert_array_equal(bound, np.abs(value))


def test_what_depends_on_rounded_integers_is_rounded() -> None:
    p = program(ROUNDED["of what is rounded"])
    assert rounded_buffers(p.func) == {"B", "Y"}


ON_JUMPS = {
    "bytes": "p(X: u8[64, 66], w: i8[3]) -> Y: u8[64, 64]:\n    S[i, j < 64] = sum[s](f32(X[i, j + s]) * f32(w[s]))\n"
    "    Y[i, j] = u8(min(max(S[i, j], 0.0), 255.0))",
    "a box": "p(X: u8[64, 67]) -> Y: u8[64, 64]:\n    S[i, j < 64] = sum[s < 4](f32(X[i, j + s]))\n"
    "    Y[i, j] = u8(S[i, j] * 0.25)",
    "what was copied": "p(X: f32[64, 66]) -> Y: f32[64]:\n    m[i] = max[j](X[i, j])\n"
    "    Y[i] = sum[j if X[i, j] == m[i]](X[i, j] + f32(j))",
}


@pytest.mark.parametrize("text", ON_JUMPS.values(), ids=ON_JUMPS)
def test_what_is_exactly_on_a_jump_is_exact(text: str) -> None:
    cases = prepare(parse_program(f"program {text}\n").func, Given({}, {}), 0)
    for case in (cases.integers, cases.random):
        (expected,), (allowed,) = case.expected, case.tolerance
        wrong = np.where(expected == 0, 1, 0).astype(np.float32)
        message = mismatch(wrong, expected, allowed)
        assert message is not None
        assert int(message.split()[0]) > 0.9 * expected.size


def test_what_is_on_a_jump_but_for_rounding_may_be_beside_it() -> None:
    """Two equal bytes are themselves in any proportion, and in f32 a little less or more."""
    p = parse_program(
        "program blend(A: u8[4], B: u8[4], m: f32[4]) -> (Y: u8[4], Z: u8[4]):\n"
        "    t[i] = f32(A[i]) * m[i] + f32(B[i]) * (1.0 - m[i])\n"
        "    Y[i] = u8(clamp(t[i], 0.0, 255.0))\n"
        "    Z[i] = u8(clamp(f32(A[i]) * m[i] + f32(B[i]) * (1.0 - m[i]), 0.0, 255.0))\n"
    )
    given = [np.array(x, np.uint8) for x in ([234, 234, 0, 255], [234, 100, 9, 0])]
    found = reference_with_bound(p)(*given, np.array([0.4776509, 0.4776509, 300.0, 2.0], np.float32))
    for expected, bound in found[:2]:
        assert expected.tolist() == [234, 164, 0, 255]
        allowed = tolerances(Computation(p.func), bound, DType.U8, DataKind.DRAWN)
        assert allowed is not None
        assert (allowed >= 1).tolist() == [True, False, False, False]


def test_what_wraps_may_be_at_either_end() -> None:
    p = program("Y: u8[N]:\n    B[i] = i32((X[i] + 2.0) * 3000.3 + Z[i] * 1.7)\n    Y[i] = u8(B[i] % 64) + u8(B[i])")
    ((expected, bound),) = reference_with_bound(p)(*inputs())
    found = reference(p)(*inputs())
    assert isinstance(found, np.ndarray)
    assert mismatch(found, expected, tolerances(Computation(p.func), bound, DType.U8, DataKind.DRAWN)) is None


OVERFLOWS = {
    "a stage": "Y: f32[N]:\n    S[i] = exp(X[i] + 88.0)\n    Y[i] = S[i] / 64.0",
    "a stage of halves": "Y: f32[N]:\n    S[i] = f16(X[i] * 60000.0)\n    Y[i] = f32(S[i]) * 0.001",
    "a sum": "Y: f32[N]:\n    S[i] = sum[k < 2](exp(X[i] + 83.0))\n    Y[i] = S[i] / 64.0",
    "a product": "Y: f32[N]:\n    Y[i] = sqrt(exp(X[i] * 50.0) * exp(X[i] * 50.0))",
    "what is scaled": "Y: f32[N]:\n    Y[i] = (exp(X[i] * 50.0) * exp(X[i] * 50.0)) * 0.0001",
    "a divisor": "Y: f32[N]:\n    Y[i] = 1.0 / (exp(X[i] * 50.0) * exp(X[i] * 50.0))",
}


def computed(rest: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the program's own types give, what is right, and how far from it that may be."""
    p, given = parse_program(f"program p[N={N}](X: f32[N]) -> {rest}\n"), inputs()[:1]
    ((expected, bound),) = reference_with_bound(p)(*given)
    allowed = tolerances(Computation(p.func), bound, p.func.outputs[0].dtype, DataKind.DRAWN)
    with np.errstate(over="ignore", under="ignore"):
        found = reference(p)(*given)
    assert isinstance(found, np.ndarray)
    assert allowed is not None
    return found, expected, allowed


@pytest.mark.parametrize("rest", OVERFLOWS.values(), ids=OVERFLOWS)
def test_nothing_is_said_of_what_overflowed_on_the_way_and_all_of_the_rest(rest: str) -> None:
    found, expected, allowed = computed(rest)
    assert mismatch(found, expected, allowed) is None
    assert 0.5 < np.mean(np.isfinite(allowed)) < 0.95
    assert np.mean(allowed < 1e-2 * np.abs(expected)) > 0.4


MASKED = """
program masked(X: f32[16, 64]) -> Y: f32[16, 64]:
    Z[i, j] = X[i, j] if j % 3 > 0 else -inf
    a[i] = max[j](Z[i, j])
    E[i, j] = exp(Z[i, j] - a[i])
    s[i] = sum[j](E[i, j])
    Y[i, j] = E[i, j] / s[i]
"""


def test_infinities_that_mask_terms_are_exact() -> None:
    p, x = parse_program(MASKED), inputs()[0][:1024].reshape(16, 64)
    ((expected, bound),) = reference_with_bound(p)(x)
    assert np.isfinite(expected).all()
    assert np.isfinite(bound).all()
    assert bound.max() < 1e3


MASKS = np.tile(np.where(np.arange(64) % 3 > 0, 0, -np.inf).astype(np.float32), (16, 1))


@pytest.mark.parametrize(
    ("declared", "term", "mask"),
    [("M: f32[16, 64]", "M[i, j]", MASKS), ("m: f32", "(0.0 if j % 3 > 0 else m)", -np.inf)],
    ids=["an array", "a scalar"],
)
def test_infinities_of_arguments_that_mask_terms_are_exact(declared: str, term: str, mask: object) -> None:
    added = MASKED.replace("X[i, j] if j % 3 > 0 else -inf", f"X[i, j] + {term}")
    x = inputs()[0][:1024].reshape(16, 64)
    ((expected, bound),) = reference_with_bound(parse_program(added.replace(") ->", f", {declared}) ->")))(x, mask)
    assert np.isfinite(expected).all()
    ((_, chosen),) = reference_with_bound(parse_program(MASKED))(x)
    np.testing.assert_allclose(bound, chosen, rtol=0.05)


def test_positions_among_infinities_must_match() -> None:
    p = parse_program("program p[M=8](X: f32[3, M]) -> (V: f32[3], P: i64[3]):\n    V[i], P[i] = argmax[j](X[i, j])\n")
    x = np.arange(24, dtype=np.float32).reshape(3, 8)
    x[0, 3:], x[1], x[2, 1] = -np.inf, -np.inf, np.inf
    _, (positions, bound) = reference_with_bound(p)(x)
    np.testing.assert_array_equal(positions, [2, 0, 1])
    np.testing.assert_array_equal(position_tolerances(Computation(p.func), bound, DataKind.DRAWN), [0, 0, 0])


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_in_arguments_has_no_bound(value: float) -> None:
    p = parse_program("program p[N=3](X: f32[N], a: f32) -> (Y: f32[N], Z: f32[N]):\n    Y[i] = X[i]\n    Z[i] = a\n")
    bounds = [bound for _, bound in reference_with_bound(p)(np.array([value, -2, 3], np.float32), value)]
    np.testing.assert_array_equal(bounds, [[0, 2, 3], [0, 0, 0]])


UNDERFLOWS = {
    "two stages": "Y: f32[N]:\n    T[i] = X[i] * 1e-30\n    U[i] = T[i] * 1e-30\n    Y[i] = U[i] * 1e30 * 1e30",
    "halves": "Y: f32[N]:\n    H[i] = f16(X[i] * 1e-9)\n    Y[i] = f32(H[i]) * 1e9",
    "a sum": "Y: f32[N]:\n    S[i] = sum[k < 2](X[i] * 1e-25 * (X[i] * 1e-25))\n    Y[i] = sqrt(S[i]) * 1e25",
    "compared": "Y: bool[N]:\n    E[i] = exp(-150.0 * abs(X[i]))\n    Y[i] = E[i] > 0.0",
}


@pytest.mark.parametrize("rest", UNDERFLOWS.values(), ids=UNDERFLOWS)
def test_what_underflows_on_the_way_may_be_off_by_that(rest: str) -> None:
    found, expected, allowed = computed(rest)
    assert not np.array_equal(found, expected)
    assert mismatch(found, expected, allowed) is None


@pytest.mark.parametrize("value", ["exp(X[i, j] * 100.0)", "exp(-200.0 - X[i, j] * 10.0)"])
def test_positions_of_what_is_the_same_in_the_type_are_all_right(value: str) -> None:
    p = parse_program(
        f"program p(X: f32[400, 30]) -> (V: f32[400], P: i64[400]):\n    V[i], P[i] = argmax[j]({value})\n"
    )
    x = inputs()[0][:12000].reshape(400, 30)
    (_, (places, bound)) = reference_with_bound(p)(x)
    allowed = position_tolerances(Computation(p.func), bound, DataKind.DRAWN)
    with np.errstate(over="ignore", under="ignore"):
        _, found = reference(p)(x)
    assert not np.array_equal(found, places)
    assert mismatch(found, places, allowed) is None

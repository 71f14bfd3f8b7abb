from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from metasched.dtypes import DType
from metasched.errors import KernelError
from metasched.lang import parse_program
from metasched.measure.checking.check import LARGE_BYTE, NAN_BYTE, Bench, Cases, CheckCase, Guarded, mismatch, prepare
from metasched.measure.checking.inputs import Given, Inputs, given_inputs, integer_inputs, random_inputs
from metasched.measure.checking.tolerance import DataKind, exact_magnitude, roundings
from metasched.measure.records import CheckError, Failure, Reason

Array = NDArray[Any]
LONG = 2304
MATMUL = """
program matmul[N=4, M=8, K=2304](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""
NOTHING = Given({}, {})


def cases_of(text: str, inputs: Inputs | None = None, seed: int = 0, **params: int) -> Cases:
    func = parse_program(text, **params).func
    return prepare(func, given_inputs(func, inputs, seed), seed)


def terms(case: CheckCase) -> Array:
    """Every product of the matmul, rounded to f32, the reduction last."""
    a, b = case.inputs
    return a[:, None, :] * b.T[None, :, :]


def fold(values: Array) -> Array:
    """Added one after another along the last axis."""
    return np.add.accumulate(values, axis=-1, dtype=np.float32)[..., -1]


ORDERS: dict[str, Callable[[Array], Array]] = {
    "in order": fold,
    "backwards": lambda t: fold(t[..., ::-1]),
    "shuffled": lambda t: fold(t[..., np.random.default_rng(1).permutation(LONG)]),
    "sixteen lanes": lambda t: fold(fold(t.reshape(*t.shape[:-1], LONG // 16, 16).swapaxes(-1, -2))),
    "two halves": lambda t: fold(t[..., : LONG // 2]) + fold(t[..., LONG // 2 :]),
    "pairwise": lambda t: t.sum(axis=-1, dtype=np.float32),
    "ascending": lambda t: fold(np.sort(t, axis=-1)),
    "small first": lambda t: fold(np.take_along_axis(t, np.argsort(np.abs(t), axis=-1), axis=-1)),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_a_long_reduction_is_accepted(order: str, seed: int) -> None:
    cases = cases_of(MATMUL, seed=seed)
    for case in (cases.integers, cases.random):
        result = ORDERS[order](terms(case))
        assert mismatch(result, case.expected[0], case.tolerance[0]) is None


def test_fused_multiply_adds_are_accepted() -> None:
    case = cases_of(MATMUL).random
    a, b = (x.astype(np.float64) for x in case.inputs)
    total = np.zeros((4, 8), np.float32)
    for k in range(LONG):
        total = (a[:, k, None] * b[None, k, :] + total).astype(np.float32)
    assert mismatch(total, case.expected[0], case.tolerance[0]) is None


@pytest.mark.parametrize("seed", range(3))
def test_one_dropped_term_of_one_element_is_caught_whichever_it_is(seed: int) -> None:
    cases = cases_of(MATMUL, seed=seed)
    for case in (cases.integers, cases.random):
        products = terms(case).astype(np.float64)
        # What the element (1, 2) becomes without its k-th term, for every k.
        dropped = (products[1, 2].sum() - products[1, 2]).astype(np.float32)
        tolerance = case.tolerance[0]
        for value in dropped:
            result = case.expected[0].astype(np.float32)
            result[1, 2] = value
            assert mismatch(result, case.expected[0], tolerance) is not None


def test_a_dropped_term_is_caught_in_data_of_the_caller() -> None:
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (4, LONG)).astype(np.float32)
    case = cases_of(MATMUL, {"A": a}).random
    assert case.inputs[0] is a
    result = fold(terms(case)[..., 1:])
    assert mismatch(result, case.expected[0], case.tolerance[0]) is not None
    assert mismatch(fold(terms(case)), case.expected[0], case.tolerance[0]) is None


def test_equal_numbers_given_by_the_caller_may_all_round_the_same_way() -> None:
    inputs = {"A": np.full((4, LONG), 0.1, np.float32), "B": np.full((LONG, 8), 0.3, np.float32)}
    case = cases_of(MATMUL, inputs).random
    assert mismatch(fold(terms(case)), case.expected[0], case.tolerance[0]) is None


def test_integers_of_an_adding_program_leave_no_room() -> None:
    case = cases_of(MATMUL).integers
    assert case.tolerance == (None,)
    assert case.expected[0].dtype == np.float32
    assert all(np.array_equal(a, np.rint(a)) and a.all() for a in case.inputs)
    result = case.expected[0].copy()
    result[3, 7] = np.nextafter(result[3, 7], np.inf, dtype=np.float32)
    found = mismatch(result, case.expected[0], None)
    assert found is not None
    assert "1 of 32 elements differ, the first at [3, 7]" in found


@pytest.mark.parametrize(
    ("stages", "exact"),
    [
        ("B[i] = A[i] * 2 - 1", True),
        ("B[i] = max(A[i], 0)", True),
        ("B[i] = A[i] if i < 3 else 0", True),
        ("B[i] = abs(A[i])", True),
        ("B[i] = A[i] * 0.1", False),
        ("B[i] = A[i] / 2", False),
        ("B[i] = exp(A[i])", False),
    ],
)
def test_which_programs_have_one_right_answer(stages: str, exact: bool) -> None:
    func = parse_program(f"program p[N=8](A: f32[N]) -> B: f32[N]:\n    {stages}\n").func
    assert exact_magnitude(func, integer_inputs(func, NOTHING, 0, 4)) is exact
    assert exact_magnitude(func, random_inputs(func, NOTHING, 0)) is False


def test_a_difference_without_a_sign_may_be_far_from_zero() -> None:
    func = parse_program("program p(A: u32[9], B: u32[9]) -> S: f32[]:\n    S[] = sum[i](f32(A[i] - B[i]))\n").func
    assert not exact_magnitude(func, {"A": np.ones(9, np.uint32), "B": np.full(9, 2, np.uint32)})


@pytest.mark.parametrize("dtype", ["i64", "u64"])
def test_a_range_of_inputs_is_within_the_type(dtype: str) -> None:
    func = parse_program(f"program p(A: {dtype}[99]) -> B: {dtype}[99]:\n    B[i] = A[i]\n").func
    last = int(np.iinfo(DType(dtype).numpy).max)
    given = given_inputs(func, {"A": (last - 2**62, last)}, 0)
    for made in (integer_inputs(func, given, 0, 4), random_inputs(func, given, 0)):
        assert int(made["A"].min()) >= last - 2**62 - 2**10
    with pytest.raises(KernelError, match=rf"the range \(0.25, 0.75\) of `A` has no number that is {dtype}"):
        given_inputs(func, {"A": (0.25, 0.75)}, 0)


def test_exactness_ends_where_the_mantissa_does() -> None:
    chain = """
program chain[K=64](A: f32[K, K]) -> D: f32[K, K]:
    B[i, j] = sum[k](A[i, k] * A[k, j])
    C[i, j] = sum[k](B[i, k] * A[k, j])
    D[i, j] = sum[k](C[i, k] * A[k, j])
"""
    for size, exact in ((64, True), (256, True), (257, False)):
        func = parse_program(chain, K=size).func
        assert exact_magnitude(func, integer_inputs(func, NOTHING, 0, 1)) is exact
    # Smaller numbers are tried before exactness is given up.
    case = cases_of(chain, K=64).integers
    assert case.tolerance == (None,)
    assert np.abs(case.inputs[0]).max() == 2


def test_roundings_grow_with_the_root_for_our_data_and_linearly_for_the_callers() -> None:
    func = parse_program(MATMUL).func
    assert roundings(func, DataKind.DRAWN)[DType.F32] == pytest.approx(8 * LONG**0.5, rel=0.02)
    assert roundings(func, DataKind.GIVEN)[DType.F32] == pytest.approx(LONG, rel=0.01)


def test_a_program_with_nothing_finite_asks_for_a_range() -> None:
    text = "program p[N=64](A: f32[N]) -> B: f32[N]:\n    B[i] = log(A[i] - 1)\n"
    message = r"most of `B` is not finite, or made of what is not, on `A` in \[-1.\d+, 1.\d+\], so"
    with pytest.raises(CheckError, match=message) as caught:
        cases_of(text)
    assert str(caught.value).endswith("\n  hint: say what it takes: `inputs={NAME: (low, high)}` for `A`")
    assert str(caught.value.with_way("--input NAME=LOW,HIGH")).endswith(
        "say what it takes: `--input NAME=LOW,HIGH` for `A`"
    )
    with pytest.raises(CheckError, match=r"`A` in \[0.2\d*, 0.7\d*\] \(given\)"):
        cases_of(text, {"A": (0.25, 0.75)})
    case = cases_of(text, {"A": (1.5, 3.0)}).random
    assert case.inputs[0].min() >= 1.5
    assert case.inputs[0].max() <= 3.0


@pytest.mark.parametrize(
    ("divisor", "integers"), [("A[i, 0] * A[i, 3] - A[i, 1] * A[i, 2]", True), ("A[i, 0] - floor(A[i, 0])", False)]
)
def test_where_small_integers_divide_by_zero_others_are_checked(divisor: str, integers: bool) -> None:
    case = cases_of(f"program p[N=300](A: f32[N, 4]) -> B: f32[N]:\n    B[i] = A[i, 3] / ({divisor})\n").integers
    assert np.isfinite(case.expected[0]).mean() > 0.5
    assert bool((case.inputs[0] == np.rint(case.inputs[0])).all()) is integers


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"Q": (0, 1)}, r"no argument `Q`; it has A, B"),
        ({"A": (1, 0)}, r"low, high"),
        ({"A": (0, float("inf"))}, r"finite"),
        ({"A": np.zeros((4, 5), np.float32)}, r"`A` is float32\[4, 2304\], got float32\[4, 5\]"),
        ({"A": lambda rng, shape, dtype: rng.random(shape)}, r"the function of `A` made float64"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs: Inputs, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        cases_of(MATMUL, inputs)


SEGMENTS = """
program segments[N=500, B=13](I: i32[N], X: f32[N]) -> M: f32[B]:
    M[b] = max[i if i64(I[i]) == b](X[i])
"""


def test_segments_are_drawn_from_all_there_are_and_beyond() -> None:
    cases = cases_of(SEGMENTS)
    for case in (cases.integers, cases.random):
        assert set(case.inputs[0].tolist()) == set(range(-1, 14))
        assert np.isfinite(case.expected[0]).all()


def test_a_range_of_the_caller_holds_for_integers_in_both_checks() -> None:
    cases = cases_of(SEGMENTS, {"I": (3, 12)})
    for case in (cases.integers, cases.random):
        assert set(case.inputs[0].tolist()) == set(range(3, 13))


def test_places_without_a_term_are_checked_where_anything_is_finite() -> None:
    cases = cases_of(SEGMENTS, {"I": (5, 6)})
    for case in (cases.integers, cases.random):
        (expected,), (tolerance,) = case.expected, case.tolerance
        assert np.flatnonzero(np.isfinite(expected)).tolist() == [5, 6]
        right = expected.astype(np.float32)
        assert mismatch(right, expected, tolerance) is None
        for place, value in ((0, 0.0), (5, -np.inf), (0, np.nan)):
            wrong = right.copy()
            wrong[place] = value
            assert mismatch(wrong, expected, tolerance) is not None
    message = r"`M` is not finite, or made of what is not, on `I` in \[50, 60\] \(given\), `X` in"
    with pytest.raises(CheckError, match=message):
        cases_of(SEGMENTS, {"I": (50, 60)})


def test_inputs_may_be_made_by_a_function() -> None:
    case = cases_of(MATMUL, {"A": lambda rng, shape, dtype: rng.random(shape).astype(dtype) + 7}).random
    assert case.inputs[0].min() >= 7


def test_data_depends_on_the_seed_alone() -> None:
    func = parse_program(MATMUL).func
    for make in (random_inputs, partial(integer_inputs, magnitude=4)):
        first, again, other = (make(func, NOTHING, seed) for seed in (0, 0, 1))
        assert all(np.array_equal(first[name], again[name]) for name in first)
        assert not any(np.array_equal(first[name], other[name]) for name in first)


def test_cases_survive_being_saved(tmp_path: Path) -> None:
    cases = cases_of(MATMUL, K=8)
    cases.save(tmp_path / "cases.npz")
    loaded = Cases.load(tmp_path / "cases.npz")
    assert loaded.outputs == cases.outputs == (("C", "float32"),)
    for before, after in ((cases.integers, loaded.integers), (cases.random, loaded.random)):
        assert before.fill == after.fill
        for mine, theirs in zip(
            before.inputs + before.expected + before.tolerance,
            after.inputs + after.expected + after.tolerance,
            strict=True,
        ):
            assert (mine is None and theirs is None) or np.array_equal(mine, theirs)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["cases.npz"]


def test_nan_and_infinity_must_be_where_they_are_expected() -> None:
    expected = np.array([np.nan, np.inf, 1.0])
    tolerance = np.array([np.inf, np.inf, 1e-6])
    right = expected.astype(np.float32)
    assert mismatch(right, expected, tolerance) is None
    for position, value in ((0, 1.0), (2, np.nan), (2, np.inf)):
        wrong = right.copy()
        wrong[position] = value
        assert mismatch(wrong, expected, tolerance) is not None


# --- the bench: a kernel that is a Python function over the bench's memory ---------------------------------


def run(kernel: Callable[[Array, Array, Guarded], None], text: str = "[i] = A[i] * 2") -> list[Failure | None]:
    """What the two checks find of a kernel of 5 elements with a workspace of 64 bytes."""
    cases = cases_of(f"program p[N=5](A: f32[N]) -> B: f32[N]:\n    B{text}\n")
    bench, workspace = Bench(cases), Guarded(64)
    found = []
    for case in (cases.integers, cases.random):
        bench.load(case, workspace)
        kernel(view(bench, 0), view(bench, 1), workspace)
        found.append(bench.verify(workspace))
    return found


def view(bench: Bench, index: int) -> Array:
    import ctypes

    return np.ctypeslib.as_array(ctypes.cast(bench.addresses[index], ctypes.POINTER(ctypes.c_float)), (6,))


def reasons(found: list[Failure | None]) -> list[str | None]:
    return [failure.reason if failure is not None else None for failure in found]


def test_a_right_kernel_passes() -> None:
    def kernel(a: Array, b: Array, workspace: Guarded) -> None:
        b[:5] = a[:5] * 2

    assert reasons(run(kernel)) == [None, None]


def test_an_element_never_written_shows() -> None:
    def kernel(a: Array, b: Array, workspace: Guarded) -> None:
        b[:4] = a[:4] * 2

    assert reasons(run(kernel)) == [Reason.WRONG_RESULT.value] * 2


def test_an_accumulation_into_what_was_there_shows() -> None:
    def kernel(a: Array, b: Array, workspace: Guarded) -> None:
        b[:5] = np.maximum(b[:5], a[:5]) * 2 if np.isfinite(b[0]) else a[:5] * 2

    assert reasons(run(kernel)) == [None, Reason.WRONG_RESULT.value]


def test_scratch_used_before_it_is_written_shows() -> None:
    def kernel(a: Array, b: Array, workspace: Guarded) -> None:
        scratch = workspace.view((16,), np.float32)
        with np.errstate(over="ignore"):
            b[:5] = a[:5] * 2 + scratch[:5]

    assert reasons(run(kernel)) == [Reason.WRONG_RESULT.value] * 2


@pytest.mark.parametrize("restored", [False, True])
def test_a_modified_input_shows(restored: bool) -> None:
    def kernel(a: Array, b: Array, workspace: Guarded) -> None:
        b[:5] = a[:5] * 2
        a[2] = a[2] if restored else -a[2]

    assert reasons(run(kernel)) == [None if restored else Reason.INPUTS_MODIFIED.value] * 2


@pytest.mark.parametrize("buffer", ["input", "output", "workspace"])
def test_a_write_past_the_end_shows(buffer: str) -> None:
    def kernel(a: Array, b: Array, workspace: Guarded) -> None:
        b[:5] = a[:5] * 2
        if buffer == "workspace":
            workspace._after[0] = 0
        else:
            {"input": a, "output": b}[buffer][5] = 1

    assert reasons(run(kernel)) == [Reason.OUT_OF_BOUNDS.value] * 2


def test_the_two_fills_are_nan_and_large_in_every_float() -> None:
    for dtype in (np.float32, np.float64):
        assert np.isnan(np.frombuffer(bytes([NAN_BYTE] * 8), dtype)).all()
        large = np.frombuffer(bytes([LARGE_BYTE] * 8), dtype).astype(np.float64)
        assert np.isfinite(large).all()
        assert (large > 1e37).all()


def test_buffers_begin_where_numpys_do_and_may_be_empty() -> None:
    for size in (0, 1, 64, 100_000):
        guarded = Guarded(size)
        assert guarded.address % 64 == 16 or size == 0
        assert Guarded(size, offset=0).address % 64 == 0 or size == 0
        assert guarded.bytes.nbytes == size
        assert guarded.intact()


def test_what_may_be_a_logarithm_of_nothing_is_not_held_against_a_kernel() -> None:
    """In f32 the smaller exponentials are zero, whose logarithm is infinite; all others are told from a wrong one."""
    text = "program p[N=999](A: f32[N]) -> B: f32[N]:\n    E[i] = exp(-90.0 * abs(A[i]))\n    B[i] = log(E[i])\n"
    case = cases_of(text).random
    (expected,), (tolerance,) = case.expected, case.tolerance
    assert tolerance is not None
    free = np.isinf(tolerance)
    assert 0.05 < np.mean(free) < 0.5
    right = np.where(free, -np.inf, expected).astype(np.float32)
    assert mismatch(right, expected, tolerance) is None
    assert mismatch(np.full_like(right, -np.inf), expected, tolerance) is not None

"""The caller's data: what does not fit is said before anything is measured."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from metasched.errors import KernelError
from metasched.lang import parse_program
from metasched.measure.checking.inputs import given_inputs, integer_inputs, random_inputs, require_inputs

FUNC = parse_program(
    "program p[N=4](A: f32[N], K: i8[N], s: f32) -> B: f32[N]:\n    B[i] = A[i] * f32(K[i]) + s\n"
).func
ONES = np.ones(4, np.float32)


@pytest.mark.parametrize(
    "inputs",
    [
        None,
        {"A": (0, 1)},
        {"A": (np.float32(0), np.int64(1)), "s": 3},
        {"A": ONES, "K": (0, 3), "s": np.float64(2)},
        {"A": lambda generator, shape, dtype: np.ones(shape, dtype)},
        {"A": lambda *given: 1 / 0},
    ],
)
def test_what_fits(inputs: Any) -> None:
    require_inputs(FUNC, inputs)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (3, "`inputs` is 3; it says by name what data an argument takes: {'A': (low, high)}"),
        ({"Q": (0, 1)}, "inputs: p has no argument `Q`; it has A, K, s"),
        ({"A": (1, 0)}, "inputs: the range of `A` is (low, high), finite and in order, not (1, 0)"),
        ({"A": (float("nan"), 1)}, "inputs: the range of `A` is (low, high), finite and in order, not (nan, 1)"),
        ({"A": (0, float("inf"))}, "inputs: the range of `A` is (low, high), finite and in order, not (0, inf)"),
        ({"A": ("a", "b")}, "inputs: the range of `A` is (low, high), finite and in order, not ('a', 'b')"),
        ({"K": (200, 300)}, "inputs: the range (200, 300) of `K` has no number that is i8"),
        ({"A": ONES[:2]}, "inputs: `A` is float32[4], got float32[2]"),
        ({"A": (1, 2, 3)}, "inputs: `A` is float32[4], got int64[3]"),
        ({"A": ONES.astype(np.float64)}, "inputs: `A` is float32[4], got float64[4]"),
        ({"A": None}, "inputs: `A` is given as `None`; it is an array, a range (low, high), or a function of (gene"),
        ({"A": "x"}, "inputs: `A` is given as `x`; it is an array, a range (low, high), or a function of (generator"),
        (
            {"A": lambda: ONES},
            "inputs: the function of `A` is called with (generator, shape, dtype), and takes no such",
        ),
    ],
)
def test_what_does_not(inputs: Any, message: str) -> None:
    with pytest.raises(KernelError, match=re.escape(message)):
        require_inputs(FUNC, inputs)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (np.ones(4), "the function of `A` made float64[4], and `A` is float32[4]"),
        (None, "the function of `A` made `None`; it is an array, a range"),
    ],
)
def test_what_a_function_makes_is_seen_when_it_is_called(made: Any, message: str) -> None:
    with pytest.raises(KernelError, match=re.escape(message)):
        given_inputs(FUNC, {"A": lambda *given: made}, 0)


def test_what_is_given_is_taken() -> None:
    given = given_inputs(FUNC, {"A": ONES, "K": (0, 3), "s": 2}, 0)
    assert (list(given.arrays), given.ranges) == (["A", "s"], {"K": (0.0, 3.0)})
    assert given.arrays["s"].dtype == np.float32


def test_places_that_a_type_does_not_have_are_drawn_from_what_it_has() -> None:
    """`u64(v) - 2` of the first place wraps to what is no place."""
    func = parse_program(
        "program p(X: u64[3, 6], A: i32[3, 6]) -> Y: i32[3, 1]:\n"
        "    Y[i < 3, v < 1] = max[j if u64(X[i, j]) == u64(v) - 2](A[i, j])\n"
    ).func
    drawn = random_inputs(func, given_inputs(func, None, 0), 0)["X"]
    assert drawn.dtype == np.uint64
    assert drawn.max() <= 100


@pytest.mark.parametrize(("low", "high"), [(-0.5, 0.5), (0.25, 1.25), (-3.75, -2.5)])
def test_a_range_that_holds_one_integer_is_drawn_from_as_it_is(low: float, high: float) -> None:
    drawn = integer_inputs(FUNC, given_inputs(FUNC, {"A": (low, high)}, 0), 0, 2)["A"]
    assert len(set(drawn.tolist())) == drawn.size
    assert low <= drawn.min() < drawn.max() <= high

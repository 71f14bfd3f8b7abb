"""Reductions, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

R = np.random.default_rng(1)
F32 = R.standard_normal((2, 3, 2)).astype(np.float32)
I32 = R.integers(-5, 5, (2, 3)).astype(np.int32)
ALL = (np.sum, np.prod, np.mean, np.max, np.min, np.all, np.any, np.var, np.std, np.ptp, np.count_nonzero)


@pytest.mark.parametrize("function", ALL)
def test_reductions_along_axes(function: Any) -> None:
    for axis in (None, 1, -1, (0, 2)):
        check(lambda x, axis=axis: function(x, axis=axis), F32)
    check(lambda x: function(x, axis=0, keepdims=True), I32)
    check(function, F32[0, 0, 0])


@pytest.mark.parametrize("function", [np.sum, np.prod, np.mean, np.all, np.any, np.count_nonzero, np.var])
def test_bools_and_halves_are_reduced_in_numpys_types(function: Any) -> None:
    check(lambda x: function(x, axis=1), I32 > 0)
    check(lambda x: function(x, axis=1), I32.astype(np.float16))


@pytest.mark.parametrize("function", [np.argmax, np.argmin])
def test_positions_of_extrema(function: Any) -> None:
    check(lambda x: (function(x), function(x, axis=1), function(x, axis=0, keepdims=True)), F32)
    check(lambda x: function(x, axis=1), np.array([[1.0, np.nan, 3.0, np.nan]]))
    check(lambda x: function(x, axis=0), I32 > 0)


def test_types_degrees_of_freedom_and_no_axes() -> None:
    check(lambda x: (np.sum(x, 1, np.float64), np.std(x, axis=1, ddof=1), np.sum(x, axis=())), F32)
    check(lambda x: (np.var(x, dtype=np.float32), np.std(x, axis=0, dtype=np.float32)), F32.astype(np.float64))
    check(lambda x: (x.sum(0), x.mean(axis=1), x.max(), x.std(), x.all(), x.argmax(1)), I32)


def test_running_sums() -> None:
    check(lambda x: (np.cumsum(x, axis=1), np.cumprod(x), x.cumsum(0)), I32)
    check(
        lambda x: (
            np.cumulative_sum(x[0]),
            np.cumulative_sum(x, axis=-1, include_initial=True, dtype=np.float64),
            np.cumulative_prod(x, axis=0, include_initial=True),
        ),
        I32,
    )


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, np.inf, -np.inf])
def test_norms_of_vectors(order: Any) -> None:
    check(lambda x: np.linalg.norm(x, order, axis=1), F32)
    whole = 2 if order is None else order
    check(lambda x: np.linalg.vector_norm(x, axis=(0, 2), ord=whole, keepdims=True), F32)
    check(lambda x: (np.linalg.vector_norm(x, ord=whole), np.linalg.vector_norm(x, ord=whole, keepdims=True)), F32)


def test_of_some_elements_and_from_a_value() -> None:
    for function in (np.sum, np.prod, np.mean, np.var, np.std, np.all, np.any):
        check(lambda x, f=function: (f(x, where=x > -0.2, axis=1), f(x, where=(x > 0)[0], keepdims=True)), F32)
    check(lambda x: (np.max(x, where=x > 0, initial=0, axis=0), np.min(x, initial=-9), np.sum(x, initial=3)), F32)
    for x in (I32.astype(np.int8), I32 > 0):
        check(
            lambda x: (np.sum(x, initial=2.5), np.max(x, initial=3.5), np.prod(x, initial=True), np.min(x, initial=1)),
            x,
        )
    with pytest.raises(ms.TraceError, match="needs an `initial` value"):
        ms.jit(lambda x: np.max(x, where=x > 0)).graph(F32)


def test_norms_of_matrices() -> None:
    check(lambda x: tuple(np.linalg.norm(x, order, axis=(0, 2)) for order in (1, -1, np.inf, -np.inf)), F32)
    if hasattr(np.linalg, "vector_norm"):  # since NumPy 2
        check(lambda x: (np.linalg.vector_norm(x), np.linalg.vector_norm(x, axis=1), np.linalg.matrix_norm(x)), F32)
    check(lambda x: (np.linalg.norm(x), np.linalg.norm(x, "fro", axis=(0, 1)), np.linalg.norm(x > 0)), I32)
    with pytest.raises(ms.TraceError, match="ord='nuc'"):
        ms.jit(lambda x: np.linalg.norm(x, "nuc")).graph(I32)


def test_ufuncs_reduce_and_accumulate() -> None:
    check(lambda x: (np.add.reduce(x), np.maximum.reduce(x, axis=1), np.add.accumulate(x, axis=1)), I32)
    check(lambda x: (np.logical_xor.reduce(x), np.logical_xor.reduce(x > 0, axis=1, keepdims=True)), I32)
    check(lambda x: (np.maximum.accumulate(x, axis=1), np.minimum.accumulate(x > 0), np.multiply.accumulate(x)), I32)
    check(lambda x: (np.multiply.outer(x, x[0]), np.logaddexp.reduce(x, axis=1)), F32)
    with pytest.raises(ms.TraceError, match=r"np\.add\.reduceat cannot be traced"):
        ms.jit(lambda x: np.add.reduceat(x, [0, 1])).graph(I32)


def test_nothing_has_no_largest() -> None:
    with pytest.raises(ms.TraceError, match="no elements to compare"):
        ms.jit(np.max).graph(F32[:0])
    check(lambda x: (np.sum(x), np.prod(x, axis=0), np.all(x)), F32[:0])

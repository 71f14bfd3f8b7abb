"""What stands for an array while a function is traced: what it refuses, and what is written in place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.special

import metasched as ms
from tests.support.traced_functions import check

A = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


def test_control_flow_on_data_names_the_line_and_what_to_do() -> None:
    with pytest.raises(
        ms.TraceError, match=r"(?s)test_traced_array\.py:\d+, in `branches`.*if x\.sum\(\) > 0.*np\.where"
    ):
        ms.jit(branches).graph(A)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: [v for v in x if v.sum() > 0], "control flow"),
        (lambda x: math.sqrt(x[0, 0]), "a Python number"),
        (lambda x: range(x[0, 0]), "a Python number"),
        (lambda x: np.array([x, x]), "np.stack"),
        (np.linalg.svd, r"np\.linalg\.svd cannot be traced"),
        (lambda x: x.tolist(), "a Python number"),
        (lambda x: round(x[0, 0]), r"Python's round needs .*"),
        (lambda x: round(x, 1), r"(?s)Python's round.*np\.round"),
        (lambda x: 3 in x, "np.any"),
        (lambda x: x.tobytes(), "`tobytes`"),
        (lambda x: np.add(x, 1, where=x > 0), "only where `out`"),
        (lambda x: np.add(x, 1, subok=False), "without `subok`"),
        (lambda x: np.add(x, 1, out=np.zeros((2, 3), np.float32)), "an array of NumPy's"),
    ],
)
def test_what_needs_elements_is_refused(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(A)


def test_the_line_that_calls_scipy_is_named() -> None:
    with pytest.raises(ms.TraceError, match=r"(?s)test_traced_array\.py:\d+, in .*scipy\.special\.softmax\(x\)"):
        ms.jit(lambda x: 1 - scipy.special.softmax(x)).graph(A)


def test_an_element_is_rounded_by_pythons_round() -> None:
    check(lambda x: round(x[0, 1] / 3, 2), A)


def test_a_missing_attribute_is_missing() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sums'"):
        ms.jit(lambda x: x.sums()).graph(A)


def in_place(x: Any) -> Any:
    y = x * 2
    z = y
    y += 1
    y *= x.sum()
    np.negative(y, out=y)
    return y, z


def test_new_arrays_are_written_in_place_and_seen_by_their_other_names() -> None:
    check(in_place, A)


def narrowed(x: Any) -> Any:
    y = x * 2
    y += np.float64(0.1)
    return y


def test_what_is_written_in_place_keeps_its_type() -> None:
    check(narrowed, A)


def numbers(x: Any) -> Any:
    total = x[0, 0]
    first = total
    for row in x:
        total += row.sum()
    return total, first, x


def test_numbers_get_other_values_and_not_what_they_were_taken_from() -> None:
    check(numbers, A)


def test_methods_are_those_of_arrays() -> None:
    check(lambda x: (x.trace(), x.trace(1), x.diagonal(-1), x.argsort(0)), A)
    with pytest.raises(ms.TraceError, match="the attribute `view` of an array"):
        ms.jit(lambda x: x.view(np.int32)).graph(A)


def pairs(x: Any) -> Any:
    whole, part = np.zeros_like(x), np.zeros((2, 3), np.float64, like=x)
    np.divmod(x, 2, out=(whole, part))
    left = np.modf(x, out=(part, None))[1]
    return whole, part, left


def test_two_results_are_written_into_two_arrays() -> None:
    check(pairs, A)


def totals(x: Any) -> Any:
    total, wide = np.zeros((), x.dtype, like=x), np.zeros((), np.float64, like=x)
    other, mean = total, np.copy(x[0, 0])
    filled, made = np.full((), x[0, 0], like=x), np.array(x[0, 1], like=x)
    both = filled, made, filled, made
    filled += 1
    made -= 1
    for row in x:
        np.add(total, row.sum(), out=total)
        total += row[0]
    np.maximum(wide, total, out=wide)
    np.true_divide(total, x.size, out=mean)
    return total, other, wide, mean, both


def test_arrays_without_dimensions_are_written() -> None:
    check(totals, A)


def test_elements_are_written_where_a_condition_holds() -> None:
    check(lambda x: np.add(x, 1, where=x > 0, out=np.zeros_like(x)), A)


def test_its_type_is_known() -> None:
    seen: list[Any] = []

    def looks(x: Any) -> Any:
        seen.append((x.shape, x.dtype, x.ndim, x.size, len(x), x.nbytes, repr(x)))
        return x

    ms.jit(looks).graph(A)
    assert seen == [((2, 3), np.dtype(np.float32), 2, 6, 2, 24, "<traced f32[2, 3] of `looks`>")]


def test_an_array_that_was_kept_is_no_constant() -> None:
    kept: list[Any] = []

    def keeps(x: Any) -> Any:
        kept.append(x)
        return x + kept[0]

    f = ms.jit(keeps)
    f.graph(A)
    with pytest.raises(ms.TraceError, match="an array of an earlier trace"):
        f.graph(A[:1])


def written_by_functions(x: Any) -> Any:
    y, total = np.empty_like(x), np.zeros((), x.dtype, like=x)
    np.clip(x, -1, 1, out=y)
    z = y[:, :2] * 1
    np.dot(x, x.T, out=z)
    np.cumsum(x, axis=1, out=y)
    np.sum(x, out=total)
    return y, z, total


def test_functions_write_into_out() -> None:
    check(written_by_functions, A)
    with pytest.raises(ms.TraceError, match="an array of NumPy's"):
        ms.jit(lambda x: np.clip(x, 0, 1, out=np.zeros((2, 3), np.float32))).graph(A)

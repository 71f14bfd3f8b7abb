"""Elements chosen by conditions and indices, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

A = np.array([[0.5, -1.5, 2.5, np.nan], [1.0, -np.inf, np.inf, -0.25]], np.float32)
I32 = np.arange(-4, 4, dtype=np.int32).reshape(2, 4)
J = np.array([3, 0])


def without_nan(a: Any) -> Any:
    rows = a.copy()
    found = np.nan_to_num(rows[:1], copy=False, posinf=2)
    return rows, found


CASES: dict[str, Any] = {
    "where": lambda a, i: (np.where(a > 0, a, 0), np.where(i, a, i), np.where(i > 0, i, 2.5)),
    "select": lambda a, i: np.select([a < 0, a > 1], [a, a * 2], 7),
    "clip": lambda a, i: (np.clip(a, -1, 1), a.clip(0), i.clip(max=2), np.clip(i, -1, i * i)),
    "clipped beyond": lambda a, i: (i.astype(np.uint8).clip(-1, 300), i.clip(-(2**40), 2), np.clip(i > 0, 0, i[0])),
    "round": lambda a, i: (np.round(a), a.round(1), np.round(i), np.round(a * 100, -1)),
    "round of integers": lambda a, i: (np.round(i * 7, -1), np.round(i.astype(np.int8) * 7, -1), np.round(i > 0)),
    "nan": lambda a, i: (np.nan_to_num(a), np.nan_to_num(a, nan=1, posinf=2, neginf=3), np.nan_to_num(i)),
    "replaced": lambda a, i: (without_nan(a), np.nan_to_num(i, copy=False)),
    "close": lambda a, i: (np.isclose(a, a + 1e-7), np.isclose(a, a, equal_nan=True)),
    "equal": lambda a, i: (
        *(i + np.array_equal(a, a + 0, equal_nan=known) for known in (False, True)),
        i + np.array_equal(i, np.arange(-4, 4).reshape(2, 4), equal_nan=True),
        *(i + np.array_equiv(x, y) for x, y in ((i * 0, 0), (i, i[0]))),
        i + np.array_equal(i, i[0]) + np.array_equiv(i, i[:, :3]),
    ),
    "on the diagonal": lambda a, i: (a[:, :2][np.diag_indices_from(a[:, :2])], i[np.diag_indices_from(i[:, 2:])]),
    "like": lambda a, i: (np.zeros_like(a) + i, np.full_like(i, 3) * a, np.ones_like(i, dtype=float) + i),
    "likes": lambda a, i: np.full_like(a, a[0, 0]),
    "kinds": lambda a, i: (np.isneginf(a), np.isposinf(a), np.fix(a), i + np.iscomplexobj(a) + np.isrealobj(a)),
    "complex": lambda a, i: (np.real(a), np.imag(i), a.imag, np.angle(a), np.angle(i, deg=True)),
    "kept": lambda a, i: (np.compress([True, False], a, axis=0), np.compress([False, True, True], i)),
    "type": lambda a, i: i * (np.ndim(a) + np.size(a, 1) + np.shape(a)[0] + a.size),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_are_chosen_as_by_numpy(name: str) -> None:
    check(CASES[name], A, I32)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.uint64, np.int64])
def test_integers_are_close_as_floats(dtype: Any) -> None:
    limit = 1 if dtype is bool else np.iinfo(dtype).max
    a, b = np.array([0, 1, 1, limit, 0], dtype), np.array([1, 0, 1, 0, limit], dtype)
    for atol in (1.0, 0.5):
        check(lambda a, b: (np.isclose(a, b, atol=atol), np.isclose(a, 1, atol=atol), np.isclose(a, a / 2)), a, b)  # noqa: B023


def test_an_argument_is_not_written_by_nan_to_num() -> None:
    with pytest.raises(ms.TraceError, match="an argument is written"):
        ms.jit(lambda a: np.nan_to_num(a, copy=False)).graph(A)


def test_indices_that_are_data() -> None:
    check(lambda a, j: (np.take(a, j, axis=1), a.take(j), a[:, j], a[0][j], a[..., j[0]]), I32, J)
    check(lambda a, j: (np.take(a, j + 3, axis=1, mode="clip"), np.take(a, j - 9, axis=1, mode="wrap")), I32, J)
    check(lambda a, j: np.take_along_axis(a, j[:, None], axis=1), I32, J)


def test_places_along_axes_and_among_all_elements() -> None:
    check(
        lambda a, j: (
            np.unravel_index(np.argmax(a), a.shape),
            np.unravel_index(j + 8, (4, 3), order="F"),
            np.unravel_index(j, 9),
            a[np.triu_indices_from(a)],
            a[np.tril_indices_from(a, 1)],
            a[np.ix_([1, 0], j)],
            a[np.ix_([False, True], j[:1])],
            np.ravel_multi_index((j % 2, j), (2, 4)),
            np.ravel_multi_index((j - 2, j + 1, 1), (2, 3, 4), mode=("wrap", "clip", "raise"), order="F"),
        ),
        I32,
        J,
    )


def test_indices_that_are_known() -> None:
    check(lambda a: (np.take(a, [0, 5, -1]), a[[1, 0, -1]], a[:, np.array([[0], [2]])]), I32)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a: a[a > 0], "a mask picks as many"),
        (np.nonzero, "size of its result depends on data"),
        (lambda a: np.where(a > 0), "condition alone"),
        (lambda a: np.compress(a[0] > 0, a, axis=1), "size of its result depends on data"),
        (lambda a: np.triu_indices_from(a[0]), "has 1 dimensions"),
        (np.ix_, "have one dimension"),
        (lambda a: np.take(a, [4], axis=1), "an index is 4"),
        (lambda a: np.unravel_index(a * 0.5, (9,)), "places are integers, and these are f64"),
        (lambda a: a[True], "a bool is no index"),
        (lambda a: a[9], "out of bounds for axis 0 with size 2"),
        (lambda a: a[:, :, 0], "too many indices"),
        (lambda a: a[: a[0, 0]], "bound is computed from data"),
    ],
)
def test_what_cannot_be_traced_is_said(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(I32)

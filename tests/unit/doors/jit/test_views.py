"""Elements assigned, and views: what is written through one name is seen through the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

R = np.random.default_rng(3)
A = R.standard_normal((5, 6)).astype(np.float32)
ROWS, COLUMNS = np.array([3, 0, 3, -1]), np.array([1, 5, 1, 0])
Written = Callable[[Any], Any]
WRITES: dict[str, Written] = {}


def writes(function: Written) -> Written:
    WRITES[function.__name__] = function
    return function


@writes
def slices(y: Any) -> Any:
    y[1:-1, 1:-1] = 2 * y[2:, 1:-1] - y[:-2, 1:-1]
    y[0] = 0
    y[-1, ::2] = y[0, 1::2] + 1
    y[:, 0] += 1
    y[1:4:2, ::-2] = np.arange(3)
    y[3:1:-1, 2] = [7, 8]
    return y


@writes
def broadcast(y: Any) -> Any:
    y[...] = y[0]
    y[1:3] = np.ones((1, 1, 6))
    y[None, 2] = y[None, :1, :] * 3
    y[4:2] = 5
    return y


@writes
def overlapping(y: Any) -> Any:
    y[1:] = y[:-1]
    y[:, :-1] += y[:, 1:]
    return y


@writes
def through_views(y: Any) -> Any:
    inner = y[1:-1]
    turned, flat = inner.T, y.reshape(-1)
    turned[0] = 9
    flat[::7] *= 2
    inner[0, 1:3] = -1
    np.flip(y, 1)[0] = 4
    first, second = np.split(y, [2])
    second[:] = first[:1]
    return y, inner, turned, flat, np.squeeze(y[:1])


@writes
def views_of_functions(y: Any) -> Any:
    same, turned = y.astype(y.dtype, copy=False), np.einsum("ji", y)
    (one, other), diagonals = np.broadcast_arrays(y, y), (np.diagonal(y, 1), np.einsum("ii->i", y[:, :5]))
    same[0], turned[1], one[2], other[3] = 1, 2, 3, 4
    y[:, 2] += 5
    return y, same, turned, one, diagonals


@writes
def raveled(y: Any) -> Any:
    column, rows = y[:, 1:2], y[1:3]
    found = column.ravel(), column.reshape(-1), rows.ravel(), np.ravel(y, "F"), np.ravel(y.T, "F")
    for n, flat in enumerate(found):
        flat[n] = 9 + n
    return y, found


@writes
def copies(y: Any) -> Any:
    flat, turned, same = y.flatten(), y.T.reshape(-1), y[[0, 1]]
    y[0] = 3
    flat[0], turned[1], same[0] = 1, 2, 4
    return y, flat, turned, same


@writes
def by_indices(y: Any) -> Any:
    y[ROWS] = y[:4] * 2
    y[ROWS, COLUMNS] = [1, 2, 3, 4]
    y[:, COLUMNS] = 5
    y[1, COLUMNS] = y[ROWS, 0]
    y[[0, 2], 1:3] += 10
    y[COLUMNS[:, None] % 5, ROWS] = np.arange(4)
    return y


@writes
def by_known_masks(y: Any) -> Any:
    y[np.arange(5) % 2 == 0] = np.arange(18).reshape(3, 6)
    y[:, np.arange(6) > 3] = y[:, :2]
    return y


@writes
def by_masks(y: Any) -> Any:
    y[y < 0] = 0
    y[y > 1] = y[y > 1] * 2 + 1
    y[y.sum(1) > 2] = np.arange(6)
    y[:, y[0] > 0.5] -= 3
    y[1:3][y[1:3] > 0] = 7
    return (
        y,
        y[y > 1].sum(),
        y[y > 1].mean(),
        np.max(y[y > 0]),
        y[y[:, 0] > 0].sum(axis=0),
        y[y[:, 5] > -99].mean(0),
        np.sqrt(y[y > 0]).std(),
        y[y > 1].astype(int).sum(),
    )


@writes
def by_functions(y: Any) -> Any:
    np.add.at(y, (ROWS, COLUMNS), 2)
    np.multiply.at(y, ROWS, 3)
    np.maximum.at(y[:, 1], COLUMNS[:3] % 5, 100)
    np.put_along_axis(y, np.argmax(y, 1, keepdims=True), 0, 1)
    np.fill_diagonal(y, 6)
    np.copyto(y, 1, where=y > 90)
    np.putmask(y, y < -1, -1)
    np.place(y, y == 2, [4])
    np.put(y, [0, -1], [7, 8])
    np.add(y[0], 1, out=y[1])
    y[2].fill(8)
    y[3].sort()
    return y


@pytest.mark.parametrize("name", WRITES)
def test_elements_are_assigned_as_by_numpy(name: str) -> None:
    check(lambda x: WRITES[name](x.copy()), A, tolerance=1e-5)


def test_assigned_elements_are_of_the_array_s_type() -> None:
    def cast(x: Any) -> Any:
        y = x.copy()
        y[0], y[1] = 2.7, x[0] * 0.5
        return y

    check(cast, A.astype(np.int32))


def filled(x: Any) -> Any:
    """Rows of a new array, one by one; NumPy itself makes it of the traced array's kind."""
    made = np.zeros_like(x, shape=(5, 2))
    for n, row in enumerate(x):
        made[n, 0], made[n, 1] = row.sum(), row.max()
    return made


def test_a_new_array_is_filled() -> None:
    check(filled, A)


def is_compiled(x: Any) -> Any:
    y = x.copy()
    y[1:-1, 1:-1] = 0.25 * (x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2])
    y[y > 1] = 1
    y[[0, 1], [2, 3]] = 9
    return y


def test_what_is_assigned_runs() -> None:
    np.testing.assert_allclose(ms.jit(is_compiled)(A), is_compiled(A), rtol=1e-6)


def argument(x: Any) -> Any:
    x += 1
    return x


def view_of_argument(x: Any) -> Any:
    x[1:][0] = 2
    return x


def broadcast_view(x: Any) -> Any:
    y = np.broadcast_to(x.copy()[0], (2, 6))
    y[0] = 1
    return y


def into_numpy(x: Any) -> Any:
    y = np.zeros((5, 6))
    y[0] = x[0]
    return y


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (argument, r"(?s)an argument is written, or a view of one.*x\.copy\(\)"),
        (view_of_argument, "an argument is written"),
        (broadcast_view, "read-only"),
        (lambda x: np.einsum("ii->i", x.copy()[:, :5]).fill(1), "read-only"),
        (into_numpy, r"np\.zeros\(shape, like=x\)"),
        (
            lambda x: np.add.at(np.zeros(6), ROWS, x[0, :4]),
            r"np\.add\.at writes what is traced into an array of NumPy's",
        ),
        (lambda x: x.copy().__setitem__(slice(0, 2), np.ones((3, 6))), "could not broadcast|do not broadcast"),
        (lambda x: x.copy().__setitem__(x > 0, np.ones(30)), "as many elements are assigned as a mask"),
        (lambda x: x.copy().__setitem__(x > 0, x[x < 0]), "of one mask are assigned to those of another"),
        (lambda x: x[x > 0], "what a mask of data picks is returned"),
        (lambda x: np.sort(x[x > 0]), r"np\.sort of what a mask picks"),
        (lambda x: x[x > 0] + x[0], "meets an array that is not picked by it"),
        (lambda x: len(x[x > 0]), "a size that depends on data"),
        (lambda x: x[x > 0, [0]], "does not match"),
    ],
)
def test_what_cannot_be_written_is_said(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(A)

"""Elements moved, joined, split and repeated, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support.traced_functions import check

A = np.arange(6, dtype=np.float32).reshape(2, 3)
C = np.arange(12, dtype=np.int64).reshape(2, 3, 2)

CASES: dict[str, Any] = {
    "reshape": lambda a: (a.reshape(3, -1), a.reshape((6,)), np.reshape(a, (1, 2, 3)), a.ravel(), a.flatten()),
    "transpose": lambda a: (a.T, a.transpose(1, 0), np.transpose(a[None], (2, 0, 1)), a.swapaxes(0, -1)),
    "moveaxis": lambda a: (np.moveaxis(a[None], 0, -1), np.moveaxis(a[None], (0, 1), (2, 0))),
    "one": lambda a: (np.expand_dims(a, (0, 2)), a[None].squeeze(), np.squeeze(a[:, None], 1), np.atleast_2d(a[0])),
    "broadcast": lambda a: (np.broadcast_to(a, (2, 2, 3)), *np.broadcast_arrays(a, a[:, :1])),
    "concatenate": lambda a: (np.concatenate([a, a], 1), np.concatenate([a, a > 0], None), np.append(a, a[0])),
    "stack": lambda a: (np.stack([a, a], -1), np.vstack([a, a[0]]), np.hstack([a, a]), np.column_stack([a, a[:, 0]])),
    "split": lambda a: (np.split(a, 3, 1), np.split(a, [1], axis=1), np.array_split(a, 2, 1)),
    "repeat": lambda a: (np.tile(a, (2, 1, 2)), np.repeat(a, 2, axis=0), a.repeat(3), np.repeat(a, [1, 2], axis=0)),
    "turn": lambda a: (np.flip(a), np.flip(a, 1), np.fliplr(a), np.flipud(a)),
    "roll": lambda a: (np.roll(a, 1), np.roll(a, -4, axis=1), np.roll(a, (1, 2), axis=(0, 1))),
    "triangles": lambda a: (np.tril(a), np.triu(a, 1), np.diagonal(a, 1), np.trace(a)),
    "of matrices": lambda a: (np.linalg.diagonal(a[None], offset=1), np.linalg.trace(a[None], offset=-1)),
    "fortran": lambda a: (a.reshape(3, 2, order="F"), np.ravel(a, "F")),
    "diff": lambda a: (np.diff(a), np.diff(a, 2, axis=1), np.diff(a > 2)),
    "diff with ends": lambda a: (
        np.diff(a, prepend=0),
        np.diff(a, 2, axis=0, prepend=a[:1], append=a[0, 0]),
        np.diff(a, 0, append=1),
    ),
    "parts in a row": lambda a: (np.ravel(a[:, :2]), a[:, 1].ravel(), a[:, 1:].flatten(), np.diagflat(a[:, 1:])),
    "type": lambda a: (a.astype(np.int8), a.astype("f8"), np.copy(a), a.copy()),
    "nothing": lambda a: (a[:0], np.concatenate([a[:0], a]), a[:, :0].sum(1)),
    "parts of nothing": lambda a: (
        np.diagonal(a[:0]),
        np.trace(a[:0]),
        np.repeat(a[:0], 2),
        a[:0][np.arange(0)],
    ),
    "of rows": lambda a: (np.tril(a[0]), np.triu(a[0], 1), np.repeat(a[0, 0], 2, axis=-1)),
}


@pytest.mark.parametrize("name", CASES)
def test_elements_are_moved_as_by_numpy(name: str) -> None:
    check(CASES[name], A)


def test_of_three_dimensions() -> None:
    check(lambda c: (c.transpose(2, 0, 1), c.mT, np.diagonal(c, -1, 1, 2), np.moveaxis(c, 0, -1)), C)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a: a.reshape(4, -1), "cannot reshape array of size 6"),
        (lambda a: a.reshape(3, 2, order="A"), "C's order"),
        (lambda a: np.concatenate([a, a], 2), "axis 2 is out of bounds"),
        (lambda a: np.stack([a, a.T]), "same shape"),
        (lambda a: np.split(a, 2, 1), "equal division"),
        (lambda a: np.broadcast_to(a, (2, 4)), "do not broadcast"),
        (lambda a: np.squeeze(a, 0), "size not equal to one"),
        (lambda a: a.T @ a.T, "inner sizes"),
    ],
)
def test_what_numpy_refuses_is_refused(function: Any, message: str) -> None:
    with pytest.raises(ms.TraceError, match=message):
        ms.jit(function).graph(A)

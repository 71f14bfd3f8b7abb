"""Elements moved and repeated, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.onnx_models import random, run

X = random(2, 3, 4)


def ints(*values: int) -> Any:
    return np.array(values, np.int64)


def test_axes_are_permuted() -> None:
    np.testing.assert_array_equal(run("Transpose", X), X.T)
    np.testing.assert_array_equal(run("Transpose", X, perm=[1, 0, 2]), X.transpose(1, 0, 2))


def test_tensors_are_joined_and_empty_ones_skipped() -> None:
    empty = np.zeros((2, 0, 4), np.float32)
    np.testing.assert_array_equal(run("Concat", X, empty, -X, axis=-2), np.concatenate([X, -X], 1))
    np.testing.assert_array_equal(run("Concat", empty, X, axis=1), X)


def test_tensors_are_split() -> None:
    x = random(7)
    first, second, third = run("Split", x, outputs=3, num_outputs=3)
    np.testing.assert_array_equal(np.concatenate([first, second, third]), x)
    assert third.shape == (1,)
    first, second = run("Split", x, ints(2, 5), constants=(1,), outputs=2)
    np.testing.assert_array_equal(second, x[2:])


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ((ints(1), ints(1000), ints(2), ints(2)), np.s_[:, :, 1::2]),
        ((ints(-1), ints(-1000), ints(1), ints(-1)), np.s_[:, ::-1]),
        ((ints(3, 0), ints(0, 1), ints(2, 0), ints(-2, 1)), np.s_[:1, :, 3:0:-2]),
        ((ints(2), ints(1), ints(1), ints(1)), np.s_[:, 2:1]),
    ],
)
def test_parts_are_taken(part: tuple[Any, ...], expected: Any) -> None:
    np.testing.assert_array_equal(run("Slice", X, *part, constants=(1, 2, 3, 4)), X[expected])


def test_elements_are_repeated() -> None:
    np.testing.assert_array_equal(
        run("Expand", X[:, :1], ints(3, 1), constants=(1,)), np.broadcast_to(X[:, :1], (2, 3, 4))
    )
    np.testing.assert_array_equal(run("Tile", X, ints(1, 2, 2), constants=(1,)), np.tile(X, (1, 2, 2)))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(mode: str) -> None:
    x = random(1, 8, 2, 3)
    axes = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
    parts = x.reshape((1, 2, 2, 2, 2, 3)).transpose(axes).reshape(1, 2, 4, 6)
    made = run("DepthToSpace", x, blocksize=2, mode=mode)
    np.testing.assert_array_equal(made, parts)
    if mode == "DCR":
        np.testing.assert_array_equal(run("SpaceToDepth", made, blocksize=2), x)


@pytest.mark.parametrize("k", [-1, 0, 2])
@pytest.mark.parametrize("known", [(), (1,)])
def test_triangles(k: int, known: tuple[int, ...]) -> None:
    np.testing.assert_array_equal(run("Trilu", X, np.array(k, np.int64), constants=known, upper=0), np.tril(X, k))


def test_rows_are_reversed_up_to_their_lengths() -> None:
    x = random(4, 2)
    made = run("ReverseSequence", x, ints(3, 1), time_axis=0, batch_axis=1)
    np.testing.assert_array_equal(made[:, 0], x[[2, 1, 0, 3], 0])
    np.testing.assert_array_equal(made[:, 1], x[:, 1])

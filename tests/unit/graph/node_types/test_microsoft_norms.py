"""Norms of ONNX Runtime, against NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support import onnx_models
from tests.support.onnx_models import integers, random

run = partial(onnx_models.run, domain="com.microsoft")
_SCALE, _BIAS = random(8, seed=7), random(8, seed=8)


def _layer(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * _SCALE + _BIAS


def _root(x: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * _SCALE


def test_norms_by_the_mean_of_squares() -> None:
    x, skip = random(2, 3, 8), random(2, 3, 8, seed=1)
    made = onnx_models.run("SimplifiedLayerNormalization", x, _SCALE, epsilon=1e-5, stash_type=1)
    np.testing.assert_allclose(made, _root(x), atol=1e-5)
    made = run("SkipSimplifiedLayerNormalization", x, skip, _SCALE, _BIAS, epsilon=1e-5)
    np.testing.assert_allclose(made, _root(x + skip + _BIAS), atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 8), (1, 3, 8), (3, 8)])
def test_norms_of_a_sum(shape: tuple[int, ...]) -> None:
    x, skip = random(2, 3, 8), random(*shape, seed=1)
    made = run("SkipLayerNormalization", x, skip, _SCALE, _BIAS, random(8, seed=2), epsilon=1e-5)
    np.testing.assert_allclose(made, _layer(x + skip + random(8, seed=2)), atol=1e-5)


def test_the_sum_is_an_output() -> None:
    x, skip = random(2, 3, 8), random(2, 3, 8, seed=1)
    node = onnx_models.node("SkipLayerNormalization", "X S G B", "Y - - U", domain="com.microsoft", epsilon=1e-5)
    free = [onnx_models.value(name, array) for name, array in (("X", x), ("S", skip))]
    whole = onnx_models.model([node], free, ("Y", "U"), {"G": _SCALE, "B": _BIAS}, domains=["com.microsoft"])
    made, total = ms.load_onnx(whole)(X=x, S=skip)
    np.testing.assert_allclose(made, _layer(x + skip), atol=1e-5)
    np.testing.assert_allclose(total, x + skip, atol=1e-6)


def test_statistics_are_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="its statistics are outputs"):
        run("SkipLayerNormalization", random(2, 3, 8), random(2, 3, 8), _SCALE, outputs=2)


@pytest.mark.parametrize("segments", [False, True])
def test_embeddings_are_added_up(segments: bool) -> None:
    words, kinds = integers(2, 5, low=0, high=9), integers(2, 5, low=0, high=2, seed=1)
    tables = random(9, 8), random(7, 8, seed=1), random(2, 8, seed=2)
    mask = np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    given = (words, kinds if segments else None, *tables[:2], tables[2] if segments else None, _SCALE, _BIAS)
    known = (2, 3, 5, 6, *((4,) if segments else ()))
    total = tables[0][words] + tables[1][:5] + (tables[2][kinds] if segments else 0)
    made = run("EmbedLayerNormalization", *given, mask, epsilon=1e-5, outputs=3, constants=known)
    np.testing.assert_allclose(made[0], _layer(total), atol=1e-5)
    np.testing.assert_array_equal(made[1], [3, 5])
    np.testing.assert_allclose(made[2], total, atol=1e-6)
    places = integers(2, 5, low=0, high=7, seed=3)
    made = run("EmbedLayerNormalization", *given, None, places, epsilon=1e-5, outputs=2, constants=known)
    np.testing.assert_allclose(made[0], _layer(total - tables[1][:5] + tables[1][places]), atol=1e-5)
    np.testing.assert_array_equal(made[1], [0, 0])

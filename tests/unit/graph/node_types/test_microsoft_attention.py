"""Attention of ONNX Runtime, against NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support import onnx_models
from tests.support.onnx_models import integers, model, node, random, value

run = partial(onnx_models.run, domain="com.microsoft")
_HEADS = 4


def _heads(x: Any) -> Any:
    return x.reshape(*x.shape[:2], _HEADS, -1).transpose(0, 2, 1, 3)


def _attended(query: Any, key: Any, value: Any, mask: Any = 0.0, scale: float | None = None) -> Any:
    scores = query @ key.swapaxes(2, 3) * (scale or query.shape[-1] ** -0.5) + mask
    power = np.exp(scores - scores.max(-1, keepdims=True))
    made = power / power.sum(-1, keepdims=True) @ value
    return made.transpose(0, 2, 1, 3).reshape(query.shape[0], query.shape[2], -1)


_X, _W, _B = random(2, 5, 12), random(12, 36, seed=1) / 4, random(36, seed=2)
_PARTS = [_heads(part) for part in np.split(_X @ _W + _B, 3, axis=2)]
_WORDS = np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
_LATE = np.triu(np.full((5, 5), -1e9), 1)


@pytest.mark.parametrize(
    ("mask", "wanted"),
    [
        (None, 0.0),
        (_WORDS, (1 - _WORDS)[:, None, None] * -1e4),
        (np.int32([3, 5]), (1 - _WORDS)[:, None, None] * -1e4),
        (np.int32([5, 5, 1, 0]), np.where(np.arange(5) < np.array([[1], [0]]), -1e4, 0)[:, None, None]),
        (np.int32(np.tril(np.ones((2, 5, 5)))), np.triu(np.full((5, 5), -1e4), 1)),
    ],
)
def test_masks_of_words_and_of_scores(mask: Any, wanted: Any) -> None:
    made = run("Attention", _X, _W, _B, mask, num_heads=_HEADS, constants=(1, 2))
    np.testing.assert_allclose(made, _attended(*_PARTS, wanted), atol=1e-5)


def test_a_mask_of_another_shape_is_refused() -> None:
    with pytest.raises(ms.RefusedModel, match=r"its mask is i32\[7\] for 2 x 5 x 5 scores"):
        run("Attention", _X, _W, _B, np.zeros(7, np.int32), num_heads=_HEADS)


def test_no_place_sees_a_later_one() -> None:
    bias = random(1, _HEADS, 5, 5, seed=3)
    made = run("Attention", _X, _W, _B, None, None, bias, num_heads=_HEADS, unidirectional=1, scale=0.3)
    np.testing.assert_allclose(made, _attended(*_PARTS, _LATE + bias, 0.3), atol=1e-5)


def test_keys_and_values_of_before_are_joined() -> None:
    past = random(2, 2, _HEADS, 3, 3, seed=4)
    made, present = run("Attention", _X, _W, _B, None, past, num_heads=_HEADS, unidirectional=1, outputs=2)
    query, key, value = _PARTS
    key, value = (np.concatenate([past[n], x], 2) for n, x in enumerate((key, value)))
    np.testing.assert_allclose(made, _attended(query, key, value, np.pad(_LATE, ((0, 0), (3, 0)))), atol=1e-5)
    np.testing.assert_allclose(present, np.stack([key, value]), atol=1e-5)


def test_values_of_another_size() -> None:
    made = run("Attention", _X, _W[:, :32], _B[:32], num_heads=_HEADS, qkv_hidden_sizes=[12, 12, 8])
    whole = np.split(_X @ _W[:, :32] + _B[:32], [12, 24], axis=2)
    np.testing.assert_allclose(made, _attended(*(_heads(part) for part in whole)), atol=1e-5)


def test_buffers_and_rotations_are_refused() -> None:
    with pytest.raises(ms.RefusedModel, match="turns queries by their places"):
        run("Attention", _X, _W, _B, num_heads=_HEADS, do_rotary=1)


_QUERY, _KEY, _VALUE = random(2, 5, 12), random(2, 7, 12, seed=5), random(2, 7, 8, seed=6)


def test_queries_keys_and_values_that_are_made_already() -> None:
    wanted = _attended(*map(_heads, (_QUERY, _KEY, _VALUE)))
    np.testing.assert_allclose(run("MultiHeadAttention", _QUERY, _KEY, _VALUE, num_heads=_HEADS), wanted, atol=1e-5)
    apart = run("MultiHeadAttention", _QUERY, _heads(_KEY), _heads(_VALUE), num_heads=_HEADS)
    np.testing.assert_allclose(apart, wanted, atol=1e-5)


def test_a_bias_a_mask_and_what_came_before() -> None:
    bias, mask = random(32, seed=7), np.int32([[1] * 6 + [0] * 4, [1] * 10])
    past = random(2, _HEADS, 3, 3, seed=8), random(2, _HEADS, 3, 2, seed=9)
    given = (_QUERY, _KEY, _VALUE, bias, mask, random(2, 1, 5, 10, seed=10), *past)
    made, key, value = run("MultiHeadAttention", *given, num_heads=_HEADS, outputs=3)
    parts = [_heads(x + b) for x, b in zip((_QUERY, _KEY, _VALUE), np.split(bias, [12, 24]), strict=True)]
    wanted = [np.concatenate([before, part], 2) for before, part in zip(past, parts[1:], strict=True)]
    for one, other in zip((key, value), wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    whole = (1 - mask)[:, None, None] * -1e4 + given[5]
    np.testing.assert_allclose(made, _attended(parts[0], *wanted, whole), atol=1e-5)


def test_packed_queries_keys_and_values() -> None:
    packed = np.stack([x.reshape(2, 5, _HEADS, 3) for x in (_QUERY, _KEY[:, :5], _KEY[:, 2:])], 3)
    wanted = _attended(*map(_heads, (_QUERY, _KEY[:, :5], _KEY[:, 2:])))
    np.testing.assert_allclose(run("MultiHeadAttention", packed, num_heads=_HEADS), wanted, atol=1e-5)
    made = run("MultiHeadAttention", _QUERY, np.ascontiguousarray(packed[:, :, :, 1:]), num_heads=_HEADS)
    np.testing.assert_allclose(made, wanted, atol=1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("first", [False, True])
def test_pairs_are_turned_by_their_places(interleaved: int, rank: int, first: bool) -> None:
    angles = random(16, 3)
    places = np.int64([4]) if first else integers(2, 5, low=0, high=16, dtype=np.int64)
    x = random(2, _HEADS, 5, 6)
    turns = np.exp(1j * angles[4:9][None] if first else 1j * angles[places])[:, None]
    pairs = x[..., 0::2] + 1j * x[..., 1::2] if interleaved else x[..., :3] + 1j * x[..., 3:]
    turned = pairs * turns
    wanted = np.stack([turned.real, turned.imag], -1 if interleaved else -2).reshape(x.shape)
    given, result = (v if rank == 4 else v.transpose(0, 2, 1, 3).reshape(2, 5, 24) for v in (x, wanted))
    tables = np.cos(angles), np.sin(angles)
    made = run("RotaryEmbedding", np.ascontiguousarray(given), places, *tables, interleaved=interleaved)
    np.testing.assert_allclose(made, result, atol=1e-5)


@pytest.mark.parametrize("interleaved", [0, 1])
def test_heads_are_turned_where_they_are(interleaved: int) -> None:
    """Neither are heads and places swapped for it, nor are pairs taken apart and joined again."""
    x, places = random(2, _HEADS, 5, 6), integers(2, 5, low=0, high=16, dtype=np.int64)
    given = {"X": x, "P": places, "C": random(16, 3), "S": random(16, 3)}
    turned = node("RotaryEmbedding", "X P C S", domain="com.microsoft", interleaved=interleaved)
    inputs = [value(name, array) for name, array in given.items()]
    network = ms.load_onnx(model([turned], inputs, domains=("com.microsoft",)))
    assert len(list(network.optimised.computes)) == 1


def test_a_part_of_each_head_is_turned() -> None:
    angles, places, x = random(16, 2), integers(2, 5, low=0, high=16, dtype=np.int64), random(2, 5, 24)
    tables = np.cos(angles), np.sin(angles)
    made = run("RotaryEmbedding", x, places, *tables, num_heads=_HEADS, rotary_embedding_dim=4)
    heads = x.reshape(2, 5, _HEADS, 6)
    turned = (heads[..., :2] + 1j * heads[..., 2:4]) * np.exp(1j * angles[places])[:, :, None]
    wanted = np.concatenate([turned.real, turned.imag, heads[..., 4:]], -1)
    np.testing.assert_allclose(made, wanted.reshape(x.shape), atol=1e-5)

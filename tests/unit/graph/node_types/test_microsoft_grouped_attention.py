"""Attention whose queries share keys and values, against NumPy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import metasched as ms
from tests.support import onnx_models
from tests.support.onnx_models import random

run = partial(onnx_models.run, "GroupQueryAttention", domain="com.microsoft", num_heads=4, kv_num_heads=2)
_SIZE = 6
_ANGLES = random(32, _SIZE // 2)
_TABLES = np.cos(_ANGLES), np.sin(_ANGLES)


def _heads(x: Any, count: int) -> Any:
    return x.reshape(*x.shape[:2], count, _SIZE).transpose(0, 2, 1, 3)


def _turned(x: Any, first: int) -> Any:
    """Heads of one text whose first place is `first`, turned by their places."""
    half = _SIZE // 2
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * _ANGLES[first : first + x.shape[-2]])
    return np.concatenate([pairs.real, pairs.imag], -1)


def _expected(query: Any, key: Any, value: Any, past: Any, lengths: list[int], turns: bool) -> Any:
    """Results and keys of each text by itself; `lengths` are of what came before."""
    results, keys = [], []
    for n, before in enumerate(lengths):
        q, k, v = _heads(query, 4)[n], _heads(key, 2)[n], _heads(value, 2)[n]
        if turns:
            q, k = _turned(q, before), _turned(k, before)
        if before:
            k, v = (np.concatenate([p[n, :, :before], x], 1) for p, x in zip(past, (k, v), strict=True))
        keys.append(k)
        places = q.shape[1]
        scores = q @ np.repeat(k, 2, 0).swapaxes(1, 2) / np.sqrt(_SIZE)
        scores = np.where(np.arange(k.shape[1]) > np.arange(places)[:, None] + before, -np.inf, scores)
        power = np.exp(scores - scores.max(-1, keepdims=True))
        made = power / power.sum(-1, keepdims=True) @ np.repeat(v, 2, 0)
        results.append(made.transpose(1, 0, 2).reshape(places, -1))
    return np.stack(results), keys


def _made(batch: int, places: int) -> list[Any]:
    return [random(batch, places, heads * _SIZE, seed=n) for n, heads in enumerate((4, 2, 2))]


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_a_prompt(turns: bool, packed: bool) -> None:
    parts = _made(2, 5)
    given = [np.concatenate(parts, 2), None, None] if packed else parts
    tables = _TABLES if turns else ()
    lengths = np.int32([4, 4])
    made, key, _ = run(*given, None, None, lengths, np.int32(5), *tables, do_rotary=turns, outputs=3, constants=(6,))
    wanted, keys = _expected(*parts, None, [0, 0], turns)
    np.testing.assert_allclose(made, wanted, atol=1e-5)
    np.testing.assert_allclose(key, keys, atol=1e-5)


@pytest.mark.parametrize("capacity", [6, 10], ids=["grows", "in a buffer"])
@pytest.mark.parametrize("places", [1, 3])
def test_texts_of_different_lengths_go_on(capacity: int, places: int) -> None:
    parts, past = _made(2, places), [random(2, 2, capacity, _SIZE, seed=7 + n) for n in range(2)]
    lengths, total = [6, 3], 6 + places
    given = (*parts, *past, np.int32(lengths) + places - 1, np.int32(total), *_TABLES)
    made, key, value = run(*given, do_rotary=1, outputs=3, constants=(6,))
    wanted, keys = _expected(*parts, past, lengths, True)
    np.testing.assert_allclose(made, wanted, atol=1e-5)
    assert key.shape == value.shape == (2, 2, max(total, capacity), _SIZE)
    for n, one in enumerate(keys):
        np.testing.assert_allclose(key[n, :, : one.shape[1]], one, atol=1e-5)
        assert not key[n, :, one.shape[1] :].any()


def test_places_that_are_given() -> None:
    parts, past = _made(1, 1), [random(1, 2, 4, _SIZE, seed=7 + n) for n in range(2)]
    given = (*parts, *past, np.int32([4]), np.int32(5), *_TABLES)
    made = run(*given, np.int64([[4]]), do_rotary=1, constants=(6,))
    np.testing.assert_allclose(made, run(*given, do_rotary=1, constants=(6,)), atol=1e-6)


def test_what_cannot_be_is_refused_with_a_reason() -> None:
    given = (*_made(1, 5), None, None, np.int32([4]), np.int32(5))
    with pytest.raises(ms.RefusedModel, match="total length, `X6`, is computed from data"):
        run(*given)
    with pytest.raises(ms.RefusedModel, match="its `local_window_size` is 4, and only -1 is known"):
        run(*given, local_window_size=4, constants=(6,))
    with pytest.raises(ms.RefusedModel, match="it has a bias of scores, sinks"):
        run(*given, None, None, None, random(1, 1, 5, 5), constants=(6,))

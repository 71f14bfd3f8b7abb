"""Sequences of whole numbers, against ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import metasched as ms
from tests.support.onnx_models import integers, model, node, value

POOL: dict[str, Any] = {
    "min_gram_length": 1,
    "max_gram_length": 3,
    "max_skip_count": 1,
    "mode": "TF",
    "ngram_counts": [0, 3, 7],
    "ngram_indexes": [4, 0, 2, 1, 3, 6],
    "pool_int64s": [2, 3, 5, 2, 3, 1, 1, 1, 2, 3],
}


def check(x: Any, **changes: Any) -> None:
    made = model([node("TfIdfVectorizer", "x", **{**POOL, **changes})], [value("x", x)])
    np.testing.assert_array_equal(ms.load_onnx(made)(x), ReferenceEvaluator(made).run(None, {"x": x})[0])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("shape", [(12,), (3, 12), (2, 1)])
def test_sequences_are_counted(shape: tuple[int, ...], mode: str) -> None:
    check(integers(*shape, low=1, high=4), mode=mode, weights=[0.5, 1, 1.5, 2, 2.5, 3, 3.5])


@pytest.mark.parametrize(("least", "most", "skipped"), [(2, 2, 0), (2, 3, 4), (1, 1, 0), (3, 3, 2)])
def test_lengths_and_distances(least: int, most: int, skipped: int) -> None:
    x = integers(4, 15, low=1, high=4).astype(np.int64)
    check(x, min_gram_length=least, max_gram_length=most, max_skip_count=skipped)


def test_without_weights_they_are_one() -> None:
    x = integers(3, 12, low=1, high=4).astype(np.int64)
    counts, found = (
        ms.load_onnx(model([node("TfIdfVectorizer", "x", **{**POOL, "mode": mode})], [value("x", x)]))(x)
        for mode in ("TF", "IDF")
    )
    np.testing.assert_array_equal(found, counts > 0)


def test_sequences_may_share_a_column() -> None:
    check(integers(4, 15, low=1, high=4).astype(np.int64), ngram_indexes=[0, 1, 2, 0, 1, 2])


def test_what_is_no_pool_is_refused() -> None:
    x = integers(4).astype(np.int64)
    for changes, reason in (
        ({"ngram_indexes": [0]}, "its pool has 6 sequences, and it has 1 `ngram_indexes`"),
        ({"ngram_counts": [0, 30]}, "are no parts of a pool of 10 numbers"),
        ({"ngram_indexes": [0, 1, 2, 3, 4, 10**9]}, "its result has 1000000001 columns"),
        ({"ngram_indexes": [-1, 1, 2, 3, 4, 5]}, "are no columns"),
    ):
        with pytest.raises(ms.RefusedModel, match=reason):
            ms.load_onnx(model([node("TfIdfVectorizer", "x", **{**POOL, **changes})], [value("x", x)]))

"""Ensembles of trees are timed, with and without a peer."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import metasched as ms
from benchmarks import trees
from benchmarks.registry import Options


def test_trees_are_whole() -> None:
    model = trees.Forest(3, 4, 5).model()
    x = np.random.default_rng(0).standard_normal((7, 5), np.float32)
    wanted = ReferenceEvaluator(model).run(None, {"X": x})[0]
    np.testing.assert_allclose(ms.load_onnx(model, rows=7)(x), wanted, rtol=1e-5, atol=1e-5)


def test_without_a_peer_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "FORESTS", (trees.Forest(2, 2, 3),))
    monkeypatch.setattr(trees, "_MOST_CALLS", 3)
    lines = list(trees.run(Options(quick=True)))
    assert [line["case"] for line in lines] == [f"2 trees of 2 levels, 3 columns, {rows} rows" for rows in (1, 32)]
    assert all("no peer" in str(line["notes"]) for line in lines)

"""What depends on constants alone is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.graph.builder import GraphBuilder, NodeOrigin
from metasched.graph.ir import Graph
from metasched.graph.passes import constant_folding as constant_folding_module
from metasched.graph.passes.constant_folding import compute_outputs, constant_folding
from metasched.graph.value_type import ValueType
from metasched.runtime.compiled import build
from metasched.target import Target
from tests.support.graphs import context
from tests.support.targets import pretend_lacking


def _weighted(rows: int) -> Graph:
    """`x + transposed weights`, with weights too large for the importer to look at them."""
    builder = GraphBuilder()
    weights = np.arange(rows * 5000, dtype=np.float32).reshape(rows, 5000)
    x = builder.input("x", ValueType(DType.F32, (5000, rows)))
    w = builder.constant("w", weights, ValueType(DType.F32, weights.shape))
    origin = NodeOrigin("t", "Transpose", "t")
    (t,) = builder.program(origin, ["Y[i, j] = W[j, i]"], {"Y": ValueType(DType.F32, (5000, rows))}, {"W": w})
    origin = NodeOrigin("y", "Add", "y")
    (y,) = builder.program(origin, ["Y[i, j] = A[i, j] + B[i, j]"], {"Y": x.type}, {"A": x, "B": t})
    return builder.graph("weighted", [("y", y)])


def test_weights_are_transposed_ahead() -> None:
    graph = _weighted(2)
    made = constant_folding(graph, context())
    assert [node.name for node in made.computes] == ["y"]
    assert list(made.constants) == ["t"], "the weights themselves are let go"
    np.testing.assert_array_equal(made.constants["t"], graph.constants["w"].T)
    (node,) = made.computes
    assert [argument.name for argument in node.program.inputs if argument.const] == ["B"], "weights from now on"


def test_what_is_larger_than_what_it_is_made_of_is_not_kept() -> None:
    builder = GraphBuilder()
    x = builder.input("x", ValueType(DType.F32, (3, 50_000)))
    wide = ValueType(DType.F32, (3, 50_000))
    (t,) = builder.program(NodeOrigin("t", "Expand", "t"), ["Y[i, j] = 2.0"], {"Y": wide}, {})
    (y,) = builder.program(NodeOrigin("y", "Add", "y"), ["Y[i, j] = A[i, j] + B[i, j]"], {"Y": wide}, {"A": x, "B": t})
    graph, given = builder.graph("wide", [("y", y)]), context()
    assert len(list(constant_folding(graph, given).computes)) == 2
    assert "not computed ahead: `t`" in given.remarks[0]


def test_constants_of_what_is_for_a_cpu_with_more_are_computed_by_code_for_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[Target] = []

    def recording_build(func: Any, target: Target) -> Any:
        used.append(target)
        return build(func, target)

    monkeypatch.setattr(constant_folding_module, "build", recording_build)
    far = pretend_lacking(monkeypatch, "avx")
    graph = _weighted(4)
    transposed = next(iter(graph.computes))
    (made,) = compute_outputs(transposed.program, [graph.constants["w"]], far)
    np.testing.assert_array_equal(made, graph.constants["w"].T)
    assert used == [Target.detect(far.threads)]


def _rows_masked(extent: int) -> Graph:
    """`x` where no row of a mask of all pairs hides the row as a whole; the mask is much larger than the places."""
    builder = GraphBuilder()
    square, rows = ValueType(DType.F32, (extent, extent)), ValueType(DType.F32, (extent,))
    x = builder.input("x", rows)
    place = builder.constant("place", np.arange(extent, dtype=np.float32), rows)
    text = "Y[i, j] = 0.0 if P[j] <= P[i] else -inf"
    (mask,) = builder.program(NodeOrigin("mask", "Less", "mask"), [text], {"Y": square}, {"P": place})
    viewed = builder.view(NodeOrigin("viewed", "Reshape", "viewed"), mask, (extent, 1, extent))
    text = f"Y[i] = max[r < {extent}](M[i, 0, r])"
    (largest,) = builder.program(NodeOrigin("largest", "ReduceMax", "largest"), [text], {"Y": rows}, {"M": viewed})
    (y,) = builder.program(NodeOrigin("y", "Add", "y"), ["Y[i] = A[i] + B[i]"], {"Y": rows}, {"A": x, "B": largest})
    return builder.graph("rows_masked", [("y", y)])


def test_what_is_small_is_computed_ahead_of_what_is_too_large_to_be_kept() -> None:
    graph = _rows_masked(300)
    made = constant_folding(graph, context())
    assert [node.name for node in made.computes] == ["y"]
    assert list(made.constants) == ["largest"]
    np.testing.assert_array_equal(made.constants["largest"], np.zeros(300, np.float32))


def test_what_would_take_much_memory_is_not_computed_even_for_what_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constant_folding_module, "_MOST_LET_GO", 4 * 300 * 300 - 1)
    made = constant_folding(_rows_masked(300), context())
    assert [node.name for node in made.computes] == ["mask", "largest", "y"]

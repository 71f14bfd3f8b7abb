"""Padded copies have no rows that nothing reads."""

from __future__ import annotations

import numpy as np
import onnx.helper
import onnx.numpy_helper
import pytest

import metasched as ms
from metasched.graph.ir import Graph
from metasched.graph.passes.padding_terms import padding_terms
from metasched.graph.passes.unread_rows import unread_rows
from tests.support.graphs import context, require_equal


def convolution(shape: tuple[int, ...], taps: tuple[int, ...], **attributes: object) -> Graph:
    """The graph of one convolution without terms for rows of padding."""
    weights = np.random.default_rng(0).standard_normal((3, shape[1], *taps)).astype(np.float32)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    given = onnx.helper.make_tensor_value_info("x", 1, shape)
    made = onnx.helper.make_tensor_value_info("y", 1, [None] * len(shape))
    graph = onnx.helper.make_graph([node], "m", [given], [made], [onnx.numpy_helper.from_array(weights, "w")])
    return padding_terms(ms.load_onnx(onnx.helper.make_model(graph, ir_version=10)).graph, context())


def passed(graph: Graph) -> Graph:
    made = unread_rows(graph, context())
    made.validate()
    require_equal(graph, made)
    return made


def copied(graph: Graph) -> tuple[int, ...]:
    """The shape of the padded copy of the one convolution."""
    (temporary,) = (temporary for node in graph.computes for temporary in node.program.func.temps)
    return tuple(extent.value for extent in temporary.shape)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("shape", "taps", "attributes", "expected"),
    [
        ((1, 2, 9, 8), (3, 3), {"pads": [6, 6, 6, 6], "dilations": [6, 6]}, (9, 20)),
        # Every second row; conditions do not say that those before and after are not among them.
        ((1, 2, 15, 14), (3, 3), {"pads": [8, 8, 8, 8], "dilations": [8, 8], "strides": [2, 2]}, (17, 30)),
        # Rows of padding after the last alone.
        ((1, 2, 9, 4), (2, 2), {"pads": [0, 0, 8, 1], "dilations": [8, 1]}, (9, 5)),
        ((1, 1, 7, 8, 9), (3, 3, 3), {"pads": [6, 7, 8] * 2, "dilations": [6, 7, 8]}, (7, 8, 25)),
    ],
    ids=["dilated", "strided", "after the last", "planes and rows"],
)
def test_a_padded_copy_has_the_rows_that_are_read(
    shape: tuple[int, ...], taps: tuple[int, ...], attributes: dict[str, object], expected: tuple[int, ...]
) -> None:
    graph = convolution(shape, taps, **attributes)
    assert copied(graph)[2:] != expected
    made = passed(graph)
    assert copied(made)[2:] == expected


def test_a_few_rows_stay() -> None:
    graph = convolution((1, 2, 5, 5), (3, 3), pads=[1, 1, 1, 1])
    assert passed(graph).nodes == graph.nodes


@pytest.mark.parametrize(
    ("taps", "stride", "dilation", "padding", "extent"),
    [(3, 2, 2, 1, 5), (3, 2, 2, 3, 7), (3, 2, 4, 3, 8), (3, 3, 3, 2, 8), (2, 3, 1, 2, 7), (2, 2, 2, 1, 6)],
)
def test_rows_that_multiples_pass_over(taps: int, stride: int, dilation: int, padding: int, extent: int) -> None:
    """The first row that the condition allows, or the last, is read by no term: bounds of the index allow it."""
    ways = {"strides": [stride] * 2, "dilations": [dilation] * 2, "pads": [padding] * 4}
    passed(convolution((1, 1, extent, extent), (taps, taps), **ways))

"""What two graphs of one model at different sizes differ in."""

from __future__ import annotations

import onnx.parser
import pytest

import metasched as ms
from metasched.graph.buckets.comparison import DimPlace, NotAlike, differences
from metasched.graph.ir import Graph

HEAD = '<ir_version: 10, opset_import: ["": 22]> m '


def graph_of(text: str, **sizes: int) -> Graph:
    return ms.load_onnx(onnx.parser.parse_model(HEAD + text), **sizes).graph


def test_sizes_are_numbers_at_places() -> None:
    text = "(float[2, n] x) => (y) { t = Exp(x) y = Transpose(t) }"
    found = differences(graph_of(text, n=7), graph_of(text, n=5)).numbers
    assert found[DimPlace("x", 1)] == found[DimPlace("y", 0)] == 5
    assert set(found.values()) == {5}


def test_a_kernel_that_is_a_view_at_another_size() -> None:
    text = "(float[2, n] x) => (y) { t = Transpose(x) y = Exp(t) }"
    with pytest.raises(NotAlike, match="`t`, Transpose, is a kernel in one, a view in the other"):
        differences(graph_of(text, n=3), graph_of(text, n=1))

"""Which states are updated where they lie, and what it takes to find that out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import onnx
import pytest

from metasched.graph.ir import InPlace, Node
from metasched.graph.passes.states import states
from metasched.graph.running.state import with_states
from tests.support.graphs import context, network


class _Walked(tuple[Node, ...]):
    """The nodes of a graph, and how often somebody went through all of them."""

    walks = 0

    def __iter__(self) -> Iterator[Node]:
        type(self).walks += 1
        return super().__iter__()


def walks(views: int) -> int:
    """How often the pass goes through the nodes of a graph of two states that are read by others, and some views."""
    body = "".join(
        f"n{s} = TensorScatter<axis = 1>(s{s}, u, p)  d{s} = Sub(n{s}, s{s})  v{s}x0 = Reshape(s{s}, flat)  "
        + "".join(f"v{s}x{n + 1} = Reshape(v{s}x{n}, {'flat' if n % 2 else 'tall'})  " for n in range(views))
        for s in range(2)
    )
    outputs = ", ".join(f"n{s}, d{s}, v{s}x{views}" for s in range(2))
    made = network(
        f"m (float[1, 3, 2] u, int64[1] p, float[1, 4, 2] s0, float[1, 4, 2] s1) => ({outputs})"
        f" <int64[1] flat = {{8}}, int64[2] tall = {{4, 2}}> {{ {body} }}",
        opset=24,
    ).graph
    graph = with_states(made, {"s0": "n0", "s1": "n1"})
    graph = replace(graph, nodes=_Walked(graph.nodes))
    _Walked.walks = 0
    found = states(graph, context())
    assert not any(isinstance(node, InPlace) for node in found.nodes)
    return _Walked.walks


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 24, reason="the installed onnx does not know TensorScatter")
def test_views_are_gone_through_once_a_state() -> None:
    assert walks(20) == walks(2) <= 2 * 6


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 24, reason="the installed onnx does not know TensorScatter")
def test_one_place_of_the_innermost_dimension_is_written() -> None:
    made = network(
        """m (float[1, 3, 1] u, int64[1] p, float[1, 3, 4] s) => (n, y) {
            n = TensorScatter<axis = 2>(s, u, p)  y = Neg(n) }""",
        opset=24,
    ).graph
    found = states(with_states(made, {"s": "n"}), context())
    found.validate()
    (place,) = (part for part in found.parts.values() if part.position is not None)
    assert place.strides == (12, 4, 1)

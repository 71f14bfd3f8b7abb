"""Kernels hand bytes to one another where they would hand what is made of them."""

from __future__ import annotations

import numpy as np

import metasched as ms
from metasched.dtypes import DType
from metasched.graph.ir import Graph
from metasched.graph.passes.pipeline import PassOptions, optimise_graph
from metasched.target import Target
from tests.support.graphs import by_reference, random_inputs
from tests.support.onnx_models import model, node, random, value

SCALES = {"s": np.float32(0.05), "z": np.array(7, np.uint8), "w": random(8, 8)}
QDQ = [node("QuantizeLinear", "a s z", "q"), node("DequantizeLinear", "q s z", "d")]


def handed(last: list[object], outputs: tuple[str, ...] = ("Y",)) -> Graph:
    """The graph of a product whose rounded result others read; raises AssertionError where the pass changes results."""
    nodes = [node("MatMul", "X w", "a"), *QDQ, *last]
    graph = ms.load_onnx(model(nodes, [value("X", random(4, 8))], outputs, SCALES)).graph
    made, plain = (
        optimise_graph(graph, PassOptions(Target.detect(), frozenset(without))) for without in ((), ("bytes_between",))
    )
    inputs = random_inputs(graph)
    for a, b in zip(by_reference(made, inputs), by_reference(plain, inputs), strict=True):
        np.testing.assert_array_equal(a, b)
    return made


def between(graph: Graph) -> list[DType]:
    results = {name for _, name in graph.outputs}
    return [graph.types[name].dtype for n in graph.computes for name in n.outputs if name not in results]


def test_bytes_are_written_and_their_readers_make_floats_of_them() -> None:
    graph = handed([node("Softmax", "d", "e"), node("MatMul", "d w", "f"), node("Add", "e f")])
    assert between(graph).count(DType.U8) == 1
    texts = [str(n.program) for n in graph.computes]
    assert sum("i32(" in text for text in texts) == 2


def test_a_result_of_the_network_stays_what_it_is() -> None:
    graph = handed([node("Softmax", "d")], ("d", "Y"))
    assert graph.types[dict(graph.outputs)["d"]].dtype is DType.F32

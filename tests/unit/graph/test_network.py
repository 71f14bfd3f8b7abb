"""A network as its users hold it, and the graph that it prints."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.graph.ir import GraphError
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.value_type import ValueType
from tests.support.onnx_models import model, node, random, value
from tests.support.targets import pretend_lacking

A, B = random(2, 3), random(2, 3, seed=1)


def two_inputs() -> ms.Network:
    nodes = [node("Sub", "A B", "D"), node("Relu", "D", "P"), node("Neg", "D", "N"), node("Relu", "N", "Q")]
    return ms.load_onnx(model(nodes, [value("A", A), value("B", B)], outputs=("P", "Q")))


def test_inputs_are_given_by_position_or_by_name() -> None:
    network = two_inputs()
    for results in (network(A, B), network(B=B, A=A), network(A, B=B)):
        np.testing.assert_array_equal(results[0], np.maximum(A - B, 0))
        np.testing.assert_array_equal(results[1], np.maximum(B - A, 0))


def test_results_are_new_arrays() -> None:
    network = two_inputs()
    first = network(A, B)[0]
    before = first.copy()
    network(B, A)
    np.testing.assert_array_equal(first, before)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((A,), r"takes \(A: f32\[2, 3\], B: f32\[2, 3\]\), and 1 input is given"),
        ((A, B.astype(np.float64)), "the input `B` is f32"),
        ((A, B.T), "the input `B` is f32"),
        ((A, "b"), "`B` is f32.*and a str is given"),
    ],
)
def test_inputs_that_do_not_fit_are_said(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ms.KernelError, match=message):
        two_inputs()(*given)


def test_strided_inputs_are_taken() -> None:
    wide = np.repeat(A, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(two_inputs()(wide, B)[0], np.maximum(A - B, 0))


def test_threads_may_call_one_network() -> None:
    network = two_inputs().compile()
    inputs = [random(2, 3, seed=n) for n in range(64)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda x: network(x, B)[0], inputs))
    for x, result in zip(inputs, results, strict=True):
        np.testing.assert_array_equal(result, np.maximum(x - B, 0))


def test_equal_programs_are_one_task() -> None:
    network = two_inputs()
    assert [len(nodes) for nodes in network.graph.tasks.values()] == [1, 2, 1]
    assert "4 kernels, 3 distinct" in repr(network)


def test_scalars_empty_tensors_and_values_that_pass_through() -> None:
    scalar, empty = np.array(3, np.float32), np.zeros((0, 3), np.float32)
    nodes = [node("Neg", "S", "P"), node("Relu", "E", "Q"), node("Identity", "S", "R")]
    network = ms.load_onnx(
        model(nodes, [value("S", scalar), value("E", empty)], ("P", "Q", "R", "C"), {"C": np.float32([1, 2])})
    )
    negative, nothing, same, constant = network(scalar, empty)
    assert (negative, same, nothing.shape) == (-3, 3, (0, 3))
    np.testing.assert_array_equal(constant, [1, 2])
    assert network(np.float32(4), empty)[0] == -4


def test_large_programs_are_scheduled_and_small_ones_run_as_written() -> None:
    x, w = random(1, 8, 16, 16), random(16, 8, 3, 3, seed=1)
    network = ms.load_onnx(model([node("Conv", "X W", pads=[1] * 4)], [value("X", x)], constants={"W": w}))
    (only,) = network.graph.computes
    np.testing.assert_allclose(network(x), ms.reference(only.program)(x, w), rtol=1e-4, atol=1e-4)


def test_a_graph_prints_its_values_nodes_and_programs() -> None:
    text = str(two_inputs().graph)
    assert text == str(two_inputs().graph)
    assert text.startswith(
        "network small(A: f32[2, 3], B: f32[2, 3]) -> (P, Q):\n  D: f32[2, 3] = sub(A, B)  # task 0, Sub `Sub_node`\n"
    )
    assert text.count("program relu(A: f32[2, 3]) -> Y: f32[2, 3]:") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: {"nodes": g.nodes[1:]}, "reads `D`, which nothing before it computes"),
        (lambda g: {"nodes": (*g.nodes, g.nodes[0])}, "computes `D`, which is there already"),
        (
            lambda g: {"types": {**g.types, "D": ValueType(g.types["D"].dtype, (3,))}},
            r"is f32\[3\], and its program says",
        ),
        (lambda g: {"outputs": (("P", "W"),)}, "nothing computes the output `P`"),
        (lambda g: {"constants": {"A": A}}, "has the name of another input"),
    ],
)
def test_a_graph_that_is_not_well_formed_is_found(change: Any, message: str) -> None:
    graph = two_inputs().graph
    with pytest.raises(GraphError, match=message):
        dataclasses.replace(graph, **change(graph)).validate()


def test_what_no_output_needs_is_left_out() -> None:
    graph = two_inputs().graph
    less = remove_dead_code(dataclasses.replace(graph, outputs=(("P", "P"),)))
    assert [n.op for n in less.nodes] == ["Sub", "Relu"]
    less.validate()


def test_what_is_for_a_cpu_with_more_packs_its_weights_here(monkeypatch: pytest.MonkeyPatch) -> None:
    far = pretend_lacking(monkeypatch, "avx")
    x, w = random(64, 128), random(128, 192, seed=1)
    net = ms.load_onnx(model([node("MatMul", "X w")], [value("X", x)], constants={"w": w}), target=far).compile()
    assert not net.runs_here
    np.testing.assert_allclose(net(x), x @ w, rtol=1e-4, atol=1e-4)

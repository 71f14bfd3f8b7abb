"""Networks as one call of compiled code: places of values, packed weights, outputs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import metasched as ms
from metasched.graph.code.choices import Choice, ScheduleOrigin
from metasched.graph.code.kernels import kernels
from metasched.graph.ir import Array, Graph, GraphError
from metasched.graph.running.executable import Executable
from metasched.graph.running.planning import executable as made_of
from metasched.target import Target
from tests.support.onnx_models import model, node, random, value

X, W, V = random(16, 32), random(32, 16, seed=1), random(32, 16, seed=2)
TARGET = Target.detect(threads=2)


def by_hand(graph: Graph) -> dict[str, Choice]:
    """The weights of every matrix product in another layout, and a parallel loop."""
    choices = {}
    for key, (first, *_) in graph.tasks.items():
        if first.op == "MatMul":
            sch = ms.Schedule(first.program)
            block = sch.get_block("Y")
            packed = sch.cache_read(block, "B")
            sch.transform_layout(packed, "k, j -> j, k")
            sch.parallel(sch.get_loops(block)[0])
            choices[key] = Choice(sch.trace, ScheduleOrigin.GIVEN)
    return choices


def two_layers() -> Graph:
    nodes = [
        node("MatMul", "X W", "H"),
        node("Transpose", "H", "T", perm=[1, 0]),
        node("Reshape", "T S", "R"),
        node("MatMul", "R V", "Y"),
    ]
    constants = {"W": W, "V": V, "S": np.array([8, 32])}
    return ms.load_onnx(model(nodes, [value("X", X)], ("Y", "T"), constants)).graph


def expected(x: Array) -> tuple[Array, Array]:
    t = (x @ W).T
    return t.reshape(8, 32) @ V, t


def executable(graph: Graph, choices: dict[str, Choice] | None = None) -> Executable:
    return made_of(graph, kernels(graph, choices or {}, TARGET), TARGET)


def test_weights_are_packed_once_and_calls_give_new_arrays() -> None:
    graph = two_layers()
    made = executable(graph, by_hand(graph))
    assert made.weights.nbytes == W.nbytes + V.nbytes
    for seed in range(3):
        x = random(16, 32, seed=seed)
        for found, wanted in zip(made.run([x]), expected(x), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_constants_are_held_once_and_read_from_the_copy() -> None:
    graph = two_layers()
    constants = {name: array.copy() for name, array in graph.constants.items()}
    made = executable(Graph(graph.name, graph.types, graph.inputs, graph.outputs, constants, graph.nodes))
    assert made.weights.nbytes == W.nbytes + V.nbytes
    for array in constants.values():
        array[...] = 0
    np.testing.assert_allclose(made.run([X])[0], expected(X)[0], rtol=1e-4, atol=1e-5)


def test_intermediates_share_memory() -> None:
    x = random(64, 64)
    nodes = [node("Neg", "X" if n == 0 else f"v{n}", f"v{n + 1}") for n in range(10)]
    made = executable(ms.load_onnx(model(nodes, [value("X", x)], ("v10",))).graph)
    assert made.arena.nbytes == made.arena.bound == 2 * x.nbytes
    np.testing.assert_array_equal(made.run([x])[0], x)


def test_inputs_that_are_not_aligned_or_strided_are_copied() -> None:
    made = executable(two_layers())
    shifted = np.ndarray(X.shape, X.dtype, bytearray(X.nbytes + 1), 1)
    shifted[...] = X
    for x in (shifted, np.repeat(X, 2, axis=1)[:, ::2], np.asfortranarray(X)):
        np.testing.assert_array_equal(made.run([x])[0], made.run([X])[0])


def test_each_concurrent_call_has_an_arena_and_they_are_used_again() -> None:
    made = executable(two_layers())
    inputs = [random(16, 32, seed=n) for n in range(40)]
    gate = threading.Barrier(4)

    def first(x: Array) -> Array:
        gate.wait()
        return made.run([x])[0]

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(first, inputs[:4]), *pool.map(lambda x: made.run([x])[0], inputs[4:])]
    for x, result in zip(inputs, found, strict=True):
        np.testing.assert_array_equal(result, made.run([x])[0])
    assert 1 <= len(made._free) <= 4


def test_an_output_twice_and_a_view_of_an_output_are_arrays_of_their_own() -> None:
    nodes = [node("Neg", "X", "A"), node("Reshape", "A S", "B"), node("Identity", "A", "C"), node("Neg", "B", "D")]
    network = ms.load_onnx(model(nodes, [value("X", X)], ("A", "B", "C", "D", "S"), {"S": np.array([512])}))
    a, b, c, d, s = network(X)
    np.testing.assert_array_equal(a, -X)
    np.testing.assert_array_equal(b, -X.reshape(-1))
    np.testing.assert_array_equal(d, X.reshape(-1))
    np.testing.assert_array_equal(s, [512])
    a[...] = 0
    np.testing.assert_array_equal(c, -X)
    assert not np.may_share_memory(b, c)


def test_a_constant_that_is_computed_is_an_error() -> None:
    graph = two_layers()
    less = {name: array for name, array in graph.constants.items() if name != "V"}
    broken = Graph(graph.name, graph.types, (*graph.inputs, "V"), graph.outputs, less, graph.nodes)
    with pytest.raises(GraphError, match="reads `V` as a constant, and it is computed"):
        executable(broken, by_hand(graph))


def test_steps_are_timed_in_place() -> None:
    made = executable(two_layers())
    times = made.run_timed([X])
    assert times.nanoseconds.shape == (len(made.steps),) == (3,)
    assert (times.nanoseconds >= 0).all()
    assert times.nanoseconds.sum() > 0
    assert times.runs.tolist() == [1, 1, 1]
    assert [step.op for step in made.steps] == ["MatMul", "Transpose", "MatMul"]

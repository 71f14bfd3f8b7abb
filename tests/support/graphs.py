"""Graphs in tests: made from texts of ONNX, and computed by the reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.parser
from numpy.lib.stride_tricks import as_strided

import metasched as ms
from metasched.graph.ir import Compute, Graph, InPlace, LoopNode
from metasched.graph.loop_node import LoopInputKind as Kind
from metasched.graph.loop_node import LoopOutputKind
from metasched.graph.passes.declaration import PassContext, PassOptions
from metasched.reference.execution import reference
from metasched.target import Target


def network(body: str, opset: int = 22) -> ms.Network:
    """A network from the text of an ONNX graph: `m (float[2, 3] x) => (y) { y = Relu(x) }`."""
    return ms.load_onnx(parsed(body, opset))


def parsed(body: str, opset: int = 22) -> onnx.ModelProto:
    """A model of such a text."""
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]>\n{body}')


def context() -> PassContext:
    """What a pass is given."""
    return PassContext(PassOptions(Target.detect()))


def by_reference(graph: Graph, inputs: Mapping[str, Any]) -> list[Any]:
    """The outputs of a graph, each node computed by the reference."""
    known = {**graph.constants, **inputs}
    memory: dict[str, Any] = {}
    for node in graph.nodes:
        if isinstance(node, LoopNode):
            known |= _looped(node, known)
        elif isinstance(node, Compute):
            made = reference(node.program)(*(known[name] for name in node.inputs))
            known |= dict(zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True))
            for name in node.outputs:
                if graph.roots[name][0] != name:
                    in_memory(graph, memory, name)[...] = known[name]
        elif isinstance(node, InPlace):
            root = graph.roots[node.output][0]
            if root in known:
                in_memory(graph, memory, root)[...] = known[root]
            known[node.output] = np.array(in_memory(graph, memory, node.output))
        else:
            known[node.output] = np.reshape(known[node.input], graph.types[node.output].shape)
    return [known[name] for _, name in graph.outputs]


def _looped(loop: LoopNode, known: Mapping[str, Any]) -> dict[str, Any]:
    """What a loop gives: its body is computed step by step."""
    given = dict(zip(loop.takes, (known[name] for name in loop.inputs), strict=True))
    limit = min([loop.most, *(int(np.reshape(x, ())) for own, x in given.items() if own.kind is Kind.LIMIT)])
    goes_on = all(np.reshape(x, ()) for own, x in given.items() if own.kind is Kind.CONDITION)
    states = {own.body: x for own, x in given.items() if own.kind is Kind.STATE}
    types, steps = {name: loop.body.types[own] for name, own in loop.body.outputs}, 0
    elements: dict[str, list[Any]] = {own.body: [] for own in loop.gives if own.kind is LoopOutputKind.ELEMENTS}
    while goes_on and steps < limit:
        inputs = {own.body: x for own, x in given.items() if own.kind is Kind.WHOLE} | states
        for own, x in given.items():
            if own.kind is Kind.ELEMENTS:
                inputs[own.body] = x[-1 - steps if own.backwards else steps]
        inputs |= {loop.counter: np.array(steps)} if loop.counter else {}
        made = dict(zip((label for label, _ in loop.body.outputs), by_reference(loop.body, inputs), strict=True))
        states = {name: made[label] for name, label in loop.body.states.items()}
        for label, found in elements.items():
            found.append(made[label])
        goes_on, steps = not loop.goes_on or bool(np.reshape(made[loop.goes_on], ())), steps + 1
    results: dict[str, Any] = {}
    for name, result in zip(loop.outputs, loop.gives, strict=True):
        if result.kind is LoopOutputKind.ELEMENTS:
            whole = np.zeros((loop.most, *types[result.body].shape), types[result.body].dtype.numpy)
            for step, element in enumerate(elements[result.body]):
                whole[-1 - step if result.backwards else step] = element
            results[name] = whole
        else:
            results[name] = np.array(steps) if result.kind is LoopOutputKind.STEPS else states[result.body]
    return results


def in_memory(graph: Graph, memory: dict[str, Any], name: str) -> Any:
    """A value as a view of the memory of its root, which is made when it is first asked for."""
    root, offset = graph.roots[name]
    whole = graph.types[root]
    array = memory.setdefault(root, np.zeros(whole.size, whole.dtype.numpy))
    return as_strided(array[offset:], graph.types[name].shape, [n * array.itemsize for n in graph.strides(name)])


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Any]:
    """Arrays for the inputs of a graph."""
    rng = np.random.default_rng(seed)
    types = {name: graph.types[name] for name in graph.inputs}
    return {
        name: (rng.standard_normal(t.shape) if t.dtype.is_float else rng.integers(0, 3, t.shape)).astype(t.dtype.numpy)
        for name, t in types.items()
    }


def require_equal(first: Graph, second: Graph, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """Raise AssertionError where two graphs compute different outputs for some inputs."""
    inputs = random_inputs(first)
    for a, b in zip(by_reference(first, inputs), by_reference(second, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)

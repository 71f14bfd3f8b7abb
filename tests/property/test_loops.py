"""Random loops, in one another, against the reference evaluator of `onnx`: compiled, and before and after passes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import metasched as ms
from metasched.graph.passes.declaration import PassOptions
from metasched.graph.passes.pipeline import optimise_graph
from metasched.target import Target
from tests.support.graphs import by_reference
from tests.support.onnx_models import model, node, value

_SHAPES = ((4,), (3, 4))
_BINARY = ("Add", "Sub", "Mul", "Max")
_MOST_DEPTH = 2


@dataclass
class _Body:
    """Nodes of a graph that is made, and the values that its next node may read, with their shapes."""

    rng: np.random.Generator
    name: str
    shapes: dict[str, tuple[int, ...]]
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def add(self, op: str, inputs: str, shape: tuple[int, ...] | None, **attributes: Any) -> str:
        name = f"{self.name}v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, name, **attributes))
        if shape is not None:
            self.shapes[name] = shape
        return name

    def constant(self, array: Any) -> str:
        name = f"{self.name}c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def any(self, shape: tuple[int, ...] | None = None) -> str:
        # Later values are likelier, so that steps depend on one another.
        names = [name for name, own in self.shapes.items() if shape is None or own == shape]
        return names[-1 - min(int(self.rng.exponential(1.5)), len(names) - 1)]

    def step(self) -> None:
        shape = _SHAPES[int(self.rng.integers(len(_SHAPES)))]
        x = self.any(shape)
        match int(self.rng.integers(4)):
            case 0:
                self.add(str(self.rng.choice(["Tanh", "Sigmoid", "Abs"])), x, shape)
            case 1:
                weight = self.constant(self.rng.integers(-1, 2, (4, 4)).astype(np.float32))
                self.add("Tanh", self.add("MatMul", f"{x} {weight}", None), shape)
            case 2:
                half = self.constant(np.float32(0.5))
                y = self.any(shape)
                self.add("Mul", f"{self.add(str(self.rng.choice(_BINARY)), f'{x} {y}', None)} {half}", shape)
            case _:
                self.add("Max" if shape == (4,) else "Add", f"{self.any((4,))} {x}", shape)

    def loop(self, depth: int, limit: str) -> list[str]:
        """A loop over random states of this graph's values; its results, states first, and what its steps give out."""
        rng = self.rng
        states = [self.any(_SHAPES[int(rng.integers(2))]) for _ in range(int(rng.integers(1, 4)))]
        inner = _Body(rng, f"{self.name}b{len(self.nodes)}", dict(self.shapes))
        own = [f"{inner.name}s{n}" for n in range(len(states))]
        inner.shapes |= {name: self.shapes[state] for name, state in zip(own, states, strict=True)}
        number = inner.add("Cast", f"{inner.name}i", None, to=TensorProto.FLOAT)
        inner.add("Mul", f"{inner.any((4,))} {number}", (4,))
        for _ in range(int(rng.integers(2, 6))):
            inner.step()
        if depth < _MOST_DEPTH and rng.random() < 0.5:
            inner.loop(depth + 1, limit)
            inner.step()
        following = [inner.any(inner.shapes[name]) for name in own]
        given_out = [inner.any((4,)) for _ in range(int(rng.integers(3)) if depth == 0 else 0)]
        largest = inner.add("ReduceMax", inner.any(), None, keepdims=0)
        goes_on = inner.add("Less", f"{largest} {inner.constant(np.float32(rng.choice([0.5, 3, 100])))}", None)
        # The evaluator gives out what a step is given as it is, and later changes it.
        ends = [inner.add("Identity", name, None) for name in (*following, *given_out)]
        inputs = [(f"{inner.name}i", TensorProto.INT64, ()), (f"{inner.name}_", TensorProto.BOOL, ())]
        inputs += [(name, TensorProto.FLOAT, inner.shapes[name]) for name in own]
        graph = helper.make_graph(
            inner.nodes,
            inner.name,
            [helper.make_tensor_value_info(*one) for one in inputs],
            [
                helper.make_tensor_value_info(goes_on, TensorProto.BOOL, ()),
                *(
                    helper.make_tensor_value_info(name, TensorProto.FLOAT, inner.shapes[like])
                    for name, like in zip(ends, (*following, *given_out), strict=True)
                ),
            ],
            inner.constants,
        )
        made = [f"{inner.name}r{n}" for n in range(len(ends))]
        yes = self.constant(np.array(True))
        self.nodes.append(node("Loop", f"{limit} {yes} {' '.join(states)}", " ".join(made), body=graph))
        self.shapes |= {name: self.shapes[state] for name, state in zip(made, states, strict=False)}
        return made


def _network(seed: int) -> tuple[Any, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    whole = _Body(rng, "m", {"X": (4,), "Z": (3, 4)})
    whole.step()
    # Of what steps give out, the most that there may be has to be known.
    limit = whole.constant(np.array(int(rng.integers(1, 7))))
    made = whole.loop(0, limit)
    whole.step()
    last = list(whole.shapes)[-1]
    if rng.random() < 0.5:
        made += whole.loop(1, "N")
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in whole.constants}
    x = {
        "X": rng.standard_normal(4).astype(np.float32),
        "Z": rng.standard_normal((3, 4)).astype(np.float32),
        "N": np.array(int(rng.integers(0, 5))),
    }
    inputs = [value(name, array) for name, array in x.items()]
    return model(whole.nodes, inputs, tuple(dict.fromkeys([*made, last])), constants), x


@pytest.mark.parametrize("seed", range(16))
def test_loops_compute_what_the_reference_evaluator_does(seed: int) -> None:
    made, inputs = _network(seed)
    wanted = ReferenceEvaluator(made).run(None, inputs)
    net = ms.load_onnx(made)
    after = optimise_graph(net.graph, PassOptions(Target.detect(), frozenset({"parts", "states"})))
    counts = {label: n for n, (label, _) in enumerate(net.graph.outputs)}
    both = [by_reference(graph, inputs) for graph in (net.graph, after)]
    for again in range(2):
        found = net(**inputs)
        for n, (label, got) in enumerate(zip(net.outputs, found, strict=True)):
            np.testing.assert_allclose(got, wanted[n], rtol=1e-4, atol=1e-5, err_msg=f"{label} of call {again}")
            for one in both:
                have, count = one[counts[label]], net.graph.counts.get(label)
                if count is not None:
                    have = np.take(have, range(int(one[counts[count.label]])), axis=count.axis)
                np.testing.assert_allclose(have, wanted[n], rtol=1e-4, atol=1e-5, err_msg=label)

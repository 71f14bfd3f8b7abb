"""Random networks that join, divide, view and compute give the same results with values in place as without."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.graph.builder import GraphBuilder, GraphValue, NodeOrigin
from metasched.graph.code.kernels import kernels
from metasched.graph.ir import Graph, InPlace
from metasched.graph.passes.parts import parts
from metasched.graph.running.planning import executable
from metasched.graph.text import at, indices
from metasched.graph.value_type import ValueType
from metasched.target import Target
from tests.support.graphs import by_reference, context, random_inputs

SEED = 5
CASES = 4
STEPS = 9
TARGET = Target.detect(threads=2)


@dataclass
class RandomNetwork:
    """A network that grows by random steps."""

    rng: np.random.Generator
    builder: GraphBuilder = field(default_factory=GraphBuilder)
    values: list[GraphValue] = field(default_factory=list)

    def graph(self) -> Graph:
        for n in range(2):
            shape = (int(self.rng.integers(1, 3)), int(self.rng.integers(1, 4)), int(self.rng.choice([8, 16, 32])))
            self.values.append(self.builder.input(f"x{n}", ValueType(DType.F32, shape)))
        steps = (self.computed, self.computed, self.joined, self.joined, self.sliced, self.viewed)
        for _ in range(STEPS):
            self.values.append(steps[int(self.rng.integers(len(steps)))]())
        last = self.values[-1:] + [value for value in self.values[2:-1] if self.rng.random() < 0.2]
        return self.builder.graph("random", [(f"y{n}", value) for n, value in enumerate(last)])

    def any(self) -> GraphValue:
        return self.values[int(self.rng.integers(len(self.values)))]

    def program(self, stage: str, shape: tuple[int, ...], **inputs: GraphValue) -> GraphValue:
        origin = NodeOrigin(f"n{len(self.values)}", "Step", f"v{len(self.values)}")
        (made,) = self.builder.program(origin, [stage], {"Y": ValueType(DType.F32, shape)}, inputs)
        return made

    def computed(self) -> GraphValue:
        value = self.any()
        over = indices(value.rank)
        return self.program(f"{at('Y', over)} = {at('A', over)} * 2 + 1", value.shape, A=value)

    def joined(self) -> GraphValue:
        first = self.any()
        axis = int(self.rng.integers(first.rank))
        rest = first.shape[:axis], first.shape[axis + 1 :]
        fitting = [v for v in self.values if v.rank == first.rank and (v.shape[:axis], v.shape[axis + 1 :]) == rest]
        others = [fitting[int(self.rng.integers(len(fitting)))] for _ in range(int(self.rng.integers(1, 4)))]
        over, text, end = list(indices(first.rank)), "", 0
        letters = [f"A{n}" for n in range(len(others) + 1)]
        for letter, value in zip(letters, (first, *others), strict=True):
            subscripts = [*over[:axis], f"{over[axis]} - {end}", *over[axis + 1 :]]
            end += value.shape[axis]
            text += f"({at(letter, subscripts)} if {over[axis]} < {end} else " if letter != letters[-1] else ""
        text += at(letters[-1], subscripts) + ")" * len(others)
        shape = (*first.shape[:axis], end, *first.shape[axis + 1 :])
        return self.program(f"{at('Y', over)} = {text}", shape, **dict(zip(letters, (first, *others), strict=True)))

    def sliced(self) -> GraphValue:
        value = self.any()
        axis = int(self.rng.integers(value.rank))
        whole = value.shape[axis]
        size = int(self.rng.choice([n for n in (1, 2, 8, 16, 32, whole) if n <= whole]))
        start = int(self.rng.integers(whole - size + 1)) // 8 * 8
        over = list(indices(value.rank))
        source = [*over[:axis], f"{over[axis]} + {start}", *over[axis + 1 :]]
        shape = (*value.shape[:axis], size, *value.shape[axis + 1 :])
        return self.program(f"{at('Y', over)} = {at('A', source)}", shape, A=value)

    def viewed(self) -> GraphValue:
        value = self.any()
        flat = int(np.prod(value.shape))
        row = int(self.rng.choice([n for n in (1, 8, 16, 32) if flat % n == 0]))
        origin = NodeOrigin(f"n{len(self.values)}", "Reshape", f"v{len(self.values)}")
        return self.builder.view(origin, value, (1, flat // row, row))


def difference(seed: int) -> tuple[Graph, str]:
    """A random network with values in place, and what is wrong with its results."""
    graph = RandomNetwork(np.random.default_rng([SEED, seed])).graph()
    made = parts(graph, context())
    made.validate()
    inputs = random_inputs(graph)
    run = executable(made, kernels(made, {}, TARGET), TARGET).run([inputs[name] for name in made.inputs])
    for (label, _), found, expected in zip(graph.outputs, run, by_reference(graph, inputs), strict=True):
        if not np.array_equal(found, expected):
            return made, f"{label}: {found} is not {expected}\n{made}"
    return made, ""


@pytest.mark.parametrize("seed", range(CASES))
def test_values_in_place_change_no_results(seed: int) -> None:
    _, wrong = difference(seed)
    assert not wrong


def test_the_cases_have_values_in_place() -> None:
    found = [RandomNetwork(np.random.default_rng([SEED, seed])).graph() for seed in range(CASES)]
    made = [parts(graph, context()) for graph in found]
    assert sum(isinstance(node, InPlace) for graph in made for node in graph.nodes) >= CASES
    assert any(key != kernel.task for graph in made for key, kernel in graph.kernels.items()), "some have gaps"

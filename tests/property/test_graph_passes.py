"""Random small networks compute the same after the passes, by the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.graph.fusion.stages import parse_once
from metasched.graph.ir import Compute
from metasched.graph.passes.declaration import PassOptions
from metasched.graph.passes.pipeline import optimise_graph
from metasched.target import Target
from tests.support.graphs import by_reference, random_inputs, require_equal
from tests.support.onnx_models import model, node, value

_UNARY = ("Relu", "Neg", "Tanh", "Sigmoid", "Abs", "Exp")
_BINARY = ("Add", "Sub", "Mul", "Max")


class _RandomNetwork:
    """A network of random nodes over a growing set of values, whose shapes are known as it is made."""

    dtype: Any = np.float32
    columns: tuple[int, ...] = (1, 2, 3, 4, 5)

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}
        self._shapes: dict[str, tuple[int, ...]] = {"X": (2, 3, 4), "Z": (3, 4)}
        for _ in range(int(self._rng.integers(4, 14))):
            step = self._rng.choice(
                [self._unary, self._binary, self._binary, self._product, self._transposed, self._viewed, self._reduced,
                 self._softmax, self._sliced, self._joined, self._scaled]
            )  # fmt: skip
            step()

    def model(self) -> Any:
        read = {name for one in self._nodes for name in one.input}
        ends = [name for name in self._shapes if name not in read and name not in "XZ"]
        extra = self._rng.choice([name for name in self._shapes if name not in "XZ"])
        inputs = [value(name, np.zeros(self._shapes[name], self.dtype)) for name in ("X", "Z")]
        return model(self._nodes, inputs, tuple(dict.fromkeys([*ends, str(extra)])), self._constants)

    def _any(self) -> str:
        # Later values are likelier, so that chains get long.
        names = list(self._shapes)
        return names[-1 - min(int(self._rng.exponential(1.5)), len(names) - 1)]

    def _add(self, op: str, inputs: str, shape: tuple[int, ...], **attributes: Any) -> str:
        name = f"v{len(self._shapes)}"
        self._nodes.append(node(op, inputs, name, **attributes))
        self._nodes[-1].name = name
        self._shapes[name] = shape
        return name

    def _weight(self, shape: tuple[int, ...], low: int = -2, high: int = 3) -> str:
        name = f"w{len(self._constants)}"
        self._constants[name] = self._rng.integers(low, high, shape).astype(self.dtype)
        return name

    def _shape(self, *shape: int) -> str:
        name = f"w{len(self._constants)}"
        self._constants[name] = np.array(shape, np.int64)
        return name

    def _unary(self) -> None:
        x = self._any()
        op = str(self._rng.choice(_UNARY))
        x = self._add("Tanh", x, self._shapes[x]) if op == "Exp" else x
        self._add(op, x, self._shapes[x])

    def _binary(self) -> None:
        x, y = self._any(), self._any()
        try:
            shape = np.broadcast_shapes(self._shapes[x], self._shapes[y])
        except ValueError:
            return
        self._add(str(self._rng.choice(_BINARY)), f"{x} {y}", shape)

    def _product(self) -> None:
        x = self._any()
        *batch, depth = self._shapes[x]
        if not batch:
            return
        columns = int(self._rng.choice(self.columns))
        self._add("MatMul", f"{x} {self._weight((depth, columns))}", (*batch, columns))

    def _transposed(self) -> None:
        x = self._any()
        order = [int(n) for n in self._rng.permutation(len(self._shapes[x]))]
        self._add("Transpose", x, tuple(self._shapes[x][n] for n in order), perm=order)

    def _viewed(self) -> None:
        x = self._any()
        size = int(np.prod(self._shapes[x]))
        divisors = [n for n in range(1, size + 1) if size % n == 0]
        first = int(self._rng.choice(divisors))
        self._add("Reshape", f"{x} {self._shape(first, size // first)}", (first, size // first))

    def _reduced(self) -> None:
        x = self._any()
        axis = int(self._rng.integers(len(self._shapes[x])))
        shape = tuple(1 if n == axis else extent for n, extent in enumerate(self._shapes[x]))
        self._add(str(self._rng.choice(["ReduceMean", "ReduceMax"])), f"{x} {self._shape(axis)}", shape)

    def _softmax(self) -> None:
        x = self._any()
        self._add("Softmax", x, self._shapes[x], axis=int(self._rng.integers(len(self._shapes[x]))))

    def _sliced(self) -> None:
        x = self._any()
        axis = int(self._rng.integers(len(self._shapes[x])))
        extent = self._shapes[x][axis]
        start = int(self._rng.integers(extent))
        shape = tuple(extent - start if n == axis else e for n, e in enumerate(self._shapes[x]))
        self._add("Slice", f"{x} {self._shape(start)} {self._shape(extent)} {self._shape(axis)}", shape)

    def _joined(self) -> None:
        x = self._any()
        shape = self._shapes[x]
        y = next((name for name, other in self._shapes.items() if other == shape and name != x), x)
        self._add("Concat", f"{x} {y}", (2 * shape[0], *shape[1:]), axis=0)

    def _scaled(self) -> None:
        x = self._any()
        last = self._shapes[x][-1]
        scaled = self._add("Mul", f"{x} {self._weight((last,), low=1)}", self._shapes[x])
        self._add("Add", f"{scaled} {self._weight((last,))}", self._shapes[x])


class _RandomNetworkOfHalves(_RandomNetwork):
    """Of f16, with products that read elements a few times or many."""

    dtype = np.float16
    columns = (3, 16, 24, 33)


@pytest.mark.parametrize("seed", range(12))
def test_networks_compute_the_same_after_the_passes(seed: int) -> None:
    made = _RandomNetwork(seed).model()
    graph = ms.load_onnx(made).graph
    # What is in place in memory has no meaning for the reference.
    after = optimise_graph(graph, PassOptions(Target.detect(), frozenset({"parts"})))
    require_equal(graph, after, rtol=2e-4, atol=2e-4)
    for one in after.nodes:
        if isinstance(one, Compute):
            assert parse_once(str(one.program)).definition == one.program.definition


@pytest.mark.parametrize("passes", [frozenset[str](), frozenset({"fusion"})])
def test_values_of_f16_are_the_same_numbers_in_f32(passes: frozenset[str]) -> None:
    """To the last bit: they are rounded to f16 before they are kept in f32. Without fusion there are more of them."""
    widened = 0
    for seed in range(24):
        graph = ms.load_onnx(_RandomNetworkOfHalves(seed).model()).graph
        skipped = frozenset({"parts", *passes})
        narrow = optimise_graph(graph, PassOptions(Target.detect(), skipped | {"wide_factors"}))
        wide = optimise_graph(graph, PassOptions(Target.detect(), skipped))
        widened += any(type_.dtype is DType.F32 for type_ in wide.types.values())
        inputs = random_inputs(graph)
        for a, b in zip(by_reference(narrow, inputs), by_reference(wide, inputs), strict=True):
            assert a.dtype == np.float16
            np.testing.assert_array_equal(a, b)
    assert widened > 3

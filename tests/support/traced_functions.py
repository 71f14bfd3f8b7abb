"""What functions of arrays give when they are traced, computed by the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import metasched as ms
from metasched.graph.ir import Compute, Graph, ShapeView


def run_graph(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a graph, each of its programs run by the reference."""
    values: dict[str, Any] = {**graph.constants, **dict(zip(graph.inputs, inputs, strict=True))}
    for node in graph.nodes:
        if isinstance(node, ShapeView):
            values[node.output] = values[node.input].reshape(graph.types[node.output].shape)
            continue
        assert isinstance(node, Compute)
        made = ms.reference(node.program)(*(np.require(values[name], requirements="C") for name in node.inputs))
        values.update(zip(node.outputs, made if isinstance(made, tuple) else (made,), strict=True))
    return [values[name] for _, name in graph.outputs]


def check(function: Callable[..., Any], *arrays: Any, tolerance: float | None = None, **options: Any) -> None:
    """Compare a traced function with what NumPy computes: types and shapes exactly, values within some ulp."""
    with np.errstate(all="ignore"):
        wanted = function(*arrays, **options)
    graph = ms.jit(function).graph(*arrays, **options)
    found = run_graph(graph, [np.asarray(array) for array in arrays])
    expected = [part for part in _leaves(wanted) if isinstance(part, np.ndarray | np.generic)]
    assert len(found) == len(expected)
    for have, want in zip(found, expected, strict=True):
        want = np.asarray(want)
        assert (have.dtype, have.shape) == (want.dtype, want.shape)
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(have, want)
        else:
            epsilon = float(np.finfo(want.dtype).eps)
            by = 64 * epsilon if tolerance is None else tolerance
            np.testing.assert_allclose(have.astype(np.float64), want.astype(np.float64), rtol=by, atol=by)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in _leaves(part)]
    if isinstance(value, Mapping):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    return [value]

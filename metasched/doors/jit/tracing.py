"""From a function and the types of its arguments to a network."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import getclosurevars, unwrap
from typing import Any

import numpy as np

from metasched.doors.jit.errors import SourceLine, TraceError, users_line
from metasched.doors.jit.indexing import MASK
from metasched.doors.jit.promotion import language_type
from metasched.doors.jit.structure import Structure, flatten, unflatten
from metasched.doors.jit.trace import ArrayTrace, TracedOperand
from metasched.doors.jit.traced_array import MaskedElements, TracedArray
from metasched.doors.node_calls import NodeCalls
from metasched.graph.builder import GraphBuilder
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Graph
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class TracedFunction:
    """A function for arguments of some types: the graph, and the structure of what it returns.

    Attributes:
        graph: what computes the arrays that it returns.
        results: their structure, and what else it returns.

    """

    graph: Graph
    results: Structure


def trace_function(
    function: Callable[..., Any],
    call: Structure,
    arrays: Sequence[tuple[str, tuple[int, ...], np.dtype[Any]]],
) -> TracedFunction:
    """Run a function on arrays whose elements are not known.

    Args:
        function: what is traced.
        call: the structure of its arguments, `(args, kwargs)`.
        arrays: names, shapes and types of the arrays among them, in order.

    Raises TraceError for what cannot be traced.
    """
    name = getattr(function, "__name__", "function")
    nodes = NodeCalls(GraphBuilder(), lambda: str(users_line()))
    trace = ArrayTrace(name, _closure_names(function), TracedArray, nodes)
    inputs = []
    for label, shape, dtype in arrays:
        try:
            type_ = ValueType(language_type(dtype), shape)
        except Unsupported as error:
            raise TraceError(
                f"the argument `{label}` of `{name}`: {error}", "cast it first", _first_line(function)
            ) from error
        inputs.append(TracedArray(trace, trace.builder.input(_identifier(label), type_), writable=False))
    args, kwargs = unflatten(call, iter(inputs))
    result = function(*args, **kwargs)
    found: list[tuple[str, Any]] = []
    structure = flatten(result, lambda leaf: isinstance(leaf, TracedOperand), "result", found)
    for _, leaf in found:
        trace.require_own(leaf)
        if isinstance(leaf, MaskedElements):
            raise TraceError("what a mask of data picks is returned", MASK, _first_line(function))
    graph = trace.builder.graph(
        _identifier(name), [(_identifier(label), leaf.value) for label, leaf in _unique_labels(found)]
    )
    graph.validate()
    return TracedFunction(remove_dead_code(graph), structure)


def _unique_labels(found: Sequence[tuple[str, Any]]) -> Sequence[tuple[str, Any]]:
    labels: dict[str, Any] = {}
    for label, leaf in found:
        own, n = label, 1
        while own in labels:
            own, n = f"{label}_{n}", n + 1
        labels[own] = leaf
    return list(labels.items())


def _identifier(label: str) -> str:
    """A name without punctuation: `p['w'][0]` is `p_w_0`."""
    return re.sub(r"\W+", "_", label).strip("_") or "function"


def _first_line(function: Callable[..., Any]) -> SourceLine | None:
    code = getattr(unwrap(function), "__code__", None)
    return None if code is None else SourceLine(code.co_name, code.co_filename, code.co_firstlineno)


def _closure_names(function: Callable[..., Any]) -> Mapping[int, str]:
    """The names of the arrays that a function finds outside of itself."""
    try:
        outside = getclosurevars(unwrap(function))
    except TypeError:  # an object that is called, or a function of another language
        return {}
    return {
        id(value): name
        for name, value in {**outside.globals, **outside.nonlocals}.items()
        if isinstance(value, np.ndarray)
    }

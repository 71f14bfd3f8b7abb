"""Operators as functions of NumPy's names say them, which the door `ms.jit` traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metasched.doors.jit.errors import TraceError
from metasched.doors.jit.trace import ArrayTrace
from metasched.doors.jit.traced_array import TracedArray
from metasched.doors.node_calls import NodeCalls
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported


def trace_numpy(nodes: NodeCalls, run: Callable[..., Any], *values: GraphValue) -> tuple[GraphValue, ...]:
    """What a function of arrays gives, a tuple of these. Raises Unsupported."""
    trace = ArrayTrace("operator", {}, TracedArray, nodes)
    try:
        return tuple(trace.value(made) for made in run(*map(trace.array, values)))
    except TraceError as error:
        raise Unsupported(error.reason) from error

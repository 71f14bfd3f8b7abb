"""Arrays with a border."""

from __future__ import annotations

from typing import Any

import numpy as np

from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported


@traces("pad")
def pad(trace: ArrayTrace, array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Any:
    x = trace.value(array)
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(n, pad_width.get(n - x.rank, 0)) for n in range(x.rank)]
        pad_width = [(n, n) if isinstance(n, int) else n for n in pad_width]
    borders = np.broadcast_to(np.asarray(pad_width), (x.rank, 2))
    if borders.size and borders.min() < 0:
        raise Unsupported("index can't contain negative values")
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap"):
        raise Unsupported(f"mode={mode!r}: constant, edge, reflect, symmetric and wrap can be traced")
    if mode == "symmetric":
        return _pad_symmetric(trace, x, borders)
    if mode == "constant" and np.ndim(constant_values) != 0:
        return _pad_each_border(array, borders, constant_values)
    pads = trace.nodes.integers("pads", [int(n) for n in (*borders[:, 0], *borders[:, 1])])
    filler = trace.value(constant_values, x.type.dtype) if mode == "constant" else None
    return trace.nodes.call("Pad", x, pads, filler, mode=mode)


def _pad_each_border(array: Any, borders: Any, values: Any) -> Any:
    """An array padded with a value for each border: the later axes' go over the earlier ones'."""
    for axis, sides in enumerate(zip(borders, np.broadcast_to(np.asarray(values), borders.shape), strict=True)):
        for last, (width, value) in enumerate(zip(*sides, strict=True)):
            only = [(0, 0)] * len(borders)
            only[axis] = (0, int(width)) if last else (int(width), 0)
            array = np.pad(array, only, constant_values=value.item())
    return array


def _pad_symmetric(trace: ArrayTrace, x: GraphValue, borders: Any) -> GraphValue:
    """Pad an array with its own elements, mirrored at its ends: the outermost come twice."""
    for axis, (low, high) in enumerate(borders):
        if low or high:
            places = np.pad(np.arange(x.shape[axis]), (int(low), int(high)), mode="symmetric")
            x = trace.nodes.call("Gather", x, trace.nodes.constant("positions", places), axis=axis)
    return x

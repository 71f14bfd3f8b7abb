"""The methods of ufuncs: `np.add.reduce`, `np.maximum.accumulate`, `np.multiply.outer`, `np.add.at`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from metasched.doors.jit.errors import TraceError
from metasched.doors.jit.indexing import add_at
from metasched.doors.jit.trace import ArrayTrace, TracedOperand
from metasched.doors.jit.ufunc_reductions import reduce_by
from metasched.dtypes import DType
from metasched.graph.node_helpers.running_reductions import Scan, scan_axis

# Takes the trace, the ufunc and what its method takes. Gives a value, or an array.
Method: TypeAlias = Callable[..., Any]

_SUMS: Mapping[str, str] = MappingProxyType({"add": "cumsum", "multiply": "cumprod"})
_EXTREMES: Mapping[str, str] = MappingProxyType(
    {"maximum": "max", "minimum": "min", "logical_or": "max", "logical_and": "min"}
)
_SCATTER_REDUCTIONS: Mapping[str, str] = MappingProxyType(
    {"add": "add", "multiply": "mul", "maximum": "max", "minimum": "min"}
)


def _reduce(trace: ArrayTrace, ufunc: np.ufunc, array: Any, *given: Any, **options: Any) -> Any:
    return reduce_by(ufunc, array, *given, **options)


def _accumulate(trace: ArrayTrace, ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    if ufunc.__name__ in _SUMS:
        return getattr(np, _SUMS[ufunc.__name__])(array, axis=axis, dtype=dtype)
    reducer = _require_counterpart(ufunc, "accumulate", _EXTREMES)
    x = trace.value(array, DType.BOOL if ufunc in (np.logical_or, np.logical_and) else None)
    own = trace.nodes.cast(x, DType.U8) if x.type.dtype.is_bool else x
    site = trace.nodes.site("Scan")
    return trace.nodes.cast(scan_axis(site, own, Scan(reducer, site.axis(axis, x.rank))), x.type.dtype)


def _apply_outer(trace: ArrayTrace, ufunc: np.ufunc, first: Any, second: Any, **options: Any) -> Any:
    ends = (1,) * np.ndim(second)
    return ufunc(np.reshape(first, np.shape(first) + ends), second, **options)


def _apply_at(trace: ArrayTrace, ufunc: np.ufunc, array: Any, key: Any, given: Any) -> Any:
    reduction = _require_counterpart(ufunc, "at", _SCATTER_REDUCTIONS)
    if not isinstance(array, TracedOperand):
        raise TraceError(
            f"np.{ufunc.__name__}.at writes what is traced into an array of NumPy's",
            "make that one of the trace: np.zeros(shape, like=x), or np.zeros_like(x)",
        )
    add_at(array, key, given, reduction)


METHODS: Mapping[str, Method] = MappingProxyType(
    {"reduce": _reduce, "accumulate": _accumulate, "outer": _apply_outer, "at": _apply_at}
)


def _require_counterpart(ufunc: np.ufunc, method: str, names: Mapping[str, str]) -> str:
    found = names.get(ufunc.__name__)
    if found is None:
        raise TraceError(
            f"np.{ufunc.__name__}.{method} cannot be traced",
            f"that of {', '.join(names)} can; write it by functions of whole arrays",
        )
    return found


def call_ufunc_method(trace: ArrayTrace, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: Any) -> Any:
    """Call a method of a ufunc. Raises TraceError and Unsupported."""
    run = METHODS.get(method)
    if run is None:
        raise TraceError(f"np.{ufunc.__name__}.{method} cannot be traced", "write it by functions of whole arrays")
    return run(trace, ufunc, *inputs, **options)

"""Medians and quantiles, weighted means, covariances; statistics of what is not NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from metasched.doors.jit.functions.movement import axes_of
from metasched.doors.jit.functions.sorting import rows_of
from metasched.doors.jit.promotion import limit_of
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace
from metasched.doors.node_calls import require_known
from metasched.doors.ordered import sort_along
from metasched.graph.errors import Unsupported


@traces("median")
def median(
    trace: ArrayTrace,
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    rows, kept = rows_of(trace, a, axis)
    extent = rows.shape[-1]
    if not extent:
        raise Unsupported("a median of no elements")
    # In order, as far as the middle.
    first = trace.array(sort_along(trace.nodes, rows.value, rows.ndim - 1, extent // 2 + 1)[0])
    middle = np.mean(first[..., (extent - 1) // 2 :], axis=-1)
    return _propagate_nan(rows, _keep_dims(middle, kept, keepdims), kept, keepdims)


def _keep_dims(found: Any, kept: tuple[int, ...], keepdims: bool) -> Any:
    return np.reshape(found, kept) if keepdims else found


def _propagate_nan(rows: Any, found: Any, kept: tuple[int, ...], keepdims: bool) -> Any:
    """NaN where one element is."""
    if rows.dtype.kind != "f":
        return found
    nan = _keep_dims(np.any(np.isnan(rows), axis=-1), kept, keepdims)
    return np.where(nan, np.nan, found)


_POSITIONS: dict[str, Callable[[Any], Any]] = {
    "linear": lambda x: x,
    "lower": np.floor,
    "higher": np.ceil,
    "nearest": np.rint,
    "midpoint": lambda x: (np.floor(x) + np.ceil(x)) / 2,
}


@traces("quantile")
def quantile(
    trace: ArrayTrace,
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Quantiles, at places that have to be known."""
    wanted = _quantiles(trace, q, method)
    rows, kept = rows_of(trace, a, axis)
    between = method in ("linear", "midpoint")
    if between and rows.dtype == bool:
        raise Unsupported("NumPy subtracts no bools, and what is between them has no form")
    if isinstance(q, int | float) and rows.dtype.kind == "f":
        wanted = wanted.astype(rows.dtype)
    places = np.asarray(_POSITIONS[method](wanted * wanted.dtype.type(rows.shape[-1] - 1)))
    low = np.minimum(np.floor(places).astype(np.int64), rows.shape[-1] - 1)
    count = int(low.max(initial=0)) + 2
    ordered = sort_along(trace.nodes, rows.value, rows.ndim - 1, min(count, rows.shape[-1]))[0]
    first = trace.array(ordered)
    kind = np.result_type(rows.dtype, places.dtype) if between and places.dtype.kind == "f" else rows.dtype
    pairs = zip(low.reshape(-1), places.reshape(-1), strict=True)
    made = [_interpolate(first, int(n), float(p - n), kind) for n, p in pairs]
    shaped = [_propagate_nan(rows, _keep_dims(one.astype(kind), kept, keepdims), kept, keepdims) for one in made]
    found = np.stack(shaped)
    return np.reshape(found, (*places.shape, *found.shape[1:]))


def _quantiles(trace: ArrayTrace, q: Any, method: str) -> Any:
    """The quantiles that are wanted, as an array. Raises Unsupported."""
    if method not in _POSITIONS:
        raise Unsupported(f"method={method!r}: {', '.join(_POSITIONS)} can be traced")
    wanted = (
        require_known(trace.value(q).constant, "a quantile's place")
        if not isinstance(q, int | float)
        else np.asarray(q)
    )
    if np.any(wanted < 0) or np.any(wanted > 1):
        raise Unsupported("quantiles are between 0 and 1")
    return wanted


def _interpolate(ordered: Any, low: int, share: float, dtype: Any) -> Any:
    """What is at a share of the way to the next one, in a type, which is that of the places, too."""
    one = ordered[..., low]
    if not share:
        return one
    next_ = ordered[..., low + 1]
    between = np.subtract(next_, one).astype(dtype)
    return np.add(one, between * share) if share < 0.5 else np.subtract(next_, between * (1 - share))


@traces("percentile")
def percentile(
    trace: ArrayTrace,
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    return quantile(trace, a, _share_of_hundred(trace, a, q), axis, None, False, method, keepdims)


def _share_of_hundred(trace: ArrayTrace, a: Any, q: Any) -> Any:
    """Percentages as quantiles, in NumPy's type."""
    if isinstance(q, int | float):
        return q / 100
    wanted = require_known(trace.value(q).constant, "a percentile's place")
    kind = trace.value(a).type.dtype
    return wanted / (kind.numpy.type(100) if kind.is_float else 100)


@traces("average")
def average(
    trace: ArrayTrace,
    a: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    if weights is None:
        found = np.mean(a, axis=axis, keepdims=keepdims)
        total = np.full_like(found, trace.value(a).type.size // max(found.size, 1))
        return (found, total) if returned else found
    shape, given = np.shape(a), np.shape(weights)
    if given != shape:
        axes = axes_of(axis, len(shape))
        if given != tuple(shape[n] for n in axes):
            raise Unsupported(f"weights of shape {given} are those of no axes of {shape}: `axis` says which")
        order = np.argsort(axes)
        weights = np.transpose(weights, [int(n) for n in order])
        weights = np.reshape(weights, [extent if n in axes else 1 for n, extent in enumerate(shape)])
    own = trace.value(a).type.dtype
    kind = np.result_type(own.numpy, trace.value(weights).type.dtype.numpy)
    kind = kind if own.is_float else np.result_type(kind, np.float64)
    wide = np.broadcast_to(weights, shape)
    total = np.sum(wide, axis=axis, keepdims=keepdims, dtype=kind)
    found = np.true_divide(np.sum(np.multiply(a, wide, dtype=kind), axis=axis, keepdims=keepdims), total)
    return (found, total) if returned else found


@traces("cov")
def covariance(
    trace: ArrayTrace,
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    if fweights is not None or aweights is not None:
        raise Unsupported("np.cov with weights has no form here")
    operands = [_variables(m, rowvar), *([] if y is None else [_variables(y, rowvar)])]
    kind = np.result_type(*(x.dtype for x in operands), np.float64) if dtype is None else dtype
    x = np.concatenate(operands, 0).astype(kind)
    off = np.subtract(x, np.mean(x, axis=1, keepdims=True))
    left = max(x.shape[1] - ((0 if bias else 1) if ddof is None else ddof), 0)
    return np.squeeze(np.divide(np.matmul(off, off.T), left))


def _variables(given: Any, rowvar: bool) -> Any:
    """A row for each variable."""
    x = np.atleast_2d(given)
    return x if rowvar or np.ndim(given) == 1 else x.T


@traces("corrcoef")
def correlation(
    trace: ArrayTrace, x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None, **ignored: Any
) -> Any:
    found = covariance(trace, x, y, rowvar, dtype=dtype)
    if not found.ndim:
        return np.divide(found, found)
    deviations = np.sqrt(np.diagonal(found))
    return np.clip(np.divide(np.divide(found, deviations[:, None]), deviations[None]), -1, 1)


# --- of what is not NaN -----------------------------------------------------------------------------------------


def _replace_nan(a: Any, value: float) -> Any:
    return np.where(np.isnan(a), value, a) if a.dtype.kind == "f" else a


@traces("nansum")
def nansum(trace: ArrayTrace, a: Any, axis: Any = None, dtype: Any = None, out: None = None, **options: Any) -> Any:
    return np.sum(_replace_nan(a, 0), axis=axis, dtype=dtype, **options)


@traces("nanprod")
def nanprod(trace: ArrayTrace, a: Any, axis: Any = None, dtype: Any = None, out: None = None, **options: Any) -> Any:
    return np.prod(_replace_nan(a, 1), axis=axis, dtype=dtype, **options)


@traces("nancumsum")
def nancumsum(trace: ArrayTrace, a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    return np.cumsum(_replace_nan(a, 0), axis=axis, dtype=dtype)


@traces("nancumprod")
def nancumprod(trace: ArrayTrace, a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    return np.cumprod(_replace_nan(a, 1), axis=axis, dtype=dtype)


@traces("nanmean")
def nanmean(trace: ArrayTrace, a: Any, axis: Any = None, dtype: Any = None, out: None = None, **options: Any) -> Any:
    return np.mean(a, axis=axis, dtype=dtype, where=_is_number(a), **options)


@traces("nanvar")
def nanvar(trace: ArrayTrace, a: Any, axis: Any = None, dtype: Any = None, out: None = None, **options: Any) -> Any:
    return _without_freedom(a, np.var(a, axis=axis, dtype=dtype, where=_is_number(a), **options), axis, options)


@traces("nanstd")
def nanstd(trace: ArrayTrace, a: Any, axis: Any = None, dtype: Any = None, out: None = None, **options: Any) -> Any:
    return _without_freedom(a, np.std(a, axis=axis, dtype=dtype, where=_is_number(a), **options), axis, options)


def _without_freedom(a: Any, found: Any, axis: Any, options: dict[str, Any]) -> Any:
    """NaN where no more numbers are left than degrees of freedom are lost."""
    if a.dtype.kind != "f":
        return found
    lost = options.get("correction", options.get("ddof", 0))
    count = np.count_nonzero(_is_number(a), axis=axis, keepdims=options.get("keepdims", False))
    return np.where(np.less_equal(count, lost), np.nan, found)


def _is_number(a: Any) -> Any:
    return np.logical_not(np.isnan(a)) if a.dtype.kind == "f" else True


@traces("nanmax")
def nanmax(trace: ArrayTrace, a: Any, axis: Any = None, out: None = None, **options: Any) -> Any:
    return _extreme(trace, a, axis, np.max, options)


@traces("nanmin")
def nanmin(trace: ArrayTrace, a: Any, axis: Any = None, out: None = None, **options: Any) -> Any:
    return _extreme(trace, a, axis, np.min, options)


def _extreme(trace: ArrayTrace, a: Any, axis: Any, extreme: Callable[..., Any], options: dict[str, Any]) -> Any:
    if a.dtype.kind != "f":
        return extreme(a, axis=axis, **options)
    furthest = limit_of(trace.value(a).type.dtype, largest=extreme is np.min)
    found = extreme(_replace_nan(a, furthest), axis=axis, **options)
    if options.get("initial") is not None:
        return found
    return np.where(np.all(np.isnan(a), axis=axis, **options), np.nan, found)


@traces("nanargmax")
def nanargmax(trace: ArrayTrace, a: Any, axis: Any = None, out: None = None, **options: Any) -> Any:
    return np.argmax(_replace_nan(a, -np.inf), axis=axis, **options)


@traces("nanargmin")
def nanargmin(trace: ArrayTrace, a: Any, axis: Any = None, out: None = None, **options: Any) -> Any:
    return np.argmin(_replace_nan(a, np.inf), axis=axis, **options)


@traces("nanmedian")
def nanmedian(
    trace: ArrayTrace,
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """NaN is behind all others in order, so the middle of these is where their number says."""
    if a.dtype.kind != "f":
        return median(trace, a, axis, keepdims=keepdims)
    rows, kept = rows_of(trace, a, axis)
    ordered = np.sort(rows, axis=-1)
    count = np.count_nonzero(np.logical_not(np.isnan(rows)), axis=-1, keepdims=True)
    low, high = (np.maximum(np.floor_divide(n, 2), 0) for n in (np.subtract(count, 1), count))
    high = np.minimum(high, rows.shape[-1] - 1)
    pair = np.concatenate([low, high], axis=-1)
    found = np.mean(np.take_along_axis(ordered, pair, axis=-1), axis=-1)
    return _keep_dims(found, kept, keepdims)


@traces("nanquantile")
def nanquantile(
    trace: ArrayTrace,
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    """Quantiles, at places that have to be known, of as many numbers as each row has."""
    if a.dtype.kind != "f":
        return quantile(trace, a, q, axis, None, False, method, keepdims)
    wanted = _quantiles(trace, q, method)
    if isinstance(q, int | float):
        wanted = wanted.astype(a.dtype)
    rows, kept = rows_of(trace, a, axis)
    count = np.count_nonzero(np.logical_not(np.isnan(rows)), axis=-1, keepdims=True)
    last = np.maximum(np.subtract(count, 1), 0).astype(wanted.dtype)
    ordered = np.sort(rows, axis=-1)
    kind = np.result_type(rows.dtype, wanted.dtype) if method in ("linear", "midpoint") else rows.dtype
    made = []
    for share in wanted.reshape(-1):
        place = _POSITIONS[method](np.multiply(last, share))
        low = np.floor(place)
        pair = np.minimum(np.concatenate([low, np.add(low, 1)], axis=-1), last).astype(np.int64)
        found = np.take_along_axis(ordered, pair, axis=-1).astype(kind)
        made.append(_keep_dims(_lerp(found[..., 0], found[..., 1], np.subtract(place, low)[..., 0]), kept, keepdims))
    found = np.stack([one.astype(kind) for one in made])
    return np.reshape(found, (*wanted.shape, *found.shape[1:]))


def _lerp(low: Any, high: Any, share: Any) -> Any:
    """What is at a share of the way, from the end that is nearer; where it is an end, the other counts for nothing."""
    between = np.subtract(high, low)
    away = np.where(np.less(share, 0.5), low + between * share, high - between * (1 - share))
    return np.where(np.equal(share, 0), low, away)


@traces("nanpercentile")
def nanpercentile(
    trace: ArrayTrace,
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Any:
    return nanquantile(trace, a, _share_of_hundred(trace, a, q), axis, None, False, method, keepdims)

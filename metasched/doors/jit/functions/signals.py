"""Convolutions, derivatives, interpolation and windows of sampled signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from metasched.doors.jit.functions.movement import axes_of, axis_of
from metasched.doors.jit.promotion import language_type
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace
from metasched.doors.jit.views import ReadOnlyView, make_view
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.text import at, cast, declare_buffer, indices
from metasched.graph.value_type import ValueType

_BOOLS = "NumPy subtracts no bools"


@traces("convolve")
def convolve(trace: ArrayTrace, a: Any, v: Any, mode: str = "full") -> Any:
    first, second = np.atleast_1d(a), np.atleast_1d(v)
    if np.shape(second)[0] > np.shape(first)[0]:
        first, second = second, first
    return _correlate_signals(trace, first, np.flip(second), mode)


@traces("correlate")
def correlate(trace: ArrayTrace, a: Any, v: Any, mode: str = "valid") -> Any:
    first, second = np.atleast_1d(a), np.atleast_1d(v)
    if np.shape(second)[0] > np.shape(first)[0]:
        return np.flip(trace.array(_correlate_signals(trace, second, first, mode)))
    return _correlate_signals(trace, first, second, mode)


def _correlate_signals(trace: ArrayTrace, a: Any, v: Any, mode: str) -> GraphValue:
    """Sums of products of a signal and one that is no longer, at each distance of the two."""
    count = np.shape(v)[0]
    if np.ndim(a) != 1 or np.ndim(v) != 1 or not count:
        raise Unsupported(f"signals have one dimension and elements, and these are of {np.shape(a)} and {np.shape(v)}")
    borders = {"full": (count - 1, count - 1), "same": (count // 2, count - 1 - count // 2), "valid": (0, 0)}
    if mode not in borders:
        raise Unsupported(f"mode={mode!r} is none of {', '.join(borders)}")
    dtype = language_type(np.result_type(*(trace.value(x).type.dtype.numpy for x in (a, v))))
    signal, kernel = trace.value(np.pad(a, borders[mode]), dtype), trace.value(v, dtype)
    wide, extent = DType.I32 if dtype.is_bool else dtype.compute, signal.shape[0] - count + 1
    product = f"{cast('A[i0 + k]', dtype, wide)} * {cast('B[k]', dtype, wide)}"
    stages = [declare_buffer("T", ValueType(wide, (extent,))), f"T[i0] = sum[k < {count}]({product})"]
    stages.append(f"Y[i0] = {cast('T[i0]', wide, dtype)}")
    return trace.nodes.site("Correlate").single(stages, ValueType(dtype, (extent,)), A=signal, B=kernel)


@traces("lib.stride_tricks.sliding_window_view")
def sliding_window_view(
    trace: ArrayTrace, x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    rank = np.ndim(x)
    sizes = (window_shape,) if isinstance(window_shape, int | np.integer) else tuple(window_shape)
    axes = axes_of(axis, rank)
    if len(sizes) != len(axes) or writeable:
        raise Unsupported(f"windows of {sizes} along the axes {axes} that are not written can be traced")
    windows = [(n, int(size)) for n, size in zip(axes, sizes, strict=True)]
    return make_view(
        trace,
        x,
        ReadOnlyView(
            lambda own, whole: _windows(own, whole, windows),
            lambda whole: np.lib.stride_tricks.sliding_window_view(whole, sizes, axes),
        ),
    )


def _windows(trace: ArrayTrace, x: GraphValue, windows: Sequence[tuple[int, int]]) -> GraphValue:
    places, shape = list(indices(x.rank)), list(x.shape)
    for n, (axis, size) in enumerate(windows):
        shape[axis] -= size - 1
        if shape[axis] < 1:
            raise Unsupported(f"a window of {size} is larger than the axis {axis} of {x.type}")
        places[axis] += f" + w{n}"
    over = [*indices(x.rank), *(f"w{n}" for n in range(len(windows)))]
    type_ = ValueType(x.type.dtype, (*shape, *(size for _, size in windows)))
    return trace.nodes.site("Windows").single([f"{at('Y', over)} = {at('A', places)}"], type_, A=x)


@traces("gradient")
def gradient(trace: ArrayTrace, f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Slopes of samples at equal distances, or at places along an axis."""
    if f.dtype == bool:
        raise Unsupported(_BOOLS)
    rank = np.ndim(f)
    axes = axes_of(axis, rank)
    distances = list(varargs) * len(axes) if len(varargs) == 1 else list(varargs) or [1.0] * len(axes)
    if len(distances) != len(axes):
        raise Unsupported("np.gradient takes no distance, one, or one for each axis")
    x = f if f.dtype.kind == "f" else np.multiply(f, 1.0)
    made = [_derivative(x, n, by, edge_order) for n, by in zip(axes, distances, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def _derivative(f: Any, axis: int, by: Any, edge_order: int) -> Any:
    extent = f.shape[axis]
    if extent < edge_order + 1 or edge_order not in (1, 2):
        raise Unsupported(f"{extent} samples are too few for a derivative with edge_order={edge_order}")

    def part(first: int | None, end: int | None) -> Any:
        return f[(*(slice(None),) * axis, slice(first, end))]

    if np.ndim(by) == 0:
        inner = np.divide(np.subtract(part(2, None), part(None, -2)), np.multiply(2.0, by)) if extent > 2 else None
        if edge_order == 1:
            low, high = (
                np.divide(np.subtract(a, b), by) for a, b in ((part(1, 2), part(0, 1)), (part(-1, None), part(-2, -1)))
            )
        else:
            low = -1.5 * part(0, 1) + 2.0 * part(1, 2) - 0.5 * part(2, 3)
            high = 0.5 * part(-3, -2) - 2.0 * part(-2, -1) + 1.5 * part(-1, None)
            low, high = np.divide(low, by), np.divide(high, by)
    else:
        if edge_order != 1 or np.shape(by) != (extent,):
            raise Unsupported("places of samples are one for each, and are traced with edge_order=1")
        steps = np.reshape(np.diff(by), (-1, *(1,) * (f.ndim - axis - 1)))
        before, behind = steps[:-1], steps[1:]
        inner = None if extent < 3 else (
            np.multiply(np.divide(-behind, before * (before + behind)), part(None, -2))
            + np.multiply(np.divide(behind - before, before * behind), part(1, -1))
            + np.multiply(np.divide(before, behind * (before + behind)), part(2, None))
        )  # fmt: skip
        low = np.divide(np.subtract(part(1, 2), part(0, 1)), steps[:1])
        high = np.divide(np.subtract(part(-1, None), part(-2, -1)), steps[-1:])
    parts = [piece for piece in (low, inner, high) if piece is not None]
    return np.concatenate(parts, axis).astype(f.dtype)


@traces("interp")
def interp(trace: ArrayTrace, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Values between samples, by straight lines, in f64."""
    if period is not None:
        raise Unsupported("np.interp with a period has no form here; np.remainder(x, period) before it has")
    at_, places, samples = (trace.array(trace.value(given, DType.F64)) for given in (x, xp, fp))
    last = places.shape[0] - 1
    index = np.clip(np.subtract(np.searchsorted(places, at_, side="right"), 1), 0, max(last - 1, 0))
    behind = np.minimum(index + 1, last)
    start, low = np.take(places, index), np.take(samples, index)
    width = np.subtract(np.take(places, behind), start)
    slope = np.divide(np.subtract(np.take(samples, behind), low), np.where(np.equal(width, 0), 1.0, width))
    found = np.add(np.multiply(slope, np.subtract(at_, start)), low)
    found = np.where(np.less(at_, places[0]), samples[0] if left is None else left, found)
    found = np.where(np.equal(at_, places[-1]), samples[-1], found)
    return np.where(np.greater(at_, places[-1]), samples[-1] if right is None else right, found)


@traces("trapezoid", "trapz")
def trapezoid(trace: ArrayTrace, y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    moved = np.moveaxis(y, axis, -1)
    if x is not None:
        dx = np.diff(x) if np.ndim(x) == 1 else np.moveaxis(np.diff(x, axis=axis), axis, -1)
    return np.sum(np.multiply(dx, np.add(moved[..., 1:], moved[..., :-1])) / 2.0, axis=-1)


@traces("ediff1d")
def ediff1d(trace: ArrayTrace, ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    if ary.dtype == bool:
        raise Unsupported(_BOOLS)
    parts = [to_begin, np.diff(np.ravel(ary)), to_end]
    return np.concatenate([np.ravel(part) for part in parts if part is not None]).astype(
        trace.array(trace.value(ary)).dtype
    )


@traces("polyval")
def polyval(trace: ArrayTrace, p: Any, x: Any) -> Any:
    found = np.zeros_like(x)
    for factor in np.atleast_1d(p):
        found = np.add(np.multiply(found, x), factor)
    return found


@traces("sinc")
def sinc(trace: ArrayTrace, x: Any) -> Any:
    angle = np.multiply(np.pi, x)
    angle = np.where(np.equal(angle, 0), np.finfo(angle.dtype).eps, angle)
    return np.divide(np.sin(angle), angle)


@traces("unwrap")
def unwrap(trace: ArrayTrace, p: Any, discont: Any = None, axis: int = -1, *, period: float = 2 * np.pi) -> Any:
    place = axis_of(axis, np.ndim(p))
    steps = np.diff(p, axis=place)
    kind = np.result_type(steps.dtype, period)
    whole = np.issubdtype(kind, np.integer)
    high = period // 2 if whole else period / 2
    turned = np.add(np.remainder(np.add(steps, high), period), -high)
    if not whole or period % 2 == 0:
        turned = np.where(np.logical_and(np.equal(turned, -high), np.greater(steps, 0)), high, turned)
    jump = np.subtract(turned, steps)
    jump = np.where(np.less(np.abs(steps), period / 2 if discont is None else discont), jump.dtype.type(0), jump)
    first, rest = np.split(p, [1], axis=place)
    return np.concatenate([first, np.add(rest, np.cumsum(jump, axis=place))], axis=place, dtype=kind)

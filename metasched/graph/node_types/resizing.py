"""Tensors resampled to other sizes. Where each output looks, and with which weights, follows from sizes alone: it is
computed at load, an axis at a time, and is data of the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import DataSize, GraphValue
from metasched.graph.counted.size_arithmetic import Size, sizes_of_input
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.reading.old_resizing import OLD_COORDINATES, OLD_NEAREST
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, cast, declare_buffer, indices, real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]

_COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"
)  # fmt: skip
_ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}

# A sum of weighed integers is known to so many parts of one: equal ones would be one less where it was rounded down.
_PARTS = 4096


@dataclass(frozen=True)
class _Axis:
    """An axis that is resized: its extents before and after, the scale, and the part that is taken, as (start, end).

    Places are f32, as ONNX Runtime has them: which element is the nearest may be a matter of how they are rounded.
    """

    extent: int
    outputs: int
    scale: np.float32
    part: tuple[float, float]

    @property
    def length(self) -> np.float32:
        """The size that the scale says, which need not be whole."""
        is_of_size = self.scale == _scale(self.extent, self.outputs)
        return np.float32(self.outputs) if is_of_size else _scale_size(self.extent, self.scale)

    def places(self, how: str) -> Array:
        """Where each output is among the inputs, by a way of counting coordinates."""
        x, scale, n, out = np.arange(self.outputs, dtype=np.float32), self.scale, self.extent, self.outputs
        if how == "asymmetric":
            return np.asarray(x / scale)
        if how == "align_corners":
            return np.asarray(x * np.float32(n - 1) / (self.length - np.float32(1)) if out > 1 else np.zeros(out))
        if how == "tf_crop_and_resize":
            start, end = self.part
            if out == 1:
                return np.asarray(np.full(out, 0.5 * (start + end) * (n - 1)))
            return np.asarray(start * (n - 1) + x * (end - start) * (n - 1) / (out - 1))
        if how == "pytorch_half_pixel" and out == 1:
            return np.zeros(out)
        half = (x + np.float32(0.5)) / scale - np.float32(0.5)
        if how == "half_pixel_symmetric":
            # Where the output is not a whole multiple, both ends are cut off alike.
            return np.asarray(np.float32(n / 2) * (1 - np.float32(out) / self.length) + half)
        return np.asarray(half)


@dataclass(frozen=True)
class _Taps:
    """For each output of an axis, the inputs that it is made of and their weights (outputs x taps).

    Places beyond the last input, `last`, mean this one.
    """

    places: Array
    weights: Array
    last: int

    def drop_unused(self) -> _Taps:
        """The taps without those whose weights are all zero."""
        kept = (self.weights != 0).any(axis=0)
        return _Taps(self.places[:, kept], self.weights[:, kept], self.last)

    @property
    def inner_places(self) -> Array:
        """The places, none of which is beyond the last input."""
        return np.asarray(np.minimum(self.places, self.last))

    def table(self, site: NodeSite) -> Array:
        """The places as data. Where graphs are compared, those of fewer outputs are the first of these."""
        return self.places if site.builder.is_compared else self.inner_places

    def place(self, site: NodeSite, read: str) -> str:
        """The place of a tap, by what reads it from the table."""
        return f"clamp({read}, 0, {self.last})" if site.builder.is_compared else read


@node_type("Resize", "Upsample")
def resize(site: NodeSite) -> Results:
    x = site.operand(0)
    axes, sizes, scales = _sizes(site, x)
    mode = site.require_one_of("mode", "nearest", ("nearest", "linear", "cubic"))
    by_default = OLD_COORDINATES if site.op == "Upsample" else "half_pixel"
    how = site.require_one_of("coordinate_transformation_mode", by_default, _COORDINATES)
    parts = _parts(site, x, axes) if how == "tf_crop_and_resize" else {}
    outside = float(site.attribute("extrapolation_value", 0.0)) if parts else None
    resampled, between_corners, all_inside = dict[int, _Taps](), dict[int, _Axis](), []
    for axis, size, scale in zip(axes, sizes, scales, strict=True):
        if size == x.shape[axis] and scale == 1 and axis not in parts:
            continue
        one = _Axis(x.shape[axis], size, scale, parts.get(axis, (0.0, 1.0)))
        if _places_depend_on_sizes(site, one, how, mode):
            between_corners[axis] = one
            continue
        places = one.places(how)
        resampled[axis] = _taps(site, one, places, mode).drop_unused()
        all_inside.append((axis, (places >= 0) & (places <= one.extent - 1)))
    if _is_less_at_once(x, resampled):
        made = _resample_together(site, x, resampled)
    else:
        made = x
        for axis, taps in resampled.items():
            made = _resample_axis(site, made, axis, taps)
    for axis, one in between_corners.items():
        made = _resample_between_corners(site, made, axis, one)
    made = _cast_result(site, made, x.type.dtype)
    if outside is not None and any(not inside.all() for _, inside in all_inside):
        made = _fill_outside(site, made, all_inside, outside)
    return (made,)


def _scale_size(extent: int, scale: np.float32) -> np.float32:
    """A size times a scale, as ONNX Runtime rounds it: 300 times .7 is 210, and not a little less."""
    return np.float32(extent) * scale


def _scale(extent: int, size: int) -> np.float32:
    """The scale from one size to another. Raises Unsupported where there is nothing to resample."""
    if extent == size:
        return np.float32(1)
    if not extent:
        raise Unsupported(f"nothing is there to make {size} elements of")
    return np.float32(size) / np.float32(extent)


def _sizes(site: NodeSite, x: GraphValue) -> tuple[tuple[int, ...], list[int], list[np.float32]]:
    """The axes that are resized, their extents afterwards, and the scales."""
    given = site.attribute("axes")
    axes = site.axes(range(x.rank) if given is None else given, x.rank)
    place = 1 if site.op == "Upsample" else 2
    by_scale = site.optional(place)
    if site.op == "Upsample" or (by_scale is not None and by_scale.type.size):
        scales = [np.float32(n) for n in site.require_known(place, "scales").reshape(-1)]
        return axes, [int(_scale_size(x.shape[a], s)) for a, s in zip(axes, scales, strict=True)], scales
    asked = sizes_of_input(site, 3, "sizes")
    if len(asked) != len(axes):
        raise Unsupported(f"it has {len(asked)} sizes for {len(axes)} axes")
    sizes = [_known_size(site, x, axis, size) for axis, size in zip(axes, asked, strict=True)]
    scales = [_scale(x.shape[axis], size) for axis, size in zip(axes, sizes, strict=True)]
    policy = site.require_one_of("keep_aspect_ratio_policy", "stretch", ("stretch", "not_larger", "not_smaller"))
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        scales = [scale] * len(scales)
        sizes = [int(np.floor(_scale_size(x.shape[axis], scale) + np.float32(0.5))) for axis in axes]
    return axes, sizes, scales


def _known_size(site: NodeSite, x: GraphValue, axis: int, size: Size) -> int:
    """A size that a dimension is resized to. Raises Unsupported for one that data decide, but that which it has."""
    if not isinstance(size, DataSize):
        return size
    if x.count is None or x.count.axis != axis or not site.builder.is_same_value(x.count.number, size.number):
        raise Unsupported(f"data decide the size that its dimension {axis} is resized to")
    return x.shape[axis]


def _parts(site: NodeSite, x: GraphValue, axes: tuple[int, ...]) -> dict[int, tuple[float, float]]:
    given = [float(n) for n in site.require_known(1, "regions").reshape(-1)]
    return {axis: (given[n], given[n + len(axes)]) for n, axis in enumerate(axes)}


def _taps(site: NodeSite, axis: _Axis, places: Array, mode: str) -> _Taps:
    if mode == "nearest":
        by_default = OLD_NEAREST if site.op == "Upsample" else "round_prefer_floor"
        how = site.require_one_of("nearest_mode", by_default, (*_ROUNDINGS, OLD_NEAREST))
        if how == OLD_NEAREST:
            how = "ceil" if axis.scale < 1 else "floor"
        chosen = np.maximum(_ROUNDINGS[how](places), 0)
        return _Taps(chosen.astype(np.int64)[:, None], np.ones((axis.outputs, 1)), axis.extent - 1)
    narrowed = min(float(axis.scale), 1.0) if site.flag("antialias") else 1.0
    reach = (1 if mode == "linear" else 2) / narrowed
    first = np.ceil(places - reach).astype(np.int64)
    taps = first[:, None] + np.arange(int(np.floor(2 * reach)) + 1)
    distance = np.abs(taps - places[:, None]) * narrowed
    a = float(site.attribute("cubic_coeff_a", -0.75))
    weights = np.maximum(1 - distance, 0) if mode == "linear" else _cubic(distance, a)
    if site.flag("exclude_outside"):
        weights = weights * ((taps >= 0) & (taps < axis.extent))
    if site.flag("exclude_outside") or site.flag("antialias"):
        weights = weights / weights.sum(axis=1, keepdims=True)
    return _Taps(np.maximum(taps, 0), weights, axis.extent - 1)


def _cubic(x: Array, a: float) -> Array:
    """Keys' kernel (1981): 1 at 0, and 0 at every other whole number and beyond 2."""
    near = (a + 2) * x**3 - (a + 3) * x**2 + 1
    far = a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
    return np.asarray(np.where(x <= 1, near, np.where(x < 2, far, 0.0)))


def _sum_type(dtype: DType) -> DType:
    """The type that elements are weighed and added up in: sums are rounded once, when all axes are resampled."""
    if dtype.is_float:
        return dtype.compute
    return DType.F32 if dtype.bits <= DType.U8.bits else DType.F64


def _cast_result(site: NodeSite, made: GraphValue, dtype: DType) -> GraphValue:
    """Cast resampled elements to the type of the operand; integers are kept in their range.

    As ONNX Runtime has it, integers are rounded towards zero, and to the nearest where the node is to avoid aliases.
    """
    if made.type.dtype is dtype or dtype.is_float:
        return site.cast(made, dtype)
    whole = "rint({0})" if site.flag("antialias") else f"rint({{0}} * {_PARTS}) / {_PARTS}"
    return site.elementwise(f"{dtype}({whole})", made, dtype=dtype)


def _resample_axis(site: NodeSite, x: GraphValue, axis: int, taps: _Taps) -> GraphValue:
    """One axis of a tensor resampled: in its type where elements are only moved, and in that of sums otherwise."""
    weights = taps.weights
    count, width = weights.shape
    over, wide, shape = indices(x.rank), _sum_type(x.type.dtype), (*x.shape[:axis], count, *x.shape[axis + 1 :])
    i = over[axis]

    def element(place: str) -> str:
        return at("A", [place if dim == axis else name for dim, name in enumerate(over)])

    if width == 1 and (weights == 1).all():
        simple, type_ = _formula(taps.inner_places[:, 0], i), ValueType(x.type.dtype, shape)
        if simple is not None:
            return site.single([f"{at('Y', over)} = {element(simple)}"], type_, A=x)
        table, moved = site.constant(taps.table(site)[:, 0], DType.I64), element(taps.place(site, f"I[{i}]"))
        return site.single([f"{at('Y', over)} = {moved}"], type_, A=x, I=table)
    term = cast(element(taps.place(site, f"I[{i}, k]")), x.type.dtype, wide)
    total = f"sum[k < {width}]({term} * W[{i}, k])"
    table, factors = site.constant(taps.table(site), DType.I64), site.constant(weights, wide)
    return site.single([f"{at('Y', over)} = {total}"], ValueType(wide, shape), A=x, I=table, W=factors)


def _places_depend_on_sizes(site: NodeSite, axis: _Axis, how: str, mode: str) -> bool:
    """Whether places are computed in each call: tables of graphs that are compared would be other ones at each size."""
    is_plain = mode == "linear" and not site.flag("antialias") and not site.flag("exclude_outside")
    return site.builder.is_compared and how == "align_corners" and is_plain and axis.extent > 1 and axis.outputs > 1


def _resample_between_corners(site: NodeSite, x: GraphValue, axis: int, one: _Axis) -> GraphValue:
    """One axis resampled linearly such that its ends stay where they are: from places that are computed, as
    `_Axis.places` does.
    """
    wide, shape = _sum_type(x.type.dtype), (*x.shape[:axis], one.outputs, *x.shape[axis + 1 :])
    over = indices(x.rank)
    place = f"f32(i) * {real(one.extent - 1)} / {real(float(one.length - np.float32(1)))}"
    tap = f"clamp(L[{over[axis]}] + k, 0, {one.extent - 1})"
    inside = [tap if dim == axis else name for dim, name in enumerate(over)]
    term = f"{cast(at('A', inside), x.type.dtype, wide)} * W[{over[axis]}, k]"
    stages = [
        declare_buffer("P", ValueType(DType.F32, (one.outputs,))),
        f"P[i] = {place}",
        declare_buffer("L", ValueType(DType.I64, (one.outputs,))),
        "L[i] = i64(floor(P[i]))",
        declare_buffer("W", ValueType(wide, (one.outputs, 2))),
        f"W[i, k] = max(1.0 - abs({wide}(L[i] + k) - {cast('P[i]', DType.F32, wide)}), 0.0)",
        f"{at('Y', over)} = sum[k < 2]({term})",
    ]
    return site.single(stages, ValueType(wide, shape), A=x)


def _is_less_at_once(x: GraphValue, resampled: Mapping[int, _Taps]) -> bool:
    """Whether all axes resampled at once read much less than one after another: where few elements are left.

    What takes one element as it is stays a place without a sum.
    """
    if any(taps.places.shape[1] == 1 for taps in resampled.values()):
        return False
    shape, apart = list(x.shape), 0
    for axis, taps in resampled.items():
        shape[axis] = len(taps.places)
        apart += prod(shape) * taps.places.shape[1]
    at_once = prod(shape) * prod(int(taps.places.shape[1]) for taps in resampled.values())
    return 2 * at_once < apart


def _resample_together(site: NodeSite, x: GraphValue, resampled: Mapping[int, _Taps]) -> GraphValue:
    """Several axes of a tensor resampled: each element is a sum over the taps of all of them."""
    over, wide = indices(x.rank), _sum_type(x.type.dtype)
    given: dict[str, GraphValue] = {"A": x}
    place, factors, ranges, shape = list(over), list[str](), list[str](), list(x.shape)
    for axis, taps in resampled.items():
        shape[axis], width = taps.places.shape
        given |= {f"I{axis}": site.constant(taps.table(site), DType.I64), f"W{axis}": site.constant(taps.weights, wide)}
        own = [over[axis], f"k{axis}"]
        place[axis] = taps.place(site, at(f"I{axis}", own))
        factors.append(at(f"W{axis}", own))
        ranges.append(f"k{axis} < {width}")
    element = cast(at("A", place), x.type.dtype, wide)
    total = f"sum[{', '.join(ranges)}]({element} * ({' * '.join(factors)}))"
    return site.single([f"{at('Y', over)} = {total}"], ValueType(wide, tuple(shape)), **given)


def _formula(places: Array, i: str) -> str | None:
    """Whole-number arithmetic that gives these places, where there is a simple one: for each, or each of several."""
    x = np.arange(len(places))
    if np.array_equal(places, x):
        return i
    for factor in range(2, 9):
        if np.array_equal(places, x // factor):
            return f"{i} // {factor}"
        if np.array_equal(places, x * factor):
            return f"{i} * {factor}"
    return None


def _fill_outside(site: NodeSite, x: GraphValue, inside: list[tuple[int, Array]], value: float) -> GraphValue:
    """Fill places outside of the input with a value."""
    over = indices(x.rank)
    masks = {f"M{axis}": site.constant(mask, DType.BOOL) for axis, mask in inside}
    met = " and ".join(f"M{axis}[{over[axis]}]" for axis, _ in inside)
    other = cast(real(value), DType.F32, x.type.dtype)
    return site.single([f"{at('Y', over)} = {at('A', over)} if {met} else {other}"], x.type, A=x, **masks)

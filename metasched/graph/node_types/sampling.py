"""Elements sampled at places that are data, between the elements of a grid."""

from __future__ import annotations

from math import prod

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import transpose_axes
from metasched.graph.node_types.gathering import is_inside
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue, ...]

_LARGEST_I32 = 2**31 - 1
# The fewest channels to be put side by side, and how many elements of a channel move in the time that one is gathered.
_FEWEST_CHANNELS, _MOVED = 8, 2


@dataclass(frozen=True)
class _Sampling:
    """How places are made into values.

    Attributes:
        mode: `nearest`, `linear` or `cubic`.
        padding: what is outside: `zeros`, or the element at the `border` or at its `reflection`.
        corners: whether -1 and 1 are the first and the last element, and not half an element outside of these.
        first: which element is the first that a place is made of, relative to the one before it.
        taps: how many elements a place is made of along an axis.

    """

    mode: str
    padding: str
    corners: bool
    first: int
    taps: int


def _read_sampling(site: NodeSite, x: GraphValue, grid: GraphValue) -> _Sampling:
    """Read the node's attributes. Raises Unsupported, for operands that do not fit as well."""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(site.attribute("mode"), site.attribute("mode"))
    dims = x.rank - 2
    if mode not in ("linear", "nearest", "cubic") or dims < 1 or grid.rank != x.rank or grid.shape[-1] != dims:
        raise Unsupported(f"it samples {x.type} at {grid.type} by {mode!r}")
    if not x.type.dtype.is_float:
        raise Unsupported(f"it samples floats, and its input is {x.type}")
    padding = site.require_one_of("padding_mode", "zeros", ("zeros", "border", "reflection"))
    first, taps = {"nearest": (0, 1), "linear": (0, 2), "cubic": (-1, 4)}[mode]
    return _Sampling(mode, padding, site.flag("align_corners"), first, taps)


@node_type("GridSample")
def grid_sample(site: NodeSite) -> Results:
    """The value at each place of the grid: the nearest element, or a sum of the 2 or 4 nearest along each axis."""
    x, grid = site.operand(0), site.operand(1)
    dims = x.rank - 2
    sampling = _read_sampling(site, x, grid)
    outputs, wide = grid.shape[1:-1], x.type.dtype.compute
    over = indices(dims, "h")
    stages: list[str] = []
    spots = ValueType(wide, (x.shape[0], *outputs))
    for dim, extent in enumerate(x.shape[2:]):
        # The last entry of the grid is the place along the last axis.
        given = f"{wide}({at('G', ('n', *over, str(dims - 1 - dim)))})"
        stages += _axis_stages(dim, given, over, spots, extent, sampling)
    rows = _has_rows(x, outputs, sampling)
    if rows:
        x = transpose_axes(site, x, (0, *range(2, x.rank), 1))
    extents = x.shape[1:-1] if rows else x.shape[2:]
    stages += _joined_axes(over, spots, extents, sampling)
    names = [f"k{dim}" for dim in range(dims)]
    place, weight = at("Q", ("n", *names, *over)), at("V", ("n", *names, *over))
    x = site.view(x, (x.shape[0], prod(extents), x.shape[-1]) if rows else (*x.shape[:2], prod(extents)))

    def element(name: str, *inside: str) -> str:
        return at(name, ("n", *inside, "c") if rows else ("n", "c", *inside))

    total = element("T", *over)
    shape = (x.shape[0], *outputs, x.shape[-1]) if rows else (x.shape[0], x.shape[1], *outputs)
    ranges = ", ".join(f"{k} < {sampling.taps}" for k in names)
    stages += [
        declare_buffer("T", ValueType(wide, shape)),
        f"{total} = sum[{ranges} if {is_inside(place, prod(extents))}]({weight} * {wide}({element('A', place)}))",
        f"{element('Y', *over)} = {x.type.dtype}({total})",
    ]
    made = site.single(stages, ValueType(x.type.dtype, shape), A=x, G=grid)
    return (transpose_axes(site, made, (0, made.rank - 1, *range(1, made.rank - 1))) if rows else made,)


def _joined_axes(over: tuple[str, ...], spots: ValueType, extents: tuple[int, ...], sampling: _Sampling) -> list[str]:
    """Stages that join what is taken along each axis: where elements are in the input, all of whose axes are one, and
    -1 for those outside; and their weights. All channels share them.
    """
    dims = len(extents)
    names = [f"k{dim}" for dim in range(dims)]
    index = DType.I32 if prod(extents) <= _LARGEST_I32 else DType.I64
    places = [at(f"I{dim}", ("n", *over, k)) for dim, k in enumerate(names)]
    strides = [prod(extents[dim + 1 :]) for dim in range(dims)]
    flat = " + ".join(f"{index}({p}) * {stride}" for p, stride in zip(places, strides, strict=True))
    inside = " and ".join(f"{p} >= 0.0 and {p} < {extents[dim]}.0" for dim, p in enumerate(places))
    weights = " * ".join(at(f"W{dim}", ("n", *over, k)) for dim, k in enumerate(names))
    shape = (spots.shape[0], *(sampling.taps,) * dims, *spots.shape[1:])
    left = ("n", *names, *over)
    return [
        declare_buffer("Q", ValueType(index, shape)),
        f"{at('Q', left)} = {flat} if {inside} else -1",
        declare_buffer("V", ValueType(spots.dtype, shape)),
        f"{at('V', left)} = {weights}",
    ]


def _has_rows(x: GraphValue, outputs: tuple[int, ...], sampling: _Sampling) -> bool:
    """Whether channels are put side by side first: they are read at the same places, in vectors then. The input's
    elements and the result's are moved for that.
    """
    places = prod(outputs)
    read = places * sampling.taps ** len(outputs)
    return x.shape[1] >= _FEWEST_CHANNELS and prod(x.shape[2:]) + places < _MOVED * read


@node_type("AffineGrid")
def affine_grid(site: NodeSite) -> Results:
    """The place that an affine map takes each element's own to; places go from -1 to 1 along each axis.

    ONNX's function of it drops a batch of one.
    """
    theta, sizes = site.operand(0), site.integers(1, "sizes")
    dims = len(sizes) - 2
    if dims not in (2, 3) or theta.shape != (sizes[0], dims, dims + 1):
        raise Unsupported(f"it maps the places of {list(sizes)} elements by {theta.type}")
    if not theta.type.dtype.is_float:
        raise Unsupported(f"it takes matrices of floats, and its input is {theta.type}")
    wide, corners, over = theta.type.dtype.compute, site.flag("align_corners"), indices(dims, "h")
    # The first column is for the place along the last axis.
    columns = [at("M", ("n", "c", str(dims - 1 - dim))) for dim in range(dims)]
    terms = [
        f"{wide}({m}) * {_own_place(h, size, wide, corners)}"
        for m, h, size in zip(columns, over, sizes[2:], strict=True)
    ]
    total = " + ".join([f"{wide}({at('M', ('n', 'c', str(dims)))})", *terms])
    result = ValueType(theta.type.dtype, (sizes[0], *sizes[2:], dims))
    return (site.single([f"{at('Y', ('n', *over, 'c'))} = {result.dtype}({total})"], result, M=theta),)


def _own_place(index: str, extent: int, dtype: DType, corners: bool) -> str:
    """The place of an element along an axis: the first and the last are at -1 and 1, or half an element inside."""
    if corners:
        return f"({dtype}(2 * {index}) / {extent - 1}.0 - 1.0)" if extent > 1 else "0.0"
    return f"({dtype}(2 * {index} + 1) / {extent}.0 - 1.0)"


def _axis_stages(
    dim: int, given: str, over: tuple[str, ...], spots: ValueType, extent: int, sampling: _Sampling
) -> list[str]:
    """Stages of an axis: the place that the grid gives, inside if it has to be, and what is taken of it."""
    corners = sampling.corners
    place = f"({given} + 1.0) / 2.0 * {extent - 1}.0" if corners else f"(({given} + 1.0) * {extent}.0 - 1.0) / 2.0"
    here = at(f"P{dim}", ("n", *over))
    stages = [declare_buffer(f"P{dim}", spots), f"{here} = {place}"]
    if sampling.padding != "zeros" and sampling.mode != "cubic":
        inside = at(f"B{dim}", ("n", *over))
        stages += [
            declare_buffer(f"B{dim}", spots),
            f"{inside} = {_brought_in(here, extent, corners, sampling.padding)}",
        ]
        here = inside
    return stages + _axis_taps(dim, here, over, spots, extent, sampling)


def _axis_taps(
    dim: int, here: str, over: tuple[str, ...], spots: ValueType, extent: int, sampling: _Sampling
) -> list[str]:
    """Stages that compute, along an axis, the elements that a place is made of and their weights."""
    mode, padding, first = sampling.mode, sampling.padding, sampling.first
    many = (*spots.shape, sampling.taps)
    left = ("n", *over, "k")
    place, weight = at(f"I{dim}", left), at(f"W{dim}", left)
    base = f"rint({here})" if mode == "nearest" else f"floor({here})"
    raw = f"{base} + f32(k + {first})" if spots.dtype is not DType.F64 else f"{base} + f64(k + {first})"
    distance = f"abs({here} - floor({here}) - {spots.dtype}(k + {first}))"
    if mode == "nearest":
        text = "1.0"
    elif mode == "linear":
        text = f"1.0 - {distance}"
    else:
        text = _cubic(distance)
    spread = raw
    stages = []
    if padding != "zeros" and mode == "cubic":
        spot = at(f"R{dim}", left)
        stages = [declare_buffer(f"R{dim}", ValueType(spots.dtype, many)), f"{spot} = {raw}"]
        spread = _brought_in(spot, extent, sampling.corners, padding)
        if padding == "reflection":
            spread = f"rint({spread})"
    elif padding != "zeros":
        spread = f"min(max({raw}, 0.0), {extent - 1}.0)"
    return [
        *stages,
        declare_buffer(f"I{dim}", ValueType(spots.dtype, many)),
        f"{place} = {spread}",
        declare_buffer(f"W{dim}", ValueType(spots.dtype, many)),
        f"{weight} = {text}",
    ]


def _brought_in(place: str, extent: int, corners: bool, padding: str) -> str:
    """A place outside brought to the border, or reflected at it."""
    if padding == "border":
        return f"min(max({place}, 0.0), {extent - 1}.0)"
    low, span = (0.0, float(extent - 1)) if corners else (-0.5, float(extent))
    if span == 0:
        return f"0.0 * {place}"
    # Reflections repeat every two spans.
    offset = f"({place} - ({low}))"
    folded = f"({offset} - {2 * span} * floor({offset} / {2 * span}))"
    reflected = f"({folded} if {folded} <= {span} else {2 * span} - {folded}) + ({low})"
    return f"min(max({reflected}, 0.0), {extent - 1}.0)"


def _cubic(x: str, a: float = -0.75) -> str:
    near = f"(({a + 2} * {x} - {a + 3}) * {x} * {x} + 1.0)"
    far = f"((({a}) * {x} - {5 * a}) * {x} + {8 * a}) * {x} - ({4 * a})".replace("- -", "+ ")
    return f"({near} if {x} <= 1.0 else ({far}))"

"""Elements moved, joined, split and repeated, and the same elements in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metasched.doors.pytorch.registry import aten, lowers
from metasched.doors.pytorch.site import AtenSite, wrap_number
from metasched.doors.pytorch.tensors import fills_its_memory, memory_order, permutation
from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import replace_part, slice_axes
from metasched.graph.text import at, indices, number


@aten(
    "view",
    "view_copy",
    "_unsafe_view",
    "reshape",
    "unsqueeze",
    "squeeze",
    "squeeze.dim",
    "squeeze.dims",
    "flatten.using_ints",
)
def view(site: AtenSite, x: GraphValue, *sizes: Any, **named: Any) -> GraphValue:
    return site.nodes.view(x, site.shape)


@aten("alias", "clone", "detach", "lift_fresh_copy", "contiguous", "_to_copy", "lift_fresh", "to.dtype")
@lowers("prims.convert_element_type")
def copy(site: AtenSite, x: GraphValue, *args: Any, **named: Any) -> GraphValue:
    return site.value(x, site.result)


@aten("as_strided", "as_strided_copy")
def as_strided(
    site: AtenSite, x: GraphValue, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> GraphValue:
    """A tensor's elements at other places of its memory, which it has to fill."""
    own = site.first.storage_offset()
    start = own if storage_offset is None else storage_offset
    same = tuple(size) == x.shape and start == own
    if same and all(n <= 1 or a == b for n, a, b in zip(size, stride, site.first.stride(), strict=True)):
        return x
    first = start - own
    last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if not fills_its_memory(site.first) or first < 0 or last >= x.type.size:
        raise Unsupported("it reads memory that is not its input's")
    order = permutation(memory_order(site.first))
    flat = site.nodes.view(x if order is None else site.call("Transpose", x, perm=order), (x.type.size,))
    over = indices(len(size))
    place = " + ".join([str(first), *(f"{name} * {step}" for name, step in zip(over, stride, strict=True))])
    return site.nodes.site("Strided").single([f"{at('Y', over)} = A[{place}]"], site.types[0], A=flat)


@aten("as_strided_scatter")
def strided_scatter(
    site: AtenSite,
    x: GraphValue,
    source: GraphValue,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> GraphValue:
    """A tensor with elements of its memory from another one, as where one of two views of a cache is written."""
    own = site.first.storage_offset()
    first = 0 if storage_offset is None else storage_offset - own
    dims = sorted((dim for dim in range(len(size)) if size[dim] > 1), key=lambda dim: -stride[dim])
    inner = [size[dim] * stride[dim] for dim in dims[1:]]
    apart = all(stride[dim] >= taken for dim, taken in zip(dims, inner, strict=False))
    if not site.first.is_contiguous() or first < 0 or not apart or (dims and stride[dims[-1]] < 1):
        raise Unsupported("it writes memory that is not its input's, or some of it twice")
    if not source.type.size:
        return x
    places, met, rest = ["0"] * len(size), [f"i0 >= {first}"], f"(i0 - {first})"
    for dim in dims:
        places[dim] = f"{rest} // {stride[dim]}"
        met.append(f"{places[dim]} < {size[dim]}")
        rest = f"({rest} % {stride[dim]})"
    text = f"Y[i0] = {at('B', places)} if {' and '.join([*met, f'{rest} == 0'])} else A[i0]"
    flat = site.nodes.view(x, (x.type.size,))
    made = site.nodes.site("StridedScatter").single([text], flat.type, A=flat, B=site.value(source, site.result))
    return site.nodes.view(made, x.shape)


@aten("unfold")
def unfold(site: AtenSite, x: GraphValue, dimension: int, size: int, step: int) -> GraphValue:
    """Windows along a dimension."""
    if not x.rank:
        return site.nodes.view(x, site.shape)
    axis, over = site.axis(dimension, x.rank), indices(x.rank)
    places = [f"{name} * {step} + w" if n == axis else name for n, name in enumerate(over)]
    return site.nodes.site("Unfold").single([f"{at('Y', (*over, 'w'))} = {at('A', places)}"], site.types[0], A=x)


@aten("diagonal")
def diagonal(site: AtenSite, x: GraphValue, offset: int = 0, dim1: int = 0, dim2: int = 1) -> GraphValue:
    first, second = site.axis(dim1, x.rank), site.axis(dim2, x.rank)
    rest = iter(indices(x.rank - 2))
    along = {first: f"d + {max(-offset, 0)}", second: f"d + {max(offset, 0)}"}
    places = [along[n] if n in along else next(rest) for n in range(x.rank)]
    over = (*indices(x.rank - 2), "d")
    return site.nodes.site("Diagonal").single([f"{at('Y', over)} = {at('A', places)}"], site.types[0], A=x)


@aten("copy", "expand_as")
def copy_of_other(site: AtenSite, x: GraphValue, source: GraphValue, non_blocking: bool = False) -> GraphValue:
    return _expand_to_result(site, site.value(source if "copy" in site.name else x, site.result))


@aten("expand", "broadcast_to")
def expand(site: AtenSite, x: GraphValue, size: Sequence[int], *, implicit: bool = False) -> GraphValue:
    return _expand_to_result(site, x)


def _expand_to_result(site: AtenSite, x: GraphValue) -> GraphValue:
    return site.call("Expand", x, site.integers(site.shape))


@aten("permute", "permute_copy", "transpose.int", "t", "numpy_T")
def permute(site: AtenSite, x: GraphValue, *dims: Any) -> GraphValue:
    order = list(range(x.rank))
    if "transpose" in site.name:
        first, second = (site.axis(dim, x.rank) for dim in dims)
        order[first], order[second] = second, first
    else:
        order = [site.axis(dim, x.rank) for dim in dims[0]] if dims else order[::-1]
    return site.call("Transpose", x, perm=order)


@aten("slice.Tensor")
def slice_(
    site: AtenSite, x: GraphValue, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> GraphValue:
    axis = site.axis(dim, x.rank)
    taken = range(x.shape[axis])[slice(start, end, step)]
    return slice_axes(site.nodes.site("Slice"), x, {axis: (taken.start, step, len(taken))})


@aten("narrow_copy")
def narrow(site: AtenSite, x: GraphValue, dim: int, start: int, length: int) -> GraphValue:
    axis = site.axis(dim, x.rank)
    first = start + x.shape[axis] if start < 0 else start
    return slice_axes(site.nodes.site("Slice"), x, {axis: (first, 1, length)})


@aten("select.int")
def select(site: AtenSite, x: GraphValue, dim: int, index: int) -> GraphValue:
    axis = site.axis(dim, x.rank)
    one = slice_axes(site.nodes.site("Slice"), x, {axis: (index % x.shape[axis], 1, 1)})
    return site.nodes.view(one, site.shape)


@aten("slice_scatter", "select_scatter")
def scattered(site: AtenSite, x: GraphValue, source: GraphValue, dim: int = 0, *args: Any, **named: Any) -> GraphValue:
    """Elements of a slice from another tensor: whole runs of three parts, or every so many."""
    axis = site.axis(dim, x.rank)
    extent = x.shape[axis]
    if "select" in site.name:
        index = int(named.get("index", args[0] if args else 0)) % extent
        taken = range(index, index + 1)
        source = site.nodes.view(source, [1 if n == axis else m for n, m in enumerate(x.shape)])
    else:
        given = dict(zip(("start", "end", "step"), args, strict=False)) | named
        taken = range(extent)[slice(given.get("start"), given.get("end"), given.get("step", 1))]
    source = site.value(source, site.result)
    if source.shape == x.shape:
        return source
    return replace_part(site.nodes.site("SliceScatter"), x, {axis: (taken.start, taken.step, len(taken))}, source)


@aten("diagonal_scatter")
def scattered_diagonal(
    site: AtenSite, x: GraphValue, source: GraphValue, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> GraphValue:
    """Elements of a diagonal from another tensor, whose last dimension goes along it."""
    if not source.type.size:
        return x
    over = indices(x.rank)
    row, column = (over[site.axis(dim, x.rank)] for dim in (dim1, dim2))
    rest = [name for name in over if name not in (row, column)]
    met = f"{row} == {column} + {-offset}" if offset < 0 else f"{column} == {row} + {offset}"
    given = at("B", (*rest, column if offset < 0 else row))
    text = f"{at('Y', over)} = {given} if {met} else {at('A', over)}"
    return site.nodes.site("DiagonalScatter").single([text], x.type, A=x, B=site.value(source, site.result))


@aten("cat")
def cat(site: AtenSite, tensors: Sequence[GraphValue], dim: int = 0) -> GraphValue:
    some = [x for x in tensors if x.shape != (0,)] or tensors[:1]
    parts = [site.value(x, site.result) for x in some]
    return parts[0] if len(parts) == 1 else site.call("Concat", *parts, axis=site.axis(dim, len(site.shape)))


@aten("stack")
def stack(site: AtenSite, tensors: Sequence[GraphValue], dim: int = 0) -> GraphValue:
    axis = site.axis(dim, len(site.shape))
    shape = [1 if n == axis else extent for n, extent in enumerate(site.shape)]
    parts = [site.nodes.view(site.value(x, site.result), shape) for x in tensors]
    return parts[0] if len(parts) == 1 else site.call("Concat", *parts, axis=axis)


@aten("split_with_sizes", "split.Tensor", "chunk", "unbind.int", "unbind_copy.int", "split_with_sizes_copy")
def split(site: AtenSite, x: GraphValue, *args: Any, dim: int = 0, **named: Any) -> tuple[GraphValue, ...]:
    unbound = "unbind" in site.name
    given = args[0 if unbound else 1 :]
    axis = site.axis(given[0] if given else dim, x.rank)
    parts, start = [], 0
    for type_ in site.types:
        count = 1 if unbound else type_.shape[axis]
        part = slice_axes(site.nodes.site("Split"), x, {axis: (start, 1, count)})
        parts.append(site.nodes.view(part, type_.shape))
        start += count
    return tuple(parts)


@aten("flip")
def flip(site: AtenSite, x: GraphValue, dims: Sequence[int]) -> GraphValue:
    axes = {site.axis(dim, x.rank) for dim in dims}
    return slice_axes(site.nodes.site("Flip"), x, {axis: (x.shape[axis] - 1, -1, x.shape[axis]) for axis in axes})


@aten("repeat")
def repeat(site: AtenSite, x: GraphValue, repeats: Sequence[int]) -> GraphValue:
    whole = site.nodes.view(x, (*(1,) * (len(repeats) - x.rank), *x.shape))
    return site.call("Tile", whole, site.integers(repeats))


@aten("roll")
def roll(site: AtenSite, x: GraphValue, shifts: Sequence[int], dims: Sequence[int] = ()) -> GraphValue:
    if not dims:
        flat = _roll_axis(site, site.nodes.view(x, (x.type.size,)), shifts[0], 0)
        return site.nodes.view(flat, x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _roll_axis(site, x, shift, site.axis(dim, x.rank))
    return x


def _roll_axis(site: AtenSite, x: GraphValue, shift: int, axis: int) -> GraphValue:
    extent = x.shape[axis]
    cut = -shift % extent if extent else 0
    if not cut:
        return x
    node = site.nodes.site("Roll")
    parts = [slice_axes(node, x, {axis: (cut, 1, extent - cut)}), slice_axes(node, x, {axis: (0, 1, cut)})]
    return site.call("Concat", *parts, axis=axis)


@aten("constant_pad_nd")
def constant_pad(site: AtenSite, x: GraphValue, pad: Sequence[int], value: float = 0) -> GraphValue:
    return site.call("Pad", x, _pads(site, x, pad), site.value(value, site.result), mode="constant")


@aten("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection_pad(site: AtenSite, x: GraphValue, padding: Sequence[int]) -> GraphValue:
    return site.call("Pad", x, _pads(site, x, padding), mode="reflect")


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(site: AtenSite, x: GraphValue, padding: Sequence[int]) -> GraphValue:
    return site.call("Pad", x, _pads(site, x, padding), mode="edge")


def _pads(site: AtenSite, x: GraphValue, pad: Sequence[int]) -> GraphValue:
    """PyTorch's pads, pairs from the last dimension on, as ONNX has them."""
    before, after = [0] * x.rank, [0] * x.rank
    for n in range(len(pad) // 2):
        before[x.rank - 1 - n], after[x.rank - 1 - n] = int(pad[2 * n]), int(pad[2 * n + 1])
    return site.integers([*before, *after])


@aten("tril", "triu")
def triangle(site: AtenSite, x: GraphValue, diagonal: int = 0) -> GraphValue:
    return site.call("Trilu", x, site.integers([diagonal]), upper=int("triu" in site.name))


@aten("pixel_shuffle", "pixel_unshuffle")
def pixel_shuffle(site: AtenSite, x: GraphValue, factor: int) -> GraphValue:
    if "unshuffle" in site.name:
        return site.call("SpaceToDepth", x, blocksize=factor, mode="CRD")
    return site.call("DepthToSpace", x, blocksize=factor, mode="CRD")


@aten("full_like", "zeros_like", "ones_like", "new_full", "new_zeros", "new_ones")
def filled(site: AtenSite, x: GraphValue, *args: Any, **named: Any) -> GraphValue:
    value = 0 if "zeros" in site.name else 1 if "ones" in site.name else args[-1]
    literal = number(wrap_number(value, site.result), site.result)
    if literal is None or isinstance(value, GraphValue):
        raise Unsupported(f"no literal says {value}")
    text = f"{at('Y', indices(len(site.shape)))} = {site.result}({literal})"
    if site.result is DType.BOOL:
        text = f"{at('Y', indices(len(site.shape)))} = {literal}"
    return site.nodes.site("Full").single([text], site.types[0])

"""Elements moved and repeated: no arithmetic on what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from metasched.dtypes import DType
from metasched.graph.builder import DataSize, GraphValue, ValueCount
from metasched.graph.counted.joined_rows import join_rows
from metasched.graph.counted.parts_of_rows import is_open, no_sizes_of_parts, part_of_those_there, parts_along
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.counted.size_arithmetic import Size, count_in, room_of, set_count, sizes_of, sizes_of_input
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import elements_of, slice_axes, transpose_axes
from metasched.graph.registry import call_node, node_type
from metasched.graph.site import NodeSite, names
from metasched.graph.text import at, broadcast, indices, number, read
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]


@node_type("Transpose")
def transpose(site: NodeSite) -> Results:
    x = site.operand(0)
    order = site.axes(site.attribute("perm", tuple(reversed(range(x.rank)))), x.rank)
    if len(order) != x.rank:
        raise Unsupported(f"its `perm` has {len(order)} axes, and {x.type} has {x.rank}")
    return (transpose_axes(site, x, order),)


@node_type("Concat", counts=True)
def concat(site: NodeSite) -> Results:
    """Tensors one behind another; where data decide how many elements some have, without gaps."""
    axis = site.axis(site.require_attribute("axis"), site.operand(0).rank)
    is_counted = any(x.count is not None and x.count.axis == axis for x in site.operands)
    return _join_counted(site, axis) if is_counted else run_on_rows(_concatenate, site)


def _join_counted(site: NodeSite, axis: int) -> Results:
    _require_alike(site.operands, axis)
    parts = [x for x in site.operands if x.type.size]
    return (join_rows(site, parts or site.operands[:1], axis),)


def _require_alike(operands: Sequence[GraphValue], axis: int) -> None:
    others = {(x.type.dtype, x.shape[:axis], x.shape[axis + 1 :]) for x in operands}
    if len(others) > 1:
        raise Unsupported("its inputs differ in more than the axis that they are joined along")


def _concatenate(site: NodeSite) -> Results:
    operands = site.operands
    first = operands[0]
    axis = site.axis(site.require_attribute("axis"), first.rank)
    _require_alike(operands, axis)
    shape = list(first.shape)
    shape[axis] = sum(x.shape[axis] for x in operands)
    parts = [x for x in operands if x.type.size]
    if len(parts) == 1:
        return (parts[0],)
    over, letters = indices(first.rank), names(len(parts))
    text, end = "", 0
    for number_, (letter, part) in enumerate(zip(letters, parts, strict=True)):
        subscripts = list(over)
        subscripts[axis] = f"{over[axis]} - {end}" if end else over[axis]
        end += part.shape[axis]
        last = number_ == len(parts) - 1
        text += at(letter, subscripts) + ("" if last else f" if {over[axis]} < {end} else ")
    type_ = ValueType(first.type.dtype, tuple(shape))
    return (site.single([f"{at('Y', over)} = {text}"], type_, **dict(zip(letters, parts, strict=True))),)


@node_type("Split", counts=True)
def split(site: NodeSite) -> Results:
    """Parts along an axis: of given sizes, else of equal ones, the last perhaps smaller."""
    x = site.operand(0)
    axis = site.axis(site.attribute("axis", 0), x.rank)
    count = len(site.wanted)
    if site.optional(1) is not None:
        sizes = site.integers(1, "sizes")
    elif is_open(x, axis):
        raise no_sizes_of_parts(x, axis, f"how many each of its {count} parts has")
    else:
        size = -(-x.shape[axis] // count)
        sizes = tuple(max(min(size, x.shape[axis] - n * size), 0) for n in range(count))
    if len(sizes) != count:
        raise Unsupported(f"it has {count} outputs, and {len(sizes)} sizes of parts")
    return parts_along(site, axis, sizes)


@node_type("Slice", counts=True)
def slice_(site: NodeSite) -> Results:
    """Part of a tensor, perhaps of one with as many elements as data decide."""
    x = site.operand(0)
    if site.operand(2).sizes is not None:
        return (_up_to(site, x),)
    if _is_between_data(site, x):
        return (_slice_between(site, x),)
    starts, ends = site.integers(1, "starts"), site.integers(2, "ends")
    given = range(len(starts)) if site.optional(3) is None else site.integers(3, "axes")
    axes = site.axes(given, x.rank)
    steps = (1,) * len(starts) if site.optional(4) is None else site.integers(4, "steps")
    parts = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step == 0:
            raise Unsupported("a step is 0")
        taken = range(x.shape[axis])[elements_of(start, end, step, x.shape[axis])]
        parts[axis] = (taken.start, step, len(taken))
    if x.count is None or x.count.axis not in parts or not x.type.size:
        return run_on_rows(lambda site: (slice_axes(site, x, parts),), site)
    which = axes.index(x.count.axis)
    start, end, step = starts[which], ends[which], steps[which]
    if start < 0 or end < 0 or step != 1:
        others = {axis: part for axis, part in parts.items() if axis != x.count.axis}
        return (
            part_of_those_there(site, replace(slice_axes(site, x, others), count=x.count), slice(start, end, step)),
        )
    return (replace(slice_axes(site, x, parts), count=_count_of_slice(site, x, start, end)),)


def _is_between_data(site: NodeSite, x: GraphValue) -> bool:
    """Whether a slice is of neighbours along one axis, from and to places that data decide."""
    bounds = site.operand(1), site.operand(2)
    if all(bound.constant is not None for bound in bounds) or any(bound.sizes is not None for bound in bounds):
        return False
    steps = site.optional(4)
    single = all(bound.type.size == 1 for bound in bounds) and x.rank > 0
    return single and x.count is None and (steps is None or steps.constant == 1)


def _slice_between(site: NodeSite, x: GraphValue) -> GraphValue:
    """The elements from one place along an axis to another: there is room for all."""
    axis = 0 if site.optional(3) is None else site.axes(site.integers(3, "axes"), x.rank)[0]
    extent = x.shape[axis]
    begin, end = (
        site.elementwise(f"min(max({{0}} + {extent} if {{0}} < 0 else {{0}}, 0), {extent})", _place(site, number))
        for number in (1, 2)
    )
    count = site.elementwise("max({1} - {0}, 0)", begin, end)
    places = site.single(
        [f"Y[i] = min(i + A[0], {max(extent - 1, 0)})"], ValueType(DType.I64, (extent,)), A=site.view(begin, (1,))
    )
    made = call_node(site, "Gather", x, places, axis=axis)
    return set_count(site, made, ValueCount(count, axis))


def _place(site: NodeSite, number: int) -> GraphValue:
    return site.cast(site.view(site.operand(number), ()), DType.I64)


def _up_to(site: NodeSite, x: GraphValue) -> GraphValue:
    """Part of a tensor that ends at sizes that data decide, of which one can be another than that of the tensor."""
    starts, ends = site.integers(1, "starts"), sizes_of_input(site, 2, "ends")
    given = range(len(starts)) if site.optional(3) is None else site.integers(3, "axes")
    axes = site.axes(given, x.rank)
    steps = (1,) * len(starts) if site.optional(4) is None else site.integers(4, "steps")
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if not isinstance(end, DataSize):
            if (start, end >= x.shape[axis], step) != (0, True, 1):
                raise Unsupported("another of its ends is a size that data decide")
            continue
        if (start, step) != (0, 1):
            raise Unsupported(f"it begins at {start} with a step of {step}, and ends at a size that data decide")
        x = _cut_at_end(site, x, axis, end)
    return x


def _cut_at_end(site: NodeSite, x: GraphValue, axis: int, end: DataSize) -> GraphValue:
    """The first elements along an axis, as many as data decide, or as there are."""
    if x.count is not None and x.count.axis != axis:
        raise Unsupported(f"data decide how many elements {x.type} has along its dimension {x.count.axis}, too")
    if x.count is not None and site.builder.is_same_value(x.count.number, end.number):
        return x
    made = slice_axes(site, replace(x, count=None), {axis: (0, 1, min(end.most, x.shape[axis]))})
    return set_count(site, made, ValueCount(_count_up_to(site, x, axis, end), axis))


def _count_up_to(site: NodeSite, x: GraphValue, axis: int, end: DataSize) -> GraphValue:
    """How many elements there are along an axis up to an end."""
    if x.count is None and end.most <= x.shape[axis]:
        return end.number  # the very one, by which others of so many are known to be as many
    counts = [end.number] if x.count is None else [end.number, x.count.number]
    own = "{0}" if x.count is None else "min({0}, {1})"
    return site.elementwise(f"min({own}, {x.shape[axis]})", *(site.view(one, ()) for one in counts))


def _count_of_slice(site: NodeSite, x: GraphValue, start: int, end: int) -> ValueCount:
    """How many elements a part from one place on to another one has, of those that a call decides."""
    count = x.count
    assert count is not None, x
    end = min(end, x.shape[count.axis])
    if start == 0 and end == x.shape[count.axis]:
        return count
    return replace(count, number=site.elementwise(f"max(min({{0}}, {end}) - {start}, 0)", count.number))


@node_type("Expand", counts=True)
def expand(site: NodeSite) -> Results:
    """A tensor repeated along dimensions of one element, perhaps so often as data decide."""
    x = site.operand(0)
    sizes = _sizes_of_expanded(x, sizes_of_input(site, 1, "shape"))
    if x.count is None and count_in(sizes) is None:
        return _expand(site, x, room_of(sizes))
    (made,) = _expand(site, replace(x, count=None), room_of(sizes))
    return (set_count(site, made, _count_of_expanded(site, x, sizes, made.rank)),)


def _sizes_of_expanded(x: GraphValue, sizes: Sequence[Size]) -> tuple[Size, ...]:
    """A shape that a tensor is repeated to, where its own elements say how many there are: of several, a size that data
    decide can be no other number, but for one, which is no change.
    """
    own = [1] * (len(sizes) - x.rank) + list(sizes_of(x))[max(x.rank - len(sizes), 0) :]
    return tuple(
        one if isinstance(other, DataSize) and not isinstance(one, DataSize) and one != 1 else other
        for one, other in zip(own, sizes, strict=True)
    )


def _count_of_expanded(site: NodeSite, x: GraphValue, sizes: Sequence[Size], rank: int) -> ValueCount:
    """How many elements there are of a tensor that is repeated. Raises Unsupported where sizes might not go together:
    one that only a call knows fits one element, and itself.
    """
    own = (1,) * (rank - x.rank) + sizes_of(x)
    wanted = (*(1,) * (rank - len(sizes)), *sizes)
    found = list[Size]()
    for one, other in zip(own, wanted, strict=True):
        numbers = [size.number for size in (one, other) if isinstance(size, DataSize)]
        alike = len(numbers) == 2 and site.builder.is_same_value(*numbers)
        if numbers and not alike and 1 not in (one, other):
            raise Unsupported("data decide how many elements there are along a dimension of it or of its shape")
        found.append(other if one == 1 else one)
    count = count_in(found)
    assert count is not None, found
    return count


def _expand(site: NodeSite, x: GraphValue, sizes: tuple[int, ...]) -> tuple[GraphValue]:
    shape = broadcast(x.shape, sizes)
    if shape == x.shape:
        return (x,)
    over = indices(len(shape))
    return (site.single([f"{at('Y', over)} = {read('A', x.shape, over, shape)}"], ValueType(x.type.dtype, shape), A=x),)


@node_type("Tile")
def tile(site: NodeSite) -> Results:
    x, repeats = site.operand(0), site.integers(1, "repeats")
    if len(repeats) != x.rank or min(repeats, default=1) < 0:
        raise Unsupported(f"{x.type} is repeated {repeats} times")
    shape = tuple(n * times for n, times in zip(x.shape, repeats, strict=True))
    over = indices(x.rank)
    subscripts = [
        name if times == 1 else f"{name} % {n}" for name, n, times in zip(over, x.shape, repeats, strict=True)
    ]
    return (site.single([f"{at('Y', over)} = {at('A', subscripts)}"], ValueType(x.type.dtype, shape), A=x),)


@node_type("DepthToSpace")
def depth_to_space(site: NodeSite) -> Results:
    x, b = site.operand(0), int(site.require_attribute("blocksize"))
    n, c, h, w = _four(x)
    if c % (b * b):
        raise Unsupported(f"{c} channels are no blocks of {b} by {b}")
    inner, rest = f"i2 % {b} * {b} + i3 % {b}", c // (b * b)
    dcr = site.require_one_of("mode", "DCR", ("DCR", "CRD")) == "DCR"
    channel = f"({inner}) * {rest} + i1" if dcr else f"i1 * {b * b} + {inner}"
    type_ = ValueType(x.type.dtype, (n, rest, h * b, w * b))
    return (site.single([f"Y[i0, i1, i2, i3] = A[i0, {channel}, i2 // {b}, i3 // {b}]"], type_, A=x),)


@node_type("SpaceToDepth")
def space_to_depth(site: NodeSite) -> Results:
    x, b = site.operand(0), int(site.require_attribute("blocksize"))
    n, c, h, w = _four(x)
    if h % b or w % b:
        raise Unsupported(f"{h} by {w} elements are no blocks of {b} by {b}")
    type_ = ValueType(x.type.dtype, (n, c * b * b, h // b, w // b))
    if site.attributes.get("mode", b"DCR") in (b"CRD", "CRD"):
        stage = f"Y[i0, i1, i2, i3] = A[i0, i1 // {b * b}, i2 * {b} + i1 // {b} % {b}, i3 * {b} + i1 % {b}]"
    else:
        stage = f"Y[i0, i1, i2, i3] = A[i0, i1 % {c}, i2 * {b} + i1 // {c * b}, i3 * {b} + i1 // {c} % {b}]"
    return (site.single([stage], type_, A=x),)


def _four(x: GraphValue) -> tuple[int, int, int, int]:
    if x.rank != 4:
        raise Unsupported(f"its input is {x.type}, and has to have four dimensions")
    n, c, h, w = x.shape
    return n, c, h, w


@node_type("Trilu")
def trilu(site: NodeSite) -> Results:
    x, k = site.operand(0), site.optional(1)
    if x.rank < 2:
        raise Unsupported(f"its input is {x.type}, and no matrix")
    over = indices(x.rank)
    row, column = over[-2:]
    diagonal, given = "0", {}
    if k is not None:
        given = {"K": site.view(k, ())}
        diagonal = "K[]" if k.constant is None else str(int(k.constant.reshape(-1)[0]))
    relation = ">=" if site.flag("upper", 1) else "<="
    zero = number(0, x.type.dtype)
    text = f"{at('A', over)} if {column} - {row} {relation} {diagonal} else {zero}"
    return (site.single([f"{at('Y', over)} = {text}"], x.type, A=x, **given),)


@node_type("ReverseSequence")
def reverse_sequence(site: NodeSite) -> Results:
    x, lengths = site.operand(0), site.operand(1)
    batch, time = int(site.attribute("batch_axis", 1)), int(site.attribute("time_axis", 0))
    if {batch, time} != {0, 1}:
        raise Unsupported(f"its axes are {batch} and {time}, and have to be 0 and 1")
    over = indices(x.rank)
    t, length = over[time], f"L[{over[batch]}]"
    mirrored = list(over)
    mirrored[time] = f"{length} - 1 - {t}"
    inside = f"{length} - 1 - {t} >= 0 and {length} - 1 - {t} < {x.shape[time]}"
    lengths = site.cast(lengths, DType.I64)
    return (
        site.single(
            [f"{at('Y', over)} = {at('A', mirrored)} if {inside} else {at('A', over)}"], x.type, A=x, L=lengths
        ),
    )

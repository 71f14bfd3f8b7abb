"""Tensors with a border."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metasched.graph.builder import GraphValue
from metasched.graph.counted.joined_rows import join_rows
from metasched.graph.counted.rows import run_on_rows
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, indices, number, operand_text, place_within
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]


@node_type("Pad", counts=True)
def pad(site: NodeSite) -> Results:
    """A tensor with a border; along as many elements as data decide, one of a value."""
    x, borders = site.operand(0), _borders(site)
    border = (0, 0) if x.count is None else borders.pop(x.count.axis, (0, 0))
    made = run_on_rows(lambda site: _pad(site, borders), site)
    if x.count is None or border == (0, 0):
        return made
    if _mode(site) != "constant" or min(border) < 0:
        raise Unsupported(
            f"data decide how many elements {x.type} has along its dimension {x.count.axis}, to which a border can be "
            "added that is of a value"
        )
    (inner,) = made
    assert inner is not None, x
    value, filler = _filler(site, x, site.optional(2))
    before, after = (
        ValueType(x.type.dtype, tuple(n if dim == x.count.axis else own for dim, own in enumerate(inner.shape)))
        for n in border
    )
    first, last = (
        [site.single([f"{at('Y', indices(x.rank))} = {value}"], type_, F=filler)] if type_.size else []
        for type_ in (before, after)
    )
    return (join_rows(site, [*first, inner, *last], x.count.axis),)


def _mode(site: NodeSite) -> str:
    return site.require_one_of("mode", "constant", ("constant", "reflect", "edge", "wrap"))


def _borders(site: NodeSite) -> dict[int, tuple[int, int]]:
    """How many elements are added along an axis, before and after what there is."""
    x, given = site.operand(0), site.integers(1, "pads")
    axes = site.axes(range(x.rank) if site.optional(3) is None else site.integers(3, "axes"), x.rank)
    if len(given) != 2 * len(axes):
        raise Unsupported(f"it has {len(given)} pads for {len(axes)} axes")
    return {axis: (given[n], given[n + len(axes)]) for n, axis in enumerate(axes)}


def _pad(site: NodeSite, borders: Mapping[int, tuple[int, int]]) -> Results:
    mode = _mode(site)
    x = _crop(site, site.operand(0), borders)
    borders = {axis: (max(low, 0), max(high, 0)) for axis, (low, high) in borders.items()}
    if mode == "constant":
        return (pad_tensor(site, x, borders, site.optional(2)),)
    for axis, border in borders.items():
        if border != (0, 0):
            x = _extend_axis(site, x, axis, border, mode)
    return (x,)


def _crop(site: NodeSite, x: GraphValue, borders: Mapping[int, tuple[int, int]]) -> GraphValue:
    """Negative borders taken off."""
    parts = {}
    for axis, (low, high) in borders.items():
        if low < 0 or high < 0:
            first, last = max(-low, 0), x.shape[axis] - max(-high, 0)
            if last < first:
                raise Unsupported(f"pads of {low} and {high} take more than dimension {axis} of {x.type} has")
            parts[axis] = (first, 1, last - first)
    return slice_axes(site, x, parts) if parts else x


def pad_tensor(
    site: NodeSite, x: GraphValue, borders: Mapping[int, tuple[int, int]], filler: GraphValue | str | None
) -> GraphValue:
    """A tensor with a border of one value, by default zero; a filler that is a text is a literal."""
    over, shape = list(indices(x.rank)), list(x.shape)
    conditions: list[str] = []
    for axis, (low, high) in borders.items():
        name = over[axis]
        shape[axis] += low + high
        if low:
            conditions.append(f"{name} >= {low}")
            over[axis] = f"{name} - {low}"
        if high:
            conditions.append(f"{name} < {low + x.shape[axis]}")
    value, given = _filler(site, x, filler)
    type_ = ValueType(x.type.dtype, tuple(shape))
    left = at("Y", indices(x.rank))
    if not x.type.size:
        return site.single([f"{left} = {value}"], type_, F=given)
    if not conditions:
        return x
    return site.single([f"{left} = {at('A', over)} if {' and '.join(conditions)} else {value}"], type_, A=x, F=given)


def _filler(site: NodeSite, x: GraphValue, filler: GraphValue | str | None) -> tuple[str, GraphValue | None]:
    if filler is None or isinstance(filler, str):
        return filler or str(number(0, x.type.dtype)), None
    scalar = site.cast(site.view(filler, ()), x.type.dtype)
    return operand_text("F", scalar, (), ()), scalar


def _extend_axis(site: NodeSite, x: GraphValue, axis: int, border: tuple[int, int], mode: str) -> GraphValue:
    """A tensor continued along an axis by its own elements."""
    low, high = border
    extent = x.shape[axis]
    if not extent:
        raise Unsupported(f"{x.type} has no elements to continue")
    over, shape = indices(x.rank), list(x.shape)
    shape[axis] += low + high
    i = over[axis]

    def element(subscript: str) -> str:
        return at("A", _replace_subscript(over, axis, subscript))

    if mode == "edge":
        text = element(place_within(f"{i} - {low}", extent))
    elif mode == "wrap":
        text = element(f"({i} + {-low % extent}) % {extent}")
    elif extent == 1:
        text = element("0")
    elif max(low, high) < extent:
        text = element(_reflect_index(i, low, high, extent))
    else:
        # Positions repeat every 2 * extent - 2 elements: forward, and back again.
        period = 2 * extent - 2
        position = f"({i} + {-low % period}) % {period}"
        text = f"{element(position)} if {position} < {extent} else {element(f'{period} - {position}')}"
    stage = f"{at('Y', over)} = {text}"
    return site.single([stage], ValueType(x.type.dtype, tuple(shape)), A=x)


def _reflect_index(i: str, low: int, high: int, extent: int) -> str:
    """The place of an element of a border that is shorter than what it reflects, or of an element inside."""
    # The outer limits change nothing: they say what the language asks for, that it is a place of the tensor.
    place = f"max(max({i} - {low}, {low} - {i}), 0)" if low else i
    return f"min(min({place}, {2 * extent - 2} - {place}), {extent - 1})" if high else place


def _replace_subscript(over: Sequence[str], axis: int, subscript: str) -> list[str]:
    return [subscript if dim == axis else name for dim, name in enumerate(over)]

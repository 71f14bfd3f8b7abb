"""Values that lie in the memory of others, so that nothing is copied: what is joined is computed where it is joined,
and what is taken out of a value is read there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from metasched.graph.fusion.copies import CopiedBox, copied_boxes, is_of_whole_lines
from metasched.graph.ir import Compute, Graph, InPlace, Node, ShapeView
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.placement import ValuePart
from metasched.graph.text import at, fresh_name, indices
from metasched.graph.value_type import ValueType
from metasched.ir.pitch import is_packed, is_pitched, packed_strides, reshape_strides
from metasched.lang import parse_program
from metasched.support.data_classes import dataclass

# What has to be copied of a concatenation stays in one kernel with the rest, where it is more than this share.
_LEAST_COPIED_SHARE = 0.5


@graph_pass(after=("dimensions",))
def parts(graph: Graph, context: PassContext) -> Graph:
    """Concatenations and slices are in place: what is joined is computed there, and what is taken out is read there."""
    return _Placing(graph, context).run()


@dataclass(frozen=True)
class _Copy:
    """A node that only copies, and the boxes that it copies, each with the value that it is from."""

    node: Compute
    boxes: tuple[tuple[str, CopiedBox], ...]

    @property
    def output(self) -> str:
        return self.node.outputs[0]


class _Placing:
    """Concatenations are placed from the last to the first, so that those of concatenations lie in these; then slices
    and views, which lie in what is placed by then.
    """

    def __init__(self, graph: Graph, context: PassContext) -> None:
        self._graph = graph
        self._context = context
        self._types = dict(graph.types)
        self._parts: dict[str, ValuePart] = dict(graph.parts)
        loops = list(graph.loops)
        self._given = {*graph.inputs, *graph.constants, *(name for loop in loops for name in loop.outputs)}
        # Bodies of loops take values as callers take results.
        self._results = {*(name for _, name in graph.outputs), *(name for loop in loops for name in loop.inputs)}
        self._views: dict[str, list[ShapeView]] = {}
        self._viewed: dict[str, ShapeView] = {}
        for node in graph.nodes:
            if isinstance(node, ShapeView):
                self._views.setdefault(node.input, []).append(node)
                self._viewed[node.output] = node
        self._copies = {n: copy for n, node in enumerate(graph.nodes) if (copy := _copy_of(node)) is not None}
        self._joined: set[int] = set()

    def run(self) -> Graph:
        for number in reversed(self._copies):
            copy = self._copies[number]
            if len(copy.boxes) > 1 and (self._place_prefix(copy) or self._place_joined(copy)):
                self._joined.add(number)
        nodes: list[Node] = []
        for number, node in enumerate(self._graph.nodes):
            if number in self._joined:
                nodes += self._join_in_place(self._copies[number])
            elif isinstance(node, ShapeView):
                nodes.append(node)
                self._follow(node)
            elif number in self._copies and self._place_slice(self._copies[number]):
                nodes.append(InPlace(node.name, node.op, node.inputs, node.outputs[0]))
            else:
                nodes.append(node)
        return replace(self._graph, nodes=tuple(nodes), types=self._types, parts=self._parts)

    def _strides(self, name: str) -> tuple[int, ...]:
        part = self._parts.get(name)
        return packed_strides(self._types[name].shape) if part is None else part.strides

    # --- concatenations

    def _place_joined(self, copy: _Copy) -> bool:
        """Place what is joined in the result, as far as that can be."""
        whole = self._types[copy.output]
        placed: dict[str, ValuePart] = {}
        for name, box in copy.boxes:
            if name not in placed:
                found = self._place_in(copy.output, name, box)
                if found is not None and placed.keys().isdisjoint(found):
                    placed |= found
        size = sum(self._types[name].size for name, _ in copy.boxes if name in placed)
        if size < (1 - _LEAST_COPIED_SHARE) * whole.size:
            self._context.remark(f"`{copy.node.name}` is not in place: most of it would have to be copied")
            return False
        self._parts |= placed
        return True

    def _place_in(self, whole: str, name: str, box: CopiedBox) -> dict[str, ValuePart] | None:
        """A value, and those that it is a view of, as parts of what it is joined into; None where it can't be one."""
        part = self._part_of(whole, name, box)
        if part is None or not self._may_be(name, part):
            return None
        found = {name: part}
        while name in self._viewed:
            view = self._viewed[name]
            strides = reshape_strides(self._types[name].shape, found[name].strides, self._types[view.input].shape)
            if strides is None:
                return None
            above = ValuePart(name, 0, strides)
            if not self._may_be(view.input, above, but=view):
                return None
            found[view.input] = above
            name = view.input
        return found

    def _part_of(self, whole: str, name: str, box: CopiedBox) -> ValuePart | None:
        """Where a box of a value is that is a copy of all of another."""
        type_ = self._types[name]
        along = box.dimensions(type_.shape)
        if along is None:
            return None
        outer, own = self._strides(whole), packed_strides(type_.shape)
        strides = tuple(own[k] if d is None else outer[d] for k, d in enumerate(along))
        offset = sum(index * stride for index, stride in zip(box.begin, outer, strict=True))
        return ValuePart(whole, offset, strides)

    def _may_be(self, name: str, part: ValuePart, but: ShapeView | None = None) -> bool:
        """Whether a value that a node computes may lie there."""
        if name in self._given or name in self._parts:
            return False
        return self._is_good(name, part) and self._is_viewed(name, part.strides, but)

    def _is_good(self, name: str, part: ValuePart) -> bool:
        """Whether rows are fast there, and results lie as a caller takes them."""
        type_ = self._types[name]
        if is_packed(type_.shape, part.strides):
            return True
        return name not in self._results and is_of_whole_lines(type_, part)

    def _is_viewed(self, name: str, strides: tuple[int, ...], but: ShapeView | None = None) -> bool:
        """Whether all views of a value can be of it where it has these strides."""
        shape = self._types[name].shape
        if is_packed(shape, strides):
            return True
        for view in self._views.get(name, ()):
            if view is but:
                continue
            found = reshape_strides(shape, strides, self._types[view.output].shape)
            if found is None or view.output in self._results or not self._is_viewed(view.output, found):
                return False
            if view.output in self._parts:
                return False
        return True

    def _place_prefix(self, copy: _Copy) -> bool:
        """Place a concatenation of values that lie side by side already, as parts of a longer one."""
        name, box = copy.boxes[0]
        if name not in self._parts or copy.output in self._parts or len(self._types[name].shape) != len(box.shape):
            return False
        first, type_ = self._parts[name], self._types[copy.output]
        outer = self._strides(first.of)
        if len(outer) != type_.rank:
            return False
        offset = first.offset - sum(n * stride for n, stride in zip(box.begin, outer, strict=True))
        part = ValuePart(first.of, offset, outer)
        if offset < 0 or not is_pitched(type_.shape, part.strides) or not self._may_be(copy.output, part):
            return False
        self._parts[copy.output] = part
        for other, there in copy.boxes:
            found = self._part_of(copy.output, other, there)
            have = self._parts.get(other)
            if found is None or have is None or not self._is_same(other, have, part, found):
                del self._parts[copy.output]
                return False
        return True

    def _is_same(self, name: str, have: ValuePart, whole: ValuePart, found: ValuePart) -> bool:
        """Whether a value lies where it would be as a part of a part."""
        moves = [n for n, extent in enumerate(self._types[name].shape) if extent > 1]
        place = have.of == whole.of and have.offset == whole.offset + found.offset
        return place and all(have.strides[n] == found.strides[n] for n in moves)

    def _join_in_place(self, copy: _Copy) -> Iterator[Node]:
        """A concatenation of values that are in place, and copies of the others."""
        names: list[str] = []
        for number, (name, box) in enumerate(copy.boxes):
            part = self._part_of(copy.output, name, box)
            if part is not None and name not in names and self._lies_in_place(name, copy.output, part):
                names.append(name)
                continue
            made = fresh_name(f"{copy.output}.{number}", self._types)
            type_ = self._types[copy.output]
            outer = self._strides(copy.output)
            offset = sum(index * stride for index, stride in zip(box.begin, outer, strict=True))
            self._types[made] = ValueType(type_.dtype, box.shape)
            self._parts[made] = ValuePart(copy.output, offset, outer)
            yield _copy_box(copy.node, name, self._types[name], box, made)
            names.append(made)
        yield InPlace(copy.node.name, copy.node.op, tuple(names), copy.output)

    def _lies_in_place(self, name: str, whole: str, part: ValuePart) -> bool:
        have = self._parts.get(name)
        if have is None:
            return False
        if have.of == whole:
            return have == part
        outer = self._parts.get(whole)
        return outer is not None and self._is_same(name, have, outer, part)

    # --- slices and views

    def _place_slice(self, copy: _Copy) -> bool:
        """Place what is taken out of a value in that value, if it can be read there."""
        if len(copy.boxes) != 1 or copy.output in self._parts:
            return False
        ((name, box),) = copy.boxes
        if name in self._graph.constants:
            return False
        strides = self._strides(name)
        shape = self._types[copy.output].shape
        part = ValuePart(name, box.offset(strides), box.strides(strides))
        if not is_pitched(shape, part.strides) or not self._may_be(copy.output, part):
            return False
        self._parts[copy.output] = part
        return True

    def _follow(self, view: ShapeView) -> None:
        """Place a view of a value that has gaps between its rows."""
        given, made = self._types[view.input].shape, self._types[view.output].shape
        strides = self._strides(view.input)
        if view.output not in self._parts and self._parts.get(view.input, ValuePart("", 0, ())).of != view.output:
            if is_packed(given, strides):
                return
            found = reshape_strides(given, strides, made)
            assert found is not None, view
            self._parts[view.output] = ValuePart(view.input, 0, found)


def _copy_of(node: Node) -> _Copy | None:
    if not isinstance(node, Compute):
        return None
    boxes = copied_boxes(node.program.func)
    if boxes is None:
        return None
    values = node.input_values()
    return _Copy(node, tuple((values[box.input], box) for box in boxes))


def _copy_box(node: Compute, name: str, type_: ValueType, box: CopiedBox, made: str) -> Compute:
    """A node that copies one box."""
    over = indices(len(box.shape))
    source = [_index(start, row, over) for start, row in zip(box.source, box.steps, strict=True)]
    shape = ValueType(type_.dtype, box.shape)
    text = f"program copy(A: {type_}) -> Y: {shape}:\n    {at('Y', over)} = {at('A', source)}\n"
    return Compute(node.name, node.op, parse_program(text), (name,), (made,))


def _index(start: int, steps: Sequence[int], over: Sequence[str]) -> str:
    terms = [f"{step} * {name}" if step != 1 else name for name, step in zip(over, steps, strict=True) if step]
    return " + ".join([*terms, str(start)] if start or not terms else terms)

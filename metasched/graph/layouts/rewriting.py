"""A graph whose values have other orders: programs, weights, and copies where an order ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from metasched.graph.fusion.stages import Stages, program_of
from metasched.graph.ir import Array, Compute, Graph, Node, ShapeView
from metasched.graph.layouts.constant_names import restore_constant_names
from metasched.graph.layouts.orders import Order, identity_order, moves_elements, permute_items, reorder_tensors
from metasched.graph.layouts.preferences import preferences, weight_order
from metasched.graph.layouts.regions import Site, Sites
from metasched.graph.layouts.reshaping import is_read_by_quotients
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.text import at, indices
from metasched.graph.value_type import ValueType
from metasched.ir.pitch import packed_strides, reshape_strides
from metasched.ir.program import Program
from metasched.ir.source import Name, Read
from metasched.lang import parse_program
from metasched.support.data_classes import dataclass


def reorder_graph(sites: Sites, orders: Mapping[Site, Order]) -> Graph:
    """The graph with tensors in these orders, and the weights of each reduction in the order that goes with them.

    Results of the network, and what a view reads or makes that cannot follow, are copied. What has become a copy of the
    same elements in the same order is left out.
    """
    return _Rewriting(sites, orders).run()


@dataclass
class _Rewriting:
    sites: Sites
    orders: Mapping[Site, Order]
    nodes: list[Node] = field(default_factory=list)
    same: dict[str, str] = field(default_factory=dict)
    copies: dict[tuple[str, Order], str] = field(default_factory=dict)

    def run(self) -> Graph:
        graph = self.sites.graph
        self.types = dict(graph.types)
        for name in graph.types:
            if name in self.orders and name not in graph.constants:
                self.types[name] = self._type(graph.types[name], self.orders[name])
        self.constants: dict[str, Array] = dict(graph.constants)
        for number, node in enumerate(graph.nodes):
            if isinstance(node, ShapeView):
                self._view(node)
            elif isinstance(node, Compute):
                self._compute(number, node)
            else:
                self.nodes.append(replace(node, inputs=tuple(map(self._restore_order, node.inputs))))
        outputs = tuple((label, self._restore_order(name)) for label, name in graph.outputs)
        made = replace(graph, types=self.types, constants=self.constants, nodes=tuple(self.nodes), outputs=outputs)
        before = {own: name for (name, _), own in self.copies.items()}
        return restore_constant_names(remove_dead_code(made), before)

    # --- nodes

    def _compute(self, number: int, node: Compute) -> None:
        inputs = tuple(self.same.get(name, name) for name in node.inputs)
        form = self.sites.forms.get(number)
        if form is None:
            self.nodes.append(replace(node, inputs=inputs))
            return
        orders = {b: self.orders[s] for b in form.types if (s := self.sites.site(number, b)) in self.orders}
        orders |= self._weights(form, orders)
        if not orders:
            self.nodes.append(replace(node, inputs=inputs))
            return
        made = reorder_tensors(form, orders)
        if _is_copy(made) and self._drop_copy(node, inputs[0]):
            return
        given = zip(form.inputs, inputs, strict=True)
        inputs = tuple(
            self._constant(name, orders[buffer]) if buffer in orders and name in self.constants else name
            for buffer, name in given
        )
        self.nodes.append(replace(node, program=program_of(made, node.program.name), inputs=inputs))

    def _weights(self, form: Stages, orders: Mapping[str, Order]) -> dict[str, Order]:
        found: dict[str, Order] = {}
        for wish in preferences(form):
            data, result = (
                orders.get(name, identity_order(form.types[name].rank))
                for name in (wish.data.buffer, wish.stage.buffer)
            )
            order = weight_order(form, wish, data, result)
            if order is not None and moves_elements(order, form.types[wish.weight.buffer].shape):
                found.setdefault(wish.weight.buffer, order)
        return found

    def _drop_copy(self, node: Compute, given: str) -> bool:
        """Whether a node that copies elements in their order need not be there."""
        name = node.outputs[0]
        if given in self.constants or given in self.sites.graph.inputs:
            return False
        if self.types[given] == self.types[name]:
            self.same[name] = given
        else:
            self.nodes.append(ShapeView(node.name, node.op, given, name))
        return True

    def _view(self, node: ShapeView) -> None:
        graph = self.sites.graph
        given, name = self.same.get(node.input, node.input), node.output
        if given in self.constants or not self._follows(node):
            view = replace(node, input=self._restore_order(node.input))
            if name in self.orders:
                plain = self._new(f"{name}.given", graph.types[name])
                self.nodes.append(replace(view, output=plain))
                self._copy_value(plain, name, self.orders[name])
            else:
                self.nodes.append(view)
        elif self.types[given] == self.types[name]:
            self.same[name] = given
        else:
            self.nodes.append(replace(node, input=given))

    def _follows(self, node: ShapeView) -> bool:
        return follows(self.sites, self.orders, node)

    # --- values

    def _restore_order(self, name: str) -> str:
        """A value in the order that the graph had it in."""
        order = self.orders.get(name)
        known = self.same.get(name, name)
        if order is None or name in self.constants:
            return known
        key = (name, order)
        if key not in self.copies:
            self.copies[key] = self._new(f"{name}.given", self.sites.graph.types[name])
            view = self._find_joining_view(name)
            if view is not None:
                self.nodes.append(replace(view, input=self._restore_order(view.input), output=self.copies[key]))
                return self.copies[key]
            back = tuple(order.index(dim) for dim in range(len(order)))
            self._copy_value(known, self.copies[key], back)
        return self.copies[key]

    def _find_joining_view(self, name: str) -> ShapeView | None:
        """The view that makes a value, if the value before it has another order, too, and elements of the view are
        found there by quotients: copied before it, they are found by indices.
        """
        for view in self.sites.views.get(name, ()):
            if view.output == name and view.input in self.orders and self._follows(view):
                shapes = self.sites.shapes
                return view if is_read_by_quotients(shapes[name], shapes[view.input]) else None
        return None

    def _copy_value(self, given: str, name: str, order: Order) -> None:
        program = transposition(self.types[given], order)
        self.nodes.append(Compute(name, "Layout", program, (given,), (name,)))

    def _constant(self, name: str, order: Order) -> str:
        """A weight in another order: the same memory, seen otherwise, until something packs it."""
        key = (name, order)
        if key not in self.copies:
            own = self._new(f"{name}.{''.join(map(str, order))}", self._type(self.types[name], order))
            self.copies[key] = own
            self.constants[own] = self.constants[name].transpose(order)
        return self.copies[key]

    def _new(self, like: str, type_: ValueType) -> str:
        name, number = like, 0
        while name in self.types:
            number += 1
            name = f"{like}{number}"
        self.types[name] = type_
        return name

    def _type(self, given: ValueType, order: Order) -> ValueType:
        return replace(given, shape=permute_items(given.shape, order))


def follows(sites: Sites, orders: Mapping[Site, Order], view: ShapeView) -> bool:
    """Whether a view's output has its input's elements, in the same order, in their new orders."""
    types = sites.graph.types
    given, made = (
        _strides(types[name].shape, orders.get(name, identity_order(types[name].rank)))
        for name in (view.input, view.output)
    )
    shape = types[view.output].shape
    found = reshape_strides(types[view.input].shape, given, shape)
    return found is not None and all(extent == 1 or a == b for extent, a, b in zip(shape, found, made, strict=True))


def _strides(shape: tuple[int, ...], order: Order) -> tuple[int, ...]:
    """Elements between neighbours along each dimension, in an order of them in memory."""
    steps = dict(zip(order, packed_strides(permute_items(shape, order)), strict=True))
    return tuple(steps[dim] for dim in range(len(shape)))


def copied_values(sites: Sites, orders: Mapping[Site, Order]) -> tuple[str, ...]:
    """The values that have to be copied from an order, or into one."""
    ends = [name for _, name in sites.graph.outputs]
    for node in sites.graph.nodes:
        if isinstance(node, ShapeView) and not follows(sites, orders, node):
            ends += [node.input, node.output]
    return tuple(name for name in dict.fromkeys(ends) if name in orders)


def transposition(given: ValueType, order: Order) -> Program:
    """The program that copies a tensor with its dimensions in another order."""
    over = indices(given.rank)
    made = replace(given, shape=permute_items(given.shape, order))
    source = [over[order.index(dim)] for dim in range(given.rank)]
    return parse_program(f"program transpose(A: {given}) -> Y: {made}:\n    {at('Y', over)} = {at('A', source)}\n")


def _is_copy(stages: Stages) -> bool:
    """Whether stages only copy one tensor's elements, in their order."""
    if len(stages.stages) != 1 or len(stages.inputs) != 1:
        return False
    (stage,) = stages.stages
    read = stage.value
    if not isinstance(read, Read) or stages.types[read.buffer].dtype is not stages.types[stage.buffer].dtype:
        return False
    given, made = stages.types[read.buffer].shape, stages.types[stage.buffer].shape
    long = [index for index, extent in zip(read.indices, given, strict=True) if extent > 1]
    own = [Name(axis.name) for axis, extent in zip(stage.axes, made, strict=True) if extent > 1]
    return long == own and stages.types[read.buffer].size == stages.types[stage.buffer].size

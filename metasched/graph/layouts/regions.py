"""Values whose orders go together, and the order that a region would have.

Reductions of data with weights say what they want, the heaviest first. From there an order spreads, through every
stage and view that can follow it, to whatever has none yet. What one wish reaches is a region.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import field

from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.ir import Compute, Graph, ShapeView
from metasched.graph.layouts.following import drop_unit_dimensions, last_of_read, last_of_result, last_through_view
from metasched.graph.layouts.orders import Order, identity_order, innermost_order, moves_elements
from metasched.graph.layouts.preferences import Last, Preference, preferences
from metasched.ir.source import Stage
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

# A value of the graph, by its name, or a tensor of one node: a weight that it reads, or what it computes in between.
Site = str


@dataclass(frozen=True)
class LayoutRegion:
    """Tensors whose orders go together.

    Attributes:
        wishes: the reductions in it that want other orders than now, or the same ones: node numbers with wishes.
        orders: of the tensors that would be in another order in memory.

    """

    wishes: tuple[tuple[int, Preference], ...]
    orders: Mapping[Site, Order]


@dataclass(frozen=True)
class Sites:
    """The tensors of a graph, and the stages that touch them. `forms` are the stages of nodes, by their numbers."""

    graph: Graph
    forms: Mapping[int, Stages]

    @classmethod
    def from_graph(cls, graph: Graph) -> Sites:
        found = ((n, stages_of(node.program)) for n, node in enumerate(graph.nodes) if isinstance(node, Compute))
        return cls(graph, {n: form for n, form in found if form is not None})

    def site(self, number: int, buffer: str) -> Site:
        """What a buffer of a node's program stands for."""
        return self._value_names[number].get(buffer, f"{number}:{buffer}")

    @cached_property
    def _value_names(self) -> Mapping[int, Mapping[str, str]]:
        named = {}
        for number, form in self.forms.items():
            node = self.graph.nodes[number]
            pairs = zip((*form.inputs, *form.outputs), (*node.inputs, *node.outputs), strict=True)
            named[number] = {buffer: name for buffer, name in pairs if name not in self.graph.constants}
        return named

    @cached_property
    def shapes(self) -> Mapping[Site, tuple[int, ...]]:
        """Shapes of all sites."""
        out = {name: type_.shape for name, type_ in self.graph.types.items()}
        for number, form in self.forms.items():
            out |= {self.site(number, buffer): type_.shape for buffer, type_ in form.types.items()}
        return out

    @cached_property
    def stages_by_site(self) -> Mapping[Site, tuple[tuple[int, Stage], ...]]:
        """The stages that write or read each site, with their nodes' numbers."""
        out: dict[Site, dict[int, tuple[int, Stage]]] = {}
        for number, form in self.forms.items():
            for stage in form.stages:
                for buffer in (*stage.targets, *(read.buffer for read in reads(stage.value))):
                    out.setdefault(self.site(number, buffer), {})[id(stage)] = (number, stage)
        return {site: tuple(found.values()) for site, found in out.items()}

    @cached_property
    def written_together(self) -> tuple[tuple[Site, ...], ...]:
        """The targets of each stage that has several: a value, and the positions of an arg-reduction."""
        written = ((number, stage.targets) for number, form in self.forms.items() for stage in form.stages)
        return tuple(tuple(self.site(number, name) for name in names) for number, names in written if len(names) > 1)

    @cached_property
    def intermediates(self) -> frozenset[Site]:
        """The tensors that nodes compute for themselves: none of their results."""
        found = ((n, buffer, form) for n, form in self.forms.items() for buffer in form.by_buffer)
        return frozenset(self.site(n, buffer) for n, buffer, form in found if buffer not in form.outputs)

    @cached_property
    def views(self) -> Mapping[Site, tuple[ShapeView, ...]]:
        """The views of, or into, each value."""
        out: dict[Site, list[ShapeView]] = {}
        for node in self.graph.nodes:
            if isinstance(node, ShapeView):
                for name in (node.input, node.output):
                    out.setdefault(name, []).append(node)
        return {site: tuple(found) for site, found in out.items()}

    @cached_property
    def fixed_values(self) -> frozenset[Site]:
        """Values whose order is given: the network's inputs, parts of others, and what programs without stages use."""
        opaque = (
            node for n, node in enumerate(self.graph.nodes) if n not in self.forms and not isinstance(node, ShapeView)
        )
        placed = (name for part, where in self.graph.parts.items() for name in (part, where.of))
        read = (name for node in opaque for name in (*node.inputs, *node.outputs))
        return frozenset([*self.graph.inputs, *placed, *read])


def regions(sites: Sites) -> Iterator[LayoutRegion]:
    """The regions of a graph in which something would move."""
    return _Spreading(sites).run()


def wanted_dimensions(sites: Sites) -> Mapping[Site, Last]:
    """For each value that an order would reach, the dimensions that would be innermost."""
    spreading = _Spreading(sites)
    spreading.run()
    return spreading.wanted


@dataclass
class _Spreading:
    sites: Sites
    wanted: dict[Site, Last] = field(default_factory=dict)
    joined: dict[Site, Site] = field(default_factory=dict)
    queue: deque[Site] = field(default_factory=deque)

    def run(self) -> Iterator[LayoutRegion]:
        wishes = [(n, wish) for n, form in self.sites.forms.items() for wish in preferences(form)]
        wishes.sort(key=lambda pair: -pair[1].iterations)
        self._summed = {id(wish.stage) for _, wish in wishes}
        for number, wish in wishes:
            self._claim(number, wish)
        while self.queue:
            self._spread(self.queue.popleft())
        return self._build_regions(wishes)

    # --- wishes

    def _claim(self, number: int, wish: Preference) -> None:
        moves = wish.moves(self.sites.forms[number])
        mine = []
        for buffer, last in wish.wishes().items():
            site = self.sites.site(number, buffer)
            if site in self.sites.fixed_values:
                continue
            known = self.wanted.get(site)
            if known is None:
                self.wanted[site] = self._drop_units(site, last)
                if moves:
                    self.queue.append(site)
            mine.append(site)
        for site in mine[1:]:
            self._join(mine[0], site)

    def _drop_units(self, site: Site, last: Last) -> Last:
        return drop_unit_dimensions(last, self.sites.shapes[site])

    # --- spreading

    def _spread(self, site: Site) -> None:
        last = self.wanted[site]
        for number, stage in self.sites.stages_by_site.get(site, ()):
            if id(stage) not in self._summed:
                self._spread_through_stage(site, last, number, stage)
        for view in self.sites.views.get(site, ()):
            other = view.output if view.input == site else view.input
            found = last_through_view(last, self.sites.shapes[site], self.sites.shapes[other])
            if found is not None:
                self._offer(site, other, found)

    def _spread_through_stage(self, site: Site, last: Last, number: int, stage: Stage) -> None:
        targets = [self.sites.site(number, name) for name in stage.targets]
        given = [(self.sites.site(number, read.buffer), read) for read in reads(stage.value)]
        if site in targets:
            for other in targets:
                self._offer(site, other, last)
            for other, read in given:
                self._offer(site, other, last_of_read(stage, last, read))
        for other, read in given:
            if other == site:
                for target in targets:
                    self._offer(site, target, last_of_result(stage, read, last))

    def _offer(self, site: Site, other: Site, last: Last) -> None:
        last = self._drop_units(other, last)
        if other == site or not last or other in self.sites.fixed_values:
            return
        if other not in self.wanted:
            self.wanted[other] = last
            self.queue.append(other)
        if self.wanted[other] == last:
            self._join(site, other)

    # --- regions

    def _join(self, one: Site, other: Site) -> None:
        self.joined[self._root(one)] = self._root(other)

    def _root(self, site: Site) -> Site:
        while (above := self.joined.get(site, site)) != site:
            self.joined[site] = self.joined.get(above, above)
            site = above
        return site

    def _build_regions(self, wishes: list[tuple[int, Preference]]) -> Iterator[LayoutRegion]:
        members: dict[Site, dict[Site, Order]] = {}
        for site, order in self._orders().items():
            members.setdefault(self._root(site), {})[site] = order
        for root, orders in members.items():
            if not any(moves_elements(order, self.sites.shapes[site]) for site, order in orders.items()):
                continue
            inside = [(n, w) for n, w in wishes if root in {self._root(self.sites.site(n, b)) for b in w.wishes()}]
            yield LayoutRegion(tuple(inside), orders)

    def _orders(self) -> dict[Site, Order]:
        """The orders of tensors in memory; what one stage writes has one order, of one region, or none."""
        found: dict[Site, Order] = {}
        for site, last in self.wanted.items():
            order, shape = innermost_order(len(self.sites.shapes[site]), last), self.sites.shapes[site]
            # Loops that no element moves for do: a column's sum is computed beside its neighbours'.
            if moves_elements(order, shape) or (
                site in self.sites.intermediates and order != identity_order(len(shape))
            ):
                found[site] = order
        for targets in self.sites.written_together:
            if len({(self._root(target), found.get(target)) for target in targets}) > 1:
                for target in targets:
                    found.pop(target, None)
        return found

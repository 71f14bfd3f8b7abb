"""How the places of a smaller graph's values lie in the larger one's.

A value's element at some indices of the smaller graph is that of the larger one at the same indices, except along
dimensions that a view made of several: there, by the factors of the dimension (`extents.Factors`). Every read is
checked: what a stage reads at its indices in one graph is what it reads at the indices that follow in the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from metasched.graph.buckets.comparison import (
    Differences,
    DimPlace,
    InnerDimPlace,
    NotAlike,
    NumberPlace,
    Place,
)
from metasched.graph.buckets.extents import Extent, Factors, factors_of, has_gaps, is_free, regroup_dims
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.ir import Compute, Graph, LoopNode, ShapeView
from metasched.graph.loop_node import LoopInputKind, LoopOutputKind
from metasched.ir.source import Axis, IntLit, Name, Read, Reduce, SourceExpr, SourceNode, Stage
from metasched.support.data_classes import dataclass

Dimensions = tuple[Factors, ...]


@dataclass(frozen=True)
class StageFollowing:
    """A stage of a node: the factors of each of its indices, and of each dimension of the buffers that it reads."""

    axes: Mapping[str, Factors]
    buffers: Mapping[str, Dimensions]


@dataclass
class Following:
    """The factors of the dimensions of every value, and of the indices of every stage that depends on sizes.

    `given` are those of inputs that are values of a graph around this one, and `bodies` the same for the bodies of
    loops, by the numbers of these among the nodes; `room` has the places of dimensions, and how long each is in the
    largest graph. Raises NotAlike where a read goes elsewhere in the smaller graph, or that is not known, and where a
    smaller graph has a longer dimension.
    """

    graph: Graph
    samples: Sequence[Differences]
    given: Mapping[str, Dimensions] = field(default_factory=dict)
    values: dict[str, Dimensions] = field(default_factory=dict)
    stages: dict[tuple[int, int], StageFollowing] = field(default_factory=dict)
    forms: dict[int, Stages] = field(default_factory=dict)
    bodies: dict[int, Following] = field(default_factory=dict)
    room: dict[Place, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*self.graph.inputs, *self.graph.constants):
            known = self.given.get(name)
            self.values[name] = tuple(map(factors_of, self.extents(name))) if known is None else known
        for number, node in enumerate(self.graph.nodes):
            if isinstance(node, ShapeView):
                self._view(node)
            elif isinstance(node, Compute):
                self._compute(number, node)
            elif isinstance(node, LoopNode):
                self._loop(number, node)

    def number(self, place: Place, largest: float) -> tuple[float, ...]:
        """What is at a place in the largest graph, and in each sample."""
        return (largest, *(sample.numbers.get(place, largest) for sample in self.samples))

    def extents(self, name: str) -> list[Extent]:
        """The dimensions of a value."""
        return [self._extent(DimPlace(name, dim), n) for dim, n in enumerate(self.graph.types[name].shape)]

    def _extent(self, place: Place, largest: int) -> Extent:
        self.room[place] = largest
        for sample in self.samples:
            self.require_room(place, sample)
        return tuple(int(n) for n in self.number(place, largest))

    def require_room(self, place: Place, smaller: Differences) -> None:
        """Raise NotAlike where a dimension is longer in a smaller graph, such as what pads to a length."""
        longest, own = self.room[place], smaller.numbers.get(place, self.room[place])
        if own > longest:
            what = f"a dimension of `{place.value}`" if isinstance(place, DimPlace) else "a dimension"
            raise NotAlike(f"{what} is {own} long here, and {longest} at the largest sizes")

    def is_free(self, name: str) -> bool:
        """Whether a dimension of a value depends on sizes."""
        return any(is_free(extent) for factors in self.values[name] for extent in factors)

    # --- nodes

    def _view(self, node: ShapeView) -> None:
        found = regroup_dims(self.values[node.input], self.extents(node.output))
        if found is None:
            raise NotAlike(f"the view `{node.name}` takes a size apart")
        self.values[node.output] = found

    def _loop(self, number: int, loop: LoopNode) -> None:
        """A loop whose steps are a dimension of what it goes through, and whose states keep their dimensions."""
        given = dict[str, Dimensions]()
        steps = self.steps_of(loop)
        if has_gaps(steps):
            raise NotAlike(f"`{loop.name}` goes through a dimension that has gaps")
        for name, own in zip(loop.inputs, loop.takes, strict=True):
            given[own.body] = self.values[name][own.kind is LoopInputKind.ELEMENTS :]
        body = self.bodies[number] = Following(loop.body, [each.bodies[number] for each in self.samples], given)
        labels = dict(loop.body.outputs)
        for state, label in loop.body.states.items():
            if body.values[state] != body.values[labels[label]]:
                raise NotAlike(f"a state of `{loop.name}` has other dimensions after a step")
        for name, made in zip(loop.outputs, loop.gives, strict=True):
            is_state = made.kind is LoopOutputKind.STATE
            self.values[name] = body.values[made.body] if is_state else (steps, *body.values[labels[made.body]])

    def steps_of(self, loop: LoopNode) -> Factors:
        """The dimension of which a loop has a step for each place; no factors where sizes do not decide how many.

        It is that of what the loop goes through, or, where its steps read none of that, of what they make.
        """
        through = [self.values[name][0] for name, _ in loop.inputs_of_kind(LoopInputKind.ELEMENTS)]
        if through:
            return through[0]
        made = (name for name, _ in loop.outputs_of_kind(LoopOutputKind.ELEMENTS))
        return next((factors_of(self.extents(name)[0]) for name in made), ())

    def _compute(self, number: int, node: Compute) -> None:
        if not any(map(self.is_free, node.inputs)) and not self._differs(number, node):
            self.values |= {name: tuple(map(factors_of, self.extents(name))) for name in node.outputs}
            return
        form = stages_of(node.program)
        if form is None:
            raise NotAlike(f"the program of `{node.name}` has scalars, or named sizes")
        self.forms[number] = form
        named = dict(zip((*form.inputs, *form.outputs), (*node.inputs, *node.outputs), strict=True))
        buffers = {own: self.values[name] for own, name in zip(form.inputs, node.inputs, strict=True)}
        for n, stage in enumerate(form.stages):
            extents = self._stage_extents(number, n, form, stage, named)
            axes = _Axes(node.name, stage, extents, buffers).find_factors()
            self.stages[number, n] = StageFollowing(axes, dict(buffers))
            buffers |= dict.fromkeys(stage.targets, tuple(axes[axis.name] for axis in stage.axes))
        self.values |= {name: buffers[own] for own, name in zip(form.outputs, node.outputs, strict=True)}

    def _differs(self, number: int, node: Compute) -> bool:
        """Whether a node of inputs that are the same computes something that depends on sizes."""
        own = {DimPlace(name, dim) for name in node.outputs for dim in range(self.graph.types[name].rank)}
        return any(
            place in own or getattr(place, "node", None) == number for each in self.samples for place in each.numbers
        )

    def _stage_extents(
        self, number: int, n: int, form: Stages, stage: Stage, named: Mapping[str, str]
    ) -> dict[str, Extent]:
        """The extents of a stage's indices."""
        found = {}
        for dim, (axis, largest) in enumerate(zip(stage.axes, form.types[stage.buffer].shape, strict=True)):
            own = stage.buffer in named
            place = DimPlace(named[stage.buffer], dim) if own else InnerDimPlace(number, stage.buffer, dim)
            found[axis.name] = self._extent(place, largest)
        for part, node in enumerate(stage.value.walk()):
            if isinstance(node, Reduce):
                ends = [at for at, inner in number_parts(stage.value, part) if isinstance(inner, IntLit)]
                for axis, at in zip(node.axes, ends, strict=False):
                    assert isinstance(axis.extent, IntLit), axis
                    found[axis.name] = self._extent(NumberPlace(number, n, at), axis.extent.value)
        return found


def number_parts(value: SourceExpr, start: int = 0) -> Iterator[tuple[int, SourceNode]]:
    """The parts of a stage's value from one on, with their numbers in reading order."""
    return ((part, node) for part, node in enumerate(value.walk()) if part >= start)


@dataclass
class _Axes:
    """The factors of the indices of a stage, by what it reads with them."""

    node: str
    stage: Stage
    extents: Mapping[str, Extent]
    buffers: Mapping[str, Dimensions]

    def find_factors(self) -> dict[str, Factors]:
        """Raises NotAlike where two reads ask for different places."""
        made: dict[str, Factors] = {}
        for read in self._reads():
            for index, factors in zip(read.indices, self.buffers[read.buffer], strict=True):
                if isinstance(index, Name) and has_gaps(factors):
                    if made.setdefault(index.name, factors) != factors:
                        raise NotAlike(f"`{self.node}` reads along one index what has gaps in other places")
                    self._require_whole(index.name, factors)
        for read in self._reads():
            for index, factors in zip(read.indices, self.buffers[read.buffer], strict=True):
                if isinstance(index, Name) and not has_gaps(factors) and self._covers(index.name, factors):
                    made.setdefault(index.name, factors)
        axes = {name: made.get(name, factors_of(extent)) for name, extent in self.extents.items()}
        self._check(axes)
        return axes

    def _reads(self) -> Iterator[Read]:
        return (node for node in self.stage.value.walk() if isinstance(node, Read))

    def _covers(self, axis: str, factors: Factors) -> bool:
        """Whether an index goes along a whole dimension, at all sizes."""
        whole = self.extents[axis]
        return all(
            _product(factors, n) == extent for n, extent in enumerate(whole)
        )  # otherwise it is a slice from the first place on

    def _require_whole(self, axis: str, factors: Factors) -> None:
        if not self._covers(axis, factors):
            raise NotAlike(f"`{self.node}` reads a part of a dimension that has gaps")

    def _check(self, axes: Mapping[str, Factors]) -> None:
        """Raise NotAlike for an index with gaps that is more than a subscript, and for what is read by another."""
        gaps = {name for name, factors in axes.items() if has_gaps(factors)}
        for read in self._reads():
            for index, factors in zip(read.indices, self.buffers[read.buffer], strict=True):
                if isinstance(index, Name):
                    if has_gaps(factors) != (index.name in gaps):
                        raise NotAlike(f"`{self.node}` reads by one index with gaps and without")
                elif has_gaps(factors) and index != IntLit(0):
                    raise NotAlike(f"`{self.node}` computes where it reads in a dimension that has gaps")
        if gaps & set(_computed_indices(self.stage.value)):
            raise NotAlike(f"`{self.node}` computes with an index that has gaps")
        if self.stage.position is not None and gaps.intersection(axis.name for axis in _reduced_axes(self.stage)):
            raise NotAlike(f"`{self.node}` looks for a place among some that have gaps")


def _product(factors: Factors, n: int) -> int:
    total = 1
    for extent in factors:
        total *= extent[n]
    return total


def _computed_indices(node: SourceNode) -> Iterator[str]:
    """The indices that are more than subscripts of their own."""
    if isinstance(node, Name):
        yield node.name
        return
    for child in node.children():
        if not (isinstance(node, Read) and isinstance(child, Name)):
            yield from _computed_indices(child)


def _reduced_axes(stage: Stage) -> Sequence[Axis]:
    return stage.value.axes if isinstance(stage.value, Reduce) else ()

"""Nodes are joined with what computes their inputs, where that saves memory traffic: results are written once.

A group of nodes joins the group that computes one of its inputs where all of these hold:

- it is elementwise, and reads each element of that input once (by a permutation of its own indices, or a view); or
  it reduces each element of that input once, which is elementwise; or
  that input is of an anchor, and it reads it so at numbers of other dimensions, as a recurrent step does its gates; or
  memory limits both, and all their stages go along the same rows, so that one nest computes them while a row is in the
  cache;
- nothing outside reads that input, so that it need not be in memory;
- nothing else that is computed with that input is read outside: joined, they can still be put in an order;
- it is no concatenation that joins the result of a reduction with other computed values, all in whole cache lines:
  they are computed in place (see `parts`).

So an anchor (a convolution, a product of matrices) takes its bias, residual sums and activations; the pieces of a layer
norm, a softmax or a chain of activations become one program each. An anchor also joins what computes its input where
that is a border, or cheap and read to put a border around it: the stage that makes the border computes it. And it joins
what unpacks its weights, so that they stay packed in memory.

Where several inputs would do, as in the sum at the end of a residual block, the one whose program is the most common is
taken, so that there are few distinct programs; of several, the one computed last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from metasched.graph.fusion.copies import copied_boxes, may_be_computed_there
from metasched.graph.fusion.expressions import operations, reads
from metasched.graph.fusion.kinds import Kind, is_reduction, kind_of
from metasched.graph.fusion.merge import canonical_compute, merge_nodes, merge_stages, replace_nodes
from metasched.graph.fusion.rows import count_rows
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.fusion.views import PlaceByData
from metasched.graph.ir import Compute, Graph, ShapeView
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.passes.rotations import rotated_index
from metasched.ir.source import IfElse, IntLit, Name, Read, Stage
from metasched.support.data_classes import dataclass

# What an element may cost that an anchor computes where it puts a border around it, in additions.
_MOST_BORDER_COST = 6
# Stages of nodes that are joined, before any is written into another: a structure of a space takes some 10 ms for each.
_MOST_STAGES = 64
# Reductions of nodes that are joined: choices for one are tried with those for each other, some 2 s for each two. So
# the steps of a recurrence are few tasks that are used many times.
_MOST_REDUCTIONS = 4
# Stages from which on an elementwise node is a step that may come again and again, such as an exchange of a sort.
_STAGES_OF_STEP = 3
# Elements of all values of nodes that are joined whatever their rows are: they stay in the cache.
_MOST_CACHED_ELEMENTS = 1 << 14
# Rows that there have to be: each is computed as a whole, by one thread.
_LEAST_ROWS = 4


@graph_pass(after=("rotations",))
def fusion(graph: Graph, context: PassContext) -> Graph:
    """Elementwise nodes, and reductions of rows, are joined with what computes their inputs."""
    return _Grouping(graph, context).run()


@dataclass(eq=False)
class _Group:
    """Nodes to be joined, by their numbers in the graph, in order; views between them are members.

    `kind` is that of the heaviest of them.
    """

    members: list[int]
    kind: Kind


@dataclass(frozen=True)
class _Source:
    """Where an input comes from: the node that computes it, the views on the way, and all values up to it."""

    producer: int
    views: tuple[int, ...]
    values: tuple[str, ...]


class _Grouping:
    def __init__(self, graph: Graph, context: PassContext) -> None:
        self._graph = graph
        self._context = context
        self._forms = {
            n: form
            for n, node in enumerate(graph.nodes)
            if isinstance(node, Compute) and (form := stages_of(node.program)) is not None
        }
        self._producer = {name: n for n, node in enumerate(graph.nodes) for name in node.outputs}
        self._readers: dict[str, list[int]] = {}
        for n, node in enumerate(graph.nodes):
            for name in dict.fromkeys(node.inputs):
                self._readers.setdefault(name, []).append(n)
        self._results = {name for _, name in graph.outputs}
        self._sources: dict[str, _Source | None] = {}
        self._in_place: dict[int, bool] = {}
        self._rows_refusals: dict[tuple[int, ...], str] = {}
        self._repeated: dict[int, bool] = {}
        self._common = {n: len(nodes) for nodes in _numbers_by_task(graph) for n in nodes}
        self._groups = {n: _Group([n], kind_of(form)) for n, form in self._forms.items()}
        self._takers = self._find_takers()
        # Groups that were not asked since they, or one that computes an input of theirs, were joined with another.
        self._open = set(self._distinct_groups())
        # Of each group that was asked, why it stays apart from the nodes that compute its inputs.
        self._refused: dict[_Group, list[tuple[int, str]]] = {}

    def run(self) -> Graph:
        # Each join may make another possible: of a value with two readers, say, that are of one group now.
        while self._open:
            for group in self._distinct_groups():
                if group in self._open:
                    self._try_join(group)
        for group in self._distinct_groups():
            self._remark_refusal(group)
        return self._rewrite_graph()

    def _find_takers(self) -> dict[int, list[int]]:
        """The nodes that read what each node computes, as it is or through views."""
        found: dict[int, list[int]] = {}
        for n in self._forms:
            for name in dict.fromkeys(self._graph.nodes[n].inputs):
                source = self._source(name)
                if source is not None:
                    found.setdefault(source.producer, []).append(n)
        return found

    def _distinct_groups(self) -> list[_Group]:
        return list(dict.fromkeys(self._groups.values()))

    def _inputs(self, group: _Group) -> list[str]:
        """What a group reads and does not compute, in the order in which it is to join what computes it."""
        nodes = [self._graph.nodes[n] for n in group.members]
        made = {name for node in nodes for name in node.outputs}
        given = dict.fromkeys(name for node in nodes for name in node.inputs if name not in made)
        return sorted(given, key=self._preference, reverse=True)

    def _preference(self, name: str) -> tuple[int, int]:
        """How common the program is that computes a value, and when it runs."""
        source = self._source(name)
        return (0, -1) if source is None else (self._common[source.producer], source.producer)

    def _try_join(self, group: _Group) -> None:
        """Put a group into that of one of its inputs, if it may be."""
        self._open.discard(group)
        refused = self._refused[group] = []
        for name in self._inputs(group):
            source = self._source(name)
            if source is None:
                continue
            reason = self._refusal(group, source)
            if not reason:
                self._join(group, source)
                return
            refused.append((source.producer, reason))

    def _join(self, group: _Group, source: _Source) -> None:
        """Put a group into one that computes an input of it."""
        other = self._groups[source.producer]
        members = sorted({*other.members, *source.views, *group.members})
        joined = _Group(members, max(other.kind, group.kind))
        self._groups |= dict.fromkeys(members, joined)
        self._open.discard(other)
        self._open.update(self._groups[taker] for n in members for taker in self._takers.get(n, ()))
        self._open.add(joined)

    def _remark_refusal(self, group: _Group) -> None:
        """Say why a group stays apart from what computes its inputs."""
        own = self._graph.nodes[group.members[-1]].name
        for producer, reason in self._refused[group]:
            self._context.remark(f"`{own}` is not joined with `{self._graph.nodes[producer].name}`: {reason}")

    def _source(self, name: str) -> _Source | None:
        """Where a value comes from; None where no node with written stages computes it."""
        if name not in self._sources:
            self._sources[name] = self._find_source(name)
        return self._sources[name]

    def _find_source(self, name: str) -> _Source | None:
        views, values = list[int](), [name]
        number = self._producer.get(name, -1)
        while number >= 0 and isinstance(view := self._graph.nodes[number], ShapeView):
            views.append(number)
            values.append(view.input)
            number = self._producer.get(view.input, -1)
        return _Source(number, tuple(views), tuple(values)) if number in self._forms else None

    def _refusal(self, group: _Group, source: _Source) -> str:
        """Why a group may not join the one that computes an input of it; '' where it may."""
        if self._is_in_place(source.producer):
            return f"`{source.values[-1]}` joins values, which are computed where they are joined"
        inside = {*group.members, *source.views}
        for value in source.values:
            if value in self._results:
                return f"`{value}` is a result of the network"
            if any(reader not in inside for reader in self._readers[value]):
                return f"`{value}` is read by others, too"
        other = self._groups[source.producer]
        if other.kind is Kind.REDUCTION and all(self._is_joined_in_place(n) for n in self._readers[source.values[0]]):
            return (
                f"`{source.values[0]}` is computed where it is joined with others, which saves as much memory traffic"
            )
        name, members = source.values[0], sorted({*other.members, *inside})
        if refused := self._size_refusal(group, other) or self._outputs_refusal(other, source):
            return refused
        is_read = _is_permutation if other.kind is Kind.ANCHOR else _is_rotation
        if group.kind < Kind.REDUCTION and all(self._reads_each_once(n, name, is_read) for n in self._readers[name]):
            return ""
        if group.kind < Kind.REDUCTION and other.kind is Kind.ANCHOR and self._reads_gates(source):
            return ""
        if group.kind is Kind.ANCHOR:
            refused = "" if self._unpacks(other) else self._prologue_refusal(name, other)
            return refused or self._view_refusal(source, members)
        if other.kind is Kind.ANCHOR:
            return f"it does not read each element of `{name}` once, in an order of its own indices"
        if other.kind <= Kind.ELEMENTWISE and self._reduces_each_once(name):
            return self._view_refusal(source, members)
        return self._rows_refusal(members)

    def _size_refusal(self, group: _Group, other: _Group) -> str:
        count = self._count_stages(group) + self._count_stages(other)
        if count > _MOST_STAGES:
            return f"they would be {count} stages, and {_MOST_STAGES} are the most"
        reductions = self._count_stages(group, is_reduction), self._count_stages(other, is_reduction)
        if min(reductions) and sum(reductions) > _MOST_REDUCTIONS:
            return f"they would have {sum(reductions)} reductions, and {_MOST_REDUCTIONS} are the most"
        return ""

    def _count_stages(self, group: _Group, holds: Callable[[Stage], bool] = lambda _: True) -> int:
        """How many stages of a group are such."""
        return sum(holds(stage) for n in group.members if n in self._forms for stage in self._forms[n].stages)

    def _outputs_refusal(self, other: _Group, source: _Source) -> str:
        """Why what a group computes besides an input of another has to be in memory; '' where it has not."""
        written = [v for n in other.members for v in self._graph.nodes[n].outputs if v not in source.values]
        for value in written:
            if value in self._results or any(n not in other.members for n in self._readers.get(value, ())):
                return f"`{value}`, which is computed with it, is read by others"
        return ""

    def _is_in_place(self, number: int) -> bool:
        """Whether a node joins values that are computed before, so that nothing has to be copied (see `parts`)."""
        node = self._graph.nodes[number]
        if number not in self._in_place:
            boxes = (copied_boxes(node.program.func) if isinstance(node, Compute) else None) or ()
            self._in_place[number] = len(boxes) > 1 and all(name in self._producer for name in node.inputs)
        return self._in_place[number]

    def _is_joined_in_place(self, number: int) -> bool:
        """Whether each value that a node joins may be computed where it is joined."""
        if not self._is_in_place(number):
            return False
        node = self._graph.nodes[number]
        assert isinstance(node, Compute)
        whole = self._graph.types[node.outputs[0]]
        return all(may_be_computed_there(box, whole) for box in copied_boxes(node.program.func) or ())

    def _unpacks(self, other: _Group) -> bool:
        """Whether a group computes an element of its result from an element of each of some constants. What folding has
        left of such is larger than these: where it is read, as much of it is made as is used at a time."""
        given = {name for n in other.members for name in self._graph.nodes[n].inputs}
        made = {name for n in other.members for name in self._graph.nodes[n].outputs}
        return other.kind <= Kind.ELEMENTWISE and given - made <= self._graph.constants.keys()

    def _prologue_refusal(self, name: str, other: _Group) -> str:
        """Why an anchor may not compute its input where it puts a border around it; '' where it may."""
        if other.kind > Kind.ELEMENTWISE:
            return f"`{name}` is the result of a reduction"
        stages = [stage for n in other.members if n in self._forms for stage in self._forms[n].stages]
        cost = sum(operations(stage.value) for stage in stages)
        is_border = cost == 1 and any(isinstance(stage.value, IfElse) for stage in stages)
        if is_border or (cost <= _MOST_BORDER_COST and all(self._only_moves(n, name) for n in self._readers[name])):
            return ""
        return f"it is an anchor, and `{name}` is neither a border nor cheap and read to put one around it"

    def _only_moves(self, number: int, name: str) -> bool:
        """Whether a node reads an input in stages that compute nothing, such as those that put a border around it."""
        node = self._graph.nodes[number]
        if not isinstance(node, Compute):
            return True
        form = self._forms[number]
        own = {buffer for buffer, given in zip(form.inputs, node.inputs, strict=True) if given == name}
        stages = [stage for stage in form.stages if own & {read.buffer for read in reads(stage.value)}]
        return all(isinstance(stage.value, IfElse) and operations(stage.value) == 1 for stage in stages)

    def _view_refusal(self, source: _Source, members: list[int]) -> str:
        """Why nodes cannot be read through views at the places that they are read at; '' where they can."""
        made = self._merge_stages(members) if source.views else ""
        return made if isinstance(made, str) else ""

    def _merge_stages(self, members: list[int]) -> Stages | str:
        """The stages of nodes as those of one program, or why there is none: places that data decide are in the way."""
        nodes = [self._graph.nodes[n] for n in members]
        try:
            return merge_stages(self._graph, nodes, nodes[-1].outputs)
        except PlaceByData as e:
            return str(e)

    def _rows_refusal(self, members: list[int]) -> str:
        """Why one nest cannot compute nodes that memory limits; '' where it can."""
        key = tuple(members)  # asked again each time that groups elsewhere were joined
        if key not in self._rows_refusals:
            self._rows_refusals[key] = self._find_rows_refusal(members)
        return self._rows_refusals[key]

    def _is_repeated(self, number: int) -> bool:
        """Whether a node is a step of several stages that goes on from the same step, or that one goes on from it: few
        tasks do for all of them.
        """
        if number not in self._repeated:
            node, form = self._graph.nodes[number], self._forms.get(number)
            sources = (self._source(name) for name in node.inputs)
            near = {*(source.producer for source in sources if source is not None), *self._takers.get(number, ())}
            is_step = form is not None and kind_of(form) <= Kind.ELEMENTWISE and len(form.stages) >= _STAGES_OF_STEP
            self._repeated[number] = is_step and any(self._is_same(number, other) for other in near)
        return self._repeated[number]

    def _is_same(self, number: int, other: int) -> bool:
        one, two = self._graph.nodes[number], self._graph.nodes[other]
        return isinstance(one, Compute) and isinstance(two, Compute) and one.program == two.program

    def _find_rows_refusal(self, members: list[int]) -> str:
        if any(map(self._is_repeated, members)):
            return "one of them is a step that is taken several times, which stays one task"
        together = self._merge_stages(members)
        if isinstance(together, str):
            return together
        if (
            sum(type_.size for type_ in together.types.values()) <= _MOST_CACHED_ELEMENTS
            or count_rows(together) >= _LEAST_ROWS
        ):
            return ""
        return "their stages do not go along the same rows"

    def _reads_each_once(self, number: int, name: str, is_read: _IsRead) -> bool:
        node = self._graph.nodes[number]
        assert isinstance(node, Compute)
        form = self._forms[number]
        buffers = {own for own, given in zip(form.inputs, node.inputs, strict=True) if given == name}
        return reads_each_once(form, buffers, is_read)

    def _reduces_each_once(self, name: str) -> bool:
        """Whether one stage of one node reads a value, in a reduction of each of its elements once."""
        found = [
            (form, stage, read)
            for n in self._readers[name]
            if (form := self._forms.get(n)) is not None
            for stage in form.stages
            for read in reads(stage.value)
            if dict(zip(form.inputs, self._graph.nodes[n].inputs, strict=True)).get(read.buffer) == name
        ]
        if len(found) != 1 or len(self._readers[name]) != 1:
            return False
        ((form, stage, read),) = found
        return is_reduction(stage) and _is_permutation(
            form, read, {axis: n for axis, n in form.extents(stage).items() if n > 1}
        )

    def _reads_gates(self, source: _Source) -> bool:
        """Whether all that read a value itself do so by their own indices, and numbers of other dimensions."""
        name = source.values[0]
        numbers = [] if source.views else self._readers[name]
        nodes = [node for n in numbers if n in self._forms and isinstance(node := self._graph.nodes[n], Compute)]
        return (
            bool(nodes)
            and len(nodes) == len(numbers)
            and all(
                reads_each_once(
                    self._forms[n],
                    {own for own, given in zip(self._forms[n].inputs, node.inputs, strict=True) if given == name},
                    is_own_element,
                )
                for n, node in zip(numbers, nodes, strict=True)
            )
        )

    def _rewrite_graph(self) -> Graph:
        made: dict[int, Compute] = {}
        members: set[int] = set()
        for group in self._distinct_groups():
            nodes = [self._graph.nodes[n] for n in group.members]
            final = nodes[-1]
            assert isinstance(final, Compute)
            members.update(group.members)
            made[group.members[-1]] = (
                merge_nodes(self._graph, nodes, final.outputs)
                if len(nodes) > 1
                else canonical_compute(self._graph, final)
            )
        return remove_dead_code(replace_nodes(self._graph, made, members))


def _numbers_by_task(graph: Graph) -> list[list[int]]:
    """The nodes of each task, by their numbers."""
    numbers = {id(node): n for n, node in enumerate(graph.nodes)}
    return [[numbers[id(node)] for node in nodes] for nodes in graph.tasks.values()]


def reads_each_once(stages: Stages, buffers: set[str], is_read: _IsRead | None = None) -> bool:
    """Whether elementwise stages read each element of some buffers once: by a permutation of a stage's own indices.

    `is_read` is another condition on a read, of a stage that has some indices of more than one element.
    """
    is_read = is_read or _is_permutation
    for stage in stages.stages:
        if is_reduction(stage):
            return False
        long = {axis: extent for axis, extent in stages.extents(stage).items() if extent > 1}
        for read in reads(stage.value):
            if read.buffer in buffers and not is_read(stages, read, long):
                return False
    return True


_IsRead = Callable[[Stages, Read, Mapping[str, int]], bool]


def _is_permutation(stages: Stages, read: Read, axes: Mapping[str, int]) -> bool:
    shape = stages.types[read.buffer].shape
    used = [index.name for index, n in zip(read.indices, shape, strict=True) if isinstance(index, Name) and n > 1]
    return len(used) == len(set(used)) == sum(n > 1 for n in shape) and set(used) == set(axes)


def _is_rotation(stages: Stages, read: Read, axes: Mapping[str, int]) -> bool:
    """As `_is_permutation`, of indices that may be rotated along their dimensions."""
    shape = stages.types[read.buffer].shape
    plain = [(rotated_index(index, n), n) for index, n in zip(read.indices, shape, strict=True)]
    indices = tuple(
        index if name is None or axes.get(name) != n else Name(name)
        for index, (name, n) in zip(read.indices, plain, strict=True)
    )
    return _is_permutation(stages, replace(read, indices=indices), axes)


def is_own_element(stages: Stages, read: Read, axes: Mapping[str, int]) -> bool:
    """Whether a read is by a permutation of all of some indices, along dimensions that these have in whole, and at
    numbers along the others.
    """
    shape = stages.types[read.buffer].shape
    long = [index for index, n in zip(read.indices, shape, strict=True) if n > 1]
    used = [index.name for index in long if isinstance(index, Name)]
    numbers = sum(isinstance(index, IntLit) for index in long)
    return len(used) + numbers == len(long) and len(used) == len(set(used)) and set(used) == set(axes)

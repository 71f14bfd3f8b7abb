"""Intermediate values that are written into what reads them, where that computes nothing more often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from metasched.graph.fusion.expressions import (
    dtype_of,
    is_cast,
    map_reads,
    operations,
    reads,
    substitute_names,
)
from metasched.graph.fusion.stages import Stages
from metasched.ir.prologue import MOST_GROWTH, NO_MATTER
from metasched.ir.source import Apply, IfElse, Name, Read, Reduce, SourceExpr, Stage
from metasched.support.data_classes import dataclass

# Operations that may be written twice in one expression: compiled code computes an expression that is there twice once.
_MOST_REPEATED_OPERATIONS = 8
# How much larger a value may be with a border around it.
_BORDER = 2
# A value that indices say in so many operations is computed sooner than it is read.
_INDEX_OPERATIONS = 2
# Expressions of more nodes stay apart.
_LARGEST = 150


def inline_stages(stages: Stages) -> Stages:
    """The stages with intermediate values written into what reads them, as far as that costs nothing.

    The first that can be written into its readers is, again and again. A stage is asked about again only where its
    value or one of its readers is another by then: of a long chain of stages each is asked about a few times.
    """
    return _Inlining(stages).run()


@dataclass(frozen=True)
class _Form:
    """A stage, and what is asked of its value again and again: how many reads each buffer has, those in subscripts,
    its nodes, whether there is a condition, and of each of the stage's indices whether it is used in an expression.
    """

    stage: Stage
    counts: Mapping[str, int]
    subscripts: frozenset[str]
    size: int
    guarded: bool
    moved: tuple[bool, ...]

    @classmethod
    def from_stage(cls, stage: Stage) -> _Form:
        nodes = list(stage.value.walk())
        found = [node for node in nodes if isinstance(node, Read)]
        inner = frozenset(one.buffer for read in found for index in read.indices for one in reads(index))
        guarded = any(isinstance(node, IfElse) for node in nodes)
        names = Counter(node.name for node in nodes if isinstance(node, Name))
        alone = Counter(index.name for read in found for index in read.indices if isinstance(index, Name))
        moved = tuple(names[axis.name] > alone[axis.name] for axis in stage.axes)
        return cls(stage, Counter(read.buffer for read in found), inner, len(nodes), guarded, moved)


@dataclass(frozen=True)
class _Use:
    """A stage that reads another, and how many reads of it that has."""

    reader: _Form
    count: int


class _Inlining:
    """Stages some of which are written into others, and what reads each of their buffers."""

    def __init__(self, stages: Stages) -> None:
        self._given = stages
        self._dtypes = stages.dtypes
        self._forms = {stage.buffer: _Form.from_stage(stage) for stage in stages.stages}
        self._places = {name: place for place, name in enumerate(self._forms)}
        self._readers: dict[str, set[str]] = {}
        for name, form in self._forms.items():
            for buffer in form.counts:
                self._readers.setdefault(buffer, set()).add(name)

    def run(self) -> Stages:
        names = list(self._forms)
        asked = list(self._places.values())  # a heap: the first stage is the next one
        while asked:
            place = heappop(asked)
            if asked and asked[0] == place:
                continue
            form = self._forms.get(names[place])
            if form is not None and self._refusal(form) is None:
                for name in self._inline_stage(form):
                    heappush(asked, self._places[name])
        return replace(self._given, stages=tuple(form.stage for form in self._forms.values()))

    def _refusal(self, form: _Form) -> str | None:
        """Why a stage is not written into its readers; None where it is."""
        stage, name = form.stage, form.stage.buffer
        if isinstance(stage.value, Reduce) or stage.position is not None or name in self._given.outputs:
            return "it is a reduction, lies in another value, or is an output"
        uses = [_Use(reader, reader.counts[name]) for reader in self._forms_reading(name)]
        if not uses or self._operand_value(stage) is None:
            return "nothing reads it, or no expression is rounded as it is"
        if any(use.count * form.size + use.reader.size > _LARGEST for use in uses):
            return f"a reader would have more than {_LARGEST} nodes"
        if any(name in use.reader.subscripts or _adds_to_places(form, use.reader.stage) for use in uses):
            return "it says places, or what reads it would read at places that no call checks"
        return self._cost_refusal(form, uses)

    def _cost_refusal(self, form: _Form, uses: Sequence[_Use]) -> str | None:
        """Why writing a stage into its readers would cost time; None where it would not."""
        cost = operations(form.stage.value)
        reduced = any(isinstance(use.reader.stage.value, Reduce) for use in uses)
        if form.guarded and reduced:
            return "a reduction would ask its condition for each term"
        if not cost and not form.guarded:
            return None
        if not form.counts and cost <= _INDEX_OPERATIONS:
            return None
        if reduced and _unpacks(self._given, form.stage):
            return "schedules have places of their own for weights that become larger"
        if any(use.count > 1 and cost * use.count > _MOST_REPEATED_OPERATIONS for use in uses):
            return "a reader has it several times"
        own = self._given.iterations(form.stage)
        taken = [self._given.iterations(use.reader.stage) for use in uses]
        if all(isinstance(use.reader.stage.value, IfElse) for use in uses):
            # Outside of a border, nothing is computed.
            fits = len(uses) == 1 and sum(taken) <= _BORDER * own
        else:
            fits = sum(taken) <= own or (cost == 1 and all(one <= own for one in taken))
        return None if fits else "it would be computed more often"

    def _forms_reading(self, buffer: str) -> list[_Form]:
        return [self._forms[name] for name in self._readers.get(buffer, ())]

    def _operand_value(self, stage: Stage) -> SourceExpr | None:
        """A stage's value as a part of an expression, of its buffer's type and rounded as it would be there.

        None where no expression says so.
        """
        wanted = self._dtypes[stage.buffer]
        given = dtype_of(stage.value, self._dtypes)
        if wanted.compute is not wanted:
            # A half is rounded where it is stored; within an expression, only a cast from another type does that.
            rounded = isinstance(stage.value, Read) or is_cast(stage.value)
            return stage.value if rounded and given is wanted else None
        if given is None:
            return Apply(wanted.value, (stage.value,))
        return stage.value if given is wanted else None

    def _inline_stage(self, form: _Form) -> set[str]:
        """Write a stage into its readers. Returns the stages that may be written into others now, or no longer."""
        stage, operand = form.stage, self._operand_value(form.stage)
        assert operand is not None
        axes = [axis.name for axis in stage.axes]

        def change(read: Read) -> SourceExpr:
            if read.buffer != stage.buffer:
                return read
            return substitute_names(operand, dict(zip(axes, read.indices, strict=True)))

        del self._forms[stage.buffer]
        changed = self._readers.pop(stage.buffer)
        for buffer in form.counts:
            self._readers[buffer].discard(stage.buffer)
        for name in changed:
            reader = self._forms[name].stage
            made = self._forms[name] = _Form.from_stage(replace(reader, value=map_reads(reader.value, change)))
            for buffer in made.counts:
                self._readers[buffer].add(name)
        read = {buffer for name in changed for buffer in self._forms[name].counts} | set(form.counts)
        return changed | (read & self._forms.keys())


def _unpacks(stages: Stages, stage: Stage) -> bool:
    """Whether a stage makes floats of weights that are much smaller: schedules have places of their own for that."""
    made, given = stages.types[stage.buffer], {read.buffer for read in reads(stage.value)}
    before = sum(stages.types[name].nbytes for name in given)
    return given <= stages.consts and made.dtype.is_float and made.nbytes > MOST_GROWTH * before + NO_MATTER


def _adds_to_places(form: _Form, reader: Stage) -> bool:
    """Whether a place that an input alone says would become a part of an index, which no call checks.

    Where a condition guards the read, that says that the place is inside.
    """
    if not any(form.moved):
        return False
    guarded = {id(read) for node in reader.value.walk() if isinstance(node, IfElse) for read in reads(node)}
    return any(
        adds and isinstance(index, Read)
        for read in reads(reader.value)
        if read.buffer == form.stage.buffer and id(read) not in guarded
        for adds, index in zip(form.moved, read.indices, strict=True)
    )


def without_copies(stages: Stages) -> Stages:
    """The stages with a result that is another order of an intermediate value's elements computed in that order.

    A sum whose neighbours would be apart stays as it is, and is put into the other order from its tiles.
    """
    while True:
        found = next((s for s in stages.stages if _is_reordered(stages, s)), None)
        if found is None:
            return stages
        stages = _compute_in_order(stages, found)


def _is_reordered(stages: Stages, stage: Stage) -> bool:
    """Whether a stage only puts all elements of a value, which nothing else reads, into another order."""
    read = stage.value
    if not isinstance(read, Read) or read.buffer not in stages.by_buffer or read.buffer in stages.outputs:
        return False
    source = stages.by_buffer[read.buffer]
    used = [index.name for index in read.indices if isinstance(index, Name)]
    return (
        source.position is None
        and count_reads(stages)[read.buffer] == 1
        and stages.types[read.buffer].dtype is stages.types[stage.buffer].dtype
        and len(used) == len(read.indices)
        and sorted(used) == sorted(axis.name for axis in stage.axes)
        and not (isinstance(source.value, Reduce) and _turns(stages, stage, used))
    )


def _turns(stages: Stages, stage: Stage, read: list[str]) -> bool:
    """Whether other elements are neighbours in what a stage writes than in what it reads.

    A sum that was to be computed along its own innermost dimension would be computed along another one.
    """
    shape = stages.types[stage.buffer].shape
    extents = {axis.name: extent for axis, extent in zip(stage.axes, shape, strict=True)}
    given, made = ([name for name in order if extents[name] > 1] for order in (read, list(extents)))
    return given[-1:] != made[-1:]


def _compute_in_order(stages: Stages, stage: Stage) -> Stages:
    read = stage.value
    assert isinstance(read, Read)
    source = stages.by_buffer[read.buffer]
    places = [index.name for index in read.indices if isinstance(index, Name)]
    axes = tuple(source.axes[places.index(axis.name)] for axis in stage.axes)
    made = replace(source, buffer=stage.buffer, axes=axes)
    return replace(stages, stages=tuple(made if s is source else s for s in stages.stages if s is not stage))


def count_reads(stages: Stages) -> Counter[str]:
    """How many reads each buffer has."""
    return Counter(read.buffer for stage in stages.stages for read in reads(stage.value))

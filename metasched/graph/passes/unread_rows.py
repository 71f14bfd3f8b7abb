"""Rows of padded copies that no term reads are left out of these.

Where a convolution has no terms for rows of padding (`padding_terms`), its padded operand still had these rows. At a
dilation of 24, of 28 rows and columns with 24 of padding on each side, they were 30 of 47 MB to fill, and to hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np

from metasched.graph.fusion.expressions import (
    conjunction,
    conjuncts,
    map_reads,
    names_in,
    reads,
    substitute_names,
)
from metasched.graph.fusion.indices import IndexSum, linear_form
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Compute, Graph
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.passes.padding_terms import comparison_mask
from metasched.graph.precision.products import literal
from metasched.ir.source import IfElse, Name, Read, Reduce, SourceExpr, Stage
from metasched.support.data_classes import dataclass

# Rows are left out where those that are read are at most this share: others are little to fill, and a copy of another
# size is another program for what is alike otherwise.
_MOST_SHARE_READ = 2 / 3
# The most combinations of indices for which it is looked up which rows are read.
_MOST_CASES = 1 << 20


@dataclass(frozen=True)
class _KeptRows:
    """The rows `first` to before `end` of the dimension `axis` of a stage's buffer: those that `reader` reads."""

    stage: Stage
    axis: int
    first: int
    end: int
    reader: Stage


@graph_pass(after=("padding_terms",))
def unread_rows(graph: Graph, context: PassContext) -> Graph:
    """Rows of padded copies that no term reads are left out of these."""
    nodes = tuple(_rewritten(node, context) if isinstance(node, Compute) else node for node in graph.nodes)
    return replace(graph, nodes=nodes)


def _rewritten(node: Compute, context: PassContext) -> Compute:
    form = stages_of(node.program)
    if form is None or not any(_condition(stage) for stage in form.stages):
        return node
    made = form
    while (kept := next(_find_unread_rows(made), None)) is not None:
        made = _copy_kept_rows(made, kept)
    if made is form:
        return node
    context.remark(f"`{node.name}`: a padded copy has the rows that are read")
    return replace(node, program=program_of(made, node.program.name))


def _condition(stage: Stage) -> SourceExpr | None:
    """Where a stage has terms; None where it has all of them, or reduces nothing."""
    return stage.value.cond if isinstance(stage.value, Reduce) else None


def _find_unread_rows(form: Stages) -> Iterator[_KeptRows]:
    """The dimensions of padded copies that have rows which are not read, enough of them."""
    for stage in form.stages:
        if stage.buffer in form.outputs or not isinstance(stage.value, IfElse):
            continue
        if literal(stage.value.otherwise) is None:
            continue
        found = [(other, read) for other in form.stages for read in reads(other.value) if read.buffer == stage.buffer]
        if len(found) != 1:
            continue
        ((reader, read),) = found
        for axis, index in enumerate(read.indices):
            rows, extent = _rows_read(index, reader, form), form.types[stage.buffer].shape[axis]
            if rows is None:
                continue
            first, end = max(rows[0], 0), min(rows[1], extent)
            if end - first <= _MOST_SHARE_READ * extent:
                yield _KeptRows(stage, axis, first, end, reader)


def _rows_read(index: SourceExpr, reader: Stage, form: Stages) -> tuple[int, int] | None:
    """The first row that an index may reach where the reader has terms, and that after the last; None where it is not
    linear, or no condition is about it.

    Rows between those that it reaches and the nearest that it reaches where there are no terms count as reached:
    bounds of indices are seen in a program by its conditions, which say nothing of multiples.
    """
    condition, extents = _condition(reader), form.extents(reader)
    names = names_in(index)
    asked = [part for part in conjuncts(condition) if names_in(part) <= names] if condition is not None else []
    if not asked or prod(extents[name] for name in names) > _MOST_CASES:
        return None
    at = linear_form(index, extents)
    if at is None or not all(isinstance(atom, Name) for atom, _ in at.terms):
        return None
    grid = dict(zip(sorted(names), np.indices([extents[name] for name in sorted(names)]), strict=True))
    met = np.ones([extents[name] for name in sorted(names)], np.bool_)
    for part in asked:
        held = comparison_mask(part, grid, extents)
        met = met if held is None else met & held
    values = sum((factor * grid[atom.name] for atom, factor in at.terms if isinstance(atom, Name)), start=0)
    rows = np.asarray(values + at.constant)
    reached = rows[met]
    if not reached.size:
        return None
    before, after = rows[rows < reached.min()], rows[rows > reached.max()]
    return (
        int(before.max() if before.size else reached.min() - 1) + 1,
        int(after.min() if after.size else reached.max() + 1),
    )


def _copy_kept_rows(form: Stages, kept: _KeptRows) -> Stages:
    """The stages with a copy of the rows that are kept."""
    stage, buffer = kept.stage, kept.stage.buffer
    name = stage.axes[kept.axis].name
    extents = form.extents(stage)
    moved = _shift_index(Name(name), kept.first, extents)
    shorter = replace(
        stage, value=_value_in_kept_rows(substitute_names(stage.value, {name: moved}), name, kept, extents)
    )
    reader = replace(kept.reader, value=map_reads(kept.reader.value, lambda read: _shift_read(read, form, kept)))
    shape = list(form.types[buffer].shape)
    shape[kept.axis] = kept.end - kept.first
    types = {**form.types, buffer: replace(form.types[buffer], shape=tuple(shape))}
    by_buffer = {stage.buffer: shorter, kept.reader.buffer: reader}
    return replace(form, types=types, stages=tuple(by_buffer.get(one.buffer, one) for one in form.stages))


def _value_in_kept_rows(value: SourceExpr, row: str, kept: _KeptRows, extents: Mapping[str, int]) -> SourceExpr:
    """The value of a copy in the kept rows, without the parts of its condition that hold in all of these rows."""
    assert isinstance(value, IfElse)
    grid = {row: np.arange(kept.end - kept.first)}

    def is_met(part: SourceExpr) -> bool:
        held = comparison_mask(part, grid, extents) if names_in(part) == {row} else None
        return held is not None and bool(held.all())

    def at_rows(read: Read) -> Read:
        return replace(read, indices=tuple(_shift_index(index, 0, extents) for index in read.indices))

    value = map_reads(value, at_rows)
    left = [part for part in conjuncts(value.cond) if not is_met(part)]
    return replace(value, cond=conjunction(left)) if left else value.then


def _shift_read(read: Read, form: Stages, kept: _KeptRows) -> Read:
    if read.buffer != kept.stage.buffer:
        return read
    index = _shift_index(read.indices[kept.axis], -kept.first, form.extents(kept.reader))
    return replace(read, indices=(*read.indices[: kept.axis], index, *read.indices[kept.axis + 1 :]))


def _shift_index(index: SourceExpr, by: int, extents: Mapping[str, int]) -> SourceExpr:
    """An index so many rows later, in short; as it is where it is not linear, which no row is."""
    found = linear_form(index, extents)
    return index if found is None else found.plus(IndexSum((), by)).expression()

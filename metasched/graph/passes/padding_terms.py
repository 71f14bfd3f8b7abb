"""Terms of convolutions that read padding are left out: they are zero.

A term that a sum does not have is not computed. A condition on a row and a row of the window is asked once for all
columns, channels and outputs, one on a column once for a tile in registers and all channels, of which there have to be
some. Of a window of 3 x 3 over 7 x 7 a fifth of the terms read padding, over 33 x 33 at a dilation of 18 three in five.
A zero times a weight that is infinite or no number would be no zero, so the weights are looked at: they are constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.graph.fusion.expressions import conjunction, conjuncts, names_in, substitute_names
from metasched.graph.fusion.indices import linear_form
from metasched.graph.fusion.stages import Stages, program_of, stages_of
from metasched.graph.ir import Array, Compute, Graph
from metasched.graph.passes.declaration import PassContext, graph_pass
from metasched.graph.precision.products import ProductSum, literal, product_sum
from metasched.ir.nodes import BinOp
from metasched.ir.source import IfElse, Name, Operation, Read, SourceExpr, Stage

# Leaving terms out is worth a condition, and programs of their own for convolutions that are alike otherwise, where the
# terms left are at most this share: without those of rows (under 3 x 3 of 14 rows .95, of 28 rows .98), and without
# those of columns, too (of 28 x 28 .953, of 35 x 35 .962).
_MOST_SHARE_LEFT = 0.97
_MOST_SHARE_LEFT_OF_ALL = 0.955
# Terms for which a condition on a column of a tile is asked once; of fewer, conditions would take longer.
_FEWEST_TERMS = 8
# Of other types, a tensor instruction sums terms at once.
_FLOAT_TYPES = frozenset({DType.F32, DType.F64})


@graph_pass(after=("dimensions", "parts", "states"))
def padding_terms(graph: Graph, context: PassContext) -> Graph:
    """Terms of convolutions that read padding are left out."""
    nodes = tuple(_rewrite_node(node, graph, context) if isinstance(node, Compute) else node for node in graph.nodes)
    return replace(graph, nodes=nodes)


def _rewrite_node(node: Compute, graph: Graph, context: PassContext) -> Compute:
    form = stages_of(node.program)
    if form is None:
        return node
    given = zip(form.inputs, node.inputs, strict=True)
    weights = {buffer: graph.constants[name] for buffer, name in given if name in graph.constants}
    stages = tuple(_drop_padding_terms(stage, form, weights) for stage in form.stages)
    if stages == form.stages:
        return node
    context.remark(f"`{node.name}`: padding is no terms")
    return replace(node, program=program_of(replace(form, stages=stages), node.program.name))


def _drop_padding_terms(stage: Stage, form: Stages, weights: Mapping[str, Array]) -> Stage:
    """A stage without terms of padding, if it is a convolution that has enough of them."""
    found = product_sum(stage)
    if found is None or found.reduction.cond is not None or form.types[stage.buffer].dtype not in _FLOAT_TYPES:
        return stage
    extents = form.extents(stage)
    rows, columns = _terms_inside(found, form, weights)
    window = {name for condition in (*rows, *columns) for name in names_in(condition)}
    asked_once = math.prod(extents[axis.name] for axis in found.reduction.axes if axis.name not in window)
    tiles = rows + columns if asked_once >= _FEWEST_TERMS else []
    for conditions, most in ((tiles, _MOST_SHARE_LEFT_OF_ALL), (rows, _MOST_SHARE_LEFT)):
        if conditions and math.prod(_share_met(condition, extents) for condition in conditions) <= most:
            return replace(stage, value=replace(found.reduction, cond=conjunction(conditions)))
    return stage


def _terms_inside(
    found: ProductSum, form: Stages, weights: Mapping[str, Array]
) -> tuple[list[SourceExpr], list[SourceExpr]]:
    """For each dimension of padding, the condition under which a term reads none of it along that dimension: those of
    rows, and that of columns, the last one.

    There are none where the other factor may be infinite, or the borders are no zeros.
    """
    for data, other in (found.operands, found.operands[::-1]):
        padding = form.by_buffer.get(data.buffer)
        if padding is None or not isinstance(padding.value, IfElse) or literal(padding.value.otherwise) != 0:
            continue
        by_axis = _conditions_of_axes(padding, padding.value.cond)
        if not by_axis or not _is_finite(other, form, weights):
            continue
        at = dict(zip((axis.name for axis in padding.axes), data.indices, strict=True))
        conditions = [
            conjunction([substitute_names(condition, {axis: at[axis]}) for condition in asked])
            for axis, asked in by_axis.items()
        ]
        return conditions[:-1], conditions[-1:]
    return [], []


def _conditions_of_axes(padding: Stage, condition: SourceExpr) -> dict[str, list[SourceExpr]]:
    """What a padding's condition asks of each of its indices alone, in the order of dimensions."""
    every = list(conjuncts(condition))
    by_axis = {axis.name: [part for part in every if names_in(part) == {axis.name}] for axis in padding.axes}
    return {axis: asked for axis, asked in by_axis.items() if asked}


def _is_finite(read: Read, form: Stages, weights: Mapping[str, Array]) -> bool:
    """Whether a factor is a constant without infinities, of a type that has them."""
    array = weights.get(read.buffer)
    return array is not None and form.types[read.buffer].dtype in _FLOAT_TYPES and bool(np.isfinite(array).all())


def _share_met(condition: SourceExpr, extents: Mapping[str, int]) -> float:
    """The share of iterations that meet a condition; 1 where it is none of bounds of a linear index."""
    met = np.ones((), np.bool_)
    names = sorted(names_in(condition))
    grid = dict(zip(names, np.indices([extents[name] for name in names]), strict=True))
    for part in conjuncts(condition):
        held = comparison_mask(part, grid, extents)
        if held is None:
            return 1.0
        met = met & held
    return float(np.mean(np.broadcast_to(met, [extents[name] for name in names])))


def comparison_mask(part: SourceExpr, grid: Mapping[str, Array], extents: Mapping[str, int]) -> Array | None:
    """Where a comparison of indices holds; None where it is none of `_COMPARISONS`, or they are not linear."""
    if not isinstance(part, Operation) or part.op not in _COMPARISONS:
        return None
    a, b = linear_form(part.a, extents), linear_form(part.b, extents)
    difference = None if a is None or b is None else a.plus(b, -1)
    if difference is None or not all(isinstance(atom, Name) for atom, _ in difference.terms):
        return None
    values = sum((factor * grid[atom.name] for atom, factor in difference.terms if isinstance(atom, Name)), start=0)
    return np.asarray(_COMPARISONS[part.op](np.asarray(values + difference.constant), 0))


_COMPARISONS = {BinOp.LT: np.less, BinOp.LE: np.less_equal, BinOp.GT: np.greater, BinOp.GE: np.greater_equal}

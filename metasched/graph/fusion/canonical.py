"""One text for equal stages: their order, the names of what they compute, and their index expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from metasched.graph.fusion.expressions import (
    ROUNDING_FUNCTIONS,
    dtype_of,
    is_cast,
    map_reads,
    reads,
    rewrite_expression,
    substitute_names,
)
from metasched.graph.fusion.indices import Extents, decide_comparison, linear_form
from metasched.graph.fusion.inlining import count_reads, inline_stages, without_copies
from metasched.graph.fusion.kinds import is_anchor
from metasched.graph.fusion.repeated import without_repeated_elements
from metasched.graph.fusion.stages import Stages, reduced_extents
from metasched.graph.site import names as letters
from metasched.ir.nodes import BinOp, Reducer, UnOp
from metasched.ir.source import (
    Apply,
    Axis,
    BoolLit,
    FloatLit,
    IfElse,
    IntLit,
    Name,
    Operation,
    Prefix,
    Read,
    Reduce,
    SourceExpr,
    SourceNode,
    Stage,
)

# Reciprocals of numbers between this and its own are far from the ends of a float's range.
_LEAST_DIVISOR = 1e-30


def canonical(stages: Stages) -> tuple[Stages, tuple[str, ...], tuple[str, ...]]:
    """Equal computations as equal stages, and what its inputs and outputs were named before.

    What nothing needs is left out; outputs keep their order.
    """
    made = _drop_added_zeros(inline_stages(simplify_stages(_drop_dead_stages(stages))))
    made = without_repeated_elements(without_copies(_align_unit_reads(made)))
    made = _order_stages(_drop_dead_stages(_order_operands(_align_unit_reads(_use_reciprocals(simplify_stages(made))))))
    apart, again = _operands_apart(made)
    final, inputs, outputs = _rename_buffers(apart)
    return _order_stages(final, final.iterations), tuple(again.get(name, name) for name in inputs), outputs


# --- order -----------------------------------------------------------------------------------------------


def _drop_dead_stages(stages: Stages) -> Stages:
    """Stages without those that no output depends on."""
    needed = set(stages.outputs)
    kept: list[Stage] = []
    for stage in reversed(stages.stages):
        if needed.intersection(stage.targets):
            kept.append(stage)
            needed.update(read.buffer for read in reads(stage.value))
    return replace(stages, stages=tuple(reversed(kept)), inputs=tuple(name for name in stages.inputs if name in needed))


def _order_stages(stages: Stages, weigh: Callable[[Stage], int] = lambda _: 0) -> Stages:
    """Stages in another order: each just after what it needs, as the outputs need them, and of several the heaviest
    last.

    What ends in a tile of a sum, such as a product of bytes, runs with the tile only where all else that it reads, such
    as a correction, is there already.
    """
    by_buffer, order = stages.by_buffer, list[Stage]()
    done: set[str] = set()

    def visit(name: str) -> None:
        stage = by_buffer.get(name)
        if stage is None or name in done:
            return
        done.update(stage.targets)
        needed = [by_buffer[read.buffer] for read in reads(stage.value) if read.buffer in by_buffer]
        for other in sorted(needed, key=weigh):
            visit(other.buffer)
        order.append(stage)

    for name in stages.outputs:
        visit(name)
    return replace(stages, stages=tuple(order))


def _operands_apart(stages: Stages) -> tuple[Stages, dict[str, str]]:
    """Stages in which each sum reads an input at one place for an element of its result, and others as other inputs;
    and which inputs those are.

    Of products of queries and keys that were computed together each is an operand then, which schedules may copy.
    """
    again: dict[str, str] = {}
    given = set(stages.inputs) - stages.consts
    made = tuple(_split_inputs(s, given, again) if is_anchor(stages, s) else s for s in stages.stages)
    types = {**stages.types, **{name: stages.types[own] for name, own in again.items()}}
    return replace(stages, types=types, inputs=(*stages.inputs, *again), stages=made), again


def _split_inputs(stage: Stage, inputs: Collection[str], again: dict[str, str]) -> Stage:
    """A stage that reads other inputs from the second place of each on; `again` gets these, and what they are."""
    places: dict[str, list[tuple[SourceExpr, ...]]] = {}
    for read in reads(stage.value):
        if read.buffer in inputs and read.indices not in (known := places.setdefault(read.buffer, [])):
            known.append(read.indices)

    def change(read: Read) -> SourceExpr:
        number = places[read.buffer].index(read.indices) if read.buffer in places else 0
        if not number:
            return read
        name = f"{read.buffer} again {number}"
        again[name] = read.buffer
        return replace(read, buffer=name)

    return replace(stage, value=map_reads(stage.value, change))


# --- names -----------------------------------------------------------------------------------------------


def _rename_buffers(stages: Stages) -> tuple[Stages, tuple[str, ...], tuple[str, ...]]:
    used = count_reads(stages)
    first = [read.buffer for stage in stages.stages for read in reads(stage.value)]
    inputs = tuple(name for name in dict.fromkeys(first) if name in stages.inputs)
    assert all(used[name] for name in inputs)
    named = dict(zip(inputs, letters(len(inputs)), strict=True))
    single = len(stages.outputs) == 1
    named |= {name: "Y" if single else f"Y{n}" for n, name in enumerate(stages.outputs)}
    between = [name for stage in stages.stages for name in stage.targets if name not in named]
    named |= {name: f"T{n}" for n, name in enumerate(between)}
    made = Stages(
        {named[name]: stages.types[name] for name in named},
        tuple(named[name] for name in inputs),
        frozenset(named[name] for name in inputs if name in stages.consts),
        tuple(named[name] for name in stages.outputs),
        tuple(_rename_in_stage(stage, named) for stage in stages.stages),
    )
    return made, inputs, stages.outputs


def _rename_in_stage(stage: Stage, named: Mapping[str, str]) -> Stage:
    axes = {axis.name: f"i{n}" for n, axis in enumerate(stage.axes)}
    value = map_reads(stage.value, lambda read: replace(read, buffer=named[read.buffer]))
    if isinstance(value, Reduce):
        inner = {axis.name: f"r{n}" for n, axis in enumerate(value.axes)}
        value = replace(value, axes=tuple(replace(a, name=inner[a.name]) for a in value.axes))
        axes |= inner
    value = substitute_names(value, {old: Name(new) for old, new in axes.items()})
    position = None if stage.position is None else named[stage.position]
    return Stage(None, named[stage.buffer], tuple(Axis(axes[a.name]) for a in stage.axes), value, position)


# --- expressions -----------------------------------------------------------------------------------------


def simplify_stages(stages: Stages) -> Stages:
    """Stages with index expressions in linear form, and without conditions that always hold or sums of one term."""
    made = tuple(
        replace(s, value=_simplify_expression(_single_term(s, stages), stages.extents(s))) for s in stages.stages
    )
    return replace(stages, stages=made)


def _single_term(stage: Stage, stages: Stages) -> SourceExpr:
    """The term of a sum or a product that has one, as of a column by a row; the value of any other stage."""
    value = stage.value
    if not isinstance(value, Reduce) or value.cond is not None or value.reducer not in (Reducer.SUM, Reducer.PROD):
        return value
    if any(n > 1 for n in reduced_extents(stage).values()):
        return value
    term = substitute_names(value.operand, {axis.name: IntLit(0) for axis in value.axes})
    return term if dtype_of(term, stages.dtypes) is stages.types[stage.buffer].dtype else value


def _align_unit_reads(stages: Stages) -> Stages:
    """Stages whose reads have as many dimensions as the stage; along dimensions of one element they go by its index."""
    made = tuple(replace(s, value=map_reads(s.value, partial(_align_unit_read, stages, s))) for s in stages.stages)
    return replace(stages, stages=made)


def _align_unit_read(stages: Stages, stage: Stage, read: Read) -> Read:
    shape, own = stages.types[read.buffer].shape, stages.types[stage.buffer].shape
    if len(shape) != len(own):
        return read
    indices = tuple(
        Name(axis.name) if given == has == 1 else index
        for axis, index, given, has in zip(stage.axes, read.indices, shape, own, strict=True)
    )
    return replace(read, indices=indices)


def _order_operands(stages: Stages) -> Stages:
    """Stages with what other stages compute ahead of what is given, in sums and products of two: `T[i] + A[i]`."""
    computed = {name for stage in stages.stages for name in stage.targets}
    return replace(
        stages, stages=tuple(replace(s, value=_order_in_expression(s.value, computed)) for s in stages.stages)
    )


def _order_in_expression(e: SourceExpr, computed: Collection[str]) -> SourceExpr:
    def change(inner: SourceNode) -> SourceNode:
        if isinstance(inner, Operation) and inner.op in (BinOp.ADD, BinOp.MUL):
            first, second = (any(r.buffer in computed for r in reads(part)) for part in (inner.a, inner.b))
            if second and not first:
                return replace(inner, a=inner.b, b=inner.a)
        return inner

    return rewrite_expression(e, change)


def _simplify_expression(e: SourceExpr, extents: Extents) -> SourceExpr:
    def change(inner: SourceNode) -> SourceNode:
        if isinstance(inner, Read):
            return replace(inner, indices=tuple(index_text(index, extents) for index in inner.indices))
        if isinstance(inner, Operation):
            return _condition(inner, extents)
        if isinstance(inner, Prefix) and inner.op is UnOp.NOT and isinstance(inner.a, BoolLit):
            return BoolLit(not inner.a.value)
        if isinstance(inner, IfElse) and isinstance(inner.cond, BoolLit):
            return inner.then if inner.cond.value else inner.otherwise
        if isinstance(inner, Reduce) and inner.cond == BoolLit(True):
            return replace(inner, cond=None)
        return inner

    return rewrite_expression(e, change)


def _is_zero(e: SourceExpr) -> bool:
    return e == FloatLit(0.0) or (is_cast(e) and isinstance(e, Apply) and e.args == (FloatLit(0.0),))


def _has_one_zero(e: SourceExpr, sums: Collection[str]) -> bool:
    """Whether an expression is 0.0 where it is zero, and never -0.0."""
    match e:
        case Read(buffer=buffer):
            return buffer in sums
        case FloatLit(value=value):
            return math.copysign(1, value) > 0 or value != 0
        case IfElse(then=then, otherwise=otherwise):
            return _has_one_zero(then, sums) and _has_one_zero(otherwise, sums)
        case Apply(args=(inner,)) if is_cast(e):
            return _has_one_zero(inner, sums)
    return False


def _drop_added_zeros(stages: Stages) -> Stages:
    """Stages without zeros that are added to sums and to choices of numbers, as by masks that hide nothing.

    A zero changes -0.0 alone, which a sum is never asked to be: it begins with 0.0.
    """
    sums = {s.buffer for s in stages.stages if isinstance(s.value, Reduce) and s.value.reducer is Reducer.SUM}

    def change(inner: SourceNode) -> SourceNode:
        if isinstance(inner, Operation) and inner.op is BinOp.ADD:
            for one, other in ((inner.a, inner.b), (inner.b, inner.a)):
                if _is_zero(other) and _has_one_zero(one, sums):
                    return one
        return inner

    return replace(stages, stages=tuple(replace(s, value=rewrite_expression(s.value, change)) for s in stages.stages))


def index_text(e: SourceExpr, extents: Extents) -> SourceExpr:
    """An index in linear form, where it has one."""
    found = linear_form(e, extents)
    return e if found is None else found.expression()


def _use_reciprocals(stages: Stages) -> Stages:
    """Stages with divisions by numbers as products: vector units divide many times slower.

    A result may differ in its last place where the number is no power of two, so what is rounded to whole numbers
    stays as it is.
    """
    made = tuple(
        s
        if any(isinstance(node, Apply) and node.func in ROUNDING_FUNCTIONS for node in s.value.walk())
        else _multiply_by_reciprocals(s)
        for s in stages.stages
    )
    return replace(stages, stages=made)


def _multiply_by_reciprocals(stage: Stage) -> Stage:
    def change(inner: SourceNode) -> SourceNode:
        by = inner.b if isinstance(inner, Operation) and inner.op is BinOp.DIV else None
        if isinstance(by, FloatLit) and _LEAST_DIVISOR < abs(by.value) < 1 / _LEAST_DIVISOR:
            assert isinstance(inner, Operation)
            return Operation(BinOp.MUL, inner.a, FloatLit(1 / by.value))
        return inner

    return replace(stage, value=rewrite_expression(stage.value, change))


def _condition(e: Operation, extents: Extents) -> SourceExpr:
    if e.op.is_comparison:
        known = decide_comparison(e, extents)
        if known is not None:
            return BoolLit(known)
        a, b = linear_form(e.a, extents), linear_form(e.b, extents)
        return e if a is None or b is None else replace(e, a=a.expression(), b=b.expression())
    if e.op is BinOp.AND:
        if e.a == BoolLit(True) or e.b == BoolLit(False):
            return e.b
        if e.b == BoolLit(True) or e.a == BoolLit(False):
            return e.a
    if e.op is BinOp.OR:
        if e.a == BoolLit(False) or e.b == BoolLit(True):
            return e.b
        if e.b == BoolLit(False) or e.a == BoolLit(True):
            return e.a
    return e

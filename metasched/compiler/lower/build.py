"""From a `Func` to a nest: iteration variables become their bindings, loops of one iteration vanish.

A loop of one iteration stays where only a reduction uses it and a guard is over it and spatial loops: without it the
guard would no longer say that it leaves out terms of a sum rather than elements. A parallel loop inside another runs
serially. Guards that are always true are dropped; a constant extent is required.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from metasched.compiler.lower.arg_positions import compare_shared_positions, positions_of
from metasched.compiler.lower.nest import Assign, Many, NestLoop, NestRegion, NestStmt, join_statements, loads
from metasched.compiler.lower.quotients import drop_zero_quotients
from metasched.compiler.policy import lanes_used
from metasched.dtypes import INDEX
from metasched.errors import BuildError
from metasched.ir import query
from metasched.ir.integers.affine import ZERO, as_int, const, free_vars, simplify, substitute
from metasched.ir.integers.conjunctions import conjuncts
from metasched.ir.integers.implied_guards import drop_implied_guards
from metasched.ir.integers.ranges import prove
from metasched.ir.nodes import (
    Annotation,
    Binary,
    BinOp,
    Block,
    Const,
    Expr,
    For,
    Func,
    IterKind,
    LoopKind,
    Select,
    Seq,
    Stmt,
)
from metasched.ir.regions import is_parallel, phases
from metasched.schedule.annotation import AnnotationKey, problems
from metasched.schedule.annotations.blocked_sum import blocked_sum
from metasched.schedule.annotations.common_factor import common_factor
from metasched.schedule.annotations.fastmath import fastmath
from metasched.schedule.annotations.non_temporal import non_temporal
from metasched.schedule.annotations.prefetch import prefetch
from metasched.schedule.annotations.prefetch_tile import prefetch_tile
from metasched.schedule.annotations.unroll_limit import unroll_limit
from metasched.schedule.carried import in_carried_form
from metasched.schedule.tensor import Mismatch, in_vector_form, tensorized_by
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class _Context:
    """The loops around a statement: values of those that vanished, ranges of the others."""

    values: Mapping[str, Expr]
    ranges: Mapping[str, Expr]
    parallel: bool = False
    limit: int | None = None


def build(func: Func) -> NestStmt:
    """The nest of a program: plain loops around assignments.

    Raises BuildError when an extent is not constant, an annotation is not known or has no meaning where it is, a
    tensorised nest no longer computes what its intrinsic does, or a carried one is no running reduction any more.
    """
    wrong = next(problems(func), None)
    if wrong is not None:
        raise BuildError("annotation without meaning", wrong)
    try:
        func = in_vector_form(func)
    except Mismatch as error:
        raise BuildError("tensorized nest changed", str(error)) from None
    func = in_carried_form(func)
    left = next((loop for loop in query.loops(func) if loop.kind is LoopKind.CARRIED), None)
    if left is not None:
        raise BuildError("carried nest changed", f"what loop `{left.var}` is around is no running reduction any more")
    return compare_shared_positions(_stmt(func.body, _Context({}, {})))


def _stmt(stmt: Stmt, context: _Context) -> NestStmt:
    if isinstance(stmt, Seq):
        return join_statements([_build_region(name, stmts, context) for name, stmts in phases(stmt)])
    if isinstance(stmt, For):
        return _loop(stmt, context)
    assert isinstance(stmt, Block)
    return _block(stmt, context)


def _build_region(region: str, stmts: tuple[Stmt, ...], context: _Context) -> NestStmt:
    """Statements that share a parallel region, or one that shares none."""
    if len(stmts) == 1 or context.parallel:
        return join_statements([_stmt(child, context) for child in stmts])
    inside = [_phase(f"{region}.{n}", child, context) for n, child in enumerate(stmts)]
    found = [phase for phase in inside if phase is not None]
    return NestRegion(tuple(found)) if len(found) > 1 else join_statements(found)


def _phase(name: str, stmt: Stmt, context: _Context) -> NestStmt | None:
    """A phase of a region as a parallel loop, of one iteration where one thread runs it; None for one of nothing."""
    if is_parallel(stmt):
        body = _stmt(stmt, context)
        if isinstance(body, NestLoop) and body.kind is LoopKind.PARALLEL:
            return body
    else:
        body = _stmt(stmt, replace(context, parallel=True))
    if body == Many(()):
        return None
    return NestLoop(name, 1, body, LoopKind.PARALLEL)


def _require_constant(e: Expr, what: str) -> int:
    value = as_int(e)
    if value is None:
        raise BuildError("extent not constant", f"{what}: the program has free variables; apply it with decisions")
    return value


def _unroll_limit(annotations: tuple[Annotation, ...], default: int | None) -> int | None:
    found = _number(unroll_limit, annotations)
    return default if found is None else found


def _number(key: AnnotationKey, annotations: tuple[Annotation, ...]) -> int | None:
    value = key.expression(annotations)
    return None if value is None else _require_constant(value, key.name)


def _loop(loop: For, context: _Context) -> NestStmt:
    extent = _require_constant(loop.extent, f"loop `{loop.var}`")
    limit = _unroll_limit(loop.annotations, context.limit)
    if extent == 0:
        return Many(())
    if extent == 1 and not _leaves_out_terms(loop):
        inner = replace(context, values={**context.values, loop.var: ZERO}, limit=limit)
        return _stmt(loop.body, inner)
    kind = LoopKind.SERIAL if loop.kind is LoopKind.PARALLEL and context.parallel else loop.kind
    lanes = (
        _require_constant(loop.lanes, f"lanes of `{loop.var}`")
        if loop.lanes is not None and loop.kind is _VECTORIZED
        else 1
    )
    inner = _Context(
        context.values,
        {**context.ranges, loop.var: const(extent)},
        context.parallel or kind is LoopKind.PARALLEL,
        limit,
    )
    ahead, tile = (_number(key, loop.annotations) or 0 for key in (prefetch, prefetch_tile))
    unroll = kind is LoopKind.UNROLLED or (kind is _VECTORIZED and extent <= lanes)
    kind = LoopKind.SERIAL if kind is LoopKind.UNROLLED else kind
    body = _stmt(loop.body, inner)
    # Registers of more lanes would not be told apart by where they start.
    lanes = int(lanes_used(lanes, extent))
    tensor = tensorized_by(loop)
    return NestLoop(
        var=loop.var,
        extent=extent,
        body=body,
        kind=kind,
        lanes=lanes,
        unroll=unroll,
        limit=limit,
        clips=(),
        tensor=tensor,
        prefetch=ahead,
        prefetch_tile=tile,
    )


_VECTORIZED = LoopKind.VECTORIZED


def _leaves_out_terms(loop: For) -> bool:
    """Whether some guard is about elements and terms of a sum at once, and about terms by this loop."""
    for block in query.blocks_under(loop):
        reduced, spatial = query.reduced_loops(block), query.spatial_loops(block)
        if block.init is not None and loop.var in reduced - spatial:
            used = [free_vars(guard) for guard in block.guards]
            if any(loop.var in names and names & spatial for names in used):
                return True
    return False


def _block(block: Block, context: _Context) -> NestStmt:
    bindings = [drop_zero_quotients(simplify(substitute(b, context.values)), context.ranges) for b in block.bindings]
    values = {iv.name: b for iv, b in zip(block.iters, bindings, strict=True)}
    bound = replace(block, bindings=tuple(bindings))
    reduced, spatial = query.reduced_loops(bound), query.spatial_loops(bound)
    value = _fold_constants(substitute(block.store.value, values), context.ranges)
    guards = _guards(block, context)
    if block.init is not None and any(free_vars(g) & (reduced - spatial) and free_vars(g) & spatial for g in guards):
        guards += _element_guards(block, bindings, context)
    assign = Assign(
        block=block.name,
        array=block.store.buffer,
        indices=tuple(simplify(substitute(i, values)) for i in block.store.indices),
        value=value,
        guards=drop_implied_guards(guards, context.ranges, reduced),
        reducer=block.reducer,
        init=None if block.init is None else _fold_constants(substitute(block.init, values), context.ranges),
        reduction=reduced,
        spatial=spatial,
        limit=_unroll_limit(block.annotations, None),
        fast=bool(_number(fastmath, block.annotations)),
        streams=bool(_number(non_temporal, block.annotations)),
        block_length=_number(blocked_sum, block.annotations) or 0,
        common_factor=bool(_number(common_factor, block.annotations)),
    )
    if block.index is not None:
        position = _fold_constants(substitute(block.index.value, values), context.ranges)
        return _add_position(block, assign, position, context.ranges)
    if assign.reducer is not None and assign.init is not None and not reduced:
        # One term: the element is computed in a single step.
        single = Binary(assign.reducer.operation, assign.init, value)
        return replace(assign, value=single, reducer=None, init=None)
    return assign


def _add_position(block: Block, assign: Assign, position: Expr, ranges: Mapping[str, Expr]) -> Assign:
    """Add the position of a value to an assignment."""
    assert block.index is not None
    if assign.reducer is None or (assign.init is not None and not assign.reduction):
        # One term, or what a reduction starts from.
        assign = replace(assign, reducer=None, init=None)
    return replace(assign, positions=positions_of(assign, block.index.buffer, position, ranges))


def _guards(block: Block, context: _Context) -> tuple[Expr, ...]:
    kept: dict[Expr, None] = {}
    for guard in block.guards:
        for cond in conjuncts(drop_zero_quotients(simplify(substitute(guard, context.values)), context.ranges)):
            if _decide_condition(cond, context.ranges) is not True:
                kept[cond] = None
    return tuple(kept)


def _element_guards(block: Block, bindings: Sequence[Expr], context: _Context) -> tuple[Expr, ...]:
    """Guards of elements alone, where those of the schedule are about elements and terms at once: where loops of both
    were fused and split, what the sums start from would be written to elements beyond the last."""
    spatial = [(iv, b) for iv, b in zip(block.iters, bindings, strict=True) if iv.kind is IterKind.SPATIAL]
    inside = (Binary(BinOp.LT, b, iv.extent) for iv, b in spatial)
    return tuple(guard for guard in inside if _decide_condition(guard, context.ranges) is not True)


def _fold_constants(e: Expr, ranges: Mapping[str, Expr]) -> Expr:
    """`e` with index arithmetic in normal form, and conditions that the loops' ranges decide resolved."""
    if isinstance(e, Const):
        return e
    if e.dtype is INDEX and not any(True for _ in loads(e)):
        return drop_zero_quotients(simplify(e), ranges)
    folded = e.map(lambda child: _fold_constants(child, ranges))
    if isinstance(folded, Binary) and folded.op.is_comparison:
        known = _decide_condition(folded, ranges)
        return folded if known is None else Const(known, folded.dtype)
    if isinstance(folded, Binary) and folded.op.is_logical:
        return _fold_logical(folded)
    if isinstance(folded, Select) and isinstance(folded.cond, Const):
        return folded.then if folded.cond.value else folded.otherwise
    return folded


def _decide_condition(cond: Expr, ranges: Mapping[str, Expr]) -> bool | None:
    """Whether a condition holds by the loops' ranges; None where they do not decide it, as with scalar arguments."""
    return prove(cond, ranges) if free_vars(cond) <= ranges.keys() else None


def _fold_logical(e: Binary) -> Expr:
    for side, other in ((e.a, e.b), (e.b, e.a)):
        if isinstance(side, Const):
            neutral = bool(side.value) is (e.op is BinOp.AND)
            return other if neutral else side
    return e

"""vectorize: run a loop's iterations in vector lanes."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars, substitute
from metasched.ir.nodes import Block, Expr, For, LoopKind
from metasched.schedule.annotation import known_annotations
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import IntExpr, LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import require_data_parallel, require_serial
from metasched.schedule.tensor import tensorized_by

OP = "vectorize"
MAX_LANES = 64


@primitive(in_batches=unchanged)
def vectorize(ctx: Context, loop: LoopName, *, lanes: IntExpr) -> None:
    """Run a loop's iterations in vectors of `lanes`; the last vector is masked if the extent is not a multiple.

    The innermost loop of a reduction may be a reduction loop. Each lane then accumulates a partial result over all
    loops of the reduction, and the lanes are combined at the end, half with half. More lanes than a register holds give
    several independent accumulators. For `argmax` and `argmin`, each lane has a value and its position.

    Args:
        loop: a serial loop of any extent.
        lanes: elements in a vector, 1 to 64.

    Requires:
        A reduction may run along the loop only if the loop is directly around its block; otherwise every block inside
        writes different elements in each iteration. A sum or product of which several iterations compute an element, as
        after compute_at, has its loops over elements outside those of the reduction, then and in later steps. No loop
        around or inside it is vectorised or tensorised, and it has no annotation "prefetch".

    Rewrite:
        for j in 512:                   for j in 512 vectorized(16):
            C[j] = A[j]          ->         C[j] = A[j]
    """
    target = ctx.loop(OP, loop)
    require_serial(OP, target)
    decided = replace(target, kind=LoopKind.VECTORIZED, lanes=lanes)
    if not query.reduces_in_lanes(decided):
        require_data_parallel(ctx, OP, target)
    _require_dependence(target, decided)
    _require_plain_nest(ctx, target)
    _require_no_annotation_of_iterations(target)
    error = ScheduleError(OP, f"lanes are not between 1 and {MAX_LANES}", (loop,), "a loop may have more iterations")
    ctx.require(lanes >= 1, error)
    ctx.require(lanes <= MAX_LANES, error)
    ctx.func = query.replace_stmt(ctx.func, target, decided)


def _require_dependence(target: For, decided: For) -> None:
    """Each block inside has to differ from lane to lane: `decided` is the loop as it is to be."""
    for block in query.blocks_under(target):
        if not any(target.var in free_vars(e) for e in _lane_dependent(block, decided)):
            raise ScheduleError(
                OP,
                f"block `{block.name}` does not depend on loop `{target.var}`",
                (target.var, block.name),
                "vectorize a loop around fewer blocks",
            )


def _require_plain_nest(ctx: Context, target: For) -> None:
    """No loop around or inside may be vectorised or tensorised, and none inside may run on threads or be scattered."""
    loop = target.var
    around = query.loops_above_loop(ctx.func, loop)
    within = [s for s in query.loops(ctx.func) if target in (*query.loops_above_loop(ctx.func, s.var), s)]
    other = next((s for s in (*around, *within) if s.kind is LoopKind.VECTORIZED), None)
    if other is not None:
        raise ScheduleError(
            OP, f"loop `{other.var}` of the same nest is vectorized", (loop, other.var), "vectorize one loop of a nest"
        )
    tensor = next((s for s in within if s is not target and tensorized_by(s) is not None), None)
    if tensor is not None:
        raise ScheduleError(
            OP,
            f"loop `{tensor.var}` of the same nest is tensorized",
            (loop, tensor.var),
            "leave it: the instruction is of vectors",
        )
    decided_kinds = (LoopKind.PARALLEL, LoopKind.SCATTERED, LoopKind.CARRIED)
    other = next((s for s in within if s.kind in decided_kinds), None)
    if other is not None:
        raise ScheduleError(
            OP,
            f"loop `{other.var}` inside it is {other.kind.value}",
            (loop, other.var),
            f"vectorize a loop inside `{other.var}`",
        )


def _require_no_annotation_of_iterations(target: For) -> None:
    loop = target.var
    wrong = next((a.key for a in target.annotations if LoopKind.VECTORIZED in known_annotations()[a.key].not_on), None)
    if wrong is not None:
        raise ScheduleError(
            OP,
            f'"{wrong}" of loop `{loop}` is about iterations, and those of a vector are lanes',
            (loop,),
            f'annotate a loop around it instead, after unannotate({loop}, "{wrong}")',
        )


def _lane_dependent(block: Block, loop: For) -> tuple[Expr, ...]:
    """The expressions that must differ between lanes: the indices written, or, for a reduction over lanes, the
    value."""
    if query.reduces_in_lanes(loop):
        return block.bindings
    values = {it.name: binding for it, binding in zip(block.iters, block.bindings, strict=True)}
    return tuple(substitute(e, values) for e in block.store.indices)

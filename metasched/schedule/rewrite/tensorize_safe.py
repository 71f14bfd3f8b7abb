"""What later steps may not change: tensorised nests, vectorised reductions, and loops of rolling windows."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Buffer, Expr, Func, LoopKind
from metasched.ir.rolling import rolling_buffers
from metasched.schedule.tensor import Mismatch, intrinsics, match, tensorized, tensorized_by

# These primitives make the nest an ordinary one again.
_FREEING_STEPS = frozenset({"unannotate"})


def require_tensorize_safe(op: str, before: Func, after: Func) -> None:
    """Raise ScheduleError where a step has changed loops that an earlier one made unchangeable.

    Cost: a walk over the statements if there is nothing to check.
    """
    _require_tensorized(op, before, after)
    _require_lanes(op, before, after)
    if any(b.roll is not None for b in before.temps):
        _require_rolled(op, before, after)


def _require_tensorized(op: str, before: Func, after: Func) -> None:
    were = tensorized(before)
    if not were:
        return
    left = {b.name for b in query.blocks(after)}
    now = tensorized(after)
    for block, loop in were.items():
        if block not in left:
            continue
        name = tensorized_by(loop)
        assert name is not None
        hint = f"{op} before tensorize, or take it back with unannotate"
        what = f"the nest of loop `{loop.var}` is tensorized as `{name}`"
        if block not in now:
            if op in _FREEING_STEPS:
                continue
            raise ScheduleError(op, f"{what}, and block `{block}` would leave it", (loop.var, block), hint)
        if now[block] == loop and _surroundings(before, block) == _surroundings(after, block):
            continue  # matching takes ten times as long, and most steps are elsewhere
        try:
            match(after, now[block], intrinsics()[name])
        except Mismatch as error:
            raise ScheduleError(op, f"{what}, and would be no more: {error}", (loop.var, block), hint) from None


def _surroundings(func: Func, block: str) -> tuple[dict[str, Expr], list[Buffer]]:
    """What the match of a nest depends on besides it: the extents of loops around its block, and buffers."""
    found = query.find_block(func, block)
    names = dict.fromkeys((found.store.buffer, *(load.buffer for load in query.loads(found.store.value))))
    return dict(query.ranges(query.loops_above(func, block))), [func.buffer(name) for name in names]


def _require_lanes(op: str, before: Func, after: Func) -> None:
    """Raise unless every vectorised reduction loop is still directly around its block."""
    were = [x for x in query.loops(before) if query.reduces_in_lanes(x)]
    if not were:
        return
    now = {x.var: x for x in query.loops(after)}
    for loop in were:
        changed = now.get(loop.var)
        if changed is not None and not query.reduces_in_lanes(changed):
            raise ScheduleError(
                op,
                f"a reduction runs along vectorized loop `{loop.var}`, which would be right around its block no more",
                (loop.var,),
                f"{op} before vectorizing it",
            )


def _require_rolled(op: str, before: Func, after: Func) -> None:
    now = {found.buffer.name: found for found in rolling_buffers(after)}
    for found in rolling_buffers(before):
        name, is_now = found.buffer.name, now.get(found.buffer.name)
        if is_now is None:
            continue
        names = tuple(x.var for x in found.between)
        if tuple(x.var for x in is_now.between) != names or is_now.writer.name != found.writer.name:
            raise ScheduleError(
                op,
                f"`{name}` is kept from one iteration of loop `{names[-1]}` to the next, and would not be any more",
                (name, names[-1]),
                f"{op} before store_at",
            )
        changed = next((x for x in is_now.between if x.kind in (LoopKind.PARALLEL, LoopKind.VECTORIZED)), None)
        if changed is not None:
            raise ScheduleError(
                op,
                f"iterations of loop `{changed.var}` go on from what earlier ones keep in `{name}`",
                (name, changed.var),
                f"before store_at, split it, and store `{name}` at the outer part: that may be parallel",
            )

"""What a note for the backend requires of the loop or block that it is left on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.affine import free_vars, substitute
from metasched.ir.nodes import Binary, BinOp, Block, Const, Expr, For, LoopKind, Reducer
from metasched.ir.notes import Note
from metasched.schedule.context import Context
from metasched.schedule.rewrite.parts import is_output, readers

Check = Callable[[Context, str, Block | For, Expr], None]


def require_note(ctx: Context, op: str, target: Block | For, key: str, value: Expr) -> None:
    """Raise ScheduleError where the note `key` with this value has no meaning, or would do harm, on `target`."""
    check = _CHECKS.get(key)
    if check is not None:
        check(ctx, op, target, value)


def _block(op: str, target: Block | For, key: Note) -> Block:
    if isinstance(target, For):
        raise ScheduleError(
            op, f'"{key}" is about a block, and `{target.var}` is a loop', (target.var,), "give a block inside it"
        )
    return target


def _require_on(ctx: Context, op: str, target: Block, key: Note, value: Expr) -> None:
    ctx.require(
        Binary(BinOp.EQ, value, Const(1)),
        ScheduleError(op, f'"{key}" is on where it is left: its value is True', (target.name,), "leave it out for off"),
    )


def _require_switch(ctx: Context, op: str, target: Block, key: Note, value: Expr) -> None:
    """On or off: a note that may be searched for."""
    wrong = ScheduleError(op, f'"{key}" is on or off: its value is neither 1 nor 0', (target.name,), "give True")
    ctx.require(value >= 0, wrong)
    ctx.require(value <= 1, wrong)


def _fastmath(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    _require_switch(ctx, op, _block(op, target, Note.FASTMATH), Note.FASTMATH, value)


def _flush_denormals(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    _require_on(ctx, op, _block(op, target, Note.FLUSH_DENORMALS), Note.FLUSH_DENORMALS, value)


def _non_temporal(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    block = _block(op, target, Note.NON_TEMPORAL)
    _require_switch(ctx, op, block, Note.NON_TEMPORAL, value)
    buffer, name = block.store.buffer, block.name
    if not is_output(ctx.func, buffer):
        raise ScheduleError(
            op,
            f"`{name}` writes the intermediate `{buffer}`, which is read again: it would come from memory",
            (name,),
            "store only what leaves the program past the caches: an output",
        )
    again = readers(ctx.func, buffer)
    if again:
        raise ScheduleError(
            op,
            f"`{again[0].name}` reads `{buffer}` again: it would come from memory",
            (name, again[0].name),
            "leave it in the caches, or compute into a buffer of its own with cache_write",
        )
    if block.index is not None or not _writes_vectors(ctx, block):
        raise ScheduleError(
            op,
            f"`{name}` does not store vectors of neighbours in `{buffer}`",
            (name,),
            "vectorize the loop over its last dimension first",
        )


def _writes_vectors(ctx: Context, block: Block) -> bool:
    """Whether a vectorised loop runs along the last dimension of what a block writes, and no other."""
    values = {iv.name: binding for iv, binding in zip(block.iters, block.bindings, strict=True)}
    along = [free_vars(substitute(index, values)) for index in block.store.indices]
    lanes = [x.var for x in query.loops_above(ctx.func, block.name) if x.kind is LoopKind.VECTORIZED]
    return bool(along) and any(var in along[-1] and all(var not in names for names in along[:-1]) for var in lanes)


def _prefetch(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    if isinstance(target, Block):
        raise ScheduleError(
            op,
            f'"{Note.PREFETCH}" counts iterations of a loop, and `{target.name}` is a block',
            (target.name,),
            "give the loop around it that is to run ahead",
        )
    if target.kind is LoopKind.VECTORIZED:
        raise ScheduleError(
            op,
            f"`{target.var}` is vectorized: its iterations are lanes",
            (target.var,),
            "split it first, and give the outer loop",
        )
    ctx.require(
        value >= 0,
        ScheduleError(op, "the distance is less than 0", (target.var,), "it is in iterations of the loop"),
    )


def _blocked_sum(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    block = _block(op, target, Note.BLOCKED_SUM)
    if block.reducer is not Reducer.SUM or not block.store.value.dtype.is_float:
        raise ScheduleError(
            op, f"`{block.name}` is not a sum of floats", (block.name,), "nothing else loses digits by its length"
        )
    ctx.require(
        value >= 0,
        ScheduleError(op, "a block has less than 0 terms", (block.name,), "512 is a good length; 0 is for no blocks"),
    )


_CHECKS: Mapping[str, Check] = {
    Note.FASTMATH: _fastmath,
    Note.FLUSH_DENORMALS: _flush_denormals,
    Note.NON_TEMPORAL: _non_temporal,
    Note.PREFETCH: _prefetch,
    Note.BLOCKED_SUM: _blocked_sum,
}

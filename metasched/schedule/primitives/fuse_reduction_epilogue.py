"""fuse_reduction_epilogue: turn what is added to a sum into the sum's initial value."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ONE, ZERO, simplify, substitute
from metasched.ir.integers.data import is_index_variable
from metasched.ir.nodes import Binary, BinOp, Block, Expr, Load, Reducer, Store, Unary, UnOp
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import require_not_carried
from metasched.schedule.rewrite.parts import (
    readers,
    replace_buffers,
    require_intermediate,
    require_only_writer,
    set_block,
    take_out,
    tidy,
)

OP = "fuse_reduction_epilogue"


@primitive(in_batches=unchanged)
def fuse_reduction_epilogue(ctx: Context, block: BlockName, epilogue: BlockName) -> None:
    """Make the operand that an epilogue combines with a reduction the reduction's initial value, and remove the
    epilogue.

    For example, a sum starts from the bias that was added to it; the reduction writes the epilogue's buffer. (TVM's
    FuseReductionEpilogue.) A sum of floats starts from 0.0 and the bias: of a bias of -0.0 that is 0.0, as the result
    was. An epilogue by another operation, such as ReLU, can be moved under the reduction's loops
    with reverse_compute_at.

    Args:
        block: a reduction.
        epilogue: the block that reads its result.

    Requires:
        The epilogue combines each element of the result, once, with another operand by the reduction's own operation
        (for a sum, addition or subtraction of the operand), writes one element for each, and is the only reader of the
        result. The reduction still has its `init`, and the blocks share no loop. Everything else that the epilogue
        reads is computed before the reduction.

    Rewrite:
        dense: C[i, j] += A[i, k] * B[k, j]  init 0       dense: D[i, j] += A[i, k] * B[k, j]  init 0 + b[j]
        bias:  D[i, j] = C[i, j] + b[j]             ->
    """
    reduction, last = ctx.block(OP, block), ctx.block(OP, epilogue)
    _require_reduction(ctx, reduction)
    _require_epilogue(ctx, reduction, last)
    assert reduction.reducer is not None
    assert reduction.init is not None
    rest = _other_operand(reduction, last)
    values = _values(ctx, reduction, last)
    init = tidy(substitute(rest, values))
    if reduction.init != reduction.reducer.identity(init.dtype) or _is_float_sum(reduction):
        init = Binary(reduction.reducer.operation, reduction.init, init)
    _require_there(ctx, reduction, last, init)
    indices = tuple(simplify(substitute(e, values)) for e in last.store.indices)
    store = Store(last.store.buffer, indices, reduction.store.value)
    take_out(ctx, last)
    func = set_block(ctx.func, ctx.block(OP, block), replace(reduction, store=store, init=init))
    ctx.func = replace_buffers(func, remove=reduction.store.buffer)


def _is_float_sum(block: Block) -> bool:
    """Whether its start from 0.0 may change what it is added to: a bias of -0.0."""
    return block.reducer is Reducer.SUM and block.store.value.dtype.is_float


def _require_reduction(ctx: Context, block: Block) -> None:
    if block.reducer is None or block.init is None or block.index is not None:
        why = (
            "is not a reduction"
            if block.reducer is None
            else "has its initialisation in a block already"
            if block.init is None
            else "writes a value and its position"
        )
        raise ScheduleError(OP, f"block `{block.name}` {why}", (block.name,), "choose a reduction with an `init`")
    require_intermediate(ctx, OP, block, "choose a reduction that another block reads")
    require_only_writer(ctx, OP, block)
    require_not_carried(ctx, OP, block)


def _require_epilogue(ctx: Context, block: Block, last: Block) -> None:
    buffer = block.store.buffer
    using = [b.name for b in readers(ctx.func, buffer)]
    if using != [last.name]:
        other = next((n for n in using if n != last.name), None)
        what = (
            f"`{last.name}` does not read `{buffer}`, which `{block.name}` writes"
            if last.name not in using
            else f"`{other}` reads `{buffer}` as well as `{last.name}`"
        )
        raise ScheduleError(OP, what, (block.name, last.name), f"the only reader of `{buffer}` can be its epilogue")
    require_only_writer(ctx, OP, last)
    if last.reducer is not None:
        raise ScheduleError(OP, f"`{last.name}` is a reduction", (last.name,), "an epilogue is element by element")
    paths = [query.loops_above(ctx.func, b.name) for b in (block, last)]
    shared = query.common_loops(paths[0], paths[1])
    if shared:
        raise ScheduleError(
            OP,
            f"`{block.name}` and `{last.name}` are both under loop `{shared[-1].var}`",
            (block.name, last.name, shared[-1].var),
            f"{OP} before compute_at or reverse_compute_at",
        )


def _other_operand(block: Block, last: Block) -> Expr:
    """The operand that the epilogue combines with an element of the result."""
    assert block.reducer is not None
    operation = block.reducer.operation
    operands = _operands(last.store.value, operation)
    mine = [e for e in operands if _is_result(e, block)]
    others = [e for e in operands if not _is_result(e, block)]
    if len(mine) != 1 or not others or any(block.store.buffer in _names(e) for e in others):
        raise ScheduleError(
            OP,
            f"`{last.name}` does not combine `{block.store.buffer}` with something by `{operation.value}`, as "
            f"`{block.name}` does its terms",
            (block.name, last.name),
            f"reverse_compute_at puts `{last.name}` where an element of `{block.store.buffer}` is complete",
        )
    out = others[0]
    for e in others[1:]:
        out = Binary(operation, out, e)
    return out


def _is_result(e: Expr, block: Block) -> bool:
    return isinstance(e, Load) and e.buffer == block.store.buffer


def _names(e: Expr) -> set[str]:
    return {load.buffer for load in query.loads(e)}


def _operands(e: Expr, operation: BinOp) -> list[Expr]:
    """The operands of a chain of one operation; a difference counts as a sum with the negated operand."""
    if isinstance(e, Binary) and e.op is operation:
        return _operands(e.a, operation) + _operands(e.b, operation)
    if isinstance(e, Binary) and e.op is BinOp.SUB and operation is BinOp.ADD:
        return [*_operands(e.a, operation), Unary(UnOp.NEG, e.b)]
    return [e]


def _values(ctx: Context, block: Block, last: Block) -> dict[str, Expr]:
    """The epilogue's iteration variables in terms of the reduction's."""
    (read,) = [load for load in query.loads(last.store.value) if load.buffer == block.store.buffer]
    apart = ScheduleError(
        OP,
        f"`{last.name}` does not read one element of `{block.store.buffer}` for each of its own",
        (block.name, last.name),
        "an epilogue writes an element for each element of the result",
    )
    values: dict[str, Expr] = {}
    extents = {it.name: it.extent for it in last.iters}
    shape = ctx.func.buffer(block.store.buffer).shape
    for theirs, mine, size in zip(read.indices, block.store.indices, shape, strict=True):
        if is_index_variable(theirs) and theirs.name not in values:
            ctx.require(Binary(BinOp.EQ, extents[theirs.name], size), _reads_a_part(block, last))
            values[theirs.name] = mine
        elif theirs != ZERO or mine != ZERO:
            raise apart
    for it in last.iters:
        if it.name not in values:
            ctx.require(Binary(BinOp.EQ, it.extent, ONE), apart)
            values[it.name] = ZERO
    return values


def _reads_a_part(block: Block, last: Block) -> ScheduleError:
    return ScheduleError(
        OP,
        f"`{last.name}` reads a part of `{block.store.buffer}` only: it has no elements for the rest",
        (block.name, last.name),
        f"{OP} before pad_einsum",
    )


def _require_there(ctx: Context, block: Block, last: Block, init: Expr) -> None:
    """Raise where a buffer that the initial value reads is written after the reduction."""
    order = [b.name for b in query.blocks(ctx.func)]
    for writer in query.producers(ctx.func, last.name):
        if query.writes(writer) in _names(init) and order.index(writer.name) > order.index(block.name):
            raise ScheduleError(
                OP,
                f"`{writer.name}`, which `{last.name}` reads, is computed after `{block.name}`",
                (writer.name, block.name),
                f"write the stage `{writer.name}` before `{block.name}` in the program, or inline it",
            )

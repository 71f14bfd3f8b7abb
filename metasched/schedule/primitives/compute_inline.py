"""compute_inline: substitute a stage into the blocks that read it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

from metasched.ir import query
from metasched.ir.integers.affine import ZERO, substitute
from metasched.ir.integers.ranges import prove
from metasched.ir.nodes import Block, Expr, Select, Var
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.inlined import require_index_arithmetic, require_same_parts
from metasched.schedule.rewrite.parts import (
    readers,
    replace_buffers,
    replace_loads,
    require_intermediate,
    require_not_reduction,
    require_one_result,
    require_only_writer,
    require_producers_stay,
    require_small_expression,
    tidy,
)

OP = "compute_inline"


@primitive(in_batches=unchanged)
def compute_inline(ctx: Context, block: BlockName) -> None:
    """Replace every read of a block's buffer by the block's expression, and remove the block and the buffer.

    A conditional read stays conditional, unless the block's condition holds for all that it computes (padding by 0).

    Args:
        block: the block to inline.

    Requires:
        The block is not a reduction, and its buffer is intermediate: not an output, written by no other block.
        What the block reads is not computed inside the block's own loops. Each reader's resulting expression is small:
        at most 200 levels deep, and if it reads the buffer more than once, at most 1000 operations, reads and numbers.
        Index arithmetic in it fits in 64 bits. A reader that overwrites a fill, or writes part of a buffer, still reads
        something.

    Rewrite:
        double: B[i] = A[i] * 2                      add: C[i] = A[i + 1] * 2 + 1
        add:    C[i] = B[i + 1] + 1           ->
    """
    producer = ctx.block(OP, block)
    require_not_reduction(OP, producer, "move it to its readers with compute_at instead")
    require_one_result(OP, producer)
    require_intermediate(ctx, OP, producer, "only blocks whose value other blocks read can be inlined")
    require_only_writer(ctx, OP, producer)
    buffer = producer.store.buffer
    mine = query.loops_above(ctx.func, block)
    used_by = readers(ctx.func, buffer)
    shared = [{x.var for x in query.common_loops(mine, query.loops_above(ctx.func, c.name))} for c in used_by]
    require_producers_stay(ctx, OP, producer, frozenset(set.intersection(*shared)) if shared else frozenset())
    # Guards can be ignored: in a valid program every element read has been computed, by this expression.
    func = query.replace_stmt(ctx.func, producer, None)
    settled = _drop_settled_conditions(producer)
    found = {reader.name for reader in used_by}
    after = replace(
        func, body=query.map_blocks(func.body, lambda b: _inline_producer(b, settled) if b.name in found else b)
    )
    for reader in used_by:
        require_same_parts(OP, func, after, producer, reader)
    ctx.func = replace_buffers(after, remove=buffer)


def _drop_settled_conditions(block: Block) -> Block:
    """The block less conditions that hold for all of its elements, or for none.

    Here they are proved by the ranges of its own variables: its readers' sums of indices take more than those need.
    """
    ranges = {it.name: it.extent for it in block.iters}
    known: dict[int, Expr] = {}

    def settled(e: Expr) -> Expr:
        found = known.get(id(e))
        if found is None:
            holds = None
            if isinstance(e, Select) and not query.loads(e.cond):
                holds = prove(e.cond, ranges)
            if isinstance(e, Select) and holds is not None:
                found = settled(e.then if holds else e.otherwise)
            else:
                found = e.map(settled)
            known[id(e)] = found
        return found

    return query.map_values(block, settled)


def _inline_producer(consumer: Block, producer: Block) -> Block:
    buffer = producer.store.buffer
    hint = f"leave `{producer.name}` a stage of its own; compute_at puts it where it is read"
    require_small_expression(OP, consumer, buffer, producer, hint)
    # Reads of the same element share an expression: what goes through it later looks at it once.
    value_at = lru_cache(maxsize=None)(partial(_value_at, producer))
    whole = query.map_values(consumer, lambda e: replace_loads(e, buffer, value_at))
    require_index_arithmetic(OP, whole, consumer, producer, hint)
    return query.map_values(whole, tidy)


def _value_at(producer: Block, indices: tuple[Expr, ...]) -> Expr:
    # An iteration variable that indexes no dimension has a single value.
    values: dict[str, Expr] = {it.name: ZERO for it in producer.iters}
    for shown, index in zip(producer.store.indices, indices, strict=True):
        if isinstance(shown, Var):
            values[shown.name] = index
    values = {name: index for name, index in values.items() if index != Var(name)}
    return substitute(producer.store.value, values)

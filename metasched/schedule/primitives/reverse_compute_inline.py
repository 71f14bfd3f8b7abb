"""reverse_compute_inline: substitute an elementwise stage into its producer."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ONE, ZERO, simplify, substitute
from metasched.ir.integers.data import is_index_variable
from metasched.ir.nodes import Block, Const, Expr, IterVar, Load, Store, Var
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.inlined import require_index_arithmetic
from metasched.schedule.rewrite.parts import (
    is_output,
    readers,
    replace_buffers,
    replace_loads,
    require_not_reduction,
    require_one_result,
    require_only_writer,
    require_small_expression,
    tidy,
    writers,
)
from metasched.schedule.rewrite.written_regions import completed_spans

OP = "reverse_compute_inline"


@primitive(in_batches=unchanged)
def reverse_compute_inline(ctx: Context, block: BlockName) -> None:
    """Apply an elementwise block inside the block whose result it reads, and remove the buffer between them.

    Args:
        block: the consumer, which reads one intermediate buffer, only at its own bare iteration variables.

    Requires:
        The buffer has one writer, which is not a reduction, and no other reader; both run over the same domain.
        Whatever else the consumer reads is complete before the writer's loops. The writer recomputes no element in the
        loops that it shares with the consumer, as can happen after compute_at. The resulting expression is small, as in
        compute_inline, and index arithmetic in it fits in 64 bits.

    Rewrite:
        add:  C[i, j] = A[i, j] + 1                  add: D[i, j] = max(A[i, j] + 1, 0)
        relu: D[i, j] = max(C[i, j], 0)       ->
    """
    consumer = ctx.block(OP, block)
    require_not_reduction(OP, consumer, "only elementwise blocks can be inlined into what they read")
    require_one_result(OP, consumer)
    require_only_writer(ctx, OP, consumer)
    producer = _producer(ctx, consumer)
    values = _iter_values(consumer, producer)
    _require_same_domain(consumer, producer, values)
    _require_ready(ctx, consumer, producer)
    _require_computed_once(ctx, consumer, producer)
    buffer = producer.store.buffer
    hint = f"leave `{consumer.name}` a stage of its own; reverse_compute_at puts it where `{buffer}` is computed"
    require_small_expression(OP, consumer, buffer, producer, hint)
    value = substitute(replace_loads(consumer.store.value, buffer, lambda _: _PLACE), values)
    value = substitute(value, {_PLACE.name: producer.store.value})
    indices = tuple(simplify(substitute(e, values)) for e in consumer.store.indices)
    whole = replace(producer, store=Store(consumer.store.buffer, indices, value))
    require_index_arithmetic(OP, whole, producer, consumer, hint)
    merged = replace(whole, store=replace(whole.store, value=tidy(value)))
    func = query.replace_stmt(ctx.func, consumer, None)
    func = query.replace_stmt(func, query.find_block(func, producer.name), merged)
    ctx.func = replace_buffers(func, remove=buffer)


_PLACE = Var("<value>")


def _producer(ctx: Context, consumer: Block) -> Block:
    """The one block whose intermediate result the consumer reads element by element."""
    candidates = []
    for name in query.reads(consumer):
        written = writers(ctx.func, name)
        if (
            written
            and not is_output(ctx.func, name)
            and all(_has_bare_indices(ctx, e) for e in _reads_of(consumer, name))
        ):
            candidates.append(written[-1])
    sole = [p for p in candidates if [r.name for r in readers(ctx.func, p.store.buffer)] == [consumer.name]]
    if not candidates:
        raise ScheduleError(
            OP,
            f"block `{consumer.name}` reads no intermediate buffer at its own bare iteration variables",
            (consumer.name,),
            "only elementwise blocks can be inlined into what they read; compute_inline goes the other way",
        )
    if not sole:
        other = next(r.name for r in readers(ctx.func, candidates[-1].store.buffer) if r.name != consumer.name)
        raise ScheduleError(
            OP,
            f"`{candidates[-1].store.buffer}`, which `{consumer.name}` reads, is read by `{other}`, too",
            (consumer.name, other),
            f"inline `{other}` first",
        )
    # The last in program order: the others are complete by then.
    producer = sole[-1]
    require_only_writer(ctx, OP, producer)
    require_one_result(OP, producer)
    require_not_reduction(OP, producer, f"`{consumer.name}` must wait for the whole reduction; use reverse_compute_at")
    return producer


def _require_computed_once(ctx: Context, consumer: Block, producer: Block) -> None:
    """Raise where the consumer's result would be recomputed along with its producer's."""
    shared = query.common_loops(query.loops_above(ctx.func, producer.name), query.loops_above(ctx.func, consumer.name))
    if not shared:
        return
    try:
        completed_spans(ctx, OP, producer, shared)
    except ScheduleError:
        raise ScheduleError(
            OP,
            f"iterations of loop `{shared[-1].var}` may compute elements of `{producer.store.buffer}` again, and would "
            f"compute those of `{consumer.store.buffer}` again, too",
            (consumer.name, producer.name),
            f"inline `{consumer.name}` before compute_at",
        ) from None


def _reads_of(block: Block, buffer: str) -> list[Load]:
    return [load for load in query.loads(block.store.value) if load.buffer == buffer]


def _has_bare_indices(ctx: Context, load: Load) -> bool:
    """Whether each index of a read is a distinct bare iteration variable, or 0 in a dimension of extent 1."""
    names = [e.name for e in load.indices if is_index_variable(e)]
    shape = ctx.func.buffer(load.buffer).shape
    places = zip(load.indices, shape, strict=True)
    unit = all(is_index_variable(e) or (e, simplify(extent)) == (ZERO, ONE) for e, extent in places)
    return unit and len(set(names)) == len(names)


def _iter_values(consumer: Block, producer: Block) -> dict[str, Expr]:
    """The consumer's iteration variables in terms of the producer's."""
    reads = {load.indices for load in query.loads(consumer.store.value) if load.buffer == producer.store.buffer}
    if len(reads) != 1:
        raise ScheduleError(
            OP,
            f"block `{consumer.name}` reads `{producer.store.buffer}` at more than one element",
            (consumer.name, producer.name),
            "use compute_inline on the producer instead",
        )
    values: dict[str, Expr] = {}
    for mine, theirs in zip(*reads, producer.store.indices, strict=True):
        if is_index_variable(mine):
            values[mine.name] = theirs if isinstance(theirs, Var) else Const(0)
    return values


def _require_same_domain(consumer: Block, producer: Block, values: dict[str, Expr]) -> None:
    extents = {it.name: it.extent for it in producer.iters}

    def expected(it: IterVar) -> Expr:
        value = values.get(it.name)
        return extents[value.name] if isinstance(value, Var) else Const(1)

    mapped = {v.name for v in values.values() if isinstance(v, Var)}
    unmatched = [it for it in producer.iters if it.name not in mapped and simplify(it.extent) != Const(1)]
    different = [it for it in consumer.iters if simplify(it.extent) != simplify(expected(it))]
    if unmatched or different:
        name = (different or unmatched)[0].name
        raise ScheduleError(
            OP,
            f"`{consumer.name}` and `{producer.name}` do not run over the same domain: they differ in `{name}`",
            (consumer.name, producer.name),
            "use reverse_compute_at, or compute_inline on the producer",
        )
    for it in consumer.iters:
        values.setdefault(it.name, Const(0))


def _require_ready(ctx: Context, consumer: Block, producer: Block) -> None:
    order = [b.name for b in query.blocks(ctx.func)]
    above = query.loops_above(ctx.func, producer.name)
    for other in query.producers(ctx.func, consumer.name):
        if other.name == producer.name:
            continue
        late = order.index(other.name) > order.index(producer.name)
        if late or query.common_loops(above, query.loops_above(ctx.func, other.name)):
            raise ScheduleError(
                OP,
                f"block `{other.name}`, which `{consumer.name}` reads, is not complete before `{producer.name}`",
                (consumer.name, other.name, producer.name),
                f"inline `{other.name}` first",
            )

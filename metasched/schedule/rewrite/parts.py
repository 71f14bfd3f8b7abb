"""Finding, removing and inserting parts of a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from metasched.dtypes import INDEX
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import simplify
from metasched.ir.limits import MAX_INLINED_NODES, MAX_LEVELS, MAX_NODES, size_of
from metasched.ir.node_base import Node
from metasched.ir.nodes import (
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Func,
    IterKind,
    Load,
    Scope,
    Select,
    Seq,
    Stmt,
    Var,
    seq,
)
from metasched.schedule.context import Context
from metasched.support.cached import find_kept, keep

# --- preconditions ---------------------------------------------------------------------------------------


def is_output(func: Func, buffer: str) -> bool:
    return any(b.name == buffer for b in func.outputs)


def writers(func: Func, buffer: str) -> list[Block]:
    """The blocks that store to a buffer, in program order."""
    return [b for b in query.blocks(func) if buffer in query.written_buffers(b)]


def readers(func: Func, *buffers: str) -> list[Block]:
    """The blocks that read one of the buffers, in program order; a reduction's own accumulator does not count."""
    return [b for b in query.blocks(func) if not set(buffers).isdisjoint(query.reads(b))]


def require_intermediate(ctx: Context, op: str, block: Block, hint: str) -> None:
    """Raise when the block writes an output."""
    output = next((name for name in query.written_buffers(block) if is_output(ctx.func, name)), None)
    if output is not None:
        raise ScheduleError(op, f"block `{block.name}` writes the output `{output}`", (block.name,), hint)


def require_one_result(op: str, block: Block, hint: str = "move it with compute_at, or factor it with rfactor") -> None:
    """Raise when the block writes positions besides values."""
    if block.index is not None:
        both = f"`{block.store.buffer}` and `{block.index.buffer}`"
        raise ScheduleError(
            op,
            f"block `{block.name}` writes values and their positions, {both}",
            (block.name,),
            hint,
        )


def require_only_writer(ctx: Context, op: str, block: Block) -> None:
    """Raise when another block writes the same buffer, as after one of the decompositions or loop_partition."""
    found = writers(ctx.func, query.writes(block))
    others = [b.name for b in found if b.name != block.name]
    if others:
        decomposed = "decompose_padding" if all(b.reducer is None for b in found) else "decompose_reduction"
        if len(query.partitions(found)) == 1:
            decomposed = "loop_partition"
        raise ScheduleError(
            op,
            f"`{query.writes(block)}` is written by `{others[0]}` as well as by `{block.name}`",
            (block.name, *others),
            f"{op} before {decomposed}",
        )


def require_not_reduction(op: str, block: Block, hint: str) -> None:
    """Raise when the block is a reduction."""
    if block.reducer is not None:
        raise ScheduleError(op, f"block `{block.name}` is a reduction", (block.name,), hint)


def scope_named(op: str, name: str) -> Scope:
    """The scope of that name; ScheduleError when there is none."""
    try:
        return Scope(name)
    except ValueError:
        known = ", ".join(f'"{s.value}"' for s in Scope)
        raise ScheduleError(op, f'there is no scope "{name}"', (), f"scopes are {known}") from None


def loops_of(func: Func, block: str) -> tuple[str, ...]:
    """Variables of the loops around a block, outermost first."""
    return tuple(loop.var for loop in query.loops_above(func, block))


def shared_with_readers(ctx: Context, block: Block) -> tuple[For, ...]:
    """The loops that a block shares with readers of its result. None is a reduction loop: the result is complete
    there."""
    mine = query.loops_above(ctx.func, block.name)
    paths = [query.loops_above(ctx.func, r.name) for r in readers(ctx.func, *query.written_buffers(block))]
    return max((query.common_loops(mine, path) for path in paths), key=len, default=())


def require_producers_stay(ctx: Context, op: str, block: Block, kept: frozenset[str]) -> None:
    """Raise when a producer sits inside a loop of this block that the block is about to leave.

    `kept` are the loops that stay around the readers.
    """
    mine = query.loops_above(ctx.func, block.name)
    for producer in query.producers(ctx.func, block.name):
        left = [
            x.var for x in query.common_loops(mine, query.loops_above(ctx.func, producer.name)) if x.var not in kept
        ]
        if left:
            raise ScheduleError(
                op,
                f"block `{producer.name}`, which `{block.name}` reads, is computed inside loop `{left[-1]}` of "
                f"`{block.name}`",
                (block.name, producer.name, left[-1]),
                f"{op} `{block.name}` before moving `{producer.name}` under its loops",
            )


def require_small_expression(op: str, reader: Block, buffer: str, inlined: Block, hint: str) -> None:
    """Raise when `reader` would be too large with every read of `buffer` replaced by the expression of `inlined`."""
    for value in query.values(reader):
        reads = _reads_of(value, buffer)
        if not reads:
            continue
        own, added = size_of(value), size_of(inlined.store.value)
        nodes, levels = own.nodes + reads * added.nodes, own.levels + added.levels
        most = MAX_INLINED_NODES if reads > 1 else MAX_NODES
        if nodes > most or levels > MAX_LEVELS:
            size = f"{nodes} operations, reads and numbers" if nodes > most else f"{levels} levels"
            raise ScheduleError(
                op,
                f"`{inlined.name}` in the place of {reads} {'reads' if reads > 1 else 'read'} of `{buffer}` makes an "
                f"expression of up to {size} in `{reader.name}`; "
                f"at most {most if nodes > most else MAX_LEVELS} are allowed",
                (reader.name, inlined.name),
                hint,
            )


# --- expressions -----------------------------------------------------------------------------------------
# A part that an expression uses many times is one object, as far as can be: it is looked at once.


def _reads_of(e: Expr, buffer: str) -> int:
    """How many reads of a buffer an expression has, written out."""
    known: dict[int, int] = {}

    def count(node: Node) -> int:
        found = known.get(id(node))
        if found is None:
            found = known[id(node)] = sum(map(count, node.children())) + (
                isinstance(node, Load) and node.buffer == buffer
            )
        return found

    return count(e)


def replace_loads(e: Expr, buffer: str, fn: Callable[[tuple[Expr, ...]], Expr]) -> Expr:
    """`e` with every read of `buffer` replaced by `fn(indices)`, which depends on nothing else."""
    known: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        found = known.get(id(node))
        if found is None:
            found = node.map(visit)
            if isinstance(found, Load) and found.buffer == buffer:
                found = fn(found.indices)
            known[id(node)] = found
        return found

    return visit(e)


def replace_block_loads(block: Block, buffer: str, fn: Callable[[tuple[Expr, ...]], Expr]) -> Block:
    """`block` with every read of `buffer` replaced by `fn(indices)`, in what it writes and in its `init`."""

    def replaced(e: Expr) -> Expr:
        return tidy(replace_loads(e, buffer, fn))

    return query.map_values(block, replaced)


_TIDY = "_tidy"


def tidy(e: Expr) -> Expr:
    """`e` with its index arithmetic in normal form, and conditions decided by it folded. Data is left as written.

    What is so already is marked: expressions grow, step by step, out of parts that are.
    """
    known: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        if find_kept(node, _TIDY):
            return node
        found = known.get(id(node))
        if found is None:
            simple = _simplified_index(node, visit)
            found = known[id(node)] = node.map(visit) if simple is None else simple
            if found is node:
                keep(node, _TIDY, True)
        return found

    return visit(e)


def _simplified_index(e: Expr, tidied: Callable[[Expr], Expr]) -> Expr | None:
    """A read, a condition of index arithmetic, or a choice that one decides, in normal form; None for anything else."""
    if isinstance(e, Load):
        indices = tuple(tidied(i) if query.loads(i) else simplify(i) for i in e.indices)
        return e if indices == e.indices else replace(e, indices=indices)
    if isinstance(e, Binary) and e.op.is_comparison and e.a.dtype is INDEX and not query.loads(e):
        return simplify(e)
    if isinstance(e, Binary) and e.op.is_logical and not query.loads(e):
        return simplify(e)
    if isinstance(e, Select):
        cond = tidied(e.cond)
        if isinstance(cond, Const):
            return tidied(e.then if cond.value else e.otherwise)
    return None


def variables(e: Expr) -> list[str]:
    """Names of variables in the order they are met, once each."""
    return list(dict.fromkeys(n.name for n in e.walk() if isinstance(n, Var)))


# --- statements ------------------------------------------------------------------------------------------


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements of `stmt`, a loop's or the program's body, in order."""
    return stmt.stmts if isinstance(stmt, Seq) else (stmt,)


def insert(func: Func, loop: For | None, position: int, new: Stmt) -> Func:
    """`func` with `new` as the child number `position` of a loop's body, or of the program where it is None."""
    body = func.body if loop is None else loop.body
    stmts = list(children(body))
    stmts.insert(position, new)
    return query.replace_stmt(func, body, seq(stmts))


def child_with(body: Stmt, block: str) -> int | None:
    """The position of the child of a body that contains a block."""
    for at, child in enumerate(children(body)):
        if any(b.name == block for b in query.blocks_under(child)):
            return at
    return None


def replace_buffers(func: Func, remove: str | None = None, add: Buffer | None = None) -> Func:
    """`func` with an intermediate buffer removed or added."""
    temps = tuple(b for b in func.temps if b.name != remove)
    return replace(func, temps=temps if add is None else (*temps, add))


def take_out(ctx: Context, block: Block) -> None:
    """Remove a block and the loops that contained nothing else. Their names are not reused: handles to them are
    stale."""
    ctx.taken |= query.names(ctx.func)
    ctx.func = query.replace_stmt(ctx.func, block, None)


def replace_temp(func: Func, buffer: Buffer) -> Func:
    """`func` with the intermediate buffer of that name replaced."""
    return replace(func, temps=tuple(buffer if b.name == buffer.name else b for b in func.temps))


def find_target(ctx: Context, op: str, target: str) -> Block | For:
    """The block or loop of that name; ScheduleError when it is gone."""
    for stmt in query.walk_stmts(ctx.func.body):
        if (isinstance(stmt, Block) and stmt.name == target) or (isinstance(stmt, For) and stmt.var == target):
            return stmt
    raise ScheduleError(
        op,
        f"there is no block or loop `{target}` any more",
        hint="an earlier step inlined, split, fused or moved it; use the handles that step returned",
    )


def set_block(func: Func, block: Block, new: Block) -> Func:
    """`func` with a block replaced."""
    return query.replace_stmt(func, block, new)


def spatial(block: Block) -> list[tuple[str, Expr]]:
    """Names and bindings of the spatial iteration variables."""
    return _bindings_of_kind(block, IterKind.SPATIAL)


def reduction(block: Block) -> list[tuple[str, Expr]]:
    """Names and bindings of the reduction iteration variables."""
    return _bindings_of_kind(block, IterKind.REDUCE)


def _bindings_of_kind(block: Block, kind: IterKind) -> list[tuple[str, Expr]]:
    return [(it.name, b) for it, b in zip(block.iters, block.bindings, strict=True) if it.kind is kind]

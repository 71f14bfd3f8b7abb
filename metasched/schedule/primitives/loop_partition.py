"""loop_partition: split a loop's range into consecutive loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ZERO, as_int, const, simplify, substitute
from metasched.ir.integers.data import depends_on_data
from metasched.ir.node_base import Node
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Buffer,
    Expr,
    For,
    Func,
    Load,
    Select,
    Stmt,
    Store,
    Var,
    seq,
)
from metasched.ir.printer import print_expr
from metasched.schedule.context import Context
from metasched.schedule.kinds import IntExpr, LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.borders import BOUNDS, change_along
from metasched.schedule.rewrite.guards import normal_form
from metasched.schedule.rewrite.loops import require_serial
from metasched.support.data_classes import dataclass

OP = "loop_partition"


@primitive
def loop_partition(ctx: Context, loop: LoopName, points: tuple[IntExpr, ...] = ()) -> tuple[LoopName, ...]:
    """Split the range of a loop into parts that run one after another, each with a copy of the body.

    The middle part then needs no border conditions, and full tiles need no guard. The compiler drops conditions that a
    part's range decides; the program keeps them as written.

    The main part, the first of two and the second of more, keeps the names of its blocks and loops; the copies are
    `BLOCK.head`, `BLOCK.middle` and `BLOCK.tail`, and buffers that only the body uses are copied as well.

    Args:
        loop: a serial loop.
        points: where the parts after the first begin, ascending; by default the iterations at which a condition over
            the loop begins or ceases to hold for everything inside it.

    Requires:
        The points are inside the loop's range and ascending; parts may be empty, such as borders that one tile covers
        (`maximum(p, q)` is never below `p`), but not where the loop runs along a reduction. Without points, some
        condition changes along the loop, and extents are known. The loop does not drive both spatial and reduction
        variables of a block, and computes no part of a rolling window (store_at).

    Rewrite:
        for i_0, i_1 in grid(16, 8):                 for i_0_0, i_1 in grid(15, 8):
            C[i] = A[i]  if i < 127           ->         C[i] = A[i]
                                                     for i_0_1, i_1_tail in grid(1, 8):
                                                         C[i] = A[i]  if i < 127
    """
    target = ctx.loop(OP, loop)
    require_serial(OP, target)
    private = _private_buffers(ctx.func, target)
    for block in query.blocks_under(target):
        _require_apart(block, target, private)
        _require_no_window(ctx, block, target, private)
    cuts = [simplify(p) for p in points] or _change_points(ctx, target)
    _require_ascending(ctx, target, cuts)
    temps = ctx.func.temps
    stmts: list[Stmt] = []
    names: list[str] = []
    for n, (low, high) in enumerate(pairwise([ZERO, *cuts, target.extent])):
        part = _Part(ctx, target, _label(n, len(cuts)), low, n == 0, private, temps)
        names.append(ctx.fresh(f"{loop}_{n}"))
        stmts.append(part.loop(names[-1], simplify(high - low)))
        ctx.func = part.func_with_buffers()
    ctx.func = _replace_loop(ctx.func, target, stmts)
    return tuple(names)


def _require_ascending(ctx: Context, loop: For, cuts: list[Expr]) -> None:
    """Raise where points are not in order. The first part of a reduction writes what it starts from, and is there."""
    reduces = any(loop.var in query.reduced_loops(block) for block in query.blocks_under(loop))
    error = ScheduleError(
        OP,
        f"the points of loop `{loop.var}` are not inside its range of {print_expr(loop.extent)}, each "
        + ("more than the last" if reduces else "at least the last"),
        (loop.var,),
        "give points from 1 on, ascending"
        if reduces
        else "give them in ascending order: maximum(p, q) is never below p",
    )
    for low, high in pairwise([ZERO, *cuts, loop.extent]):
        ctx.require(Binary(BinOp.LT if reduces else BinOp.LE, low, high), error)


def _label(n: int, cuts: int) -> str:
    """The suffix of a part's names; empty for the main part."""
    main = 0 if cuts == 1 else 1
    if n == main:
        return ""
    return "head" if n < main else "tail" if n == cuts else "middle"


def _replace_loop(func: Func, target: For, stmts: list[Stmt]) -> Func:
    path = query.path_to(func, target)
    parent = path[-2] if len(path) > 1 else None
    children = getattr(parent, "stmts", None)
    if children is None or parent is None:
        return query.replace_stmt(func, target, seq(stmts))
    return query.replace_stmt(func, parent, seq([s for old in children for s in (stmts if old is target else [old])]))


def _require_no_window(ctx: Context, block: Block, loop: For, private: frozenset[str]) -> None:
    """Raise for a block whose rolling window keeps results of earlier iterations: its iteration order matters."""
    for name in query.written_buffers(block):
        if name not in private and ctx.func.buffer(name).roll is not None:
            raise ScheduleError(
                OP, f"`{name}` is a window that rolls", (block.name, loop.var), "loop_partition before store_at"
            )


def _require_apart(block: Block, loop: For, private: frozenset[str]) -> None:
    reduced, spatial = query.reduced_loops(block), query.spatial_loops(block)
    if loop.var in reduced & spatial:
        raise ScheduleError(
            OP,
            f"loop `{loop.var}` is over both the elements and the reduction of `{block.name}`",
            (loop.var, block.name),
            f"{OP} before fusing them",
        )
    if loop.var not in reduced | spatial and not private.issuperset(query.written_buffers(block)):
        raise ScheduleError(
            OP,
            f"every iteration of loop `{loop.var}` computes the same in block `{block.name}`",
            (loop.var, block.name),
            "choose a loop that the block's result depends on",
        )


def _private_buffers(func: Func, loop: For) -> frozenset[str]:
    """Intermediate buffers of which each iteration uses only what it writes itself."""
    inside = {b.name: b for b in query.blocks_under(loop)}
    out = set()
    for buffer in func.temps:
        users = [b for b in query.blocks(func) if buffer.name in (*query.written_buffers(b), *query.reads(b))]
        writers = [b for b in users if buffer.name in query.written_buffers(b)]
        whole = not any(loop.var in query.reduced_loops(b) for b in writers)
        if whole and all(b.name in inside for b in users):
            out.add(buffer.name)
    return frozenset(out)


@dataclass
class _Part:
    """A copy of the loop from `low` on. `starts`: it contains the first iteration of the loop's reductions. `temps` are
    the buffers before partitioning."""

    ctx: Context
    target: For
    label: str
    low: Expr
    starts: bool
    private: frozenset[str]
    temps: tuple[Buffer, ...]

    def __post_init__(self) -> None:
        self.loops: dict[str, str] = {}
        self.regions: dict[str, str] = {}
        self.buffers = {name: self._copy_name(name, "_") for name in sorted(self.private)}

    def _copy_name(self, name: str, separator: str) -> str:
        return self.ctx.fresh(f"{name}{separator}{self.label}") if self.label else name

    def loop(self, var: str, extent: Expr) -> Stmt:
        """The part as a separate loop."""
        value = Var(var) if self.low == ZERO else Var(var) + self.low
        self.loops[self.target.var] = var
        body = self._stmt(self.target.body, {self.target.var: value})
        return replace(self.target, var=var, extent=extent, body=body)

    def func_with_buffers(self) -> Func:
        """The program with this part's buffers."""
        mine = {b.name: self._buffer(b) for b in self.temps if b.name in self.private}
        if self.label:
            return replace(self.ctx.func, temps=(*self.ctx.func.temps, *mine.values()))
        return replace(self.ctx.func, temps=tuple(mine.get(b.name, b) for b in self.ctx.func.temps))

    def _buffer(self, buffer: Buffer) -> Buffer:
        roll = buffer.roll
        if roll is not None:
            roll = replace(roll, loop=self.loops.get(roll.loop, roll.loop))
        return replace(buffer, name=self.buffers[buffer.name], roll=roll)

    def _stmt(self, stmt: Stmt, values: dict[str, Expr]) -> Stmt:
        if isinstance(stmt, For):
            var = self._copy_name(stmt.var, "_")
            self.loops[stmt.var] = var
            body = self._stmt(stmt.body, {**values, stmt.var: Var(var)})
            return replace(stmt, var=var, body=body, region=self._region(stmt.region))
        if isinstance(stmt, Block):
            return self._block(stmt, values)
        return stmt.map(lambda child: self._stmt(child, values))

    def _region(self, name: str) -> str:
        """The name, in this part, of a parallel region that loops inside share."""
        if name and name not in self.regions:
            self.regions[name] = self._copy_name(name, "_")
        return self.regions.get(name, "")

    def _block(self, block: Block, values: dict[str, Expr]) -> Block:
        moved = query.substitute_block(block, values, normal_form)
        goes_on = self.target.var in query.reduced_loops(block) and not self.starts
        moved = replace(moved, name=self._copy_name(block.name, "."), init=None if goes_on else moved.init)
        return moved.map(self._rename_node) if self.label else moved

    def _rename_node(self, node: Node) -> Node:
        node = node.map(self._rename_node)
        if isinstance(node, Load | Store) and node.buffer in self.buffers:
            return replace(node, buffer=self.buffers[node.buffer])
        return node


# --- where conditions change -----------------------------------------------------------------------------


def _change_points(ctx: Context, loop: For) -> list[Expr]:
    """The iterations at which a condition begins or ceases to hold for the whole loop body, ascending."""
    extent = as_int(loop.extent)
    if extent is None:
        raise ScheduleError(
            OP,
            f"where conditions change along loop `{loop.var}` depends on tile sizes",
            (loop.var,),
            "give the points",
        )
    found: set[int] = set()
    for block in query.blocks_under(loop):
        above = query.loops_above(ctx.func, block.name)
        inner = query.ranges(above[[x.var for x in above].index(loop.var) + 1 :])
        for condition in _conditions(block):
            change = change_along(condition, loop.var, inner)
            if change is not None and 0 < change.at < extent:
                found.add(change.at)
    if not found:
        raise ScheduleError(
            OP,
            f"no condition inside loop `{loop.var}` changes along it",
            (loop.var,),
            "give the points",
        )
    return [const(p) for p in sorted(found)]


def _conditions(block: Block) -> Iterator[Binary]:
    """The comparisons in the block's guards and in its value's conditions, in terms of loops."""
    values = {it.name: b for it, b in zip(block.iters, block.bindings, strict=True)}
    chosen = [substitute(n.cond, values) for s in block.stores for n in s.value.walk() if isinstance(n, Select)]
    for condition in (*block.guards, *chosen):
        for node in condition.walk():
            if isinstance(node, Binary) and node.op in BOUNDS and not depends_on_data(node):
                yield node

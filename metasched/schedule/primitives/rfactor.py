"""rfactor: factor a reduction loop out into a dimension of partial results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars, simplify, substitute
from metasched.ir.nodes import Binary, BinOp, Block, Buffer, Expr, For, IterKind, IterVar, Load, Stmt, Store, Var
from metasched.schedule.annotation import known_annotations
from metasched.schedule.context import Context
from metasched.schedule.kinds import BlockName, LoopName, Number
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import require_not_carried
from metasched.schedule.rewrite.nest import iter_names, simplify_sides
from metasched.schedule.rewrite.parts import (
    child_with,
    insert,
    require_only_writer,
    shared_with_readers,
)

OP = "rfactor"


@primitive
def rfactor(ctx: Context, loop: LoopName, axis: Number = 0) -> BlockName:
    """Turn a reduction loop into a dimension of a buffer of partial results, and reduce over that afterwards.

    The loops stay around the new block `BLOCK.rf`, which writes the partial results `BUFFER_rf`. These are independent
    along the loop, which can then be parallel or vectorised. The original block reduces them in separate loops.

    Args:
        loop: the loop: a whole reduction, or a part of a split one.
        axis: where the new dimension goes in the buffer of partial results.

    Requires:
        The loop drives only reduction variables of a single block, which still has its `init`. No guard skips
        iterations of the loop itself, as after fusing the parts of an imperfect tile; for the block's other loops, a
        guard may only skip iterations at the end.

    Rewrite:
        for k_0, k_1 in grid(4, 16):                 for k_0, k_1 in grid(4, 16):
            sum: S[0] += A[k]                 ->         sum.rf: S_rf[k_0, 0] += A[k_0*16 + k_1]
                                                     for k_0_1 in 4:
                                                         sum: S[0] += S_rf[k_0, 0]
    """
    target = ctx.loop(OP, loop)
    block = _reduction_over(ctx, target)
    _require_whole(ctx, block, target)
    rank = len(block.store.indices)
    if not 0 <= axis <= rank:
        raise ScheduleError(
            OP, f"axis {axis} is not between 0 and {rank}", (block.name,), f"`{block.store.buffer}` has rank {rank}"
        )
    result = ctx.func.buffer(block.store.buffer)
    shape = (*result.shape[:axis], target.extent, *result.shape[axis:])
    partials = tuple(
        Buffer(ctx.fresh(f"{name}_rf"), shape, ctx.func.buffer(name).dtype) for name in query.written_buffers(block)
    )
    above = query.loops_above(ctx.func, block.name)
    shared = shared_with_readers(ctx, block)
    factored = _Factored(ctx, block, target, above, partials, axis)
    first, final = factored.partial_block(), factored.final_nest(shared)
    body = shared[-1] if shared else None
    position = child_with(ctx.func.body if body is None else body.body, block.name)
    assert position is not None
    func = insert(ctx.func, body, position + 1, final)
    func = query.replace_stmt(func, block, first)
    ctx.func = replace(func, temps=(*func.temps, *partials))
    return first.name


def _reduction_over(ctx: Context, loop: For) -> Block:
    """The block whose reduction runs over the loop; there is only one, as blocks that move get new loops."""
    block = next((b for b in query.blocks_under(loop) if loop.var in query.reduced_loops(b)), None)
    if block is None:
        raise ScheduleError(OP, f"no reduction runs over loop `{loop.var}`", (loop.var,), "choose a reduction loop")
    mixed = [x for x in _reduction_loops(block) if x in query.spatial_loops(block)]
    if mixed:
        raise ScheduleError(
            OP,
            f"loop `{mixed[0]}` is over both the elements and the reduction of `{block.name}`",
            (block.name, mixed[0]),
            "rfactor before fusing them",
        )
    require_not_carried(ctx, OP, block)
    if block.init is None:
        raise ScheduleError(
            OP, f"the init of `{block.name}` is a block of its own", (block.name,), "rfactor before decompose_reduction"
        )
    require_only_writer(ctx, OP, block)
    return block


def _require_whole(ctx: Context, block: Block, loop: For) -> None:
    """Raise where a partial result would never be written, although the final reduction reads all of them.

    A guard may cut off the end of another loop: the partial results have no terms there.
    """
    above = query.loops_above(ctx.func, block.name)
    reducing = frozenset(_reduction_loops(block))
    for guard in block.guards:
        used = free_vars(guard)
        about = sorted(used & reducing)
        alone = len(used) == 1 and len(about) == 1
        if about == [loop.var] or (alone and _end(guard, about[0], above) is None):
            error = ScheduleError(
                OP,
                f"iterations of loop `{about[0]}` are left out by a guard of `{block.name}`",
                (block.name, about[0]),
                "rfactor before fusing the parts of an imperfect tile",
            )
            ctx.require_everywhere(guard, above, error)


def _end(guard: Expr, loop: str, above: Iterable[For]) -> Expr | None:
    """The end of the iterations that a guard over one loop lets run; None for any other guard."""
    if not isinstance(guard, Binary) or guard.op is not BinOp.LT or guard.a != Var(loop):
        return None
    return guard.b if free_vars(guard.b).isdisjoint(x.var for x in above) else None


def _reduction_loops(block: Block) -> list[str]:
    return sorted(query.reduced_loops(block))


def _connected_loops(loop: str, groups: list[frozenset[str]]) -> frozenset[str]:
    """The loops connected to `loop` through groups that share members."""
    found = frozenset((loop,))
    while True:
        more = found.union(*(g for g in groups if not found.isdisjoint(g)))
        if more == found:
            return found
        found = more


class _Factored:
    """The two blocks that a reduction is split into."""

    def __init__(
        self, ctx: Context, block: Block, loop: For, above: tuple[For, ...], partials: tuple[Buffer, ...], axis: int
    ) -> None:
        self.ctx, self.block, self.loop, self.above, self.partials, self.axis = ctx, block, loop, above, partials, axis
        taken = {it.name for it in block.iters}
        # Reduction variables that the loop does not drive stay as they are. The others are replaced by their loops, and
        # so are those that share one of these loops, as after fusing: they would not be independent variables.
        shared = _connected_loops(loop.var, [free_vars(b) for _, b in self._pairs(IterKind.REDUCE)])
        self.whole = [it for it, b in self._pairs(IterKind.REDUCE) if shared.isdisjoint(free_vars(b))]
        self.apart = [it for it, b in self._pairs(IterKind.REDUCE) if not shared.isdisjoint(free_vars(b))]
        taken -= {it.name for it in self.apart}
        self.parts = [x for x in above if any(x.var in free_vars(self._binding(it)) for it in self.apart)]
        loops = [x.var for x in self.parts]
        self.iter_of = dict(zip(loops, iter_names(ctx, loops, taken), strict=True))

    def _pairs(self, kind: IterKind) -> list[tuple[IterVar, Expr]]:
        return [(it, b) for it, b in zip(self.block.iters, self.block.bindings, strict=True) if it.kind is kind]

    def _binding(self, it: IterVar) -> Expr:
        return self.block.bindings[self.block.iters.index(it)]

    def _partial_indices(self) -> tuple[Expr, ...]:
        old, factor = self.block.store.indices, Var(self.iter_of[self.loop.var])
        return (*old[: self.axis], factor, *old[self.axis :])

    def partial_block(self) -> Block:
        """The block of the partial results, for the loops of the original one."""
        block = self.block
        factor = IterVar(self.iter_of[self.loop.var], self.loop.extent, IterKind.SPATIAL)
        rest = [x for x in self.parts if x.var != self.loop.var]
        pairs: list[tuple[IterVar, Expr]] = [(factor, Var(self.loop.var)), *self._pairs(IterKind.SPATIAL)]
        pairs += [(it, self._binding(it)) for it in self.whole]
        pairs += [(IterVar(self.iter_of[x.var], self._run_count(x), IterKind.REDUCE), Var(x.var)) for x in rest]
        renamed: dict[str, Expr] = {x: Var(name) for x, name in self.iter_of.items()}
        values = {it.name: simplify(substitute(self._binding(it), renamed)) for it in self.apart}
        assert block.reducer is not None
        stores = [
            Store(partial.name, self._partial_indices(), substitute(store.value, values))
            for partial, store in zip(self.partials, block.stores, strict=True)
        ]
        still = any(it.kind is IterKind.REDUCE for it, _ in pairs)
        return replace(
            block,
            name=self.ctx.fresh(f"{block.name}.rf"),
            iters=tuple(it for it, _ in pairs),
            bindings=tuple(b for _, b in pairs),
            store=stores[0],
            index=None if block.index is None else stores[1],
            reducer=block.reducer if still else None,
            init=block.reducer.identity(self.partials[0].dtype) if still else None,
            annotations=block.annotations if still else (),
        )

    def _run_count(self, loop: For) -> Expr:
        """How many iterations of a loop run: guards over it alone cut off the end, as for the tile of an imperfect
        tile."""
        reached = loop.extent
        for guard in self.block.guards:
            end = _end(guard, loop.var, self.above)
            reached = reached if end is None else simplify(Binary(BinOp.MIN, reached, end))
        return reached

    def final_nest(self, shared: tuple[For, ...]) -> Stmt:
        """The block itself over the partial results, in copies of the loops that it still needs below `shared`."""
        block, factor, known = self.block, self.iter_of[self.loop.var], known_annotations()
        wanted = query.spatial_loops(block) | {self.loop.var}
        copied = [x for x in self.above[len(shared) :] if x.var in wanted]
        renamed: dict[str, Expr] = {x.var: Var(self.ctx.fresh(x.var)) for x in copied}
        left_out = frozenset(x.var for x in self.above) - wanted
        stores = [
            replace(store, value=Load(partial.name, self._partial_indices(), partial.dtype))
            for partial, store in zip(self.partials, block.stores, strict=True)
        ]
        pairs = [*self._pairs(IterKind.SPATIAL)]
        pairs.append((IterVar(factor, self.loop.extent, IterKind.REDUCE), Var(self.loop.var)))
        stmt: Stmt = replace(
            block,
            iters=tuple(it for it, _ in pairs),
            bindings=tuple(simplify(substitute(b, renamed)) for _, b in pairs),
            guards=tuple(simplify_sides(substitute(g, renamed)) for g in block.guards if not free_vars(g) & left_out),
            store=stores[0],
            index=None if block.index is None else stores[1],
            annotations=tuple(a for a in block.annotations if known[a.key].of_sums),
        )
        for x in reversed(copied):
            var = renamed[x.var]
            assert isinstance(var, Var)
            stmt = For(var.name, x.extent, stmt)
        return stmt

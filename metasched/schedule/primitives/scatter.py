"""scatter: run only the iteration of a loop that data says has a term."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars
from metasched.ir.nodes import Block, For, LoopKind, Var
from metasched.ir.places import place_of
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.loops import mark, only_block, require_serial

OP = "scatter"


@primitive(in_batches=unchanged)
def scatter(ctx: Context, loop: LoopName) -> None:
    """Run only the iteration of a loop that has a term: the place that data says, where each term is added.

    For histograms, sums of what falls into each cell or segment and gradients of embeddings, which are written as sums
    over what equals each place, and for products with one-hot rows: one step instead of a comparison for each place.
    Every element is updated by the same terms in the same order. Threads need results of their own: `rfactor` a loop of
    the reduction first, and share that.

    Args:
        loop: a serial loop over a whole iteration variable, of elements or of terms.

    Requires:
        One block is inside, a reduction, whose terms have a condition `place == v`, for the variable `v` of the loop,
        plus or minus what does not depend on it. The other side may be anything that no loop inside changes. Loops of
        the reduction are around the loop, or it is one, unless the initial value is written by a block of its own. No
        loop around is vectorised, and none inside is parallel.

    Rewrite:
        for i in 4096:                              for i in 4096:
            for v in 256:                    ->         v = X[i]
                N[v] += 1 if X[i] == v else 0           N[v] += 1
    """
    target = ctx.loop(OP, loop)
    require_serial(OP, target)
    block = only_block(OP, target)
    variable = _variable_of(target, block)
    around = query.loops_above_loop(ctx.func, loop)
    extents = {it.name: it.extent for it in block.iters}
    place = place_of(block.store.value, block.reducer, variable, extents)
    if place is None:
        raise ScheduleError(
            OP,
            f"no condition of block `{block.name}` says at which `{variable}` a term is",
            (loop, block.name),
            f"write the sum under a condition that a place equals `{variable}`",
        )
    outside = frozenset(x.var for x in around)
    bound = {it.name: free_vars(b) for it, b in zip(block.iters, block.bindings, strict=True)}
    needed = frozenset[str]().union(
        *(bound.get(name, ()) for e in (place.index, *place.conds) for name in free_vars(e))
    )
    inside = sorted(x.var for x in query.loops(ctx.func) if target in query.loops_above_loop(ctx.func, x.var))
    changes = next((var for var in inside if var in needed), None)
    if changes is not None:
        raise ScheduleError(
            OP,
            f"loop `{changes}` inside changes the place of a term",
            (loop, changes),
            f"reorder `{changes}` outside of `{loop}`",
        )
    _require_start(block, loop, outside)
    _require_kinds(ctx, loop, around, inside)
    mark(ctx, target, LoopKind.SCATTERED)


def _variable_of(loop: For, block: Block) -> str:
    """The iteration variable of a block that a loop goes over."""
    for it, binding in zip(block.iters, block.bindings, strict=True):
        if binding == Var(loop.var):
            return it.name
    raise ScheduleError(
        OP,
        f"loop `{loop.var}` does not go over a whole iteration variable of block `{block.name}`",
        (loop.var, block.name),
        "scatter a loop that was not split or fused",
    )


def _require_start(block: Block, loop: str, outside: frozenset[str]) -> None:
    """Raise unless elements are started before the loop, and not in the iterations that it does not run."""
    reducing = query.reduced_loops(block)
    if block.init is not None and reducing.isdisjoint({*outside, loop}):
        raise ScheduleError(
            OP,
            f"no loop of the reduction of block `{block.name}` is around loop `{loop}`",
            (loop, block.name),
            "reorder a loop of the reduction outside of it",
        )


def _require_kinds(ctx: Context, loop: str, around: tuple[For, ...], inside: list[str]) -> None:
    vector = next((x.var for x in around if x.kind is LoopKind.VECTORIZED), None)
    if vector is not None:
        raise ScheduleError(
            OP,
            f"loop `{vector}` around it is vectorized",
            (loop, vector),
            f"leave `{vector}` serial: lanes of a scattered loop are those of a loop inside it",
        )
    shared = next((var for var in inside if ctx.loop(OP, var).kind is LoopKind.PARALLEL), None)
    if shared is not None:
        raise ScheduleError(
            OP,
            f"loop `{shared}` inside it is parallel",
            (loop, shared),
            "rfactor a loop of the reduction first, and parallel that",
        )

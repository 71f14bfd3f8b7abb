"""sample_compute_location: sample where a producer or a consumer is computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.affine import free_vars
from metasched.ir.nodes import Block, IterKind
from metasched.lang.instructions import Ref
from metasched.schedule.context import Context, is_legal
from metasched.schedule.distributions.choice import ChoiceDistribution
from metasched.schedule.kinds import INLINE, ROOT, BlockName
from metasched.schedule.primitive import sampler
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.rewrite.parts import is_output

OP = "sample_compute_location"


@sampler(places=True)
def sample_compute_location(ctx: Context, block: BlockName, *around: BlockName) -> ChoiceDistribution:
    """Sample a location for compute_at or reverse_compute_at: a loop around the block's readers or around what it
    reads, `root` (unchanged), or `inline`.

    The location is for compute_at where the blocks `around` read the block's result, and for reverse_compute_at where
    the block reads theirs. It may be used for further blocks, so that a chain of them moves together.

    A structural variable. Its options are `root`; `inline` where the primitive that it is for is legal with it; and,
    outermost first, the loops under which that primitive is legal, down to the innermost tile: spatial loops inside a
    reduction loop are excluded, since a producer would be recomputed for each row of the tile there (as in
    MetaSchedule's `sample_compute_location`, Shao et al. 2022, which takes producers only).

    Args:
        block: the producer or consumer to be moved.
        around: blocks that the loop is around. By default it is the first block that reads the result, and for an
            output the last that computes what the block reads.

    Requires:
        All blocks `around` read the block's result, or it reads all of theirs.
    """
    move = _move(ctx, ctx.block(OP, block), [ctx.block(OP, name) for name in around])
    legal = [place for place in move.places(ctx) if is_legal(ctx, partial(move.to, place))]
    return ChoiceDistribution((Ref(ROOT), *map(Ref, legal)))


@dataclass(frozen=True)
class _Move:
    """A block, the blocks around which it is to be computed, and the primitive that moves it there."""

    block: str
    around: tuple[Block, ...]
    primitive: Callable[[Context, str, str], None]

    def places(self, ctx: Context) -> list[str]:
        """`inline`, and the loops around all blocks of `around`, outermost first."""
        shared = [_outer_loops(ctx, other) for other in self.around]
        return [INLINE, *(loop for loop in shared[0] if all(loop in loops for loops in shared))] if shared else []

    def to(self, place: str, trial: Context) -> None:
        self.primitive(trial, self.block, place)


def _move(ctx: Context, block: Block, around: list[Block]) -> _Move:
    consumers = query.consumers(ctx.func, block.name)
    producers = query.producers(ctx.func, block.name)
    output = any(is_output(ctx.func, buffer) for buffer in query.written(block))
    chosen = tuple(around or (consumers[:1] if consumers and not output else producers[-1:]))
    for primitive, related in ((compute_at, consumers), (reverse_compute_at, producers)):
        if {other.name for other in chosen} <= {other.name for other in related}:
            return _Move(block.name, chosen, primitive)
    raise _unrelated(block, chosen, [*consumers, *producers])


def _unrelated(block: Block, around: tuple[Block, ...], related: list[Block]) -> ScheduleError:
    known = ", ".join(f"`{other.name}`" for other in related)
    stranger = next((x for x in around if x.name not in {other.name for other in related}), None)
    if stranger is None:
        names = " and ".join(f"`{other.name}`" for other in around)
        return ScheduleError(
            OP,
            f"of {names}, some read what `{block.name}` computes and others compute what it reads",
            (block.name, *(other.name for other in around)),
            "name its readers only, to move it to them, or only what it reads, to move it there",
        )
    return ScheduleError(
        OP,
        f"`{stranger.name}` neither reads what `{block.name}` computes nor computes what it reads",
        (block.name, stranger.name),
        f"`{block.name}` can be computed in a loop around {known}" if known else f"leave `{block.name}` where it is",
    )


def _outer_loops(ctx: Context, other: Block) -> list[str]:
    """The block's loops, outermost first, up to the first spatial one inside a reduction loop."""
    out: list[str] = []
    reduces = False
    for loop in query.loops_above(ctx.func, other.name):
        driven = [it for it, e in zip(other.iters, other.bindings, strict=True) if loop.var in free_vars(e)]
        if any(it.kind is IterKind.REDUCE for it in driven):
            reduces = True
        elif reduces:
            break
        out.append(loop.var)
    return out

"""sample_compute_location: sample where producers or consumers are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import free_vars
from metasched.ir.nodes import Block, IterKind
from metasched.lang.instructions import Ref
from metasched.schedule.context import Context, is_legal
from metasched.schedule.distributions.choice import ChoiceDistribution
from metasched.schedule.kinds import INLINE, ROOT, BlockName
from metasched.schedule.primitive import sampler
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.rewrite.parts import is_output
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing

OP = "sample_compute_location"


@sampler(places=True)
def sample_compute_location(
    ctx: Context, block: BlockName, *around: BlockName, then: tuple[BlockName, ...] = ()
) -> ChoiceDistribution:
    """Sample a location for compute_at or reverse_compute_at: a loop around the block's readers or around what it
    reads, `root` (unchanged), or `inline`. With `then` it is one location for several blocks.

    The location is for compute_at where the blocks `around` read the block's result, and for reverse_compute_at where
    the block reads theirs. Blocks of `then` move after it, one by one, in their order: with compute_at those that a
    block of `around`, or one that moves before, reads, and with reverse_compute_at those that read such a block.

    A structural variable. Its options are `root`; `inline` where the primitives that it is for are legal with it; and,
    outermost first, the loops under which these primitives are legal one after another, down to the innermost tile:
    spatial loops inside a reduction loop are excluded, since a producer would be recomputed for each row of the tile
    there (as in MetaSchedule's `sample_compute_location`, Shao et al. 2022, which takes one producer only).

    Args:
        block: the producer or consumer to be moved.
        around: blocks that the loop is around. By default it is the first block that reads the result, and for an
            output the last that computes what the block reads.
        then: blocks that move to the same location after it: producers of producers, consumers of consumers, or others
            of what the loop is around.

    Requires:
        All blocks `around` read the block's result, or it reads all of theirs. Each block of `then` is named once, and
        is read by blocks of `around` and blocks before it, or reads from them, and not both.
    """
    first = _first_move(ctx, ctx.block(OP, block), [ctx.block(OP, name) for name in around])
    moves = (first, *_later_moves(ctx, first, [ctx.block(OP, name) for name in then]))
    legal = [place for place in _places(ctx, first.around) if is_legal(ctx, partial(_move_all, moves, place))]
    return ChoiceDistribution((Ref(ROOT), *map(Ref, legal)))


@dataclass(frozen=True)
class _Move:
    """A block, the blocks around which it is to be computed, and the primitive that moves it there."""

    block: str
    around: tuple[Block, ...]
    primitive: Callable[[Context, str, str], None]


def _move_all(moves: tuple[_Move, ...], place: str, trial: Context) -> None:
    for move in moves:
        move.primitive(trial, move.block, place)


def _places(ctx: Context, around: tuple[Block, ...]) -> list[str]:
    """`inline`, and the loops around all blocks of `around`, outermost first."""
    shared = [_outer_loops(ctx, other) for other in around]
    return [INLINE, *(loop for loop in shared[0] if all(loop in loops for loops in shared))] if shared else []


def _first_move(ctx: Context, block: Block, around: list[Block]) -> _Move:
    consumers = query.consumers(ctx.func, block.name)
    producers = query.producers(ctx.func, block.name)
    output = any(is_output(ctx.func, buffer) for buffer in query.written_buffers(block))
    chosen = tuple(around or (consumers[:1] if consumers and not output else producers[-1:]))
    for primitive, related in ((compute_at, consumers), (reverse_compute_at, producers)):
        if {other.name for other in chosen} <= {other.name for other in related}:
            return _Move(block.name, chosen, primitive)
    raise _unrelated_error(block, chosen, [*consumers, *producers])


def _later_moves(ctx: Context, first: _Move, blocks: list[Block]) -> Iterator[_Move]:
    """How each further block gets to where the first is, of which those around it and before it are there."""
    fixed = {other.name for other in first.around}
    there = fixed | {first.block}
    for block in blocks:
        if block.name in there:
            raise _there_already(block, first, is_fixed=block.name in fixed)
        consumers = query.consumers(ctx.func, block.name)
        producers = query.producers(ctx.func, block.name)
        readers, sources = (tuple(x for x in found if x.name in there) for found in (consumers, producers))
        if bool(readers) == bool(sources):
            raise _unplaced_error(block, readers, sources)
        yield _Move(block.name, readers or sources, compute_at if readers else reverse_compute_at)
        there.add(block.name)


def _there_already(block: Block, first: _Move, is_fixed: bool) -> ScheduleError:
    if is_fixed:
        return ScheduleError(
            OP,
            f"the location of `{first.block}` is a loop around `{block.name}`, which cannot move there",
            (first.block, block.name),
            f"draw the location of `{block.name}`, with `then=[{first.block}]`",
        )
    return ScheduleError(OP, f"`{block.name}` is named twice", (block.name,), "name each block that moves once")


def _unplaced_error(block: Block, readers: tuple[Block, ...], sources: tuple[Block, ...]) -> ScheduleError:
    if not readers:
        return ScheduleError(
            OP,
            f"neither what `{block.name}` reads nor what reads it is at the location, or moves there before",
            (block.name,),
            "name blocks in an order in which each reads from one before it or is read by it, or draw a location for "
            f"`{block.name}` of its own",
        )
    return ScheduleError(
        OP,
        f"`{block.name}` is to move between `{sources[0].name}`, which it reads, and `{readers[0].name}`, which reads "
        "it: both are at the location, or move there before",
        (block.name, sources[0].name, readers[0].name),
        f"name `{block.name}` before one of the two",
    )


def _unrelated_error(block: Block, around: tuple[Block, ...], related: list[Block]) -> ScheduleError:
    known = listing(other.name for other in related)
    stranger = next((x for x in around if x.name not in {other.name for other in related}), None)
    if stranger is None:
        names = listing(other.name for other in around)
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
        f"`{block.name}` can be computed in a loop around {known}" if related else f"leave `{block.name}` where it is",
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

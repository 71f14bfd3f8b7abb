"""Reductions that feed others, computed in strips that stay in the second cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from metasched.rules.counterparts import Counterparts, near_counterparts, own_counterparts
from metasched.rules.facts import Strip
from metasched.rules.own_loops import own_loops

import metasched as ms

STRIPS = "strips"


@ms.rule
def strips(
    sch: ms.Schedule, block: ms.BlockRV, *, largest: int = 256, fewest_bytes: int | None = None
) -> ms.Skip | None:
    """Compute a strip of a result with all that it needs before the next, so that intermediates stay in caches.

    Applies to chains of reductions of which one reuses its operands: a product, an activation and another product; the
    convolutions of a block; the scores, the softmax and the mix of attention. The producers are computed at loops over
    strips of the last block, of sampled sizes; each is tiled inside its strip by `multi_level_tiling`. Rows that two
    strips need are computed in both. Structural choice: in strips, or all blocks apart.

    Args:
        largest: the largest strip along one dimension.
        fewest_bytes: the smallest intermediate results, together, to apply this to; by default what the target's second
            cache does not hold.
    """
    info = sch.describe(block)
    if info.readers:
        return ms.skip("other blocks read its result; the last one decides")
    if not info.trivial:
        return ms.skip("it is scheduled already")
    chain = _chain(sch, info)
    reason = _find_obstacle(chain, sch.target.l2 if fewest_bytes is None else fewest_bytes)
    if reason is None:
        reason = sch.refusal(partial(_compute, chain=chain, largest=largest))
    if reason is not None:
        return ms.skip(reason)
    if sch.choose("strips", [STRIPS, ms.LEFT_ALONE]) == STRIPS:
        loops = _compute(sch, chain, largest)
        for name in (info.name, *(b.name for b in chain.producers)):
            sch.add_fact(sch.get_block(name), Strip(tuple(loops)))
    return None


@dataclass(frozen=True)
class _Chain:
    """A block with those producers of its strips that only they read, consumers first.

    `strips` names the iteration variables of the last block that all of them move with.
    """

    last: ms.BlockInfo
    producers: tuple[ms.BlockInfo, ...]
    strips: frozenset[str]

    def bytes(self) -> int:
        return sum(b.dtype.bytes * (b.size(b.spatial) or 0) for b in self.producers)


def _find_obstacle(chain: _Chain, fewest_bytes: int) -> str | None:
    reductions = [b for b in (chain.last, *chain.producers) if b.reduces]
    if not any(_reuses(b) for b in chain.producers):
        return "none of its producers is a reduction that tiles are for"
    if len(reductions) < 2:
        return "only one block of its chain is a reduction"
    if not chain.strips:
        return "its producers have no strips in common with it"
    if chain.bytes() < fewest_bytes:
        return f"its intermediate results are so small ({chain.bytes()} bytes)"
    return None


def _compute(sch: ms.Schedule, chain: _Chain, largest: int) -> list[ms.LoopRV]:
    """Move the producers to the strips; the loops over these."""
    outer, inner = [], []
    for loop, it in zip(own_loops(sch, sch.get_block(chain.last.name), chain.last), chain.last.iters, strict=True):
        if it.name in chain.strips and it.extent != 1:
            over, within = sch.split(loop, sch.sample_tile(loop, parts=2, innermost=largest))
            outer.append(over)
            inner.append(within)
        else:
            inner.append(loop)
    sch.reorder(*outer, *inner)
    for info in chain.producers:
        sch.compute_at(sch.get_block(info.name), outer[-1])
        sch.set_scope(sch.get_block(info.name), "local")
    return outer


def _chain(sch: ms.Schedule, last: ms.BlockInfo) -> _Chain:
    """The producers that only this chain reads, as far as they move with some dimension of the last block. What is
    computed once, from constants, stays where it is.
    """
    along: dict[str, Counterparts] = {last.name: own_counterparts(last)}
    found = {last.name: last}
    shared = {it.name for it in last.spatial if it.extent != 1}
    for name in reversed(sch.block_names()):
        info = sch.describe(sch.get_block(name))
        if not info.readers or info.output or not set(info.readers) <= found.keys():
            continue
        if not info.trivial or info.positions or info.once:
            continue
        counterparts = near_counterparts(info, [(found[r], along[r]) for r in info.readers])
        if shared & set(counterparts.values()):
            shared &= set(counterparts.values())
            found[name] = info
            along[name] = counterparts
    return _Chain(last, tuple(b for b in found.values() if b is not last), frozenset(shared))


def _reuses(info: ms.BlockInfo) -> bool:
    """Whether a reduction uses elements again for several of its results along two dimensions or more."""
    moving = {it.name for it in info.spatial if it.extent != 1}
    return info.reduces and len(moving) > 1 and any(moving - read.iters for read in info.reads)

"""Chains of row reductions, such as softmax and norms, computed a row at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from metasched.rules.counterparts import Counterparts, exact_counterparts, own_counterparts

import metasched as ms

STORED, RECOMPUTED, APART = "rows, stored", "rows, recomputed", "apart"


@ms.rule
def row_chain(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Compute everything that a row of a result needs while that row is in the nearest cache.

    Applies to a block with reductions of its rows among its producers, which read the same rows: softmax, norms. All
    of these producers are computed at its loop over rows, in one decision. Structural choices: costly element-wise
    producers of whole rows are stored, a row at a time; or computed again wherever they are read; or all blocks are
    left to other rules. Cheap ones are computed where they are read.
    """
    info = sch.describe(block)
    if info.readers:
        return ms.skip("other blocks read its result; the last one decides")
    if not info.trivial:
        return ms.skip("it is scheduled already")
    chain = _chain(sch, info)
    reason = _find_obstacle(chain, sch.target.threads)
    if reason is not None:
        return ms.skip(reason)
    refusals = {how: sch.refusal(partial(chain.compute, how=how)) for how in chain.ways()}
    legal = [how for how, refusal in refusals.items() if refusal is None]
    if not legal:
        return ms.skip(next(iter(refusals.values())) or "")
    how = sch.choose("chain", [*legal, APART])
    if how != APART:
        chain.compute(sch, how)
    return None


@dataclass(frozen=True)
class _Chain:
    """A block with the producers of its rows, consumers first.

    `rows` names the iteration variables of the last block that number its rows. `along` says by block which variable of
    the last block each of its own is; None for one that is none.
    """

    last: ms.BlockInfo
    producers: tuple[ms.BlockInfo, ...]
    along: dict[str, Counterparts]
    rows: frozenset[str]

    def ways(self) -> list[str]:
        stored = any(self.in_rows(b) and _is_costly(b) for b in self.producers)
        return [STORED, RECOMPUTED] if stored else [STORED]

    def compute(self, sch: ms.Schedule, how: str) -> None:
        at = self._row_loop(sch)
        for info in self.producers:
            block = sch.get_block(info.name)
            if self.in_rows(info) and (how == RECOMPUTED or not _is_costly(info)):
                sch.compute_inline(block)
                continue
            sch.compute_at(block, at)
            if self.in_rows(info):
                sch.set_scope(block, "local")
            elif not info.reduces:
                sch.unroll(sch.get_loops(block)[-1])  # One iteration: nothing for lanes.

    def _row_loop(self, sch: ms.Schedule) -> ms.LoopRV:
        """The innermost loop over rows, after moving these outside of all others."""
        loops = sch.get_loops(sch.get_block(self.last.name))
        outer = [loop for loop, it in zip(loops, self.last.iters, strict=True) if it.name in self.rows]
        inner = [loop for loop, it in zip(loops, self.last.iters, strict=True) if it.name not in self.rows]
        if loops[: len(outer)] != outer:
            sch.reorder(*outer, *inner)
        return outer[-1]

    def in_rows(self, info: ms.BlockInfo) -> bool:
        """Whether a block computes elements of rows, each from elements at its place."""
        return info.elementwise and len(info.spatial) > len(self.rows)

    def shares_rows(self) -> bool:
        """Whether two of the blocks read the same row of something."""
        seen: set[str] = set()
        for info in (self.last, *self.producers):
            along = self.along[info.name]
            rows = {read.buffer for read in info.reads if any(along[name] not in self.rows for name in read.iters)}
            if seen & rows:
                return True
            seen |= rows
        return False


def _is_costly(info: ms.BlockInfo) -> bool:
    return info.expensive or info.costly or info.conditional


def _find_obstacle(chain: _Chain, threads: int) -> str | None:
    if not any(b.reduces for b in chain.producers):
        return "none of what it reads is a reduction of its rows"
    if not chain.shares_rows():
        return "its producers read no row twice"
    if chain.last.spatial[-1].name in chain.rows:
        return "its rows do not lie along the last dimension"
    rows = chain.last.size(tuple(it for it in chain.last.spatial if it.name in chain.rows))
    if rows is None or rows < threads:
        return f"it has so few rows ({rows})"
    return None


def _chain(sch: ms.Schedule, last: ms.BlockInfo) -> _Chain:
    """The producers that only this chain reads, as far as they compute rows of the last block."""
    rows = set(last.spatial)
    along: dict[str, Counterparts] = {last.name: own_counterparts(last)}
    found = {last.name: last}
    for name in reversed(sch.block_names()):
        info = sch.describe(sch.get_block(name))
        if not info.readers or info.output or not set(info.readers) <= found.keys() or not _is_movable(info):
            continue
        counterparts = exact_counterparts(info, [(found[r], along[r]) for r in info.readers])
        shared = {it for it in rows if it.name in counterparts.values() or it.extent == 1}
        if last.size(tuple(shared)) != 1:
            rows = shared
            found[name] = info
            along[name] = counterparts
    producers = tuple(b for b in found.values() if b is not last)
    return _Chain(last, producers, along, frozenset(it.name for it in rows))


def _is_movable(info: ms.BlockInfo) -> bool:
    """Whether a block is not scheduled, and no reduction that tiles are for."""
    moving = {it.name for it in info.spatial if it.extent != 1}
    tiles = info.reduces and len(moving) > 1 and any(moving - read.iters for read in info.reads)
    return info.trivial and not tiles and not info.positions

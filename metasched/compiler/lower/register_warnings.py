"""Warnings of accumulators that stay in memory: why, and what to do.

A block has one for the first reason, and none if some of its accumulators are in registers further in.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from metasched.compiler.lower.nest import NestLoop
from metasched.schedule.annotations.unroll_limit import unroll_limit
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing


@dataclass(frozen=True)
class TooManyRegisters:
    """A tile that takes more vector registers than are left."""

    needed: int
    left: int

    def __str__(self) -> str:
        return f"they take {self.needed} vector registers, and {self.left} are left. Make its innermost tile smaller"


@dataclass(frozen=True)
class LoopsNotUnrolled:
    """A tile that would fit in registers if its loops were unrolled, into `copies` of a statement."""

    needed: int
    loops: tuple[str, ...]
    copies: int

    def __str__(self) -> str:
        names = listing(self.loops)
        return (
            f"they would take {self.needed} vector registers, and {names} "
            f"{'is' if len(self.loops) == 1 else 'are'} not unrolled. "
            f'Unroll the tile: annotate(block, "{unroll_limit.name}", {self.copies})'
        )


class RegisterWarnings:
    """The reasons so far."""

    def __init__(self) -> None:
        self._reasons: dict[str, TooManyRegisters | LoopsNotUnrolled] = {}
        self._promoted: set[str] = set()

    def note_too_many(self, block: str, needed: int, left: int) -> None:
        """Note that the accumulators of a block take more registers than are left."""
        if not isinstance(self._reasons.get(block), TooManyRegisters):
            self._reasons[block] = TooManyRegisters(needed, left)

    def note_rolled(self, block: str, needed: int, tile: Sequence[NestLoop], inner: Sequence[NestLoop]) -> None:
        """Note that accumulators would fit if all loops of `tile` were unrolled; `inner` are those around the block."""
        repeated = inner[inner.index(tile[0]) :]
        reason = LoopsNotUnrolled(needed, tuple(loop.var for loop in tile), prod(loop.steps for loop in repeated))
        self._reasons.setdefault(block, reason)

    def note_promoted(self, block: str) -> None:
        """Note that a block's accumulators are in registers, though perhaps not around all of its reduction."""
        self._promoted.add(block)

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each block that has none in registers."""
        return tuple(
            f"the accumulators of `{block}` stay in memory: {why}"
            for block, why in self._reasons.items()
            if block not in self._promoted
        )

"""What the rules here tell each other: typed facts on a block, which never enter a trace."""

from __future__ import annotations

from dataclasses import dataclass

from metasched import LoopRV


@dataclass(frozen=True)
class Tiled:
    """The block was tiled; `outer` are its outermost spatial tile loops, which threads can share."""

    outer: tuple[LoopRV, ...]


@dataclass(frozen=True)
class Factored:
    """The block is one side of a factored reduction, and is not tiled again.

    `lanes` is the iteration variable along which partial results lie next to each other, one for each vector lane.
    """

    lanes: str | None = None


@dataclass(frozen=True)
class SmallNests:
    """Whether threads share the nests that are neither small enough nor large enough for it to be clear."""

    threads: bool


@dataclass(frozen=True)
class Vectorized:
    """The block has a vector loop."""

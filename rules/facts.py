"""The typed facts on blocks that rules exchange; they are not recorded in a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from metasched import Int, LoopRV


@dataclass(frozen=True)
class Tiled:
    """The block was tiled.

    `outer` are its outermost spatial tile loops, which threads can share. `inner` is the innermost tile of each spatial
    iteration variable that was split, by name. `terms` is the last loop of the outermost reduction level: a copy under
    it has what one tile of terms reads.
    """

    outer: tuple[LoopRV, ...]
    inner: Mapping[str, Int] = field(default_factory=dict)
    terms: LoopRV | None = None


@dataclass(frozen=True)
class Digits:
    """Loops of the block are split: `digits` are unrolled, and decide conditions; `rest` are the loops left to tile.

    Both are for each of its iteration variables, in order; a variable that is whole has no digit.
    """

    rest: tuple[LoopRV, ...]
    digits: tuple[LoopRV | None, ...]


@dataclass(frozen=True)
class Factored:
    """The block is one side of a factored reduction, and is not tiled again.

    `lanes` is the iteration variable along which partial results are contiguous, one for each vector lane. `instances`
    is how many it has at most, whatever the number of partial results.
    """

    lanes: str | None = None
    instances: int | None = None


@dataclass(frozen=True)
class Placed:
    """The block is computed where it is, for all that read it."""


@dataclass(frozen=True)
class SmallNests:
    """The program-wide choice whether nests of medium size run on several threads."""

    threads: bool


@dataclass(frozen=True)
class InRuns:
    """The block's innermost loop goes over a run of several vectors."""


@dataclass(frozen=True)
class Vectorized:
    """The block has a vector loop."""


@dataclass(frozen=True)
class Strip:
    """The block is computed in strips of the last block's result: `loops` go through the strips, outermost first."""

    loops: tuple[LoopRV, ...]


@dataclass(frozen=True)
class Threaded:
    """Another rule has decided which loops of the block's nest threads share."""


@dataclass(frozen=True)
class Repeated:
    """The program is run again and again with the same constants, as a step of a recurrent layer is: a call finds them
    in the caches where the call before has left them.
    """


@dataclass(frozen=True)
class Apart:
    """The block is a stage of a group that was not made."""

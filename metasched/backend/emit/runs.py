"""Reads whose lanes are in another order than memory, of which some neighbours make up all: vectors, and shuffles.

`B[4*k + l % 4, j + l // 4]` over 64 lanes `l` is four rows of 16 neighbours. Loading these and shuffling takes a few
instructions, where a gather takes one load for each lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metasched.ir.nodes import Binary, Const, Expr, Unary, Var

_MOST = 8  # more loads, and a gather is as good
_SHORTEST = 4


@dataclass(frozen=True)
class Runs:
    """Where the runs start and how long they are, in elements, and which element of all of them each lane takes."""

    starts: tuple[int, ...]
    length: int
    picks: tuple[int, ...]


def find_runs(offsets: Sequence[int]) -> Runs | None:
    """The runs that lanes read at `offsets`, if they are few, as long as one another and no element is unused."""
    distinct = sorted(set(offsets))
    starts = [at for n, at in enumerate(distinct) if n == 0 or distinct[n - 1] != at - 1]
    count, length = len(starts), len(distinct) // len(starts)
    whole = [start + n for start in starts for n in range(length)]
    if count > _MOST or count & (count - 1) or length < _SHORTEST or whole != distinct:
        return None
    place = {at: n for n, at in enumerate(distinct)}
    return Runs(tuple(starts), length, tuple(place[at] for at in offsets))


def is_arithmetic(e: Expr) -> bool:
    """Whether an index is arithmetic of variables alone: nothing in it is read, cast or called."""
    return all(isinstance(node, Const | Var | Unary | Binary) for node in e.walk())

"""Reads whose lanes are in another order than memory, of which some neighbours make up all: vectors, and shuffles.

`B[4*k + l % 4, j + l // 4]` over 64 lanes `l` is four rows of 16 neighbours. Loading these and shuffling takes a few
instructions, where a gather takes one load for each lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from metasched.compiler.cpu.emit.text import FunctionText
from metasched.compiler.cpu.emit.types import SSAValue, memory_text
from metasched.dtypes import DType
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


def shuffled(text: FunctionText, parts: Sequence[str], dtype: DType, runs: Runs) -> SSAValue:
    """Lanes picked from a vector for each run, which are joined two by two until there are two."""
    length, shuffle = runs.length, "shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>"
    while len(parts) > 2:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        type_, picks = memory_text(dtype, length), _numbers(range(2 * length))
        parts = [text.pure(shuffle.format(type_, a, b, 2 * length, picks)) for a, b in pairs]
        length *= 2
    a, b = parts if len(parts) == 2 else (*parts, "poison")
    width, picks = len(runs.picks), _numbers(runs.picks)
    return SSAValue(text.pure(shuffle.format(memory_text(dtype, length), a, b, width, picks)), dtype, width)


def _numbers(lanes: Sequence[int]) -> str:
    return ", ".join(f"i32 {n}" for n in lanes)

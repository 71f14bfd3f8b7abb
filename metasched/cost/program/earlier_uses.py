"""Reads of what an earlier statement has just used, in the same iteration of the loops around both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from metasched.ir import query
from metasched.ir.nodes import For, LoopKind
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class EarlierUse:
    """A read of a statement, by number of the access, with the access `used` of the `earlier` statement, by number of
    it.

    `levels` are, of every statement from the earlier one to this one, its number and how many of its loops are around
    both.
    """

    read: int
    earlier: int
    used: int
    levels: tuple[tuple[int, int], ...]


class _Access(Protocol):
    @property
    def buffer(self) -> str: ...
    @property
    def is_store(self) -> bool: ...
    @property
    def is_register(self) -> bool: ...


class _Statement(Protocol):
    @property
    def accesses(self) -> Sequence[_Access]: ...
    @property
    def loops(self) -> Sequence[object]: ...


def earlier_uses(statements: Sequence[_Statement], loops: Sequence[tuple[For, ...]]) -> list[tuple[EarlierUse, ...]]:
    """The earlier uses of each statement's accesses, of the nearest statement before it that has them.

    `loops` are those of the program around each statement; one may have more, where a parallel one was taken apart.
    """
    return [tuple(_uses_of_statement(n, statements, loops)) for n in range(len(statements))]


def _uses_of_statement(
    n: int, statements: Sequence[_Statement], loops: Sequence[tuple[For, ...]]
) -> Iterator[EarlierUse]:
    common = [len(query.common_loops(loops[n], loops[m])) for m in range(n)]
    for read, access in enumerate(statements[n].accesses):
        if access.is_store or access.is_register:
            continue
        for earlier in reversed(range(n)):
            used = _access_number(access.buffer, statements[earlier])
            if used is not None:
                if common[earlier]:
                    around = range(earlier, n + 1)
                    levels = tuple((m, _loop_count(common[earlier], statements[m], loops[m])) for m in around)
                    yield EarlierUse(read, earlier, used, levels)
                break


def _access_number(buffer: str, statement: _Statement) -> int | None:
    return next((n for n, access in enumerate(statement.accesses) if access.buffer == buffer), None)


def _loop_count(depth: int, statement: _Statement, loops: tuple[For, ...]) -> int:
    """How many loops of a statement the outermost `depth` of the program around it are."""
    parallel = next((n for n, loop in enumerate(loops) if loop.kind is LoopKind.PARALLEL), len(loops))
    return depth + len(statement.loops) - len(loops) if depth > parallel else depth

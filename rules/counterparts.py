"""Which iteration variables of a block are rows of another, as the reads between them say."""

from __future__ import annotations

from collections.abc import Callable

import metasched as ms

Counterparts = dict[str, str | None]


def own_counterparts(last: ms.BlockInfo) -> Counterparts:
    """The last block's own counterparts: its spatial variables."""
    return {it.name: None if it.reduces else it.name for it in last.iters}


def exact_counterparts(info: ms.BlockInfo, readers: list[tuple[ms.BlockInfo, Counterparts]]) -> Counterparts:
    """Which variable of the last block each of a block's is, where all that read it do so at exactly that place."""
    return _merge_counterparts(info, readers, lambda names: next(iter(names)) if len(names) == 1 else None)


def near_counterparts(info: ms.BlockInfo, readers: list[tuple[ms.BlockInfo, Counterparts]]) -> Counterparts:
    """Which variable of the last block each of a block's moves with, such as `h` where `2*h + r` is read."""

    def moving(names: frozenset[str | None]) -> str | None:
        found = names - {None}
        return next(iter(found)) if len(found) == 1 else None

    return _merge_counterparts(info, readers, moving)


def _merge_counterparts(
    info: ms.BlockInfo,
    readers: list[tuple[ms.BlockInfo, Counterparts]],
    of_index: Callable[[frozenset[str | None]], str | None],
) -> Counterparts:
    """The counterpart of each variable by what `of_index` finds in each index of each read, None where reads differ."""
    seen: list[set[str | None]] = [set() for _ in info.spatial]
    for reader, along in readers:
        for read in reader.reads:
            if read.buffer == info.writes:
                for names, uses in zip(seen, read.uses, strict=True):
                    names.add(of_index(frozenset(along[name] for name in uses)))
    found: Counterparts = {it.name: None for it in info.reduction}
    for it, names in zip(info.spatial, seen, strict=True):
        found[it.name] = next(iter(names)) if len(names) == 1 else None
    return found

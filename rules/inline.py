"""Inlining of cheap element-wise blocks."""

from __future__ import annotations

import math

from metasched.rules.consumers import has_same_elements, reuses

import metasched as ms

INLINED, KEPT = "inlined", "kept"
_BYTE = 8  # bits


@ms.rule
def inline(sch: ms.Schedule, block: ms.BlockRV, *, largest: int = 64, often: int = 64) -> ms.Skip | None:
    """Compute a cheap element-wise block where it is read, and store nothing.

    Blocks with a condition, such as padding, are left to the rule `compute_location`, which weighs inlining against
    computing them once; so are blocks with expensive functions. What follows a reduction with tiles, such as an
    activation, and is read by anything but another of its kind is left to `multi_level_tiling`: with a tile, it is
    computed once and stored in place of the sum. Structural choices: a block that reads dimensions in another order,
    such as a transpose, is inlined, or kept for `compute_location` to place; and so is one with a division or a root,
    where a reduction reads it again and again, or with any arithmetic, where it does so `often` or the results are
    bytes, which instructions multiply if they are in memory.

    Args:
        largest: operations that a block may have after inlining what it reads more than once.
        often: terms of a reduction that read an element, from which on its arithmetic may be worth its memory.
    """
    info = sch.describe(block)
    reason = _find_obstacle(info) or _too_large(sch, info, largest) or _find_tiles_obstacle(sch, info)
    reason = reason or sch.refusal(lambda trial: trial.compute_inline(block))
    if reason is not None:
        return ms.skip(reason)
    if not _reads_in_order(info) and sch.choose("transpose", [INLINED, KEPT]) == KEPT:
        return None
    repeated = _count_repeats(sch, info)
    if info.costly and repeated > 1 and sch.choose("division", [INLINED, KEPT]) == KEPT:
        return None
    if not info.costly and info.operations and _keeps_arithmetic(sch, info, repeated, often):
        return None
    sch.compute_inline(block)
    return None


def _keeps_arithmetic(sch: ms.Schedule, info: ms.BlockInfo, repeated: float, often: int) -> bool:
    """Whether arithmetic that a reduction repeats is kept, if it may be worth it: bytes rather than anything else, as
    what reads them is the faster by several times where an instruction multiplies them."""
    if info.dtype.bits == _BYTE and repeated > 1:
        return sch.choose("arithmetic", [KEPT, INLINED]) == KEPT
    return repeated >= often and sch.choose("arithmetic", [INLINED, KEPT]) == KEPT


def _find_obstacle(info: ms.BlockInfo) -> str | None:
    if info.reduces:
        return "it is a reduction"
    if info.unpacks:
        return "it unpacks weights, which `unpacking` and `compute_location` place"
    if info.output:
        return "it writes an output"
    if info.conditional:
        return "it has a condition; compute_location decides where it is computed"
    if not info.elementwise:
        return "it is not element-wise"
    if info.expensive:
        return "it calls a costly function"
    if not info.trivial:
        return "it is scheduled already"
    return None


def _too_large(sch: ms.Schedule, info: ms.BlockInfo, largest: int) -> str | None:
    """Why inlining would make a reader too large, counting the block once for every read; None if it would not."""
    for reader in (sch.describe(sch.get_block(name)) for name in info.readers):
        reads = sum(read.buffer == info.writes for read in reader.reads)
        operations = reader.operations + reads * info.operations
        if reads > 1 and operations > largest:
            return f"`{reader.name}` reads it {reads} times and would have {operations} operations"
    return None


def _find_tiles_obstacle(sch: ms.Schedule, info: ms.BlockInfo) -> str | None:
    """Why a block is better computed with the tiles of the reduction that it follows; None where it is not."""
    if all(sch.describe(sch.get_block(name)).elementwise for name in info.readers):
        return None
    start = _followed_reduction(sch, info)
    return None if start is None else f"it ends what `{start}` computes in tiles, and is read at other places"


def _followed_reduction(sch: ms.Schedule, info: ms.BlockInfo) -> str | None:
    """The reduction with tiles that a block follows, alone, through others that are element-wise; None without one."""
    for producer in (sch.describe(sch.get_block(name)) for name in info.sources):
        if producer.output or producer.readers != (info.name,) or not has_same_elements(info, producer):
            continue
        if producer.reduces:
            return producer.name if reuses(producer) else None
        if producer.elementwise:
            return _followed_reduction(sch, producer)
    return None


def _count_repeats(sch: ms.Schedule, info: ms.BlockInfo) -> float:
    """For how many terms of a reduction an element is computed where it is inlined, at most."""
    if info.instances is None:
        return 1.0
    readers = [sch.describe(sch.get_block(name)) for name in info.readers]
    terms = [math.inf if r.instances is None else r.instances / info.instances for r in readers if r.reduces]
    return max(terms, default=1.0)


def _reads_in_order(info: ms.BlockInfo) -> bool:
    """Whether every read takes the iteration variables in the order in which they are written."""
    order = [it.name for it in info.iters]
    return all(
        places == sorted(places)
        for read in info.reads
        if (places := [order.index(name) for use in read.uses for name in use])
    )

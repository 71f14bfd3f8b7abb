"""Stages of a pipeline in groups, each computed row by row in strips that threads share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from metasched.rules.counterparts import Counterparts, near_counterparts, own_counterparts
from metasched.rules.facts import Apart, Factored, Threaded, Tiled

import metasched as ms

GROUPED, APART = "grouped", "apart"


@ms.rule
def grouping(
    sch: ms.Schedule,
    block: ms.BlockRV,
    *,
    shares: tuple[int, ...] = (2, 4, 8, 16),
    terms: int = 64,
    inlined: int = 24,
    recomputed: float = 1.5,
    tiny: int = 1 << 16,
) -> ms.Skip | None:
    """Compute the stages that a result is made of together, row by row, and keep only the rows that are read again.

    Applies to a block with stencils among the stages that only it needs: filters one after another, gradients and
    their products. As many of these stages as move with its rows are grouped with it, as in Mullapudi et al. 2016
    (section 3): storage between stages is then a few rows in a cache (Halide's sliding window), where stages one after
    another go through memory. A stage that is computed once for each element where it is read, or again with little
    work, is computed there; a coarser image counts as often as finer ones read it. One that would be computed too often
    begins a group of its own. Threads share strips of rows, of a sampled number; a strip's first rows are computed for
    its neighbour, too. What a core's second cache does not hold is always grouped; for anything else it is a structural
    choice: grouped, or apart.

    Args:
        shares: the possible numbers of strips for each thread.
        terms: the most terms of a stage that is a reduction; those of more are left to rules for tiles.
        inlined: operations and loads by which computing an element where it is read may exceed storing it.
        recomputed: how often an element of a stage may be computed, on average, for the stage to be in the group.
        tiny: instances below which threads take longer to start than they gain.
    """
    info = sch.describe(block)
    reason = _find_obstacle(sch, block, info, terms, tiny)
    if reason is not None:
        return ms.skip(reason)
    group = _largest_group(sch, info, _Limits(terms, inlined, recomputed, shares))
    if group is None:
        return ms.skip("no stages that only it needs are stencils that move with its rows")
    if group.bytes() > sch.target.l2 or sch.choose("stages", [GROUPED, APART]) == GROUPED:
        group.compute(sch)
    else:
        for member in group.members:
            sch.add_fact(sch.get_block(member.name), Apart())
    return None


def _find_obstacle(sch: ms.Schedule, block: ms.BlockRV, info: ms.BlockInfo, terms: int, tiny: int) -> str | None:
    if not info.trivial or sch.facts(block, Tiled) is not None or sch.facts(block, Factored) is not None:
        return "it is scheduled already"
    if sch.facts(block, Apart) is not None:
        return "the stages of its group are apart"
    if info.positions or not _has_few_terms(info, terms):
        return "it is a reduction that tiles are for"
    if len(info.spatial) < 2:
        return "its result has no rows"
    if info.instances is not None and info.instances < tiny:
        return f"it is so small ({info.instances} instances) that starting threads would take longer"
    return None


def _has_few_terms(info: ms.BlockInfo, terms: int) -> bool:
    """Whether a block has few terms an element, if any."""
    found = info.size(info.reduction)
    return found is not None and found <= terms


@dataclass(frozen=True)
class _Limits:
    """What the rule is set to, under the names of its settings."""

    terms: int
    inlined: int
    recomputed: float
    shares: tuple[int, ...]


@dataclass(frozen=True)
class _Group:
    """A block with the stages that are computed at its rows, consumers first.

    `row` is the place of its iteration variable that rows are counted along. `inlined` names those that are computed
    where they are read.
    """

    last: ms.BlockInfo
    members: tuple[ms.BlockInfo, ...]
    row: int
    inlined: frozenset[str]
    shares: tuple[int, ...]

    def bytes(self) -> int:
        """What the stages that are not computed where they are read would take, each as a whole."""
        stored = (member for member in self.members if member.name not in self.inlined)
        return sum(member.dtype.bytes * (member.size(member.spatial) or 0) for member in stored)

    def compute(self, sch: ms.Schedule) -> dict[str, float]:
        """How often an element of each stored stage is computed, on average, strips' first rows aside.

        Raises ScheduleError where a member cannot move.
        """
        for member in self.members:
            if member.name in self.inlined:
                sch.compute_inline(sch.get_block(member.name))
        block = sch.get_block(self.last.name)
        loops = sch.get_loops(block)
        row = loops.pop(self.row)
        strip, within = sch.split(row, [None, sch.sample_categorical(self._rows(sch.target.threads), name="rows")])
        if loops[: self.row]:
            sch.reorder(strip, within, *loops)
        stored = [sch.get_block(m.name) for m in self.members if m.name not in self.inlined]
        for stage in stored:
            sch.compute_at(stage, within)
        times = {}
        for stage in stored:
            if sch.refusal(partial(_keep, stage=stage, strip=strip)) is None:
                _keep(sch, stage, strip)
            else:
                times[sch.describe(stage).name] = self._times(sch.describe(stage))
                sch.set_scope(stage, "local")
        sch.parallel(strip)
        for stage in (block, *stored):
            sch.add_fact(stage, Threaded())
        return times

    def _times(self, info: ms.BlockInfo) -> float:
        """How often an element is computed where each row of the last block has all that it needs computed for it."""
        rows, own = self.last.spatial[self.row].extent, info.extents[2:]
        if rows is None or info.instances is None or None in own:
            return math.inf
        return rows * math.prod(extent or 1 for extent in own) / info.instances

    def _rows(self, threads: int) -> list[int]:
        """The possible rows of a strip, so many strips for each thread."""
        extent = self.last.spatial[self.row].extent
        assert extent is not None
        return list(dict.fromkeys(-(-extent // (share * threads)) for share in self.shares))


def _keep(sch: ms.Schedule, stage: ms.BlockRV, strip: ms.LoopRV) -> None:
    sch.store_at(stage, strip)


def _largest_group(sch: ms.Schedule, last: ms.BlockInfo, limits: _Limits) -> _Group | None:
    """The group of the most stages, along any dimension that rows can be counted along; None without a stencil."""
    rows = [n for n, it in enumerate(last.spatial[:-1]) if it.extent not in (None, 1)]
    found = [group for row in rows if (group := _group_along(sch, last, row, limits)) is not None]
    return max(found, key=lambda group: len(group.members), default=None)


def _group_along(sch: ms.Schedule, last: ms.BlockInfo, row: int, limits: _Limits) -> _Group | None:
    """The stages that move with a dimension, without those that would be computed too often and all before them."""
    left_out: set[str] = set()
    while True:
        members = _members(sch, last, last.spatial[row].name, limits.terms, left_out)
        group = _Group(last, members, row, frozenset(_cheap_stages(sch, members, limits.inlined)), limits.shares)
        if not _is_worthwhile(sch, group):
            return None
        times: dict[str, float] = {}

        def attempt(on: ms.Schedule, group: _Group = group, times: dict[str, float] = times) -> None:
            times.update(group.compute(on))

        refused = sch.refusal(attempt) is not None
        too_often = {name for name, n in times.items() if n > limits.recomputed}
        if not refused and not too_often:
            return group
        left_out |= too_often or {members[-1].name}


def _members(
    sch: ms.Schedule, last: ms.BlockInfo, row: str, terms: int, left_out: set[str]
) -> tuple[ms.BlockInfo, ...]:
    """The stages that only this block and each other need, and that move with its rows, consumers first."""
    along: dict[str, Counterparts] = {last.name: own_counterparts(last)}
    found = {last.name: last}
    for name in reversed(sch.block_names()):
        info = sch.describe(sch.get_block(name))
        if name in left_out or not info.readers or info.output or not set(info.readers) <= found.keys():
            continue
        if not info.trivial or info.positions or not _has_few_terms(info, terms):
            continue
        counterparts = near_counterparts(info, [(found[r], along[r]) for r in info.readers])
        if row in counterparts.values():
            found[name], along[name] = info, counterparts
    return tuple(info for info in found.values() if info is not last)


def _reads_of(sch: ms.Schedule, member: ms.BlockInfo) -> Iterator[tuple[ms.BlockInfo, int]]:
    """The blocks that read a stage, each with the number of places at which it does."""
    for name in member.readers:
        reader = sch.describe(sch.get_block(name))
        yield reader, len({read.place for read in reader.reads if read.buffer == member.writes})


def _cheap_stages(sch: ms.Schedule, members: tuple[ms.BlockInfo, ...], most: int) -> Iterator[str]:
    """The stages to compute where they are read: once for each element, or with little more work than storing takes."""
    times: dict[str, float] = {}
    for member in members:
        reads = list(_reads_of(sch, member))
        found = sum(n * times.get(reader.name, 1) * _ratio(reader, member) for reader, n in reads)
        fixed = member.reduces or member.expensive or member.costly or member.conditional
        if fixed or any(reader.reduces for reader, _ in reads):
            continue
        if found <= 1 or _work_again(member, found) <= most:
            times[member.name] = found
            yield member.name


def _ratio(reader: ms.BlockInfo, member: ms.BlockInfo) -> float:
    """How many elements a reader has for each of a stage: more than 1 where it is as a finer image."""
    return reader.instances / member.instances if reader.instances and member.instances else 1.0


def _work_again(member: ms.BlockInfo, times: float) -> float:
    """Operations and loads for an element that is computed so often, beyond those where it is stored and loaded."""
    return (times - 1) * (member.operations + len(member.reads) - 1) - 2


def _is_worthwhile(sch: ms.Schedule, group: _Group) -> bool:
    """Whether a stage that computes something is read at several places by one in the group.

    Filters that are all written as reductions are left to the rule `rolling`, which orders the loops of each.
    """
    return any(
        _computes(member) and n > 1 and not reader.elementwise and not reader.reduces
        for member in group.members
        for reader, n in _reads_of(sch, member)
    )


def _computes(member: ms.BlockInfo) -> bool:
    """Whether a stage is more than a copy within borders: where it has a condition, a stencil itself."""
    stencil = len({(read.buffer, read.place) for read in member.reads}) > len({read.buffer for read in member.reads})
    return bool(member.operations) and (stencil or not member.conditional)

"""Where the time of a kernel's call goes: each nest's, and what share of the machine's limit it reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from metasched.ir.nodes import Func
from metasched.ir.notebook import TextReport, table
from metasched.ir.work import speed_text
from metasched.report.limits import Bound, Ceilings, StageLimits
from metasched.report.progress_text import duration
from metasched.runtime.callable_kernel import CallableKernel
from metasched.runtime.part_times import PartTime, PartTimes, part_times
from metasched.support.data_classes import dataclass

_WIDTH = 48
_HEADER = ("time", "share", "threads busy", "speed", "of the limit", "bound by")


@dataclass(frozen=True)
class PartProfile:
    """A part of a kernel: a nest at the root of the scheduled program, or a part of one.

    Attributes:
        blocks: the blocks that it computes.
        loops: the loops that it is, by variable and number of iterations, outermost first; empty for several in a row.
        depth: 0 for a nest at the root, 1 for a part of one.
        seconds: from its beginning to its end; a part inside a loop that runs on threads has the mean over them.
        share: of the call.
        threads: how many threads it ran on.
        busy: the share of these threads' time in which they computed: the rest is for starting them and for waiting.
        operations: on data; a multiply-add counts as two.
        nbytes: of the arrays that it touches beyond its own loops, each counted once.
        limit_seconds: the least time that the machine could take.
        bound: what that is for.
    """

    blocks: tuple[str, ...]
    loops: tuple[tuple[str, int], ...]
    depth: int
    seconds: float
    share: float
    threads: int
    busy: float
    operations: float
    nbytes: float
    limit_seconds: float
    bound: Bound

    @property
    def of_limit(self) -> float:
        """The share that the part reaches of what the machine could do."""
        return self.limit_seconds / self.seconds if self.seconds else 0.0

    @property
    def name(self) -> str:
        """The blocks, for a person."""
        return ", ".join(self.blocks)

    @property
    def speed(self) -> str:
        """For a person: of what bounds it, arithmetic or bytes."""
        if not self.seconds:
            return ""
        if self.bound is Bound.ARITHMETIC:
            return speed_text(self.operations / self.seconds / 1e9, None)
        return f"{self.nbytes / self.seconds / 1e9:.1f} GB/s"

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, in seconds and bytes."""
        return asdict(self) | {"bound": self.bound.value, "of_limit": self.of_limit}


@dataclass(frozen=True, repr=False)
class CallProfile(TextReport):
    """Where the time of a kernel's call goes.

    Attributes:
        kernel: its program, with parameters.
        parts: nests in the order in which they run, the parts of each behind it.
        seconds: the median of calls from Python, of the kernel as it is.
        counters_cost: what the counters added to a call, as a share of it, by the shortest of each; noise may make it
            negative.
        runs: how many calls the medians are over.
        ceilings: what the machine can do at most.
    """

    kernel: str
    parts: tuple[PartProfile, ...]
    seconds: float
    counters_cost: float
    runs: int
    ceilings: Ceilings

    @property
    def nests(self) -> tuple[PartProfile, ...]:
        """The nests at the root."""
        return tuple(part for part in self.parts if part.depth == 0)

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values, in seconds and bytes."""
        return asdict(self) | {
            "parts": [part.to_json() for part in self.parts],
            "ceilings": self.ceilings.to_json(),
        }

    def __str__(self) -> str:
        rows = [_HEADER, *(row[1:] for row in self._rows())]
        widths = [max(len(row[n]) for row in rows) for n in range(len(_HEADER))]
        names = ["nest", *(row[0] for row in self._rows())]
        lines = [
            "  ".join([*(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)), name]).rstrip()
            for row, name in zip(rows, names, strict=True)
        ]
        return "\n".join([self._title, *lines, *self._notes()])

    def _repr_html_(self) -> str:
        rows = [("nest", *_HEADER), *self._rows()]
        return table(self._title, [*rows, *(("", note) for note in self._notes())])

    @property
    def _title(self) -> str:
        return f"{self.kernel}: {duration(self.seconds)} a call (median of {self.runs})"

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for part in self.parts:
            loops = " ".join(f"{var}:{extent}" for var, extent in part.loops)
            name = f"{'  ' * part.depth}{part.name}{f' ({loops})' if loops else ''}"
            yield (
                name if len(name) <= _WIDTH else f"{name[: _WIDTH - 3]}...",
                duration(part.seconds),
                f"{part.share:.1%}",
                f"{part.busy:.0%} of {part.threads}" if part.depth == 0 else "",
                part.speed,
                f"{part.of_limit:.0%}",
                part.bound.value,
            )

    def _notes(self) -> list[str]:
        return [
            f"counters: {self.counters_cost:+.1%} of a call, in a variant of the kernel; its own code is as it was",
            f"limits: {self.ceilings.source}",
        ]


def profile_kernel(kernel: CallableKernel, func: Func, inputs: tuple[Any, ...], runs: int) -> CallProfile:
    """Run a kernel on these inputs, and say where its time goes. `func` is the scheduled program that it was compiled
    from.

    Raises KernelError for inputs that it cannot take.
    """
    times = part_times(kernel, func, inputs, runs)
    limits = StageLimits(func, kernel.target)
    whole = sum(time.seconds for time in times.parts if time.part.parent is None)
    parts = tuple(_profiles(times, limits, max(whole, 1e-12)))
    return CallProfile(kernel.program.key, parts, times.seconds, times.cost, times.runs, limits.ceilings)


def _profiles(times: PartTimes, limits: StageLimits, whole: float) -> Iterator[PartProfile]:
    for number, time in enumerate(times.parts):
        if time.part.parent is None:
            yield _profile(time, limits, whole, times, number)
            for part, threads in _parts_inside(times.parts, number):
                yield _profile_inside(part, limits, whole, threads)


def _profile(time: PartTime, limits: StageLimits, whole: float, times: PartTimes, number: int) -> PartProfile:
    on_threads = [part for part in times.parts if part.part.on_threads and part.part.parent == number]
    threads = max((part.threads for part in on_threads), default=1)
    computing = sum(part.seconds for part in on_threads)
    busy = computing / (threads * time.seconds) if on_threads and time.seconds else 1.0
    return _part_profile(time, limits, whole, 0, time.seconds, threads, min(busy, 1.0))


def _profile_inside(time: PartTime, limits: StageLimits, whole: float, threads: int) -> PartProfile:
    return _part_profile(time, limits, whole, 1, time.seconds / threads, threads, 1.0)


def _part_profile(
    time: PartTime, limits: StageLimits, whole: float, depth: int, seconds: float, threads: int, busy: float
) -> PartProfile:
    limit = limits.limit_of(time.part.blocks)
    return PartProfile(
        blocks=time.part.blocks,
        loops=time.part.loops,
        depth=depth,
        seconds=seconds,
        share=seconds / whole,
        threads=threads,
        busy=busy,
        operations=limit.operations,
        nbytes=limit.nbytes,
        limit_seconds=limit.seconds,
        bound=limit.bound,
    )


def _parts_inside(parts: Sequence[PartTime], nest: int) -> Iterator[tuple[PartTime, int]]:
    """The parts right inside a nest, and over how many threads each is summed."""
    for number, time in enumerate(parts):
        if time.part.parent != nest:
            continue
        if not time.part.on_threads:
            yield time, 1
        elif time.part.blocks != parts[nest].part.blocks:
            yield time, time.threads
        else:
            yield from ((part, time.threads) for part in parts if part.part.parent == number)

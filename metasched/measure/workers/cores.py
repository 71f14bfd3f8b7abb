"""Which cores are for timing and which for building, where there are more than a kernel's threads take."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from metasched.support.data_classes import dataclass

_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@dataclass(frozen=True)
class CoreShare:
    """Logical CPUs by what they are for while something is timed. No core of the ones has a thread of the others."""

    timing: frozenset[int]
    building: frozenset[int]


def share_of(threads: int, cpus: Set[int], siblings: Callable[[int], Iterable[int]]) -> CoreShare | None:
    """The first `threads` cores for timing, the others for building; None where there are no others.

    `cpus` are the logical CPUs that may be used, `siblings` gives those of the core of one.
    """
    cores = list(dict.fromkeys(frozenset(siblings(cpu)) & cpus for cpu in sorted(cpus)))
    if len(cores) <= threads:
        return None
    timing = frozenset(min(core) for core in cores[:threads])  # one thread a core: its siblings are idle
    return CoreShare(timing, frozenset().union(*cores[threads:]))


def shared_cores(threads: int) -> CoreShare | None:
    """The share of this process's CPUs. None where it is not known which of them share a core."""
    try:
        return share_of(threads, os.sched_getaffinity(0), siblings_of)
    except (AttributeError, OSError, ValueError):  # not Linux, or a container that does not say
        return None


def siblings_of(cpu: int) -> Iterable[int]:
    """The logical CPUs that share a core with one, itself included. Raises OSError where the system does not say."""
    for part in Path(_SIBLINGS.format(cpu)).read_text().strip().split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def pin(process: int, cpus: Set[int]) -> None:
    """Have all threads of a process run on these CPUs. A thread, or a process, that has ended is passed over.

    Where the system has taken all these CPUs from us meanwhile, threads stay where it put them.
    """
    try:
        threads = [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]
    except FileNotFoundError:
        return
    for thread in threads:
        try:
            os.sched_setaffinity(thread, cpus)
        except ProcessLookupError:
            continue
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return


class RunsOnCores(Protocol):
    """What runs on some CPUs, and may be told to run on others."""

    def run_on(self, cpus: Set[int]) -> None: ...


@contextmanager
def kept_apart(builders: Sequence[RunsOnCores], share: CoreShare | None) -> Iterator[None]:
    """Keep builders to their own cores while the body runs, where there are any."""
    if share is None:
        yield
        return
    _spread(builders, share.building)
    try:
        yield
    finally:
        _spread(builders, os.sched_getaffinity(0))


def _spread(builders: Sequence[RunsOnCores], cpus: Set[int]) -> None:
    for builder in builders:
        builder.run_on(cpus)

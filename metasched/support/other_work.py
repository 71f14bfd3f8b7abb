"""What else uses this machine's cores meanwhile: other processes, and the host of a virtual machine."""

from __future__ import annotations

import os
import time

import psutil

from metasched.support.data_classes import dataclass

# Shares of a core: a desktop's background is below the first; above the second, every timing shares its core.
SOME, MUCH = 0.1, 0.5
# Of all time, what a host took from this virtual machine.
STOLEN_SHARE = 0.01
_MOST_NAMED = 3


@dataclass(frozen=True)
class OtherWork:
    """What ran beside this process for a while.

    `cores` are those that other processes used, `busiest` the most that one of them did, by name, and `stolen` is the
    share of the machine's time that its host gave to others.
    """

    cores: float
    stolen: float
    busiest: tuple[tuple[str, float], ...] = ()

    @property
    def disturbs(self) -> bool:
        """Whether times that were taken meanwhile cannot be trusted."""
        return self.cores > MUCH or self.stolen > STOLEN_SHARE

    def __str__(self) -> str:
        found = (
            [f"the host gave {self.stolen:.0%} of this machine's time to others"] if self.stolen > STOLEN_SHARE else []
        )
        if self.cores >= SOME or not found:
            names = ", ".join(f"{name} {share:.0%}" for name, share in self.busiest if share >= SOME / _MOST_NAMED)
            found.append(f"others use {self.cores:.2f} cores{f' ({names})' if names else ''}")
        return "; ".join(found)


class Watch:
    """Watches what else runs, from when it is made."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._used = {pid: used for pid, (_, used) in _used_seconds().items()}
        self._times = psutil.cpu_times()

    def work_seen(self) -> OtherWork:
        """The work of others since then.

        The system counts in hundredths of a second: in less than a tenth, too much may show.
        """
        after, stop, start = _used_seconds(), psutil.cpu_times(), self._times
        seconds = time.perf_counter() - self._began
        # What has begun meanwhile counts whole. A number that a new process took over may have used less than before.
        shares = [(name, max(0.0, used - self._used.get(pid, 0.0)) / seconds) for pid, (name, used) in after.items()]
        busiest = sorted(shares, key=lambda share: -share[1])[:_MOST_NAMED]
        stolen = (getattr(stop, "steal", 0.0) - getattr(start, "steal", 0.0)) / max(sum(stop) - sum(start), 1e-9)
        return OtherWork(sum(share for _, share in shares), stolen, tuple(busiest))


def _used_seconds() -> dict[int, tuple[str, float]]:
    """Seconds of CPU time of every other process that can be seen, by its number."""
    found = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None and process.pid != os.getpid():
            found[process.pid] = (process.info["name"] or "?", times.user + times.system)
    return found

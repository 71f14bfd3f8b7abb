"""What else runs now."""

from __future__ import annotations

import os
import time

import psutil

from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing

_WATCHED_S = 1.0
# Shares of a core: a desktop's background is below the first; above the second, every timing shares its core.
_SOME, _MUCH = 0.1, 0.5
# Of all time, what a host took from this virtual machine.
_STOLEN = 0.01
_NAMED = 3


def check(examined: Examined) -> Finding:
    """The time that other processes use, and that the host of a virtual machine takes, over a second."""
    del examined
    before, start = {pid: used for pid, (_, used) in _used().items()}, psutil.cpu_times()
    time.sleep(_WATCHED_S)
    after, stop = _used(), psutil.cpu_times()
    # What has begun meanwhile counts whole. A number that a new process took over may have used less than before.
    shares = [(name, max(0.0, used - before.get(pid, 0.0)) / _WATCHED_S) for pid, (name, used) in after.items()]
    busiest = sorted(shares, key=lambda share: -share[1])[:_NAMED]
    total = sum(share for _, share in shares)
    stolen = (getattr(stop, "steal", 0.0) - getattr(start, "steal", 0.0)) / max(sum(stop) - sum(start), 1e-9)
    facts = {"others_cores": round(total, 3), "stolen": round(stolen, 4)}
    if stolen > _STOLEN:
        text = f"the host gave {stolen:.0%} of this machine's time to others"
        return Finding(Standing.PROBLEM, text, "measure on a machine with cores of its own, or at another time", facts)
    if total < _SOME:
        return Finding(Standing.GOOD, "nothing else runs", facts=facts)
    names = ", ".join(f"{name} {share:.0%}" for name, share in busiest if share >= _SOME / _NAMED)
    state = Standing.PROBLEM if total > _MUCH else Standing.NOTE
    return Finding(state, f"others use {total:.2f} cores ({names})", "stop them while you measure", facts)


def _used() -> dict[int, tuple[str, float]]:
    """Seconds of CPU time of every other process that can be seen, by its number."""
    found = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None and process.pid != os.getpid():
            found[process.pid] = (process.info["name"] or "?", times.user + times.system)
    return found

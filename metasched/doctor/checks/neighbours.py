"""What else runs now."""

from __future__ import annotations

import time

from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing
from metasched.support.other_work import SOME, STOLEN_SHARE, Watch

_WATCHED_S = 1.0


def check(examined: Examined) -> Finding:
    """The time that other processes use, and that the host of a virtual machine takes, over a second."""
    del examined
    watch = Watch()
    time.sleep(_WATCHED_S)
    seen = watch.work_seen()
    facts = {"others_cores": round(seen.cores, 3), "stolen": round(seen.stolen, 4)}
    if seen.stolen > STOLEN_SHARE:
        remedy = "measure on a machine with cores of its own, or at another time"
        return Finding(Standing.PROBLEM, str(seen), remedy, facts)
    if seen.cores < SOME:
        return Finding(Standing.GOOD, "nothing else runs", facts=facts)
    state = Standing.PROBLEM if seen.disturbs else Standing.NOTE
    return Finding(state, str(seen), "stop them while you measure", facts)

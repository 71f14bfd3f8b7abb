"""Whether the same code takes the same time."""

from __future__ import annotations

import statistics
import time

from metasched.calibration.cycles import CycleCounter
from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing

_MOMENTS, _APART_S = 24, 0.04
# Of the median: what a timing's own repeats even out, and what no number of repeats does.
_STEADY, _USELESS = 0.03, 0.15
_GOVERNOR = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
_AT_FULL_SPEED = "performance"


def check(examined: Examined) -> Finding:
    """How much the clock differs between moments of a second, by a chain of additions whose cycles are known."""
    counter = CycleCounter(examined.target)
    counter.clock_hz()  # wakes the core
    clocks = []
    for _ in range(_MOMENTS):
        clocks.append(counter.clock_hz())
        time.sleep(_APART_S)
    middle = statistics.median(clocks)
    spread = statistics.median(abs(hz - middle) for hz in clocks) * 2 / middle
    governor = examined.text(_GOVERNOR)
    facts = {"clock_hz": middle, "spread": round(spread, 4), "governor": governor}
    found = f"{middle / 1e9:.2f} GHz, within {spread:.1%} from moment to moment"
    if governor not in {None, _AT_FULL_SPEED}:
        found += f"; the governor is `{governor}`"
    if spread < _STEADY:
        return Finding(Standing.GOOD, f"{found}: as steady as timings need", facts=facts)
    remedy = f"stop what else runs; `cpupower frequency-set -g {_AT_FULL_SPEED}` keeps the clock where you may"
    if spread < _USELESS:
        return Finding(Standing.NOTE, f"{found}: differences below that need many repeats", remedy, facts)
    return Finding(Standing.PROBLEM, f"{found}: no timing repeats", remedy, facts)

"""Whether OpenMP's threads will wait for processors that other processes use, and what to do about it.

At the end of a parallel region OpenMP's threads look for more work in a loop (libgomp for about a millisecond, Intel's
library for 200), unless told to sleep. Where other processes leave fewer processors than there are threads, those that
look keep those that work from running: six small regions took 44 ms instead of 6.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from metasched.errors import BusyMachineWarning, callers_level
from metasched.runtime.threads import Layer, state

# Variables that say how threads wait: of OpenMP, of GNU's library, of Intel's and LLVM's.
SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
_SAMPLE_S = 0.2
# Part of a processor that a machine at rest may use.
_AT_REST = 0.3


@dataclass(frozen=True)
class Surroundings:
    """What decides: the threading layer, which of `SETTINGS` are given, threads of a region, and processors.

    `idle` is how many of the `processors` that this process may run on do nothing, as a mean over a moment.
    """

    layer: Layer | None
    settings: tuple[str, ...]
    threads: int
    processors: int
    idle: float


def advice(seen: Surroundings) -> str:
    """What to say of the surroundings; '' where OpenMP's threads disturb nobody, or the user has said how they wait."""
    if seen.layer is not Layer.OMP or seen.settings or seen.threads < 2:
        return ""
    if seen.idle >= min(seen.threads, seen.processors) - _AT_REST:
        return ""
    return (
        f"other processes leave {seen.idle:.1f} of {seen.processors} processors idle, and parallel loops take "
        f"{seen.threads} threads. OpenMP's threads spin while they wait, and small parallel loops may take several "
        f"times longer here. Set OMP_WAIT_POLICY=passive before Python starts, or use fewer threads (NUMBA_NUM_THREADS)"
    )


def surroundings(threads: int, environment: Mapping[str, str] = os.environ) -> Surroundings:
    """What there is to see now. It looks at the processors for a fifth of a second, in which this process sleeps."""
    import psutil

    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    busy = psutil.cpu_percent(interval=_SAMPLE_S, percpu=True)
    shares = [busy[n] for n in mine if n < len(busy)] if mine is not None else busy
    idle = sum(1.0 - share / 100.0 for share in shares)
    given = tuple(name for name in SETTINGS if environment.get(name))
    return Surroundings(_layer(environment), given, threads, len(shares), idle)


def warn_of_neighbours(threads: int) -> None:
    """Warn (`BusyMachineWarning`) where parallel loops on so many threads will be slow beside what runs here."""
    if threads < 2 or any(os.environ.get(name) for name in SETTINGS):
        return
    said = advice(surroundings(threads))
    if said:
        warnings.warn(said, BusyMachineWarning, stacklevel=callers_level())


def _layer(environment: Mapping[str, str]) -> Layer | None:
    """The layer in use, or the one that Numba will take: TBB, else OpenMP, else its own, unless told which."""
    if state.layer is not None:
        return state.layer
    asked = environment.get("NUMBA_THREADING_LAYER", "")
    if asked in {layer.value for layer in Layer}:
        return Layer(asked)
    found = (
        layer
        for layer, needed in ((Layer.TBB, "tbb"), (Layer.OMP, "numba.np.ufunc.omppool"))
        if importlib.util.find_spec(needed)
    )
    return next(found, Layer.WORKQUEUE)

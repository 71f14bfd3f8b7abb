"""What the caches of a CPU hold for a kernel."""

from __future__ import annotations

import numpy as np

from metasched.cost.core import Core
from metasched.cost.estimate.footprint import Array
from metasched.target import Target

CACHES = ("l1", "l2", "l3")


def capacities(target: Target, core: Core) -> tuple[float, float, float]:
    """Usable bytes of each cache for one thread."""
    return (
        target.l1 * core.usable,
        target.l2 * core.usable,
        last_cache(target, core) * core.usable / max(target.threads, 1),
    )


def last_cache(target: Target, core: Core) -> float:
    """Bytes of the last cache that a kernel finds its data in again: a large one has other users as well."""
    return min(target.l3, core.last_cache_bytes)


def absent_share(working_set: Array, size: float, core: Core) -> Array:
    """The share of what a kernel touches that is no longer in a cache of `size` bytes when it runs again.

    Little below the cache's size and all some way above it, as caches replace lines roughly in the order of their use.
    """
    first = core.kept_whole * size
    share: Array = np.minimum(np.maximum((working_set - first) / first, 0.0), 1.0)
    return share

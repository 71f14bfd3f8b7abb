"""What the kernels of a network are timed in: which caches their constants are still in when their turn comes again."""

from __future__ import annotations

from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.caches import last_cache
from metasched.measure.timing import Surroundings
from metasched.target import Target

# What goes through the caches is so many times as much as what constants are not to be found in.
_CACHE_FACTOR = 1.5


def rotation_bytes(surroundings: Surroundings, target: Target) -> int:
    """How many bytes go through the caches between two uses of a constant; 0 where it may stay in them."""
    if surroundings in {Surroundings.ALONE, Surroundings.NETWORK}:
        return 0
    near = target.l2 * target.threads
    held = near if surroundings is Surroundings.LAST_CACHE else max(near, int(last_cache(target, DEFAULT_CORE)))
    return int(_CACHE_FACTOR * held)


def surroundings_in(network_bytes: int, target: Target) -> Surroundings:
    """What the kernels of a network are timed in that goes through so many bytes in a call."""
    if network_bytes <= target.l2 * target.threads:
        return Surroundings.NETWORK
    if network_bytes <= last_cache(target, DEFAULT_CORE):
        return Surroundings.LAST_CACHE
    return Surroundings.MEMORY

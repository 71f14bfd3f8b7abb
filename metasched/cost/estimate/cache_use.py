"""What a statement leaves in each cache between its iterations, and what it moves into each, over a population."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.cost.core import Core
from metasched.cost.estimate.caches import capacities
from metasched.cost.estimate.footprint import Array, Footprint, Levels, Mask, flat_positions, take_level, usable_sets
from metasched.cost.program.nest import Statement
from metasched.target import CACHE_LINE, Target


class CacheUse:
    """The caches of one statement.

    Args:
        statement: whose accesses touch `footprints`.
        outer: (levels, rows) how often what is inside a level runs.
        iterates: (loops, rows) whether a loop has more than one iteration.
        streams: (rows,) whether results are stored past the caches.

    `working_set`: (levels, rows) bytes of cache lines touched under each level, register buffers apart. `pressures`: of
    each access, (levels, rows) its lines over the share of a cache's sets that they can be in. `fits`: for the first,
    second and last cache, the outermost level whose first loop finds, at every iteration, what the one before left.
    """

    def __init__(
        self,
        statement: Statement,
        footprints: Sequence[Footprint],
        outer: Array,
        iterates: Mask,
        streams: Mask,
        target: Target,
        core: Core,
    ) -> None:
        self._statement = statement
        self._footprints = footprints
        self._outer = outer
        self._iterates = iterates
        self._streams = streams
        self.working_set = self._working_set()
        self.pressures = [
            footprint.lines / usable_sets(footprint, access.element_bytes)
            for access, footprint in zip(statement.accesses, footprints, strict=True)
        ]
        between = self._between_uses(self.working_set)
        self._sharing_sets = self._between_uses(self._conflicting_set())
        near, middle, last = capacities(target, core)
        # The last cache spreads its lines by a hash of the address: no sets are few there.
        self.fits = [
            _fitting_level(near, between),
            _fitting_level(middle, self._sharing_sets),
            _fitting_level(last, between),
        ]

    def _working_set(self) -> Array:
        total = np.zeros(self._outer.shape, np.float32)
        for access, footprint in zip(self._statement.accesses, self._footprints, strict=True):
            if not access.is_register:
                total += footprint.lines
        return total * CACHE_LINE

    def _conflicting_set(self) -> Array:
        """The working set, or what the worst access takes with the part of the cache that its lines cannot use, if
        more.

        Accesses mostly conflict in different sets, so that these parts do not add up.
        """
        worst = self.working_set
        for access, pressure in zip(self._statement.accesses, self.pressures, strict=True):
            if not access.is_register:
                worst = np.maximum(worst, pressure * CACHE_LINE)
        return worst

    def _between_uses(self, touched: Array) -> Array:
        """(levels, rows) bytes touched by one iteration of the first loop at or below a level that iterates."""
        out = np.zeros(touched.shape, np.float32)
        for loop in reversed(range(len(touched) - 1)):
            out[loop] = np.where(self._iterates[loop], touched[loop + 1], out[loop + 1])
        return out

    def traffic_into(self, cache: int, absent: Array, past: float = 0.0) -> list[Array]:
        """Bytes brought into a cache for each access, whose lines come once for every run of what fits.

        What is stored moves twice; where it goes past the caches, it is `past` times what is moved. Kernels run again
        and again: of what the statement touches, a share `absent` is not there from the run before.
        """
        return self._traffic_of_runs(self.fits[cache], absent, past)

    def traffic_into_first(self, size: float, absent: Array) -> list[Array]:
        """Bytes brought into the first cache, of `size` bytes, as `traffic_into` counts them, and more where rows
        a power of two apart meet in few of its sets.

        Of what would fit in the whole cache, the share comes anew that the sets lack room for. A cache that replaced
        strictly what it used longest ago would keep nothing, but none does: 17 rows in a set of 12 ways took twice the
        time of rows apart, not six times.
        """
        found = self.traffic_into(0, absent)
        lacking = (self._sharing_sets > size).sum(axis=0)
        level = np.maximum(flat_positions(lacking), self.fits[0])
        again = level > self.fits[0]
        if not again.any():
            return found
        needed = take_level(self._sharing_sets, flat_positions(np.maximum(lacking - 1, 0)))
        share = np.where(again, np.minimum(np.maximum(needed / size - 1.0, 0.0), 1.0), 0.0)
        all_anew = self._traffic_of_runs(level, absent, 0.0)
        return [few + (many - few) * share for few, many in zip(found, all_anew, strict=True)]

    def _traffic_of_runs(self, level: Levels, absent: Array, past: float) -> list[Array]:
        runs = take_level(self._outer, level) * (CACHE_LINE * absent)
        out: list[Array] = []
        for access, footprint in zip(self._statement.accesses, self._footprints, strict=True):
            moved = take_level(footprint.lines, level) * runs * (0.0 if access.is_register else 1.0)
            if access.is_store:
                moved = np.where(self._streams, footprint.lines[0] * CACHE_LINE * past, 2.0 * moved)
            out.append(moved)
        return out


def _fitting_level(capacity: float, uses: Array) -> Levels:
    return flat_positions((uses > capacity).sum(axis=0))

"""The buckets of some sizes, by how long caches are before a call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from metasched.graph.buckets.bucket import Bucket


class Rooms:
    """Kernels of the same sizes for calls on caches of more and more elements; one bucket where nothing grows.

    Attributes:
        longest: how long caches may be for each bucket, the shortest first; (None,) where nothing grows.

    """

    def __init__(self, longest: Sequence[int | None], make: Callable[[int | None], Bucket]) -> None:
        """`make` makes the bucket for caches of up to some length."""
        self.longest = tuple(longest)
        self._make = make
        self._made: dict[int | None, Bucket] = {}
        self._lock = threading.Lock()

    @property
    def made_buckets(self) -> tuple[Bucket, ...]:
        """The buckets that were made so far, those with the most room first."""
        return tuple(self._made[longest] for longest in reversed(self.longest) if longest in self._made)

    def bucket(self, length: int | None) -> Bucket | None:
        """What a call on caches of a length runs on, None being the longest; None where they are too long for all.

        Raises NotAlike where there is none.
        """
        found = self.longest[-1]
        if length is not None:
            fitting = [longest for longest in self.longest if longest is not None and length <= longest]
            if not fitting:
                return None
            found = fitting[0]
        if found not in self._made:
            with self._lock:
                if found not in self._made:
                    self._made[found] = self._make(found)
        return self._made[found]

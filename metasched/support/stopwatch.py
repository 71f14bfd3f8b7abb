"""Time measurement: seconds of a call, and seconds by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


def seconds_of(call: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class Stopwatch:
    """Seconds by name, in order of first use; names given to the constructor come first, from 0 on."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._seconds = {str(name): 0.0 for name in names}
        self._inner: list[float] = []

    def add(self, name: str, seconds: float) -> None:
        """Count seconds that someone else measured."""
        self._seconds[str(name)] = self._seconds.get(str(name), 0.0) + seconds

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Count the time of a `with` body, less that of the bodies timed inside it."""
        start = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            whole = time.perf_counter() - start
            self.add(name, whole - self._inner.pop())
            if self._inner:
                self._inner[-1] += whole

    def seconds(self) -> dict[str, float]:
        """Seconds by name, so far."""
        return dict(self._seconds)

"""Steps of several tasks side by side, where candidates are measured on more than one machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

from metasched.search.several_tasks.waiting import Waiting

T = TypeVar("T")

# More than there ever are: each is a thread that waits.
_MOST_THREADS = 256


class SideBySide(Generic[T]):
    """Steps that are under way together, each in a thread of its own, and are ended in the order of their beginning.

    What is begun next can so depend on the results of steps, and never on which of them was done first. Where its body
    ends with an exception, the steps are interrupted: what they have measured by then is recorded.
    """

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "metasched-step")
        self._steps: deque[Future[T]] = deque()

    def __len__(self) -> int:
        return len(self._steps)

    def begin_step(self, step: Callable[[], T]) -> None:
        """Begin a step."""
        self._steps.append(self._threads.submit(self._compute_step, step))

    def end_first(self) -> T:
        """Wait for the step that was begun first, and return its result. Raises its exception."""
        return self._steps.popleft().result()

    def _compute_step(self, step: Callable[[], T]) -> T:
        with self._waiting.computing():
            return step()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._waiting.interrupt()
        self._threads.shutdown()
        self._waiting.resume()

"""Ways to watch a tuning run: a line that changes on a terminal, a line now and then elsewhere, JSON for machines."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from metasched.cli.command import Console
from metasched.cli.render import progress_line
from metasched.search.progress import Progress

_ERASE_TO_END = "\x1b[K"
STARTING = "making its space, starting workers, computing what is right ..."


class ProgressView(Protocol):
    """Told of the start, of every finished measurement, and of the end."""

    def begin(self, task: str) -> None: ...

    def __call__(self, progress: Progress) -> None: ...

    def close(self) -> None: ...


@dataclass
class LiveLine:
    """One line of a terminal, rewritten; no longer than the terminal is wide, since a wrapped line cannot be."""

    console: Console
    width: Callable[[], int] = lambda: shutil.get_terminal_size().columns
    _drawn: bool = False

    def begin(self, task: str) -> None:
        self._draw(f"{task}  {STARTING}")

    def __call__(self, progress: Progress) -> None:
        line = progress_line(progress)
        if len(line) >= self.width():
            # The sizes are the least that one watches for: the command above the line has them.
            line = progress_line(replace(progress, task=progress.task.partition("[")[0]))
        self._draw(line)

    def _draw(self, line: str) -> None:
        room = self.width() - 1
        if len(line) > room:
            line = line[: max(room - 1, 0)] + "…"
        self.console.err.write(f"\r{line}{_ERASE_TO_END}")
        self.console.err.flush()
        self._drawn = True

    def close(self) -> None:
        if self._drawn:
            self.console.err.write("\n")
            self.console.err.flush()


@dataclass
class Lines:
    """A line every `every_s` seconds, and one for the last trial: for logs."""

    console: Console
    every_s: float = 5.0
    now: Callable[[], float] = time.monotonic
    _last: float | None = None

    def begin(self, task: str) -> None:
        self.console.note(f"{task}  {STARTING}")

    def __call__(self, progress: Progress) -> None:
        now = self.now()
        if self._last is None or now - self._last >= self.every_s or progress.trials >= progress.total:
            self.console.note(progress_line(progress))
            self._last = now

    def close(self) -> None:
        """Nothing is left open."""


@dataclass
class JsonLines:
    """An object for every measurement, with times in milliseconds and seconds as their names say."""

    console: Console
    event: str = field(default="progress")

    def begin(self, task: str) -> None:
        """Nothing has happened yet."""

    def __call__(self, progress: Progress) -> None:
        self.console.print_json(
            {
                "event": self.event,
                "task": progress.task,
                "trials": progress.trials,
                "total": progress.total,
                "best_ms": None if progress.best_s is None else progress.best_s * 1e3,
                "gflops": progress.gflops,
                "failures": dict(progress.failures),
                "elapsed_s": progress.elapsed_s,
                "left_s": progress.left_s,
            }
        )

    def close(self) -> None:
        """Nothing is left open."""


def choose_view(console: Console, as_json: bool) -> ProgressView:
    """JSON when asked for, a live line on a terminal, and lines now and then in a log."""
    if as_json:
        return JsonLines(console)
    return LiveLine(console) if console.err.isatty() else Lines(console)

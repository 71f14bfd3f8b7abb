"""Ways to watch networks being tuned: a table that changes on a terminal or in a notebook, a line now and then
elsewhere.
"""

from __future__ import annotations

import html
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO, TypeAlias

from metasched.graph.tasks import TaskTable
from metasched.report.progress_text import clock, duration
from metasched.report.progress_view import Lines, NotebookView, RunView, chosen_view, notebook_display
from metasched.support.data_classes import dataclass

# How often a notebook shows a table anew, at most.
_NOTEBOOK_S = 0.5
_UP, _ERASE_LINE, _ERASE_BELOW = "\x1b[{}A", "\x1b[2K", "\x1b[J"


@dataclass(frozen=True)
class NetworkProgress:
    """Where tuning stands, after a measurement has finished.

    Attributes:
        table: the tasks with their best times; the one that is measured has the mark `now`, the following one `next`.
        trials: candidates measured, earlier ones included.
        total: how many there are to be; None if only a time ends it.
        elapsed_s: seconds so far.
        left_s: seconds of the budget that are left; None without one.
    """

    table: TaskTable
    trials: int
    total: int | None
    elapsed_s: float
    left_s: float | None

    @property
    def line(self) -> str:
        """All of it but the table, on one line."""
        seconds = sum(row.total_s for row in self.table.rows)
        measured = sum(row.best_s is not None for row in self.table.rows)
        parts = [f"{self.trials} trials" if self.total is None else f"{self.trials}/{self.total} trials"]
        parts.append(f"{measured}/{len(self.table.rows)} tasks measured")
        parts += [f"their kernels {duration(seconds)}"] if measured else []
        parts.append(f"{clock(self.elapsed_s)} gone" + ("" if self.left_s is None else f", {clock(self.left_s)} left"))
        now = next((row for row in self.table.rows if row.mark == "now"), None)
        parts += [] if now is None else [f"now {now.task.name}"]
        return "  ".join(parts)


NetworkView: TypeAlias = RunView[NetworkProgress]
NetworkCallback: TypeAlias = Callable[[NetworkProgress], None]
# What a caller may pass as `progress`: as for `tune`.
NetworkShown: TypeAlias = bool | NetworkCallback | NetworkView | None


@dataclass
class LiveTable:
    """A table on a terminal, drawn in place; rows that there is no room for are left out, the lightest first."""

    stream: TextIO
    every_s: float = 0.2
    size: Callable[[], os.terminal_size] = shutil.get_terminal_size
    now: Callable[[], float] = time.monotonic
    _drawn: int = 0
    _last: float | None = None
    _shown: NetworkProgress | None = None

    def begin(self, task: str) -> None:
        """The table comes with the first progress."""

    def __call__(self, progress: NetworkProgress) -> None:
        self._shown = progress
        if self._last is None or self.now() - self._last >= self.every_s:
            self._draw(progress)

    def _draw(self, progress: NetworkProgress) -> None:
        columns, rows = self.size()
        lines = [*_fit_lines(progress.table, max(rows - 3, 3)), progress.line]
        up = _UP.format(self._drawn) if self._drawn else ""
        cut = (line if len(line) < columns else line[: max(columns - 2, 0)] + "…" for line in lines)
        self.stream.write(up + "".join(f"{_ERASE_LINE}{line}\n" for line in cut) + _ERASE_BELOW)
        self.stream.flush()
        self._drawn, self._last = len(lines), self.now()

    def close(self) -> None:
        """The table stays as it is last."""
        if self._shown is not None:
            self._draw(self._shown)
            self._drawn, self._shown, self._last = 0, None, None


def _fit_lines(table: TaskTable, most: int) -> list[str]:
    """The lines of a table, with a line for those that are left out."""
    head, *lines = table.lines()
    if len(lines) <= most:
        return [head, *lines]
    heaviest = sorted(range(len(lines)), key=lambda n: (-bool(table.rows[n].mark), -table.rows[n].total_s))
    kept = sorted(heaviest[: most - 1])
    return [head, *(lines[n] for n in kept), f"and {len(lines) - len(kept)} lighter tasks"]


@dataclass(frozen=True)
class _ShownState:
    """A state as a notebook shows it."""

    progress: NetworkProgress

    def __repr__(self) -> str:
        return f"{self.progress.table}\n{self.progress.line}"

    def _repr_html_(self) -> str:
        return f"{self.progress.table._repr_html_()}<code>{html.escape(self.progress.line)}</code>"


def network_view(stream: TextIO | None = None) -> NetworkView:
    """The best view available: a table in a notebook or on a terminal, or otherwise lines now and then on `stream`, by
    default standard error.
    """
    display = notebook_display()
    if stream is None and display is not None:
        return NotebookView(display, _ShownState, every_s=_NOTEBOOK_S)
    out = sys.stderr if stream is None else stream
    return LiveTable(out) if out.isatty() else Lines(out, lambda progress: progress.line)


def network_view_of(shown: NetworkShown) -> NetworkView:
    """The view for a caller's `progress=`."""
    return chosen_view(shown, network_view)

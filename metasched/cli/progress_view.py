"""The progress of a tuning run on the command line: for a person, or as JSON for a program."""

from __future__ import annotations

from dataclasses import field

from metasched.cli.command import Console
from metasched.report.progress import Progress
from metasched.report.progress_view import ProgressView, progress_view
from metasched.support.data_classes import dataclass


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
                "gops": progress.gops,
                "failures": dict(progress.failures),
                "elapsed_s": progress.elapsed_s,
                "left_s": progress.left_s,
            }
        )

    def close(self) -> None:
        """Nothing is left open."""


def choose_view(console: Console, as_json: bool) -> ProgressView:
    """JSON when asked for, a live line on a terminal, and lines now and then in a log."""
    return JsonLines(console) if as_json else progress_view(console.err)

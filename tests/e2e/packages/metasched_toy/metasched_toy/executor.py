"""An executor, `toy://FILE`: this machine, with a line in a file for each candidate that is submitted."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

from metasched.ir.program import Program
from metasched.measure.executor_registry import ExecutorInputs
from metasched.measure.records import Measurement
from metasched.measure.runner import LocalRunner, Runner, RunnerSettings


class Noting(LocalRunner):
    """A runner of this machine that notes what it is given."""

    def __init__(self, settings: RunnerSettings, notes: Path) -> None:
        super().__init__(settings)
        self._notes = notes

    def submit(self, program: Program, trace: str, target: str, *args: Any, **more: Any) -> Future[Measurement]:
        with self._notes.open("a") as file:
            file.write(f"{program.key}\n")
        return super().submit(program, trace, target, *args, **more)


def executor(wanted: ExecutorInputs) -> Runner:
    """The executor `toy`."""
    return Noting(RunnerSettings(threads=wanted.threads), Path(wanted.address))

"""Scenarios that need a process of their own, forked from one that has imported their module: `python -m
tests.support.scenarios MODULE FOLDER` runs those whose names come on standard input, one after another. Each has a
minute. Whoever started it reads a line of JSON for each. What is named after `here` runs in that process itself.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST_S = 60.0
HERE = "here "


@dataclass(frozen=True)
class Ended:
    """How a scenario ended: its exit status, None when it was ended because it hung, and what it printed."""

    status: int | None
    out: str
    error: str

    def __str__(self) -> str:
        how = "it hangs" if self.status is None else f"exit status {self.status}"
        return f"{how}\n{self.out}\n{self.error}"


class Scenarios:
    """Runs the scenarios of a module, in processes that are forked from this one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, name: str) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        return Ended(**json.loads(self._process.stdout.readline()))

    def prepare(self, name: str) -> None:
        """Run a function of the module in the process that scenarios are forked from."""
        self.run(f"{HERE}{name}")


@contextmanager
def scenarios_of(module: str, folder: Path, env: Mapping[str, str]) -> Iterator[Scenarios]:
    """Runs the scenarios of a module while the body does. `folder` takes what they print."""
    command = [sys.executable, "-m", "tests.support.scenarios", module, str(folder)]
    with subprocess.Popen(
        command, env={**os.environ, **env}, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Scenarios(process)  # the end of its standard input is what ends it


def main(module: str, folder: Path) -> None:
    """Fork for each name that comes. Returns in this process when no more come, and in each other at its end."""
    scenarios = vars(importlib.import_module(module))
    for line in sys.stdin:
        name = line.strip()
        if name.startswith(HERE):
            scenarios[name.removeprefix(HERE)]()
            print(json.dumps({"status": 0, "out": "", "error": ""}), flush=True)
            continue
        out, error = folder / "out.txt", folder / "error.txt"
        pid = os.fork()
        if pid == 0:
            for stream, path in ((1, out), (2, error)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
            scenarios[name]()
            print("passed", name, flush=True)
            return
        status = waited(pid)
        print(json.dumps({"status": status, "out": out.read_text(), "error": error.read_text()}), flush=True)


def waited(pid: int) -> int | None:
    """The exit status of a process; None where it had to be ended."""
    end = time.monotonic() + LONGEST_S
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

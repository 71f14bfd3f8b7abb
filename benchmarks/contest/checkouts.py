"""Checkouts of the project, each of which searches with its own packages, in processes of their own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import metasched as ms
from benchmarks.contest import checkout_side
from benchmarks.contest.checkout_side import PLAY, SEARCH
from benchmarks.contest.live import Search, Trial
from benchmarks.contest.playing import Played
from benchmarks.registry import OptionError
from metasched.measure.runner import LocalRunner
from metasched.operators import TWELVE
from metasched.support.cached import cached_property
from metasched.support.messages import with_hint

ROOT = Path(__file__).parents[2]
# What decides what a search does.
_SOURCES = ("metasched", "rules", "grammar")
_OWN_PYTHON = ".venv/bin/python"


@dataclass(frozen=True)
class Checkout:
    """A folder with the project at some commit, and the Python that its packages are imported by."""

    folder: Path
    python: str = sys.executable

    @staticmethod
    def at(folder: Path) -> Checkout:
        """A checkout with an environment of its own, which is what knows its rules: they are found by entry points.

        Raises OptionError for what is no checkout, or has no environment.
        """
        if not (folder / "metasched/__init__.py").is_file():
            raise OptionError(with_hint(f"{folder} is no checkout of metasched", f"git worktree add {folder} COMMIT"))
        own = folder.resolve() / _OWN_PYTHON
        if not own.exists():
            raise OptionError(with_hint(f"{folder} has no environment, {_OWN_PYTHON}", "make setup, there"))
        return Checkout(folder.resolve(), str(own))

    @cached_property
    def key(self) -> str:
        """A hash of the sources, by which searches are kept."""
        found = hashlib.sha256()
        for name in _SOURCES:
            for path in sorted((self.folder / name).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    found.update(path.read_bytes())
        return found.hexdigest()[:16]

    def search(self, name: str, target: ms.Target, runner: LocalRunner, seed: int, trials: int) -> Search:
        """A search of one of the twelve as `ms.tune` makes it there, for the machine at hand; `runner` is idle then.

        Raises RuntimeError where it fails.
        """
        program = TWELVE[name].program()
        spec = {
            "job": SEARCH,
            "program": str(program),
            "params": dict(program.params),
            "threads": target.threads,
            "seed": seed,
            "trials": trials,
        }
        seconds, made = self._ask_side(spec)
        at = accumulate((when for _, _, when in made), max)
        return Search(tuple(Trial(trace, s, when) for (trace, s, _), when in zip(made, at, strict=True)), seconds)

    def play(self, task: str, tables: Path, seeds: Sequence[int], trials: int, kept: Path | None) -> list[Played]:
        """Searches of a table, one for each seed, by the default strategy and the model that are installed there.

        What is made of the table is put into `kept`, if that is given. Raises RuntimeError where it fails.
        """
        spec = {
            "job": PLAY,
            "task": task,
            "tables": str(tables.resolve()),
            "seeds": list(seeds),
            "trials": trials,
            "kept": None if kept is None else str(kept.resolve()),
        }
        return [Played(tuple(course), codes, seconds) for course, codes, seconds in self._ask_side(spec)]

    def _ask_side(self, spec: dict[str, object]) -> list:  # type: ignore[type-arg]
        """Have the side do a job, and return what it prints; it finds this checkout's packages before all others."""
        command = [self.python, "-P", checkout_side.__file__, json.dumps(spec)]
        environment = {**os.environ, "PYTHONPATH": str(self.folder)}
        done = subprocess.run(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the search in {self.folder} ended with status {done.returncode}; its error is above")
        found: list = json.loads(done.stdout.splitlines()[-1])  # type: ignore[type-arg]
        return found

"""Comparing fairly: each side in its own process, in alternating blocks, on the same inputs; medians.

Two thread pools in one process disturb each other, so no process holds two. Blocks alternate so that a machine that
slows down slows every side.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from benchmarks.workloads import WORKLOADS

OURS = "metasched"
# The lines that ask a side for a block's samples: of calls from Python; of the kernel without Python, where it can.
CALLS, ALONE = "measure", "measure alone"
_THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "TVM_NUM_THREADS",
)


@dataclass(frozen=True)
class SideTime:
    """Seconds per call: the median over all samples, and that of each block, which says how steady the machine was."""

    median: float
    blocks: tuple[float, ...]

    @property
    def spread(self) -> float:
        """The slowest block over the fastest: near 1 on a quiet machine."""
        return max(self.blocks) / min(self.blocks)


UNSTEADY = 1.25  # a spread beyond which a comparison is to be repeated on a quieter machine


class SideEnded(RuntimeError):
    """A side's process ended instead of answering."""


class SideProcess:
    """A running side: it answers a line with a line of JSON. `measure` gives a block's samples, in seconds per call."""

    def __init__(self, name: str, command: Sequence[str], threads: int) -> None:
        self.name = name
        self.took_too_long = False
        self._process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[1],
            env={**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self, what: str = CALLS) -> list[float]:
        return [float(sample) for sample in self.ask(what)]

    def ask(self, line: str) -> Any:
        """What the side answers to a line. Raises SideEnded where it does not."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and there is no answer, which says so
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        """The next answer. Raises SideEnded where there will be none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SideEnded(f"the side `{self.name}` ended with status {self._process.wait()}; its error is above")
        return json.loads(line)

    def ask_within(self, line: str, limit: float) -> Any:
        """What the side answers to a line, whose process is ended where that takes longer than so many seconds.

        Raises SideEnded where it did not answer; `took_too_long` says why.
        """
        clock = threading.Timer(limit, self._end_late)
        clock.start()
        try:
            return self.ask(line)
        finally:
            clock.cancel()

    def _end_late(self) -> None:
        self.took_too_long = True
        self._process.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def compare(
    workload: str, traces: Mapping[str, str], peers: tuple[str, ...], threads: int, rounds: int = 3
) -> dict[str, SideTime]:
    """Time kernels (by label, from their traces) and peers of a workload side by side.

    Raises:
        AssertionError: when two sides disagree on the result.
    """
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        results: dict[SideProcess, Path] = {}
        for number, (name, trace) in enumerate([*traces.items(), *((peer, "") for peer in peers)]):
            result = Path(folder) / f"{number}.npy"
            spec = {"workload": workload, "side": name, "trace": trace, "result": str(result)}
            command = [sys.executable, "-m", "benchmarks.side", json.dumps(spec)]
            side = stack.enter_context(SideProcess(name, command, threads))
            results[side] = result
            side.answer()  # that it is ready
        check_agreement(workload, results)
        return alternate({side.name: side.measure for side in results}, rounds)


def alternate(measures: Mapping[str, Callable[[], list[float]]], rounds: int) -> dict[str, SideTime]:
    """Time what is ready, a block of each in turn: functions that give a block's samples, in seconds per call."""
    blocks: dict[str, list[list[float]]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            blocks[name].append(measure())
    return {
        name: SideTime(
            statistics.median(sample for samples in measured for sample in samples),
            tuple(statistics.median(samples) for samples in measured),
        )
        for name, measured in blocks.items()
    }


def check_agreement(workload: str, results: Mapping[SideProcess, Path]) -> None:
    """A time counts only for a result that the others share."""
    (first, path), *others = results.items()
    expected = np.load(path)
    for other, path in others:
        gap = float(np.abs(expected - np.load(path)).max() / np.abs(expected).max())
        assert gap <= WORKLOADS[workload].tolerance, f"{workload}: {first.name} and {other.name} differ by {gap:.2g}"


def blas_name() -> str:
    """Which BLAS NumPy uses: `scipy-openblas 0.3.30`."""
    info: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    blas = info["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas['version']}"

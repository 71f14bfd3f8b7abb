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
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from benchmarks.workloads import WORKLOADS

OURS = "metasched"
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


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


class SideProcess:
    """A running side. `measure` gives the samples of one block, in seconds per call."""

    def __init__(self, workload: str, side: str, trace: str, threads: int, result: Path) -> None:
        self.name = side
        self.result = result
        spec = {"workload": workload, "side": side, "trace": trace, "result": str(result)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.side", json.dumps(spec)],
            cwd=Path(__file__).parents[1],
            env={**os.environ, **dict.fromkeys(_THREAD_VARIABLES, str(threads))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> None:
        self._answer()

    def measure(self) -> list[float]:
        assert self._process.stdin is not None
        self._process.stdin.write("measure\n")
        self._process.stdin.flush()
        return [float(sample) for sample in self._answer()]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the side `{self.name}` ended with status {self._process.wait()}; its error is above")
        return json.loads(line)

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
        sides = []
        for number, (name, trace) in enumerate([*traces.items(), *((peer, "") for peer in peers)]):
            side = SideProcess(workload, name, trace, threads, Path(folder) / f"{number}.npy")
            sides.append(stack.enter_context(side))
            side.ready()
        check_agreement(workload, sides)
        blocks: dict[str, list[list[float]]] = {side.name: [] for side in sides}
        for _ in range(rounds):
            for side in sides:
                blocks[side.name].append(side.measure())
    return {
        name: SideTime(
            statistics.median(sample for samples in measured for sample in samples),
            tuple(statistics.median(samples) for samples in measured),
        )
        for name, measured in blocks.items()
    }


def check_agreement(workload: str, sides: list[SideProcess]) -> None:
    """A time counts only for a result that the others share."""
    first = np.load(sides[0].result)
    for side in sides[1:]:
        other = np.load(side.result)
        gap = float(np.abs(first - other).max() / np.abs(first).max())
        assert gap <= WORKLOADS[workload].tolerance, f"{workload}: {sides[0].name} and {side.name} differ by {gap:.2g}"


def blas_name() -> str:
    """Which BLAS NumPy uses: `scipy-openblas 0.3.30`."""
    info: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]
    blas = info["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas['version']}"

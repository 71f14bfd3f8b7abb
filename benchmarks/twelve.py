"""The twelve operators tuned by the search alone, against TVM's stored best, PyTorch and our own expert traces.

Each is tuned from nothing: by the rules of `cpu`, with no records of other sizes and no expert trace (`--trials N`;
256 are what TVM's records were made with). The result is timed in turns with the expert trace,
with PyTorch and with TVM, each in a process of its own, on the same inputs, and results are compared; see
`benchmarks.kernels` for the peers and how they are named. PyTorch's time is with a call from Python, and compared with
ours with one; TVM's and the expert trace's are of kernels alone. `packed_weights` says who computed something of
constant weights ahead, which is not timed; it takes us `prologue_ms`, and the expert trace `expert_prologue_ms`.

`reached_tvm_s` is when the search had measured a code within 2 % of TVM's best, counted from its start. `--tvm-figures
FILE` (`benchmarks.tvm_figures`) says what TVM's tuning took: `tuning_ratio` is that over ours until then, and 0 where
the search never reached it. Where no TVM is run, the file's time is its best, and `peer_from` says so: such a ratio
holds only if the file was made on this machine.

A line is printed when its operator is done: `--only C2D,GMM` makes a part of it. With 256 trials it takes one to three
minutes an operator. Geometric means come last, with the median of `tuning_ratio`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import metasched as ms
from benchmarks.kernel_cases import CASES, KernelCase
from benchmarks.kernels import (
    TOLERANCE,
    TORCH,
    TVM,
    Limits,
    largest_gap,
    milliseconds,
    notes_of,
    tvm_records,
    write_inputs,
)
from benchmarks.registry import Options, Result
from benchmarks.sides import ALONE, OURS, SideProcess, alternate
from benchmarks.tvm_figures import TvmFigures, read_figures
from metasched.database.database_registry import open_database

_EXPERT, _LIMIT = "expert trace", "limit"
_ALONE = {OURS: f"{OURS} alone", _EXPERT: f"{_EXPERT} alone"}
_ROUNDS = 3
_LIMIT_SAMPLES = 5  # a block
_QUICK, _QUICK_TRIALS = ("NRM",), 2
_RATIOS = ("ratio", "to_pytorch", "to_expert")
# So near to a time counts as having reached it.
_REACHED_RATIO = 1.02
_RUN_HERE, _FROM_FILE = "a run here", "the file"


def run(options: Options) -> Iterator[Result]:
    """A line for each operator, after a line that says what was left out; then the geometric means."""
    figures = read_figures(options.tvm_figures)
    yield {"case": "notes", "cpu": ms.Target.detect().name, "notes": notes_of(options)}
    ours = [sys.executable, "-m", "benchmarks.kernel_side"]
    commands = {OURS: ours, _EXPERT: ours}
    if options.torch_python is not None:
        commands[TORCH] = [options.torch_python, "-m", "benchmarks.torch_side"]
    if options.tvm_python is not None:
        commands[TVM] = [options.tvm_python, "-m", "benchmarks.tvm_side"]
    lines: list[Result] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = [stack.enter_context(SideProcess(name, run, options.threads)) for name, run in commands.items()]
        for case in _cases(options):
            for seed in options.seeds or (0,):
                of_tvm = figures.get(str(case.suite))
                lines.append(_Operator(case, seed, of_tvm, sides, Path(folder), Limits(options), options).line())
                yield lines[-1]
    yield _means(lines)


def _cases(options: Options) -> list[KernelCase]:
    wanted = _QUICK if options.quick and not options.only else options.only
    return [case for case in CASES if case.suite is not None and (not wanted or case.suite in wanted)]


@dataclass(frozen=True)
class _Found:
    """What a search found: its best trace, its seconds, and (seconds since its start, time) of each measured code."""

    trace: str
    seconds: float
    measured: Sequence[tuple[float, float]]

    def seconds_to_reach(self, goal: float | None) -> float | None:
        """When it had measured a code that takes `goal` seconds, or 2 % more; None where it did not."""
        within = [] if goal is None else [at for at, taken in self.measured if taken <= _REACHED_RATIO * goal]
        return min(within, default=None)


@dataclass(frozen=True)
class _Operator:
    """One of the twelve, the seed of its search, what a file says of TVM's, the sides that are up, and where files are
    put."""

    case: KernelCase
    seed: int
    of_tvm: TvmFigures | None
    sides: Sequence[SideProcess]
    folder: Path
    limits: Limits
    options: Options

    def line(self) -> Result:
        found = self._tune()
        sides = [s for s in self.sides if s.name != TVM or tvm_records(self.options, self.case.suite) is not None]
        prologues = self._prepare(sides, found.trace)
        measures = {side.name: side.measure for side in sides}
        measures |= {_ALONE[s.name]: partial(s.measure, ALONE) for s in sides if s.name in _ALONE}
        limit = self.limits.limit_of(self.case)
        if limit is not None:
            measures[_LIMIT] = partial(limit.samples, _LIMIT_SAMPLES)
        times = alternate(measures, 1 if self.options.quick else _ROUNDS)
        seconds = {name: side.median for name, side in times.items()}
        ours = seconds[_ALONE[OURS]]
        return {
            "case": self.case.name,
            "seed": self.seed,
            "trials": len(found.measured),
            "ours_ms": ours * 1e3,
            **self._peer(ours, seconds.get(TVM)),
            "expert_ms": seconds[_ALONE[_EXPERT]] * 1e3,
            "pytorch_ms": None if TORCH not in seconds else seconds[TORCH] * 1e3,
            "to_pytorch": None if TORCH not in seconds else seconds[TORCH] / seconds[OURS],
            "to_expert": seconds[_ALONE[_EXPERT]] / ours,
            "of_limit": None if limit is None else self._rate(ours) / limit.rate(seconds[_LIMIT]),
            "tune_s": found.seconds,
            **self._tuning(found, seconds.get(TVM)),
            "prologue_ms": milliseconds(prologues[OURS]),
            "expert_prologue_ms": milliseconds(prologues[_EXPERT]),
            "packed_weights": {name: took is not None for name, took in prologues.items()},
            "threads": self.options.threads,
            "spread": {name: side.spread for name, side in times.items()},
            "trace": found.trace,
        }

    def _best_of_tvm(self, run_here: float | None) -> float | None:
        """Seconds of TVM's best kernel: of its run here, if there was one, or else from the file."""
        return run_here if run_here is not None or self.of_tvm is None else self.of_tvm.best_s

    def _peer(self, ours: float, run_here: float | None) -> Result:
        theirs = self._best_of_tvm(run_here)
        return {
            "peer": TVM,
            "peer_ms": milliseconds(theirs),
            "ratio": None if theirs is None else theirs / ours,
            "peer_from": None if theirs is None else _FROM_FILE if run_here is None else _RUN_HERE,
        }

    def _tuning(self, found: _Found, run_here: float | None) -> Result:
        """When TVM's best was reached, and what its tuning took over that: 0 where it was not."""
        reached = found.seconds_to_reach(self._best_of_tvm(run_here))
        took = None if self.of_tvm is None else self.of_tvm.tune_s
        ratio = None if took is None else 0.0 if reached is None else took / reached
        return {"reached_tvm_s": reached, "tvm_tune_s": took, "tuning_ratio": ratio}

    def _rate(self, seconds: float) -> float:
        return self.case.operations / seconds / 1e9

    def _tune(self) -> _Found:
        trials = _QUICK_TRIALS if self.options.quick else self.options.trials
        target = ms.Target.detect(threads=self.options.threads)
        task = ms.Task(self.case.program(), "cpu", target, knowledge="none")
        begun, start = time.time(), time.perf_counter()
        url = f"sqlite:///{self.folder}/{self.case.suite}-{self.seed}.db"
        with ms.TuningSession([task], db=url, seed=self.seed, progress=False) as session:
            (report,) = session.run(trials)
        took = time.perf_counter() - start
        assert report.best is not None, f"{self.case.name}: nothing was valid: {dict(report.failures)}"
        with open_database(url) as database:
            records = database.records(report.best.task)
        measured = [(r.timestamp - begun, min(r.times)) for r in records if r.failure is None]
        return _Found(report.best.trace, took, measured)

    def _prepare(self, sides: Sequence[SideProcess], trace: str) -> dict[str, float | None]:
        """Make the kernel of each side, and return the seconds of its prologue, None where it has none.

        Raises AssertionError where results differ.
        """
        program = self.case.program()
        inputs = write_inputs(program, self.folder)
        records = tvm_records(self.options, self.case.suite)
        traces: Mapping[str, str] = {OURS: trace, _EXPERT: str(self.case.trace())}
        results = []
        prologues: dict[str, float | None] = {}
        for side in sides:
            results.append(self.folder / f"{side.name}.npy")
            spec: dict[str, Any] = {
                "operator": self.case.operator,
                "suite": self.case.suite,
                "records": None if records is None else str(records),
                "params": dict(program.params),
                "trace": traces.get(side.name),
                "threads": self.options.threads,
                "inputs": inputs,
                "result": str(results[-1]),
            }
            prologues[side.name] = side.ask(json.dumps(spec)).get("prologue_s")
        gap = largest_gap(results)
        assert gap <= TOLERANCE, f"{self.case.name}: results differ by {gap:.2g} of the largest element"
        return prologues


def _means(lines: Sequence[Result]) -> Result:
    """The geometric mean and the least of each ratio; of tuning the median and the least, and how often TVM's best was
    not reached."""
    found: Result = {"case": "geometric mean and least", "operators": len(lines)}
    for name in _RATIOS:
        ratios = [value for value in (line[name] for line in lines) if isinstance(value, float)]
        found |= {name: geometric_mean(ratios) if ratios else None, f"{name}_least": min(ratios, default=None)}
    tuning = [value for value in (line["tuning_ratio"] for line in lines) if isinstance(value, float)]
    found |= {"tuning_ratio": median(tuning) if tuning else None, "tuning_ratio_least": min(tuning, default=None)}
    return found | {"not_reached": sum(value == 0.0 for value in tuning)}

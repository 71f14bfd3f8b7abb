"""Pipelines of images: our guess, and what a search finds, against Halide's autoschedulers and schedules by hand.

Halide runs in a virtual environment of its own: `--halide-python PATH`, or METASCHED_HALIDE_PYTHON in the environment.
Each of its schedules has a process of its own, as ours have, and as many threads; all get the same inputs, results are
compared, and blocks alternate. With `--trials 0` nothing is searched for. `--pipelines NAME,...` names some.

An autoscheduler that takes longer than `--limit` seconds, compilation included, or more memory than there is, has
refused, and the line says so. `--kept DIR` keeps the searches' records and what was refused there, so that the next run
has only to compile and to time; with `--prepare` that is all that is done.
"""

from __future__ import annotations

import json
import os
import runpy
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.registry import OptionError, Options, Result
from benchmarks.sides import SideEnded, SideProcess, alternate

_FOLDER = Path(__file__).parents[1] / "examples" / "pipelines"
CASES = ("blur", "unsharp", "harris", "bilateral_grid", "local_laplacian", "demosaic", "histogram")
AUTOSCHEDULERS = ("Adams2019", "Mullapudi2016", "Li2018")
_BY_HAND, _GUESS, _SEARCHED = "by hand", "guess", "searched"
HALIDE = (_BY_HAND, *AUTOSCHEDULERS)
_TOLERANCE = 2e-3  # of the largest element: sums are taken in different orders, and integers rounded after them
_NO_HALIDE = "Halide left out: no Python that has it was named (--halide-python, METASCHED_HALIDE_PYTHON)"


def run(options: Options) -> Iterator[Result]:
    """A line for each pipeline, and the geometric means."""
    unknown = [name for name in options.pipelines if name not in CASES]
    if unknown:
        raise OptionError(f"no pipeline `{unknown[0]}`: there are {', '.join(CASES)}")
    yield {"case": "notes", "cpu": ms.Target.detect().name, "notes": [] if options.halide_python else [_NO_HALIDE]}
    names = options.pipelines or (CASES[:1] if options.quick else CASES)
    lines = []
    for name in names:
        lines.append(_line(name, options))
        yield lines[-1]
    if options.prepare:
        return
    for ratio in ("ratio", "searched_ratio", "by_hand_ratio"):
        found = [float(str(line[ratio])) for line in lines if line.get(ratio) is not None]
        if found:
            yield {"case": f"geometric mean of {ratio}", ratio: statistics.geometric_mean(found)}


def _inputs(program: ms.Program, folder: Path) -> list[str]:
    """Files of inputs: images between 0.01 and 1, or over half of an integer's range, and weights that sum to 1."""
    rng = np.random.default_rng(0)
    files = []
    for n, buffer in enumerate(program.inputs):
        dtype = buffer.dtype.numpy
        values = rng.random([int(extent.value) for extent in buffer.shape])  # type: ignore[attr-defined]
        if dtype.kind == "f":
            values = values * 0.99 + 0.01 if values.ndim > 1 else values / values.sum()
        else:
            values = values * (np.iinfo(dtype).max // 4)
        files.append(str(folder / f"input{n}.npy"))
        np.save(files[-1], values.astype(dtype))
    return files


def _traces(program: ms.Program, options: Options) -> dict[str, ms.Trace]:
    target = ms.Target.detect(threads=options.threads)
    found = {_GUESS: ms.compile(program, target=target).trace}
    if options.trials and not options.quick:
        db = _database(options.kept)
        found[_SEARCHED] = ms.tune(program, trials=options.trials, target=target, seed=0, db=db).trace
    return found


def _database(kept: Path | None) -> str:
    if kept is None:
        return "sqlite:///metasched.db"
    kept.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{kept.resolve() / 'searches.db'}"


def _program(name: str) -> ms.Program:
    """A pipeline by its name: a text, or a function of Python that makes the program."""
    text = _FOLDER / f"{name}.ms"
    if text.exists():
        return ms.load_program(text)
    made: ms.Program = runpy.run_path(str(_FOLDER / f"{name}.py"))[name]()
    return made


def _line(name: str, options: Options) -> Result:
    program = _program(name)
    (output,) = program.func.outputs
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.environ["HL_NUM_THREADS"] = str(options.threads)
        inputs = _inputs(program, Path(folder))
        common = {"case": name, "threads": options.threads, "inputs": inputs, "dtype": str(output.dtype.numpy)}
        results = {schedule: Path(folder) / f"{schedule}.npy" for schedule in (_GUESS, _SEARCHED, *HALIDE)}
        ours = stack.enter_context(_side(sys.executable, "pipeline_side", options))
        measures: dict[str, Callable[[], list[float]]] = {}
        for schedule, trace in _traces(program, options).items():
            own = {"text": str(program), "trace": str(trace), "schedule": schedule, "result": str(results[schedule])}
            ours.ask(json.dumps({**common, **own}))
            measures[schedule] = partial(ours.measure, f"measure {schedule}")
        refused = Refusals(None if options.kept is None else options.kept / "refused.json", name)
        for schedule in HALIDE if options.halide_python is not None else ():
            if schedule in refused.known:
                continue
            side = stack.enter_context(_side(options.halide_python, "halide_side", options))
            spec = json.dumps({**common, "schedule": schedule, "result": str(results[schedule])})
            reason = _refusal(side, spec, options.limit)
            if reason is None:
                measures[schedule] = partial(side.measure, f"measure {schedule}")
            else:
                refused.add(schedule, reason)
        _check(name, {schedule: results[schedule] for schedule in measures})
        if options.prepare:
            return {"case": name, "prepared": list(measures), "refused": refused.known}
        times = alternate(measures, 1 if options.quick else 3)
        line = _result(name, {schedule: time.median for schedule, time in times.items()}, refused.known)
        return {**line, "spread": max(time.spread for time in times.values())}


def _refusal(side: SideProcess, spec: str, limit: int) -> str | None:
    """Why a schedule of Halide's is not to be had, None where it is ready."""
    try:
        said = side.ask_within(spec, limit)
    except SideEnded as error:
        return f"not done in {limit} s" if side.took_too_long else str(error)
    return str(said["refused"]) if "refused" in said else None


def _side(python: str | None, module: str, options: Options) -> SideProcess:
    assert python is not None
    return SideProcess(module, [python, "-m", f"benchmarks.{module}"], options.threads)


class Refusals:
    """Why schedules of a pipeline are not to be had, in a file for the next run if one is named."""

    def __init__(self, file: Path | None, pipeline: str) -> None:
        self._file, self._pipeline = file, pipeline
        self._of_all: dict[str, dict[str, str]] = json.loads(file.read_text()) if file and file.exists() else {}

    @property
    def known(self) -> dict[str, str]:
        """The reasons, by schedule."""
        return self._of_all.get(self._pipeline, {})

    def add(self, schedule: str, reason: str) -> None:
        self._of_all.setdefault(self._pipeline, {})[schedule] = reason
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text(json.dumps(self._of_all, indent=1))


def _result(name: str, seconds: Mapping[str, float], refused: Mapping[str, Any]) -> Result:
    by_machine = {schedule: seconds[schedule] for schedule in AUTOSCHEDULERS if schedule in seconds}
    peer = min(by_machine, key=lambda schedule: by_machine[schedule], default=None)
    theirs = None if peer is None else by_machine[peer]

    def over(other: str | None, ours: str = _GUESS) -> float | None:
        return seconds[other] / seconds[ours] if other is not None and other in seconds and ours in seconds else None

    return {
        "case": name,
        "ours_ms": seconds[_GUESS] * 1e3,
        "searched_ms": seconds["searched"] * 1e3 if "searched" in seconds else None,
        "peer": f"Halide, {peer}" if peer else None,
        "peer_ms": None if theirs is None else theirs * 1e3,
        "ratio": over(peer),
        "searched_ratio": over(peer, "searched"),
        "by_hand_ratio": over(_BY_HAND),
        "all_ms": {schedule: value * 1e3 for schedule, value in seconds.items()},
        "refused": dict(refused),
    }


def _check(name: str, results: Mapping[str, Path]) -> None:
    """A time counts only for a result that the others share."""
    expected = np.load(results[_GUESS]).astype(np.float64)
    for schedule, path in results.items():
        gap = float(np.abs(expected - np.load(path)).max() / np.abs(expected).max())
        assert gap <= _TOLERANCE, f"{name}: {schedule} differs by {gap:.2g}"

"""Pipelines of images: our guess, and what a search finds, against Halide's autoschedulers and schedules by hand.

Halide runs in a virtual environment of its own: `--halide-python PATH`, or METASCHED_HALIDE_PYTHON in the environment.
Each side has a process of its own and as many threads; all get the same inputs, results are compared, and blocks
alternate. With `--trials 0` nothing is searched for. `--pipelines NAME,...` names some.
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
from benchmarks.sides import SideProcess, alternate

_FOLDER = Path(__file__).parents[1] / "examples" / "pipelines"
CASES = ("blur", "unsharp", "harris", "bilateral_grid", "local_laplacian", "demosaic", "histogram")
AUTOSCHEDULERS = ("Adams2019", "Mullapudi2016", "Li2018")
_BY_HAND, _GUESS = "by hand", "guess"
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
        found["searched"] = ms.tune(program, trials=options.trials, target=target, seed=0).trace
    return found


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
        wanted = {
            schedule: {"text": str(program), "trace": str(trace)}
            for schedule, trace in _traces(program, options).items()
        }
        sides = [(stack.enter_context(_side(sys.executable, "pipeline_side", options)), wanted)]
        if options.halide_python is not None:
            side = stack.enter_context(_side(options.halide_python, "halide_side", options))
            sides.append((side, {schedule: {} for schedule in (_BY_HAND, *AUTOSCHEDULERS)}))
        measures: dict[str, Callable[[], list[float]]] = {}
        results: dict[str, Path] = {}
        refused = {}
        for side, schedules in sides:
            for schedule, own in schedules.items():
                path = Path(folder) / f"{len(results)}.npy"
                said = side.ask(json.dumps({**common, **own, "schedule": schedule, "result": str(path)}))
                if "refused" in said:
                    refused[schedule] = said["refused"]
                    continue
                measures[schedule] = partial(side.measure, f"measure {schedule}")
                results[schedule] = path
        _check(name, results)
        times = alternate(measures, 1 if options.quick else 3)
        return _result(name, {schedule: time.median for schedule, time in times.items()}, refused)


def _side(python: str, module: str, options: Options) -> SideProcess:
    return SideProcess(module, [python, "-m", f"benchmarks.{module}"], options.threads)


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

"""Replayed expert traces against PyTorch, TVM and what the machine can do, kernel by kernel.

PyTorch runs in a virtual environment of its own: `--torch-python PATH`, or METASCHED_TORCH_PYTHON in the environment.
So does TVM, with `--tvm-python PATH` and `--tvm-records DIR` (METASCHED_TVM_PYTHON, METASCHED_TVM_RECORDS): it replays
the fastest record of each of the twelve operators. Without them, their figures are left out, with a note. Inputs are
the same for all, and the results are compared.

PyTorch is compared with as both are called from Python. TVM's time is its own evaluator's, of the kernel alone, and is
compared with that of our kernel alone.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import metasched as ms
from benchmarks.kernel_cases import BY_NAME, CASES, Bound, KernelCase
from benchmarks.peak import STREAMS, Limit, bandwidth, multiply_adds
from benchmarks.registry import Options, Result
from benchmarks.sides import ALONE, OURS, SideProcess, SideTime, alternate
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Buffer
from metasched.operators import TWELVE

TOLERANCE = 1e-4  # of the largest element: sums are taken in different orders
NO_TORCH = "PyTorch left out: no Python that has it was named (--torch-python, METASCHED_TORCH_PYTHON)"
_NO_TVM = "TVM left out: no Python that has it and no records were named (--tvm-python, --tvm-records)"
_OURS_ALONE = f"{OURS} alone"
TORCH, TVM, _LIMIT = "PyTorch", "TVM", "limit"
_LIMIT_SAMPLES = 5  # a block
_QUICK_CASES = ("matmul 128^3", "matmul 127^3")


def run(options: Options) -> Iterator[Result]:
    """A line for each case, after a line that says what was left out."""
    cases = tuple(BY_NAME[name] for name in _QUICK_CASES) if options.quick else CASES
    yield {"case": "notes", "cpu": ms.Target.detect().name, "notes": notes_of(options)}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        command = [sys.executable, "-m", "benchmarks.kernel_side"]
        sides = [stack.enter_context(SideProcess(OURS, command, options.threads))]
        if options.torch_python is not None:
            command = [options.torch_python, "-m", "benchmarks.torch_side"]
            sides.append(stack.enter_context(SideProcess(TORCH, command, options.threads)))
        if options.tvm_python is not None:
            command = [options.tvm_python, "-m", "benchmarks.tvm_side"]
            sides.append(stack.enter_context(SideProcess(TVM, command, options.threads)))
        comparison = _Comparison(tuple(sides), Path(folder), Limits(options), options)
        for case in cases:
            yield comparison.line(case)


def notes_of(options: Options) -> list[str]:
    notes = [] if options.torch_python is not None else [NO_TORCH]
    flags = ms.Target.detect().features
    missing = [name for name in ("amx-int8", "amx-bf16", "avx512bf16") if name not in flags]
    if missing:
        notes.append(f"no bf16 rows: the CPU lacks {', '.join(missing)}")
    return [*notes, *_tvm_notes(options)]


def _tvm_notes(options: Options) -> list[str]:
    if options.tvm_python is None:
        return [_NO_TVM]
    missing = [suite for suite in TWELVE if tvm_records(options, suite) is None]
    return [f"no records of TVM for {', '.join(missing)}"] if missing else []


def tvm_records(options: Options, suite: str | None) -> Path | None:
    """The folder with TVM's database of one of the twelve operators, if there is one."""
    if suite is None or options.tvm_records is None:
        return None
    folder = options.tvm_records / suite
    return folder if folder.is_dir() else None


class Limits:
    """Loops that reach what the machine does at most; each is made when it is first asked for."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._found: dict[tuple[Bound, int], Limit] = {}

    def limit_of(self, case: KernelCase) -> Limit | None:
        if case.bound is Bound.NONE:
            return None
        key = (case.bound, case.threads)
        if key not in self._found:
            target = ms.Target.detect()
            if case.bound is Bound.ARITHMETIC:
                self._found[key] = multiply_adds(32, case.threads, target, self._options)
            else:
                stream = next(s for s in STREAMS if s.name == case.bound.value)
                self._found[key] = bandwidth(stream, case.threads, target, self._options)
        return self._found[key]


class _Comparison:
    """Sides that are up, and what was measured so far."""

    def __init__(self, sides: tuple[SideProcess, ...], folder: Path, limits: Limits, options: Options) -> None:
        self._sides = sides
        self._folder = folder
        self._options = options
        self._limits = limits
        self._rounds = 1 if options.quick else 3
        self._gflops: dict[str, float] = {}

    def line(self, case: KernelCase) -> Result:
        program = case.program()
        sides = [side for side in self._sides if self._takes(side, case)]
        said, results = self._prepare(case, program, sides)
        _check(case, results)
        measures, limit = _measures(case, sides), self._limits.limit_of(case)
        if limit is not None:
            measures[_LIMIT] = partial(limit.samples, _LIMIT_SAMPLES)
        times = alternate(measures, self._rounds)
        ours = times[OURS].median
        gflops = case.operations / ours / 1e9
        self._gflops[case.name] = gflops
        return {
            "case": case.name,
            "ours_ms": ours * 1e3,
            **self._peer(case, times, gflops),
            "goal": case.goal,
            **_tvm(case, times),
            "gflops": gflops,
            **({} if limit is None else _fraction(case, program, ours, limit.rate(times[_LIMIT].median))),
            "goal_of_peak": case.goal_of_peak,
            "expert": case.expert,
            "threads": case.threads,
            "compile_s": said[OURS]["compile_s"],
            "prologue_ms": milliseconds(said[OURS]["prologue_s"]),
            "spread": {name: side.spread for name, side in times.items()},
        }

    def _takes(self, side: SideProcess, case: KernelCase) -> bool:
        if side.name == TVM:
            return tvm_records(self._options, case.suite) is not None
        return case.torch or side.name != TORCH

    def _prepare(
        self, case: KernelCase, program: ms.Program, sides: Sequence[SideProcess]
    ) -> tuple[dict[str, Any], dict[str, Path]]:
        """Each side's answer for the case, and the file of its result."""
        inputs = write_inputs(program, self._folder)
        records = tvm_records(self._options, case.suite)
        said, results = {}, {}
        for side in sides:
            results[side.name] = self._folder / f"{side.name}.npy"
            spec = {
                "operator": case.operator,
                "suite": case.suite,
                "records": None if records is None else str(records),
                "params": dict(program.params),
                "trace": str(case.trace()),
                "threads": case.threads,
                "inputs": inputs,
                "result": str(results[side.name]),
            }
            said[side.name] = side.ask(json.dumps(spec))
        return said, results

    def _peer(self, case: KernelCase, times: Mapping[str, SideTime], gflops: float) -> Result:
        if case.against is not None:
            other = self._gflops.get(case.against)
            ratio = None if other is None else gflops / other
            return {"peer": f"ours, {case.against}, operations a second", "peer_gflops": other, "ratio": ratio}
        if TORCH not in times:
            return {"peer": TORCH, "peer_ms": None, "ratio": None}
        theirs = times[TORCH].median
        return {"peer": TORCH, "peer_ms": theirs * 1e3, "ratio": theirs / times[OURS].median}


def _fraction(case: KernelCase, program: ms.Program, seconds: float, limit: float) -> Result:
    """How near the limit: what limits, its rate between blocks of ours, and our share of it."""
    if case.bound is Bound.ARITHMETIC:
        return {"peak_gflops": limit, "of_peak": case.operations / seconds / 1e9 / limit}
    rate = argument_bytes(program) / seconds / 1e9
    return {"gb_per_s": rate, "peak": case.bound.value, "peak_gb_per_s": limit, "of_peak": rate / limit}


def _measures(case: KernelCase, sides: Sequence[SideProcess]) -> dict[str, Callable[[], list[float]]]:
    """What is timed of a case: each side, and our kernel alone where TVM's may be."""
    measures: dict[str, Callable[[], list[float]]] = {side.name: side.measure for side in sides}
    if case.suite is not None:
        measures[_OURS_ALONE] = partial(sides[0].measure, ALONE)
    return measures


def _tvm(case: KernelCase, times: Mapping[str, SideTime]) -> Result:
    """TVM's kernel against ours, neither with a call from Python."""
    if case.suite is None:
        return {}
    ours = times[_OURS_ALONE].median
    theirs = times[TVM].median if TVM in times else None
    return {
        "ours_alone_ms": ours * 1e3,
        "tvm_ms": None if theirs is None else theirs * 1e3,
        "ratio_tvm": None if theirs is None else theirs / ours,
        "goal_tvm": case.goal_tvm,
    }


def argument_bytes(program: ms.Program) -> int:
    """Bytes of all inputs and outputs, each counted once."""
    return sum(math.prod(_shape(b)) * b.dtype.bytes for b in (*program.inputs, *program.outputs))


def _shape(buffer: Buffer) -> tuple[int, ...]:
    shape = [as_int(n) for n in buffer.shape]
    assert None not in shape
    return tuple(n for n in shape if n is not None)


def write_inputs(program: ms.Program, folder: Path) -> list[str]:
    """The same numbers for every side, one .npy file an argument, in calling order."""
    rng = np.random.default_rng(0)
    shapes = {b.name: (_shape(b), b.dtype.numpy) for b in program.inputs}
    files = []
    for number, name in enumerate(program.func.order):
        path = folder / f"input{number}.npy"
        if name not in shapes:
            np.save(path, np.float32(1e-5))  # an epsilon
        else:
            np.save(path, _numbers(rng, *shapes[name]))
        files.append(str(path))
    return files


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    if dtype.kind not in "iu":
        return rng.standard_normal(shape, np.float32).astype(dtype).astype(np.float32)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape, dtype)


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3


def largest_gap(results: Sequence[Path]) -> float:
    """How far results are from the first one at most, over its largest element. Raises AssertionError for shapes that
    differ.
    """
    first, *others = (np.load(path, mmap_mode="r") for path in results)
    gap = 0.0
    for other in others:
        assert other.shape == first.shape, f"results of shapes {first.shape} and {other.shape}"
        gap = max(gap, float(np.abs(first - other).max() / np.abs(first).max()))
    return gap


def _check(case: KernelCase, results: Mapping[str, Path]) -> None:
    """A time counts only for a result that the others share."""
    gap = largest_gap(list(results.values()))
    assert gap <= TOLERANCE, f"{case.name}: results differ by {gap:.2g} of the largest element"

"""Whole networks against the runtimes that people use: a process of its own for each side, in alternating blocks.

ResNet-50, MobileNet-v2 and BERT-base (128 tokens) with random weights, made by the Python of `--torch-python PATH` (or
METASCHED_TORCH_PYTHON), which has torch, torchvision, transformers, onnxscript and onnxruntime; `--networks NAME,...`
takes some of them. Any other model: `--model FILE.onnx`, with `--sizes batch=1,...` for those that it leaves open, and
inputs by name in FILE.npz (random ones, where there is none); PyTorch has no side then.

Peers: ONNX Runtime with all its optimisations; PyTorch eager, channels last, in inference mode; torch.compile, frozen;
and PyTorch in bf16, where the CPU has it. Ours: nothing tuned, started with an empty cache and again from the cache;
tuned for `--budget SECONDS`; and in bf16. For each network, lines of its start and memory, of largest differences from
ONNX Runtime's results, and of the executor; then a line for each pair of sides, with `ratio` above 1 where we are
faster. `--kept DIR` keeps models, databases and caches for the next run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.network_spec import (
    BF16,
    BF16_PEERS,
    COMPILED,
    EAGER,
    F32_PEERS,
    GUESS,
    ONNX_RUNTIME,
    TUNED,
)
from benchmarks.network_tuning import tune_lines
from benchmarks.registry import OptionError, Options, Result
from benchmarks.sides import UNSTEADY, SideProcess, SideTime, alternate
from metasched.graph.inputs import random_inputs
from metasched.target import Target

NETWORKS = ("mobilenet_v2", "resnet50", "bert_base_128")
_ROOT = Path(__file__).parents[1]
_ROUNDS = 3
_PROFILED_KERNELS = 8


@dataclass(frozen=True)
class Case:
    """A network: its name, its file, the file of its inputs, and whether PyTorch has it as a module."""

    name: str
    model: Path
    inputs: Path
    in_torch: bool
    sizes: Mapping[str, int]


def run(options: Options) -> Iterator[Result]:
    """A line of what was left out; then the lines of each network."""
    target = Target.detect(threads=options.threads)
    yield {"case": "notes", "cpu": target.name, "notes": _notes(options, target)}
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.kept or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for case in network_cases(options, folder):
            yield from _Comparison(case, options, target, folder).lines()


def _notes(options: Options, target: Target) -> list[str]:
    notes = []
    if options.torch_python is None:
        notes.append("peers left out: --torch-python PATH names a Python that has them")
    if not _has_bf16(target):
        notes.append("bf16 left out: this CPU has no instructions for it")
    if options.budget is None:
        notes.append("nothing is tuned: --budget SECONDS says for how long")
    return notes


def _has_bf16(target: Target) -> bool:
    return target.has("avx512bf16")


def network_cases(options: Options, folder: Path) -> Iterator[Case]:
    """The networks that options name, made in a folder where they are not there. Raises OptionError."""
    for model in options.model:
        if not model.is_file():
            raise OptionError(f"--model: there is no file {model}")
        yield Case(model.stem, model, _inputs_of(model, options.sizes, folder), False, options.sizes)
    named = options.networks or (() if options.model else NETWORKS)
    unknown = [name for name in named if name not in NETWORKS]
    if unknown:
        raise OptionError(f"--networks: no network `{unknown[0]}`: there are {', '.join(NETWORKS)}")
    if named and options.torch_python is None:
        raise OptionError("the networks are made with PyTorch: give --torch-python PATH, or a file by --model")
    for name in named:
        file = folder / f"{name}.onnx"
        if not file.with_suffix(".npz").is_file():
            subprocess.run(
                [str(options.torch_python), "-m", "benchmarks.network_models", name, str(file.absolute())],
                cwd=_ROOT,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        yield Case(name, file, file.with_suffix(".npz"), True, {})


def _inputs_of(model: Path, sizes: Mapping[str, int], folder: Path) -> Path:
    """The .npz file beside a model, or random inputs."""
    given = model.with_suffix(".npz")
    if given.is_file():
        return given
    import metasched as ms

    made = folder / f"{model.stem}.inputs.npz"
    np.savez(made, **random_inputs(ms.load_onnx(model, **sizes).inputs))  # type: ignore[call-overload,arg-type]
    return made


@dataclass(frozen=True)
class _Comparison:
    case: Case
    options: Options
    target: Target
    folder: Path

    def lines(self) -> Iterator[Result]:
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            results = Path(scratch)
            sides: dict[str, SideProcess] = {}
            facts: dict[str, dict[str, Any]] = {}
            cache = Path(stack.enter_context(tempfile.TemporaryDirectory()))

            def start(name: str, command: Sequence[str]) -> None:
                side = stack.enter_context(SideProcess(name, command, self.options.threads))
                facts[name] = side.answer()
                sides[name] = side

            for peer in self._peers():
                start(peer, self._peer(peer, results))
            with SideProcess("cold", self._ours(GUESS, "f32", results, cache), self.options.threads) as cold:
                facts["cold"] = cold.answer()
            start(GUESS, self._ours(GUESS, "f32", results, cache))
            facts["bare"] = {"resident_bytes": self._resident_without_network(cache)}
            yield self._start_line(facts)
            yield self._memory_line(facts)
            yield from self._differences(results, GUESS)
            if _has_bf16(self.target):
                start(BF16, self._ours(BF16, "bf16", results, cache))
                yield from self._differences(results, BF16)
            if self.options.budget is not None:
                reference_s = self._time_alone(sides)
                spec = {**self._spec("f32", cache, self._database()), "budget": self.options.budget}
                yield from tune_lines(self.case.name, spec, reference_s)
                start(TUNED, self._ours(TUNED, "f32", results, cache, self._database()))
                yield from self._differences(results, TUNED)
            times = alternate({name: side.measure for name, side in sides.items()}, self._rounds())
            yield from self._ratios(times, facts)
            for name in (GUESS, TUNED):
                if name in sides:
                    yield from self._profile(name, sides[name], times[name])

    def _rounds(self) -> int:
        return 1 if self.options.quick else _ROUNDS

    def _database(self) -> str:
        return f"sqlite:///{(self.folder / self.case.name).absolute()}.db"

    def _time_alone(self, sides: Mapping[str, SideProcess]) -> float | None:
        """Seconds of ONNX Runtime, alone on the machine; None where it has no side."""
        side = sides.get(ONNX_RUNTIME)
        return None if side is None else alternate({ONNX_RUNTIME: side.measure}, 1)[ONNX_RUNTIME].median

    def _peers(self) -> tuple[str, ...]:
        if self.options.torch_python is None:
            return ()
        if not self.case.in_torch:
            return (ONNX_RUNTIME,)
        return F32_PEERS + (BF16_PEERS if _has_bf16(self.target) else ())

    def _peer(self, kind: str, results: Path) -> list[str]:
        spec = {
            "kind": kind,
            "network": self.case.name,
            "model": str(self.case.model.absolute()),
            "inputs": str(self.case.inputs.absolute()),
            "result": str(results / f"{kind}.npz"),
            "threads": self.options.threads,
        }
        assert self.options.torch_python is not None
        return [self.options.torch_python, "-m", "benchmarks.network_peer_side", json.dumps(spec)]

    def _ours(self, name: str, precision: str, results: Path, cache: Path, db: str | None = None) -> list[str]:
        spec = {**self._spec(precision, cache, db), "result": str(results / f"{name}.npz")}
        return [sys.executable, "-m", "benchmarks.network_side", json.dumps(spec)]

    def _spec(self, precision: str, cache: Path, db: str | None) -> dict[str, Any]:
        return {
            "model": str(self.case.model.absolute()),
            "inputs": str(self.case.inputs.absolute()),
            "threads": self.options.threads,
            "sizes": dict(self.case.sizes),
            "precision": precision,
            "db": db,
            "cache": str(cache),
        }

    def _resident_without_network(self, cache: Path) -> int:
        """Memory of a process of ours that has loaded and run a network of one small node."""
        model, inputs = self.folder / "tiny.onnx", self.folder / "tiny.npz"
        write_tiny(model, inputs)
        spec = {**self._spec("f32", cache, None), "model": str(model.absolute()), "inputs": str(inputs.absolute())}
        spec |= {"sizes": {}, "result": str(cache / "tiny.npz")}
        command = [sys.executable, "-m", "benchmarks.network_side", json.dumps(spec)]
        with SideProcess("tiny", command, self.options.threads) as side:
            return int(side.answer()["resident_bytes"])

    # --- lines

    def _start_line(self, facts: Mapping[str, Mapping[str, Any]]) -> Result:
        cold, warm = facts["cold"], facts[GUESS]
        return {
            "case": f"{self.case.name}, start",
            "tasks": cold["tasks"],
            "kernels": cold["kernels"],
            "cold_s": cold["start_s"],
            "cold_goal_s": 5 + 0.15 * cold["tasks"],
            "cold_import_s": cold["import_s"],
            "cold_load_s": cold["load_s"],
            "cold_compile_s": cold["compile_s"],
            "cold_compile_core_s_a_task": cold["compile_core_s"] / max(cold["tasks"], 1),
            "core_s_a_task_goal": 0.3,
            "cached_s": warm["start_s"],
            "cached_goal_s": 1 + warm["read_weights_s"],
            "cached_load_s": warm["load_s"],
            "cached_compile_s": warm["compile_s"],
            "read_weights_s": warm["read_weights_s"],
            "torch_compile_s": facts.get(COMPILED, {}).get("compile_s"),
            "onnx_runtime_s": facts.get(ONNX_RUNTIME, {}).get("start_s"),
        }

    def _memory_line(self, facts: Mapping[str, Mapping[str, Any]]) -> Result:
        ours = facts[GUESS]
        held = ours["resident_bytes"] - facts["bare"]["resident_bytes"]
        allowed = ours["file_bytes"] + (ours["arena_bytes"] or 0)
        return {
            "case": f"{self.case.name}, memory",
            "resident_mb": ours["resident_bytes"] / 1e6,
            "of_it_without_network_mb": facts["bare"]["resident_bytes"] / 1e6,
            "file_mb": ours["file_bytes"] / 1e6,
            "arena_mb": _mega(ours["arena_bytes"]),
            "bound_mb": _mega(ours["bound_bytes"]),
            "arena_over_bound": _ratio(ours["arena_bytes"], ours["bound_bytes"]),
            "held_over_file_and_arena": held / allowed,
            "peers_mb": {name: fact["resident_bytes"] / 1e6 for name, fact in facts.items() if name in F32_PEERS},
        }

    def _differences(self, results: Path, name: str) -> Iterator[Result]:
        """The largest difference of each output from ONNX Runtime's."""
        theirs = results / f"{ONNX_RUNTIME}.npz"
        if not theirs.is_file():
            return
        with np.load(theirs) as expected, np.load(results / f"{name}.npz") as got:
            for number, key in enumerate(expected.files):
                yield {
                    "case": f"{self.case.name}, {name}, difference of output {number}",
                    **difference(got[key], expected[key]),
                }

    def _ratios(self, times: Mapping[str, SideTime], facts: Mapping[str, Mapping[str, Any]]) -> Iterator[Result]:
        ours = [name for name in (GUESS, TUNED) if name in times]
        pairs = [(name, peer) for name in ours for peer in F32_PEERS if peer in times]
        if BF16 in times:
            pairs += [(BF16, name) for name in ours] + [(BF16, peer) for peer in BF16_PEERS if peer in times]
        if not pairs:
            pairs = [(name, name) for name in ours]
        for name, peer in pairs:
            yield {
                "case": f"{self.case.name}, {name}",
                "ours_ms": times[name].median * 1e3,
                "peer": peer if peer not in ours else f"metasched f32, {peer}",
                "peer_ms": times[peer].median * 1e3,
                "ratio": times[peer].median / times[name].median,
                "peer_version": facts[peer].get("version"),
                "spread": {side: times[side].spread for side in (name, peer)},
                "steady": max(times[side].spread for side in (name, peer)) <= UNSTEADY,
                "threads": self.options.threads,
            }
        for name in ours:
            best = min((times[peer].median for peer in (EAGER, COMPILED) if peer in times), default=None)
            if best is not None:
                yield {
                    "case": f"{self.case.name}, {name}",
                    "ours_ms": times[name].median * 1e3,
                    "peer": "the better of PyTorch eager and torch.compile",
                    "peer_ms": best * 1e3,
                    "ratio": best / times[name].median,
                }

    def _profile(self, name: str, side: SideProcess, time: SideTime) -> Iterator[Result]:
        """The executor's share, and the kernels that take longest."""
        found = side.ask("profile")
        if found is None:
            return
        yield {
            "case": f"{self.case.name}, {name}, executor",
            "total_ms": found["total_ms"],
            "kernels_ms": found["kernels_ms"],
            "overhead": 1 - found["kernels_ms"] / found["total_ms"],
            "call_ms": time.median * 1e3,
        }
        for row in found["kernels"][:_PROFILED_KERNELS]:
            yield {"case": f"{self.case.name}, {name}, kernel", **row}


def write_tiny(model: Path, inputs: Path) -> None:
    """A network of one node, and its inputs."""
    import onnx
    from onnx import helper

    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "tiny", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), model)
    np.savez(inputs, x=np.zeros(4, np.float32))


def difference(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> Result:
    """How far results are apart at most, and over the largest of those expected. Raises AssertionError for shapes that
    differ."""
    assert got.shape == expected.shape, f"results of shapes {got.shape} and {expected.shape}"
    gap = float(np.abs(got.astype(np.float64) - expected).max(initial=0.0))
    largest = float(np.abs(expected).max(initial=0.0))
    return {"largest_difference": gap, "largest_expected": largest, "relative": gap / largest if largest else gap}


def _mega(count: float | None) -> float | None:
    return None if count is None else count / 1e6


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or not b else a / b

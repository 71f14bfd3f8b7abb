"""What tensor instructions gain where the CPU has them: products of bf16 and of bytes, tuned, against f32 and PyTorch.

For each shape four searches from scratch by the preset `cpu`, of f32, of bf16 summed in f32, and of unsigned by signed
bytes summed in 32 bits: with AMX, and without it, by VNNI. Then all are timed, each in a process of its own, in
alternating blocks: the kernels alone, and PyTorch's eager bf16 from Python beside ours from Python. PyTorch rounds its
results to bf16, ours stay f32. Weights of convolutions are packed once, if a schedule packs them: `prologue_ms` and
`peer_prologue_ms` say what that takes, and are none where nothing is packed. PyTorch gets them as channels last.
Operands of matmuls are not packed ahead.

Rows that the CPU cannot run are left out, and a note says so. PyTorch runs in a virtual environment of its own:
`--torch-python PATH`, or METASCHED_TORCH_PYTHON. `--skip N` and `--shapes N` take some of the shapes, `--trials N` is
the length of each search.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import metasched as ms
from benchmarks.kernels import NO_TORCH, TORCH, largest_gap, milliseconds, write_inputs
from benchmarks.registry import Options, Result
from benchmarks.sides import ALONE, SideProcess, SideTime, alternate
from benchmarks.tuning import tune_program
from metasched.schedule.tensor import tensorized, tensorized_by

_ROUNDS = 3
_QUICK_TRIALS = 2
# Of the largest element: PyTorch's results have 8 bits.
_ROUNDING_TOLERANCE = 1e-2


@dataclass(frozen=True)
class _Kind:
    """Element types, the rules of the search, and the instruction sets without which there is nothing to show."""

    name: str
    types: Mapping[str, str]
    rules: str
    features: tuple[str, ...] = ()


_BYTES = {"T": "u8", "U": "i8", "ACC": "i32"}
_F32 = _Kind("f32", {}, "cpu")
_BF16 = _Kind("bf16", {"T": "bf16", "U": "bf16", "ACC": "f32"}, "cpu", ("avx512bf16",))
_KINDS = (
    _F32,
    _BF16,
    _Kind("u8 x s8 by VNNI", _BYTES, "cpu,-use_amx", ("avx512vnni",)),
    _Kind("u8 x s8 by AMX", _BYTES, "cpu", ("amx-int8",)),
)


@dataclass(frozen=True)
class _Case:
    name: str
    operator: str
    params: Mapping[str, int]


_CASES = (
    _Case("matmul 1024^3", "matmul_nn", {"M": 1024, "N": 1024, "K": 1024}),
    _Case("matmul 512x768x3072", "matmul_nn", {"M": 512, "N": 768, "K": 3072}),
    _Case("matmul 100x1000x72", "matmul_nn", {"M": 100, "N": 1000, "K": 72}),
    _Case("batch matmul 12x128x64x128", "batch_matmul_nn", {"BATCH": 12, "M": 128, "N": 64, "K": 128}),
    _Case("conv 56x56x64->64 3x3", "conv2d_nhwc", {"H": 56, "W": 56, "CI": 64, "CO": 64}),
)


def run(options: Options) -> Iterator[Result]:
    """Notes, then for each shape a line for each kind against f32, and one for bf16 against PyTorch."""
    target = ms.Target.detect(threads=options.threads)
    kinds = [kind for kind in _KINDS if all(target.has(feature) for feature in kind.features)]
    notes = [f"{kind.name} left out: the CPU lacks {', '.join(kind.features)}" for kind in _KINDS if kind not in kinds]
    if options.torch_python is None:
        notes.append(NO_TORCH)
    yield {"case": "notes", "cpu": target.name, "notes": notes}
    shapes = 1 if options.quick else options.shapes
    for case in _CASES[options.skip :][:shapes]:
        yield from _lines(case, kinds, options)


def _lines(case: _Case, kinds: list[_Kind], options: Options) -> Iterator[Result]:
    trials = _QUICK_TRIALS if options.quick else options.trials
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ours: dict[str, SideProcess] = {}
        used: dict[str, str] = {}
        results: dict[str, Path] = {}
        prologues: dict[str, float | None] = {}
        for kind in kinds:
            program = ms.operators.load(case.operator, **case.params, **kind.types)
            best = tune_program(program, trials, seed=0, threads=options.threads, rules=kind.rules).trace
            loops = tensorized(best.apply_to(program).func).values()
            used[kind.name] = ", ".join(str(tensorized_by(loop)) for loop in loops) or "vectors"
            place = Path(folder) / kind.name.replace(" ", "_")
            place.mkdir()
            files, results[kind.name] = write_inputs(program, place), place / "result.npy"
            spec = _spec(case, program, str(best), options, files, results[kind.name])
            ours[kind.name] = stack.enter_context(_side(kind.name, "kernel_side", sys.executable, options))
            prologues[kind.name] = ours[kind.name].ask(json.dumps(spec))["prologue_s"]
            if kind is _BF16 and options.torch_python is not None:
                results[TORCH] = place / "torch.npy"
                torch = stack.enter_context(_side(TORCH, "torch_side", options.torch_python, options))
                spec = {**_spec(case, program, "", options, files, results[TORCH]), "dtype": "bfloat16"}
                prologues[TORCH] = torch.ask(json.dumps(spec)).get("prologue_s")
        rounds = 1 if options.quick else _ROUNDS
        alone = alternate({name: partial(side.measure, ALONE) for name, side in ours.items()}, rounds)
        for kind in kinds:
            if kind is not _F32:
                line = _line(
                    f"{case.name}, {kind.name}", alone[kind.name], _F32.name, alone[_F32.name], used[kind.name]
                )
                yield {**line, **_packing_times(prologues, kind.name, _F32.name)}
        if TORCH in results:
            gap = largest_gap([results[_BF16.name], results[TORCH]])
            calls = alternate({_BF16.name: ours[_BF16.name].measure, TORCH: torch.measure}, rounds)
            line = _line(f"{case.name}, bf16 from Python", calls[_BF16.name], TORCH, calls[TORCH], used[_BF16.name])
            line |= {**_packing_times(prologues, _BF16.name, TORCH), "gap": gap}
            yield line if gap <= _ROUNDING_TOLERANCE else {**line, "ratio": None}


def _line(case: str, ours: SideTime, peer: str, theirs: SideTime, used: str) -> Result:
    return {
        "case": case,
        "instruction": used,
        "ours_ms": milliseconds(ours.median),
        "peer": peer,
        "peer_ms": milliseconds(theirs.median),
        "ratio": theirs.median / ours.median,
        "spread": {"ours": ours.spread, peer: theirs.spread},
    }


def _packing_times(prologues: Mapping[str, float | None], ours: str, peer: str) -> Result:
    """The times of both sides for what they compute of constant weights ahead, in ms; None where that is nothing."""
    return {"prologue_ms": milliseconds(prologues[ours]), "peer_prologue_ms": milliseconds(prologues[peer])}


def _side(name: str, module: str, python: str, options: Options) -> SideProcess:
    return SideProcess(name, [python, "-m", f"benchmarks.{module}"], options.threads)


def _spec(
    case: _Case, program: ms.Program, trace: str, options: Options, files: list[str], result: Path
) -> dict[str, object]:
    return {
        "operator": case.operator,
        "params": dict(program.params),
        "trace": trace,
        "threads": options.threads,
        "inputs": files,
        "result": str(result),
    }

"""MobileNet-v2's blocks as one task, against their three convolutions tuned apart.

A block expands its channels by a 1 x 1 convolution, filters each by one of 3 x 3, and projects them to fewer by another
of 1 x 1; the first two are followed by ReLU6 (Sandler et al. 2018, table 1). For each distinct shape at 224 x 224 that
expands (the additions of the residual are left out): a search of the block as one program, and one of each of its
three, with `--trials N` each, from nothing that was measured. Then both are timed in turns, each in a process of its
own: kernels alone, those of the three one after another on the same data. Weights are constant, so packed once
where a schedule packs them: `prologue_ms` and `peer_prologue_ms` say what that takes.

`--skip N` and `--shapes N` take some of the blocks, `--seeds 0,1` other seeds. A line is printed when its block is
done; the geometric mean comes last.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean

import metasched as ms
from benchmarks.kernels import TOLERANCE, largest_gap, milliseconds, write_inputs
from benchmarks.registry import Options, Result
from benchmarks.sides import ALONE, OURS, SideProcess, alternate
from benchmarks.tuning import tune_program

APART = "the three tuned apart"
_ROUNDS = 3
_QUICK_TRIALS = 2

# The stages of each, with the names and shapes of what each takes besides the result before.
_EXPAND = """
    product: E[h, w, e] = sum[c](X[h, w, c] * expand[c, e])
    widened: F[h, w, e] = min(max(E[h, w, e] + expand_bias[e], 0), 6)
"""
_DEPTHWISE = """
    P: f32[{size} + 2, {size} + 2, {ce}]
    D: f32[{out}, {out}, {ce}]
    pad: P[h, w, e] = F[h - 1, w - 1, e] if h >= 1 and h <= {size} and w >= 1 and w <= {size} else 0
    depthwise: D[h, w, e] = sum[r, s](P[{stride}*h + r, {stride}*w + s, e] * filters[r, s, e])
    filtered: G[h, w, e] = min(max(D[h, w, e] + filter_bias[e], 0), 6)
"""
_PROJECT = """
    narrowing: Q[h, w, o] = sum[e](G[h, w, e] * project[e, o])
    narrowed: Y[h, w, o] = Q[h, w, o] + project_bias[o]
"""
# The result of each and what it takes, besides the result before.
_TO_EXPAND = "const expand: f32[{ci}, {ce}], expand_bias: f32[{ce}]"
_TO_FILTER = "const filters: f32[3, 3, {ce}], filter_bias: f32[{ce}]"
_TO_PROJECT = "const project: f32[{ce}, {co}], project_bias: f32[{co}]"
_X, _F = "X: f32[{size}, {size}, {ci}]", "F: f32[{size}, {size}, {ce}]"
_G, _Y = "G: f32[{out}, {out}, {ce}]", "Y: f32[{out}, {out}, {co}]"


@dataclass(frozen=True)
class Block:
    """A block of `size` by `size` pixels: channels that come in, that are between, and that go out.

    `number` is its place among the seventeen of the network, of several that are alike the first.
    """

    number: int
    size: int
    ci: int
    ce: int
    co: int
    stride: int = 1

    @property
    def case(self) -> str:
        channels = f"{self.ci}->{self.ce}->{self.co}"
        return f"block {self.number}: {self.size}x{self.size} {channels} stride {self.stride}"

    def whole_program(self) -> ms.Program:
        inputs = ", ".join((_X, _TO_EXPAND, _TO_FILTER, _TO_PROJECT))
        return self._program("block", inputs, _Y, _EXPAND + _DEPTHWISE + _PROJECT)

    def stage_programs(self) -> tuple[ms.Program, ms.Program, ms.Program]:
        """Each takes the result of the one before as its first argument; all else in the order of the whole."""
        return (
            self._program("expand", f"{_X}, {_TO_EXPAND}", _F, _EXPAND),
            self._program("filter", f"{_F}, {_TO_FILTER}", _G, _DEPTHWISE),
            self._program("project", f"{_G}, {_TO_PROJECT}", _Y, _PROJECT),
        )

    def _program(self, name: str, inputs: str, output: str, stages: str) -> ms.Program:
        text = f"program {name}({inputs}) -> {output}:{stages}"
        return ms.parse_program(text.format(**vars(self), out=(self.size - 1) // self.stride + 1))


BLOCKS = (
    Block(2, 112, 16, 96, 24, stride=2),
    Block(3, 56, 24, 144, 24),
    Block(4, 56, 24, 144, 32, stride=2),
    Block(5, 28, 32, 192, 32),
    Block(7, 28, 32, 192, 64, stride=2),
    Block(8, 14, 64, 384, 64),
    Block(11, 14, 64, 384, 96),
    Block(12, 14, 96, 576, 96),
    Block(14, 14, 96, 576, 160, stride=2),
    Block(15, 7, 160, 960, 160),
    Block(17, 7, 160, 960, 320),
)


def run(options: Options) -> Iterator[Result]:
    """A line for each block and seed, after one about the machine; then the geometric mean."""
    yield {"case": "notes", "cpu": ms.Target.detect().name, "notes": []}
    most = 1 if options.quick else options.shapes
    lines: list[Result] = []
    for block in BLOCKS[options.skip :][:most]:
        for seed in options.seeds or (0,):
            lines.append(_Comparison(block, seed, options).line())
            yield lines[-1]
    yield mean_of(lines)


def mean_of(lines: Sequence[Result]) -> Result:
    """The geometric mean and the least of the ratios; None where there are no lines."""
    ratios = [ratio for ratio in (line["ratio"] for line in lines) if isinstance(ratio, float)]
    mean = geometric_mean(ratios) if ratios else None
    return {"case": "geometric mean and least", "blocks": len(lines), "ratio": mean, "least": min(ratios, default=None)}


@dataclass(frozen=True)
class _Tuned:
    """Programs that feed one another, the best trace of each, and the seconds of all searches."""

    programs: Sequence[tuple[str, str]]
    seconds: float


@dataclass(frozen=True)
class _Comparison:
    """A block, and the seed of its searches."""

    block: Block
    seed: int
    options: Options

    def line(self) -> Result:
        together, apart = self._tune_all([self.block.whole_program()]), self._tune_all(self.block.stage_programs())
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            sides = {}
            for name in (OURS, APART):
                command = [sys.executable, "-m", "benchmarks.chain_side"]
                sides[name] = stack.enter_context(SideProcess(name, command, self.options.threads))
            prologues = self._prepare(sides, {OURS: together, APART: apart}, Path(folder))
            measures = {name: partial(side.measure, ALONE) for name, side in sides.items()}
            times = alternate(measures, 1 if self.options.quick else _ROUNDS)
        return {
            "case": self.block.case,
            "seed": self.seed,
            "ours_ms": times[OURS].median * 1e3,
            "peer": APART,
            "peer_ms": times[APART].median * 1e3,
            "ratio": times[APART].median / times[OURS].median,
            "prologue_ms": milliseconds(prologues[OURS]),
            "peer_prologue_ms": milliseconds(prologues[APART]),
            "trials": self._trials,
            "tune_s": together.seconds,
            "peer_tune_s": apart.seconds,
            "threads": self.options.threads,
            "spread": {name: side.spread for name, side in times.items()},
        }

    @property
    def _trials(self) -> int:
        return _QUICK_TRIALS if self.options.quick else self.options.trials

    def _tune_all(self, programs: Sequence[ms.Program]) -> _Tuned:
        start = time.perf_counter()
        kernels = [tune_program(program, self._trials, self.seed, self.options.threads) for program in programs]
        traces = [str(kernel.trace) for kernel in kernels]
        seconds = time.perf_counter() - start
        return _Tuned([(str(p), trace) for p, trace in zip(programs, traces, strict=True)], seconds)

    def _prepare(
        self, sides: dict[str, SideProcess], found: dict[str, _Tuned], folder: Path
    ) -> dict[str, float | None]:
        """Make the kernels of each side; the seconds of their prologues. Raises AssertionError where results differ."""
        inputs = write_inputs(self.block.whole_program(), folder)
        results = {name: folder / f"{number}.npy" for number, name in enumerate(sides)}
        prologues = {}
        for name, side in sides.items():
            spec = {
                "programs": found[name].programs,
                "threads": self.options.threads,
                "inputs": inputs,
                "result": str(results[name]),
            }
            prologues[name] = side.ask(json.dumps(spec))["prologue_s"]
        gap = largest_gap(list(results.values()))
        assert gap <= TOLERANCE, f"{self.block.case}: results differ by {gap:.2g} of the largest element"
        return prologues

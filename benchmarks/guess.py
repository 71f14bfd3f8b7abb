"""How good the guess is where nobody tuned: the twelve operators at layers of real networks, beside what else there is.

For each shape of `benchmarks.network_shapes`: the kernel that `ms.compile` gives without measuring, the best of a fresh
search, and PyTorch's eager call, each in a process of its own, in alternating blocks, on the same inputs; results are
compared. A line is printed when its shape is done, so that a run that is ended early keeps what it has. At the end
there are lines with geometric means of each operator, and of all.

PyTorch runs in a virtual environment of its own: `--torch-python PATH`, or METASCHED_TORCH_PYTHON. Without it, the
guess is compared with the search alone. `--only C2D,GMM` takes some operators, `--shapes N` the first N shapes of each,
and `--trials N` is the length of the search, of which there is none with 0. `--known NAME` says what guesses may know
besides the rules and the cost model (`KNOWN`); the search knows all. The whole of it takes about 50 minutes on two
cores that are idle.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import geometric_mean

import metasched as ms
from benchmarks.kernels import NO_TORCH, TOLERANCE, TORCH, largest_gap, milliseconds, write_inputs
from benchmarks.network_shapes import LAYERS, LayerShape
from benchmarks.registry import OptionError, Options, Result
from benchmarks.sides import SideProcess, alternate
from benchmarks.tuning import tune_program
from metasched.calibration.store import core_of
from metasched.knowledge.library import NONE
from metasched.search.guesses.guess import Guess, guess

GUESS, TUNED = "guess", "tuned"
_BY_MODEL = "the cost model"
_ROUNDS = 2
_QUICK_TRIALS = 2
_QUICK_OPERATORS = ("NRM", "SFM")  # the operators of a quick run, a shape each


@dataclass(frozen=True)
class Known:
    """What a guess may know, as `ms.compile` takes it: the rules that it keeps to, and what was found for other sizes.

    None is all that is installed. Where rules are given, no expert trace is replayed.
    """

    rules: str | None = None
    knowledge: str | None = None

    def guess(self, program: ms.Program, target: ms.Target) -> Guess:
        return guess(program, target, self.rules, core=core_of(target), knowledge=self.knowledge)


_RULES = "cpu"  # the preset that guesses have by default
KNOWN: Mapping[str, Known] = {
    "all": Known(),
    "traces": Known(knowledge=NONE),
    "sizes": Known(rules=_RULES),
    "rules": Known(rules=_RULES, knowledge=NONE),
}


def run(options: Options) -> Iterator[Result]:
    """A line for each shape, after a line that says what was left out; then the geometric means."""
    known = known_by(options.known)
    yield {
        "case": "notes",
        "cpu": ms.Target.detect().name,
        "known": options.known,
        "notes": [] if options.torch_python is not None else [NO_TORCH],
    }
    summary = Summary()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ours = [sys.executable, "-m", "benchmarks.kernel_side"]
        commands = {GUESS: ours, TUNED: ours} if options.trials else {GUESS: ours}
        if options.torch_python is not None:
            commands[TORCH] = [options.torch_python, "-m", "benchmarks.torch_side"]
        sides = [stack.enter_context(SideProcess(name, run, options.threads)) for name, run in commands.items()]
        for layer in layers_of(options):
            line = _Shape(layer, known, sides, Path(folder), options).line()
            summary.add(layer.suite, line)
            yield line
    yield from summary.lines()


def known_by(name: str) -> Known:
    """What guesses may know, by its name. Raises OptionError, which names what there is."""
    if name not in KNOWN:
        raise OptionError(f"guesses cannot know `{name}`: there are {', '.join(KNOWN)}")
    return KNOWN[name]


def layers_of(options: Options) -> list[LayerShape]:
    """The shapes that are asked for: those of some operators, and some of each."""
    wanted = _QUICK_OPERATORS if options.quick and not options.only else options.only
    most = 1 if options.quick else options.shapes
    by_suite: dict[str, list[LayerShape]] = {}
    for layer in LAYERS:
        if not wanted or layer.suite in wanted:
            by_suite.setdefault(layer.suite, []).append(layer)
    last = None if most is None else options.skip + most
    return [layer for layers in by_suite.values() for layer in layers[options.skip : last]]


@dataclass(frozen=True)
class _Shape:
    """A shape, what guesses know, the sides that are up, and where files are put."""

    layer: LayerShape
    known: Known
    sides: Sequence[SideProcess]
    folder: Path
    options: Options

    def line(self) -> Result:
        program = self.layer.program()
        target = ms.Target.detect(threads=self.options.threads)
        start = time.perf_counter()
        guessed = self.known.guess(program, target)
        guess_s = time.perf_counter() - start
        trials = min(self.options.trials, _QUICK_TRIALS) if self.options.quick else self.options.trials
        traces = {GUESS: str(guessed.trace)}
        if trials:
            traces[TUNED] = str(tune_program(program, trials, seed=0, threads=self.options.threads).trace)
        tune_s = time.perf_counter() - start - guess_s
        gap, prologues = self._prepare(program, traces)
        times = alternate({side.name: side.measure for side in self.sides}, 1 if self.options.quick else _ROUNDS)
        return {
            **_times({name: side.median for name, side in times.items()} if gap <= TOLERANCE else {}),
            "case": self.layer.case,
            "operator": self.layer.operator,
            "source": self.layer.source,
            "shape": dict(self.layer.params),
            "guess": _origin(guessed),
            "gap": gap,
            "prologue_ms": milliseconds(prologues[GUESS]),
            "tuned_prologue_ms": milliseconds(prologues.get(TUNED)),
            "trials": trials,
            "guess_s": guess_s,
            "tune_s": tune_s,
            "threads": self.options.threads,
            "spread": {name: side.spread for name, side in times.items()},
        }

    def _prepare(self, program: ms.Program, traces: Mapping[str, str]) -> tuple[float, dict[str, float | None]]:
        """Make the kernel of each side, and return how far their results are apart, and the seconds of prologues."""
        inputs = write_inputs(program, self.folder)
        results = []
        prologues: dict[str, float | None] = {}
        for side in self.sides:
            results.append(self.folder / f"{side.name}.npy")
            spec = {
                "operator": self.layer.operator,
                "params": dict(program.params),
                "trace": traces.get(side.name),
                "threads": self.options.threads,
                "inputs": inputs,
                "result": str(results[-1]),
            }
            prologues[side.name] = side.ask(json.dumps(spec)).get("prologue_s")
        return largest_gap(results), prologues


def _origin(guessed: Guess) -> str:
    """Whose schedule it is: an expert's, that of a neighbour's size, or the model's choice."""
    if guessed.neighbour is not None:
        return f"found for {guessed.neighbour.name}"
    return guessed.expert or _BY_MODEL


def _times(seconds: Mapping[str, float]) -> Result:
    """Times and their ratios; None where there is no time, or no result that the sides share."""
    ours, theirs, best = (seconds.get(name) for name in (GUESS, TORCH, TUNED))
    return {
        "ours_ms": _ratio(ours, 1e-3),
        "peer": TORCH,
        "peer_ms": _ratio(theirs, 1e-3),
        "ratio": _ratio(theirs, ours),
        "tuned_ms": _ratio(best, 1e-3),
        "tuned_ratio": _ratio(theirs, best),
        "tuned_over_guess": _ratio(ours, best),
    }


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a / b


# What is averaged: a name of the summary, and the ratio of a line.
_RATIOS = {"guess_to_pytorch": "ratio", "tuned_to_pytorch": "tuned_ratio", "tuned_to_guess": "tuned_over_guess"}


@dataclass
class Summary:
    """Ratios by operator, for geometric means over those that there are."""

    _ratios: dict[str, list[Result]] = field(default_factory=dict)

    def add(self, suite: str, line: Result) -> None:
        self._ratios.setdefault(suite, []).append(line)

    def lines(self) -> Iterator[Result]:
        """A line for each operator, and one for all."""
        for suite, lines in self._ratios.items():
            yield _means(f"{suite}, geometric mean", lines)
        yield _means("all, geometric mean", [line for lines in self._ratios.values() for line in lines])


def _means(case: str, lines: Sequence[Result]) -> Result:
    found: Result = {"case": case, "shapes": len(lines)}
    for name, key in _RATIOS.items():
        ratios = [ratio for ratio in (line[key] for line in lines) if isinstance(ratio, float)]
        found[name] = geometric_mean(ratios) if ratios else None
        found[f"{name}_below_1"] = sum(ratio < 1 for ratio in ratios)
    found["results_differ"] = sum(line["ours_ms"] is None for line in lines)
    return found

"""How far from the best known what few or no measurements give is: the twelve operators at layers of real networks.

For each shape of `benchmarks.network_shapes`: the guess, the guess that knows no expert traces, the best of the model's
eight favourites, what `trials=16` gives, and a search of `--trials N`. They are timed in turns, together with the
fastest codes of the yardstick, where that has the shape. Regret is a time over the least of all these. What a schedule
computes of constant weights ahead is not timed: `prologue_ms` has what it takes, of those ways whose fastest does.
`--data FILE` is another file of the yardstick's.

A line is printed when its shape is done. It takes 10 to 30 s a shape: `--only C2D,GMM`, `--skip N` and `--shapes N`
make a part of it. The summary over the lines of several parts is

    python -m benchmarks.short_list FILE ...
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median

import metasched as ms
from benchmarks.guess import layers_of
from benchmarks.kernels import milliseconds
from benchmarks.network_shapes import LayerShape
from benchmarks.registry import Options, Result
from benchmarks.yardstick.data import TimedTask, read_tasks
from metasched.cost.model_registry import DEFAULT_MODEL, model_of
from metasched.database.record import Record
from metasched.errors import MetaschedError
from metasched.measure.paired_timing import IN_TURNS
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.measure.timing import median_of
from metasched.permissions import BY_DEFAULT
from metasched.schedule.trace_permissions import permissions_of_text
from metasched.search.guesses.expert_guess import obstacle_to
from metasched.search.guesses.favourite import favourites
from metasched.search.report import TuningReport
from metasched.search.short_list import SHORT_LIST
from metasched.search.strategy_registry import DEFAULT_STRATEGY, StrategyInputs, strategy_of

_FAVOURITES = 8
_QUICK_TRIALS = 4
# Of the yardstick's codes the fastest are timed again.
_FROM_YARDSTICK = 3
_PLAN = replace(IN_TURNS, samples=2, visits=6)

GUESS, UNAIDED, TOP, SHORT, SEARCH, YARDSTICK = (
    "guess",
    "guess_without_experts",
    f"top_{_FAVOURITES}",
    "short_list",
    "search",
    "yardstick",
)
JUDGED = (GUESS, UNAIDED, TOP, SHORT, SEARCH)


def run(options: Options) -> Iterator[Result]:
    """A line for each shape, and the summary."""
    timed = {(task.operator, _settings(task.params)): task for task in _measured_tasks(options)}
    lines: list[Result] = []
    with LocalRunner(RunnerSettings(threads=options.threads)) as runner:
        for layer in layers_of(options):
            measured = timed.get((layer.operator, _settings(layer.params)))
            lines.append(_Shape(layer, measured, runner, options).line())
            yield lines[-1]
    yield from summary(lines)


def _measured_tasks(options: Options) -> Iterator[TimedTask]:
    return read_tasks() if options.data is None else read_tasks(options.data)


@dataclass(frozen=True)
class _Fastest:
    """Seconds of the fastest trace of a way, and of what it computes once of constant weights, None for nothing."""

    seconds: float
    prologue_s: float | None


def _settings(params: Mapping[str, object]) -> str:
    return json.dumps(dict(params), sort_keys=True)


@dataclass(frozen=True)
class _Shape:
    """A shape, the yardstick's measurements of it, and what measures."""

    layer: LayerShape
    measured: TimedTask | None
    runner: LocalRunner
    options: Options

    def line(self) -> Result:
        program = self.layer.program()
        task = ms.Task(program, target=ms.Target.detect(threads=self.options.threads))
        start = time.perf_counter()
        short, long, short_s = self._search_twice(task)
        contenders = {
            GUESS: _trace_of(short.guess),
            UNAIDED: list(islice(_favourite_traces(task), 1)),
            TOP: _favourites(task),
            SHORT: _trace_of(short.best),
            SEARCH: _trace_of(long.best),
            YARDSTICK: [] if self.measured is None else fastest_allowed(self.measured, program),
        }
        timed = self._time_traces(task, contenders)
        seconds = {name: found.seconds for name, found in timed.items()}
        known = min(seconds.values())
        return {
            "case": self.layer.case,
            "operator": self.layer.operator,
            "source": self.layer.source,
            "best_ms": known * 1e3,
            "best": next(name for name, found in seconds.items() if found == known),
            **{f"{name}_regret": found / known for name, found in seconds.items()},
            "prologue_ms": {n: milliseconds(t.prologue_s) for n, t in timed.items() if t.prologue_s is not None},
            "roles": dict(short.roles),
            "failures": dict(short.failures),
            "short_list_s": short_s,
            "seconds": time.perf_counter() - start,
            "trials": long.records,
            "threads": self.options.threads,
        }

    def _search_twice(self, task: ms.Task) -> tuple[TuningReport, TuningReport, float]:
        """The report of a short list, that of the search that goes on from it, and the seconds of the former."""
        few, many = SHORT_LIST, self.options.trials
        if self.options.quick:
            few = many = _QUICK_TRIALS
        start = time.perf_counter()
        with ms.TuningSession([task], db="sqlite:///:memory:", runner=self.runner, progress=False) as session:
            (short,) = session.run(few)
            short_s = time.perf_counter() - start
            (long,) = session.run(max(few, many))
        return short, long, short_s

    def _time_traces(self, task: ms.Task, contenders: Mapping[str, Sequence[str]]) -> dict[str, _Fastest]:
        """The fastest of each group of traces that has one that runs; all are timed in turns."""
        texts = dict.fromkeys(trace for traces in contenders.values() for trace in traces)
        futures = {t: self.runner.submit(task.program, t, str(task.target), plan=_PLAN) for t in texts}
        measured = {trace: future.result() for trace, future in futures.items()}
        times = {t: _Fastest(median_of(m.visits), m.prologue_seconds) for t, m in measured.items() if m.visits}
        found = {
            name: min((times[trace] for trace in traces if trace in times), key=lambda one: one.seconds, default=None)
            for name, traces in contenders.items()
        }
        return {name: least for name, least in found.items() if least is not None}


def _trace_of(record: Record | None) -> list[str]:
    return [] if record is None else [record.trace]


def _favourite_traces(task: ms.Task) -> Iterator[str]:
    """What the guess would be that knows no expert traces: it passes over what the machine cannot run, too."""
    for trace in favourites(task.arms):
        if obstacle_to(trace.apply_to(task.program).func, task.target) is None:
            yield str(trace)


def _favourites(task: ms.Task) -> list[str]:
    """What the default strategy proposes first."""
    space = task.arms
    given = StrategyInputs(space.arms, model_of(DEFAULT_MODEL)(0))
    return [space.trace(candidate) for candidate in strategy_of(DEFAULT_STRATEGY)(given).propose(_FAVOURITES)]


def fastest_allowed(measured: TimedTask, program: ms.Program) -> list[str]:
    """The traces of the yardstick's fastest codes, of those that need no permission: searches here have none."""
    granted = BY_DEFAULT.in_program(program.func)
    free = [permissions_of_text(sketch) <= granted for sketch in measured.sketches]
    codes = sorted(
        (code for code in measured.codes if free[code.sketch]), key=lambda code: min(code.first_s, code.second_s)
    )[:_FROM_YARDSTICK]
    sketches = (ms.space(program, rules=ms.parse_trace(measured.sketches[code.sketch]))[0] for code in codes)
    return [str(sketch.trace_of(code.row)) for sketch, code in zip(sketches, codes, strict=True)]


def summary(lines: Sequence[Result]) -> Iterator[Result]:
    """Median and worst regret of each way, by operator and over all; and the seconds of a short list."""
    groups: dict[str, list[Result]] = {}
    for line in lines:
        groups.setdefault(str(line["operator"]), []).append(line)
    if len(groups) > 1:
        groups["all"] = list(lines)
    for name, group in groups.items():
        found: Result = {"case": f"{name}, median and worst regret", "shapes": len(group)}
        for way in JUDGED:
            regrets = [value for value in (line.get(f"{way}_regret") for line in group) if isinstance(value, float)]
            found |= {way: median(regrets) if regrets else None, f"{way}_worst": max(regrets, default=None)}
        found["short_list_s"] = median(s for s in (line["short_list_s"] for line in group) if isinstance(s, float))
        yield found


def of_files(paths: Iterable[Path]) -> Iterator[Result]:
    """The summary over the lines of shapes in some files; of a shape that is there twice, the last line counts."""
    lines = [json.loads(text) for path in paths for text in path.read_text(encoding="utf-8").splitlines()]
    shapes = {line["case"]: line for line in lines if "best_ms" in line}
    if not shapes:
        raise MetaschedError("these files have no line of a shape, as `python -m benchmarks short_list --json` prints")
    return summary(list(shapes.values()))


if __name__ == "__main__":
    for result in of_files(map(Path, sys.argv[1:])):
        print(json.dumps(result))

"""What each module adds to the space: a dense layer of BERT-large, 1024 x 4096 x 1024, bias and GELU, in three types.

As in MetaSchedule's composition experiment (Shao et al. 2022, section 6.3): the rules of the preset `cpu` are added one
group after another, and each list is searched from scratch. A line for each type and list has the best time, the time
over that of the list before, and the best so far after 1, 2, 4, ... trials: a row of the plot. A list whose
kernels all run into the time limit of measuring has no times. `--trials N` is the
length of each search, `--sizes M=128` another number of rows. `--kept FOLDER` keeps what is found after each search, so
that the same command goes on where it was ended, and has the plot at the end, `composition.svg`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import metasched as ms
from benchmarks.composition_plot import plot
from benchmarks.registry import Options, Result
from metasched.database import TaskKey, open_database
from metasched.measure.records import Reason
from metasched.search.report import TuningReport

_QUICK_TRIALS = 2
_SMALL_SIZES = {"M": 64, "N": 128, "K": 64}
_LARGE_SIZES = {"M": 1024, "N": 4096, "K": 1024}

_DENSE = """
program dense[M=1024, N=4096, K=1024, T=f32, U=T, ACC=f32](
        X: T[M, K], const W: U[K, N], bias: f32[N]) -> Y: f32[M, N]:
    dense:  S[i, j] = sum[k](ACC(X[i, k]) * ACC(W[k, j]))
    biased: Z[i, j] = f32(S[i, j]) + bias[j]
    gelu:   Y[i, j] = 0.5 * Z[i, j] * (1 + erf(Z[i, j] * sqrt(0.5)))
"""

_TYPES: Mapping[str, Mapping[str, str]] = {
    "f32": {},
    "bf16": {"T": "bf16", "U": "bf16"},
    "u8 x s8": {"T": "u8", "U": "i8", "ACC": "i32"},
}


@dataclass(frozen=True)
class _Step:
    """A group of rules, and what it adds."""

    name: str
    rules: tuple[str, ...]


_STEPS = (
    _Step("threads and lanes", ("inline", "parallelize", "vectorize")),
    _Step("tiles", ("multi_level_tiling",)),
    _Step("unrolling", ("unroll",)),
    _Step("packing", ("packing",)),
    _Step("vector instructions", ("use_avx512_bf16", "use_vnni", "use_vnni_windows")),
    _Step("tile instructions", ("use_amx",)),
)


def run(options: Options) -> Iterator[Result]:
    """A line for each type and list of rules."""
    trials = _QUICK_TRIALS if options.quick else options.trials
    known = _Known(None if options.kept is None else options.kept / "composition.jsonl")
    order = [rule.name for rule in ms.space(_program("f32", options), rules="cpu").source.rules]
    curves: dict[str, dict[str, list[float]]] = {}
    for dtype in _TYPES:
        program, before, curves[dtype] = _program(dtype, options), None, {}
        for n, step in enumerate(_STEPS):
            named = {rule for each in _STEPS[: n + 1] for rule in each.rules}
            rules = [rule for rule in order if rule in named]
            times = known.times(program, rules, trials, options)
            curves[dtype][step.name] = times
            yield {
                "case": f"dense {dtype}, with {step.name}",
                "rules": rules,
                "ours_ms": times[-1] * 1e3 if times else None,
                "peer": "the list before",
                "peer_ms": None if before is None else before * 1e3,
                "ratio": before / times[-1] if before is not None and times else None,
                "best_ms_after": {after: times[after - 1] * 1e3 for after in _powers(len(times))} if times else {},
            }
            before = times[-1] if times else None
    if options.kept is not None:
        (options.kept / "composition.svg").write_text(plot(curves))


def _program(dtype: str, options: Options) -> ms.Program:
    return ms.parse_program(
        _DENSE, **{**(_SMALL_SIZES if options.quick else _LARGE_SIZES), **options.sizes}, **_TYPES[dtype]
    )


@dataclass(frozen=True)
class _Known:
    """The searches that are done: a line of JSON each in a file, if there is one."""

    file: Path | None

    def times(self, program: ms.Program, rules: Sequence[str], trials: int, options: Options) -> list[float]:
        """Seconds of the best kernel after each trial of a search, which is made unless it was before."""
        search = {"program": program.key, "rules": list(rules), "trials": trials, "threads": options.threads}
        for line in self._lines():
            found = json.loads(line)
            if found["search"] == search:
                return [float(seconds) for seconds in found["seconds"]]
        seconds = _best_so_far(program, rules, trials, options)
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"search": search, "seconds": seconds}) + "\n")
        return seconds

    def _lines(self) -> list[str]:
        there = self.file is not None and self.file.exists()
        return self.file.read_text(encoding="utf-8").splitlines() if there and self.file is not None else []


def _best_so_far(program: ms.Program, rules: Sequence[str], trials: int, options: Options) -> list[float]:
    """Seconds of the best kernel after each trial of a search from scratch; none where all are too slow to be timed."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder)}/records.db"
        target = ms.Target.detect(threads=options.threads)
        try:
            report = ms.tune(program, trials=trials, db=url, seed=0, target=target, rules=list(rules)).report
        except ms.NoRecord:
            with open_database(url) as database:
                failed = database.records(TaskKey.of(program, target))
            if {record.failure for record in failed} != {Reason.RUN_TIMEOUT.value}:
                raise
            return []
        assert isinstance(report, TuningReport)
        assert report.best is not None
        with open_database(url) as database:
            found = sorted(database.records(report.best.task), key=lambda record: record.trial)
    seconds = [record.seconds_or_inf for record in found if record.trial >= 0]
    return list(accumulate(seconds, min))


def _powers(most: int) -> list[int]:
    """1, 2, 4, ... and the last."""
    return sorted({*(1 << n for n in range(most.bit_length())), most})

"""What searches of the twelve operators measured: how much the time of the same code varies, how many records are of
different code, and what the search gained over the guess.

`distinct_code` lowers the trace of every record again, so that it says the same of a database of any version:

    python -c "from benchmarks.search_noise import of_database; print(*of_database('sqlite:///before.db'), sep='\\n')"
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator

import metasched as ms
from benchmarks.registry import Options, Result
from metasched.database import Access, Record, open_database
from metasched.database.best import noise_of
from metasched.errors import BuildError, ScheduleError
from metasched.lang import parse_program
from metasched.measure.compiling import lower_candidate
from metasched.operators import TWELVE
from metasched.schedule.trace import Trace
from metasched.search.report import TuningReport
from metasched.support.stopwatch import Stopwatch
from metasched.target import Target

_TRIALS = 256
# One of its candidates takes a second or so.
_LONG_TRIALS = {"C3D": 64}
_QUICK_TRIALS = {"NRM": 8, "SFM": 8}


def run(options: Options) -> Iterator[Result]:
    trials_of_all = {name: _LONG_TRIALS.get(name, _TRIALS) for name in TWELVE}
    for name, trials in (_QUICK_TRIALS if options.quick else trials_of_all).items():
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{folder}/records.db"
            start = time.perf_counter()
            target = ms.Target.detect(threads=options.threads)
            kernel = ms.tune(TWELVE[name].program(), trials=trials, db=url, seed=1, target=target, progress=False)
            seconds = time.perf_counter() - start
            (found,) = of_database(url)
        yield {**found, "case": name, "seconds": seconds, **_gain(kernel.report)}


def _gain(report: TuningReport) -> Result:
    best, guess = report.best, report.guess
    return {
        "duplicates": report.duplicates,
        "best_ms": None if best is None or best.seconds is None else best.seconds * 1e3,
        "guess_ms": None if guess is None or guess.seconds is None else guess.seconds * 1e3,
        "gain_over_guess": 1.0 if report.is_guess else None if report.over_guess is None else report.over_guess.gain,
    }


def of_database(url: str) -> Iterator[Result]:
    """A line for each task of a database, whichever version wrote it."""
    with open_database(url, Access.READ) as database:
        for task in database.stats().tasks:
            records = database.records(task.task)
            noise = noise_of(records)
            yield {
                "case": f"{task.program}{dict(task.params)}",
                "trials": len(records),
                "distinct": len(distinct_code(records)),
                "noise": None if noise is None else noise.deviation,
                "repeated": 0 if noise is None else noise.repeats,
                "raced_share": sum(record.raced for record in records) / len(records),
            }


def distinct_code(records: Iterable[Record]) -> set[str]:
    """The code of all records, by `code_hash`; one that does not lower is code of its own reason."""
    found = set()
    for record in records:
        program = parse_program(record.program, **dict(record.params))
        try:
            func = Trace.parse(record.trace).apply_to(program).func
            found.add(lower_candidate(func, Target.parse(record.task.target), Stopwatch())[2])
        except (ScheduleError, BuildError) as error:
            found.add(error.reason)
    return found

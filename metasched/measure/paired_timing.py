"""Which of two schedules is faster, and how sure that is: both are timed in turns, so that noise hits both."""

from __future__ import annotations

from dataclasses import replace

from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.measure.comparison import Comparison
from metasched.measure.runner import Runner
from metasched.measure.timing import TimingPlan, median_of

# Nothing is dropped for being slower than the other, and turns follow one another at once.
IN_TURNS = TimingPlan(apart_s=0.02, in_turns=True).without_race()
PAIRS = 12


def compare(runner: Runner, program: Program, first: str, second: str, target: str, pairs: int = PAIRS) -> Comparison:
    """Time two traces in turns, `pairs` times each, first the one and then the other first.

    Raises MetaschedError when one of them does not run.
    """
    plan = replace(IN_TURNS, visits=pairs)
    futures = [runner.submit(program, trace, target, plan=plan) for trace in (first, second)]
    medians = []
    for future in futures:
        measured = future.result()
        if not measured.visits:
            reason = measured.failure.reason if measured.failure is not None else "it has no times"
            raise MetaschedError(f"a schedule that was measured before does not run again: {reason}")
        medians.append([median_of([times]) for times in measured.visits])
    return Comparison(tuple(zip(*medians, strict=True)))

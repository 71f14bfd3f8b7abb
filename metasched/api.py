"""The public face: the names that scripts rely on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import closing
from typing import Any

from metasched.database.backends import open_database
from metasched.database.base import Access
from metasched.database.record import Record, TaskKey, code_version
from metasched.errors import MetaschedError, NoRecord
from metasched.ir.program import Program
from metasched.lang import load_program, parse_program
from metasched.measure.inputs import Inputs
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel, Origin
from metasched.schedule.handlers import Policy, Repairs
from metasched.schedule.trace import Schedule, Trace
from metasched.search.arms import MAX_ARMS, SpaceArms
from metasched.search.favourite import favourite
from metasched.search.guess import Guess
from metasched.search.guess import guess as best_guess
from metasched.search.progress_view import Shown, view_of
from metasched.search.space_protocol import SearchSpace
from metasched.search.strategies import StrategyName, opener
from metasched.search.tune import Guesses, Job, Tools, everything
from metasched.search.tune import tune as run_tuning
from metasched.space.conditions import SpaceLike, source_of, space_of
from metasched.space.conditions import condition as condition_space
from metasched.space.registry import RuleSpec
from metasched.space.source import Conditioned, Given, Module, SpaceSource
from metasched.space.space import DEFAULT_MAX_SKETCHES, Space
from metasched.target import Target

DEFAULT_DATABASE = "sqlite:///metasched.db"


def parse_trace(text: str) -> Trace:
    """A trace from its text. Raises LanguageError with line, column and what was expected."""
    return Trace.parse(text)


def space(
    program: Program,
    rules: SpaceLike = None,
    *,
    module: Module | None = None,
    max_sketches: int = DEFAULT_MAX_SKETCHES,
    seed: int = 0,
) -> Space:
    """The search space of a program.

    Args:
        program: what to compute.
        rules: what makes the space: rules (by default the preset `cpu`), a module, a trace, whose holes are searched,
            or what `condition` returns.
        module: a module `f(sch)` for this program, instead.
        max_sketches: beyond so many, sketches are sampled.
        seed: of that sample.

    Sketches are made when they are looked at. Raises RuleError for a rule that is not there, ScheduleError for a
    condition that no random variable meets or a trace of another program.
    """
    return space_of(program, _space_like(rules, module), max_sketches=max_sketches, seed=seed)


def _space_like(rules: SpaceLike, space: SpaceLike) -> SpaceLike:
    if space is not None and rules is not None:
        raise MetaschedError("`rules` and `space` both say what to search; give one of them")
    return rules if space is None else space


def condition(space: SpaceLike, decisions: Given) -> Space | Conditioned:
    """A space in which some random variables are decided, for `tune(..., space=)` and `space`.

        ms.tune(prog, space=ms.condition("cpu", {"multi_level_tiling(dense)/i": [None, 4, 1, 8]}))

    Args:
        space: a `Space`, rules, a module or a trace.
        decisions: by address, as a trace prints them: `[None, 8]` for `[_, 8]`, 16, "outer", "root" or a loop's name.

    Raises ScheduleError for an address that is not there, with those that are near, and for a decision out of support:
    at once for a `Space`, otherwise when it meets a program.
    """
    return condition_space(space, decisions)


def tune(
    program: Program,
    trials: int = 64,
    db: str = DEFAULT_DATABASE,
    rules: RuleSpec = None,
    space: SpaceLike = None,
    seed: int = 0,
    *,
    strategy: str = StrategyName.EVOLUTIONARY.value,
    target: Target | None = None,
    inputs: Inputs | None = None,
    progress: Shown = None,
) -> Kernel:
    """Search for a fast schedule by measuring candidates, and return the best kernel.

    Args:
        program: what to compute.
        trials: measurements to have in the database in the end, failures and earlier runs included, for this program,
            target and version; so the same call again is instant, and a larger number goes on.
        db: where they are kept, by URL; by default `metasched.db` in the working folder. (`ms.kernel` has another, the
            user's.)
        rules: rules that make the space: a specification such as "cpu,-inline", or a list; by default "cpu".
        space: instead of rules, a module `f(sch)` for this program, a trace, whose holes are searched, a `Space`, or
            what `condition` returns. Where decisions are given, only records that agree with them count.
        seed: with the recorded times, decides every candidate.
        strategy: "evolutionary" or "random".
        target: the CPU to compile for and measure on; by default this one.
        inputs: what data an argument takes, by name: an array, a range (low, high), or a function of
            (generator, shape, dtype); by default signed random numbers.
        progress: how to show where the run stands. By default that is a line where somebody looks on, in a terminal or
            a notebook; False shows nothing, a function is called with a `Progress` after each measurement instead, and
            `progress_view(stream)` is a view for a stream of yours.

    Ctrl-C ends the search and returns the best so far; where there is none yet, KeyboardInterrupt is raised. Raises
    NoRecord when no candidate was valid; its message counts the reasons.
    """
    _require("program", program, Program)
    if not isinstance(trials, int):
        raise MetaschedError(f"trials is {trials!r}; it is how many measurements to have, such as 64")
    if trials < 1:
        raise MetaschedError(f"trials is {trials}; at least one measurement is needed")
    where = _target(target)
    searched = _space_like(rules, space)
    found = functools.cache(lambda: space_of(program, searched, max_sketches=MAX_ARMS, seed=seed))
    name = _strategy(strategy)
    job = Job(program, str(where), where.threads, trials, seed, belongs=_belongs(source_of(searched)))
    if searched is not None:
        # A mistake in what is searched shows whether or not anything is left to measure: its first sketch is made.
        next(iter(found()), None)

    view = view_of(progress)

    def open_runner() -> LocalRunner:
        view.begin(program.key)
        runner = LocalRunner(RunnerSettings(threads=where.threads), inputs)
        runner.prepare(program)
        return runner

    tools = Tools(
        open_space=lambda: SpaceArms(found(), where),
        open_runner=open_runner,
        open_strategy=opener(name, seed),
        open_guesses=lambda arms: _guesses(program, where, searched, seed, arms),
    )
    with open_database(db) as database, closing(view):
        report = run_tuning(job, database, tools, view)
    if report.best is None and report.interrupted:
        raise KeyboardInterrupt
    if report.best is None:
        reasons = (
            ", ".join(f"{reason} ({count})" for reason, count in report.failures.items()) or "nothing was measured"
        )
        raise NoRecord(f"no candidate of {program.key} was valid: {reasons}")
    return _kernel(program, Trace.parse(report.best.trace), where, report, Origin.MEASURED)


def _guesses(program: Program, target: Target, searched: SpaceLike, seed: int, arms: SearchSpace) -> Guesses:
    """What one would get without measuring, of the space searched, and of a call of `compile` that names none."""

    def default(rules: RuleSpec, other_seed: int) -> SearchSpace:
        if searched is None and other_seed == seed:
            return arms
        return SpaceArms(space_of(program, rules, max_sketches=MAX_ARMS, seed=other_seed), target)

    try:
        unasked: str | None = str(best_guess(program, target, make_arms=default).trace)
    except NoRecord:  # `compile` finds none, either
        unasked = None
    if source_of(searched).by_default:
        return Guesses(unasked, unasked)
    if seed != 0:  # a guess does not depend on the seed of the search
        arms = SpaceArms(space_of(program, searched, max_sketches=MAX_ARMS, seed=0), target)
    return Guesses(favourite(arms), unasked)


def _belongs(source: SpaceSource) -> Callable[[str], bool]:
    """Which recorded traces count: all, unless decisions are given."""
    return (lambda text: source.holds(Trace.parse(text))) if source.given else everything


_MADE_BY = {
    Program: "parse_program(text) or load_program(path)",
    Trace: "parse_trace(text) or Schedule.trace",
    Target: "Target.detect() or Target.parse(text)",
}


def _require(name: str, value: object, kind: type[Program] | type[Trace] | type[Target]) -> None:
    if not isinstance(value, kind):
        given = type(value).__name__
        raise MetaschedError(f"`{name}` is a {given}, not a {kind.__name__}\n  hint: make one by {_MADE_BY[kind]}")


def _target(target: Target | None) -> Target:
    if target is None:
        return Target.detect()
    _require("target", target, Target)
    return target


def _strategy(name: str) -> StrategyName:
    known = {s.value: s for s in StrategyName}
    if name not in known:
        raise MetaschedError(f'there is no strategy "{name}"; there are {", ".join(known)}')
    return known[name]


def compile(  # noqa: A001
    program: Program,
    *,
    trace: Trace | None = None,
    db: str | None = None,
    rules: RuleSpec = None,
    target: Target | None = None,
    policy: Policy = Policy.STRICT,
) -> Kernel:
    """A kernel without measuring: of a trace, of the best one in a database, or the best guess.

    A trace of another shape is carried over by `policy=Policy.REPAIR`; `kernel.report` then has what was mended, as a
    tuple of `Repair`, or, of a guess, where it comes from, as a `Guess`; both print as a person reads them.

    Raises ScheduleError or BuildError where a given trace does not apply, NoRecord when the database has nothing for
    this program, target and version.
    """
    if trace is not None and db is not None:
        raise MetaschedError("`trace` and `db` both say where the schedule comes from; give one of them")
    _require("program", program, Program)
    where = _target(target)
    if trace is not None:
        _require("trace", trace, Trace)
        return _kernel(program, trace, where, None, Origin.TRACE, policy)
    if db is not None:
        record = _best_record(program, db, where)
        return _kernel(program, Trace.parse(record.trace), where, record, Origin.MEASURED)
    guessed = best_guess(program, where, rules)
    return _kernel(program, guessed.trace, where, guessed, Origin.GUESS)


def guess(program: Program, *, rules: RuleSpec = None, target: Target | None = None, seed: int = 0) -> Trace:
    """The best guess, which measures nothing: an expert's trace, where the program is an operator of the library (under
    any names) and no rules are given; else the trace that the untrained cost model, a roofline, likes best.
    """
    _require("program", program, Program)
    return best_guess(program, _target(target), rules, seed).trace


def _best_record(program: Program, db: str, target: Target) -> Record:
    key = TaskKey(program.named_hash(), str(target), target.threads, code_version())
    with open_database(db, Access.READ) as database:
        record = database.best(key)
    if record is None:
        raise NoRecord(
            f"{db} has no valid measurement of {program.key} for {target.name} with {target.threads} threads and "
            f"this version\n  hint: metasched tune measures it"
        )
    return record


def _kernel(
    program: Program, trace: Trace, target: Target, report: Any, origin: Origin, policy: Policy = Policy.STRICT
) -> Kernel:
    schedule = trace.apply_to(program, policy)
    compiled = build(schedule.func, target)
    said = Repairs(schedule.repairs) if origin is Origin.TRACE else report
    return Kernel(compiled, program=program, trace=schedule.trace, report=said, origin=origin)


__all__ = [
    "Guess",
    "Kernel",
    "Policy",
    "Program",
    "Schedule",
    "Space",
    "Target",
    "Trace",
    "compile",
    "condition",
    "guess",
    "load_program",
    "parse_program",
    "parse_trace",
    "reference",
    "space",
    "tune",
]

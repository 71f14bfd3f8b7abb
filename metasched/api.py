"""The public face: the names that scripts rely on."""

from __future__ import annotations

from typing import TypeVar, overload

from metasched.calibration.calibration import MachineCalibration
from metasched.calibration.store import core_of, save
from metasched.cost.model_registry import DEFAULT_MODEL, MakeModel, model_of
from metasched.database.base import Access
from metasched.database.database_registry import DatabaseURLs, open_database, shown_urls
from metasched.database.record import Record, TaskKey
from metasched.errors import MetaschedError, NoRecord
from metasched.ir.nodes import Func
from metasched.ir.program import Program, require_program
from metasched.knowledge.library import KnowledgeLike
from metasched.lang import load_program, parse_program
from metasched.measure.checking.inputs import Inputs
from metasched.measure.executor_registry import DEFAULT_EXECUTOR
from metasched.measure.runner import Runner
from metasched.permissions import BY_DEFAULT, Allow, Allowed
from metasched.reference.execution import reference
from metasched.report.profile import profile_kernel
from metasched.report.progress_view import Shown
from metasched.report.recorded import named_tasks, tasks_of
from metasched.report.table import RecordTable, table_of
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel, Origin
from metasched.schedule.handlers import Policy, Repairs
from metasched.schedule.trace import Schedule, Trace, require_trace
from metasched.search.budget.goal import goal_of
from metasched.search.guesses.guess import Guess
from metasched.search.guesses.guess import guess as best_guess
from metasched.search.records.other_names import own_trace
from metasched.search.report import TuningReport
from metasched.search.seeds import seed_of
from metasched.search.session import TuningSession
from metasched.search.strategy_registry import DEFAULT_STRATEGY, MakeStrategy, strategy_of
from metasched.search.task import Task
from metasched.settings import DEFAULT_DATABASE, IN_MEMORY
from metasched.space.conditions import SpaceLike, space_of
from metasched.space.conditions import condition as condition_space
from metasched.space.registry import RuleSpec
from metasched.space.source import Conditioned, Given, Module
from metasched.space.space import DEFAULT_MAX_SKETCHES, Space
from metasched.target import Target, require_target

DEFAULT_TRIALS = 64
ReportT = TypeVar("ReportT")


def parse_trace(text: str) -> Trace:
    """A trace from its text.

        >>> ms.parse_trace('trace 1 of p[N=4]:\\n    b = get_block("B")\\n')
        <trace of p[N=4]: 1 instruction, 0 decisions>

    Raises LanguageError with line, column and what was expected.
    """
    return Trace.parse(text)


def space(
    program: Program,
    rules: SpaceLike = None,
    *,
    module: Module | None = None,
    target: Target | None = None,
    allow: Allow = None,
    max_sketches: int = DEFAULT_MAX_SKETCHES,
    seed: int = 0,
) -> Space:
    """The search space of a program.

        >>> ms.space(prog, "vectorize")[0].show()
        func bias_gelu(X: f32[4, 8], const bias: f32[8]) -> Y: f32[4, 8]:
            temp D: f32[4, 8]
            for i in 4:
                vectorized(t1) j in 8:
                    biased: D[i, j] = X[i, j] + bias[j]
            ...

    Args:
        program: what to compute.
        rules: what makes the space: rules (by default the preset `cpu`), a module, a trace, whose holes are searched,
            or what `condition` returns.
        module: a module `f(sch)` for this program, instead.
        target: the CPU that rules and modules may ask of; by default this one.
        allow: what results may differ by, as of `tune`.
        max_sketches: beyond so many, sketches are sampled.
        seed: of that sample.

    Sketches are made when they are looked at. Raises RuleError for a rule that is not there, ScheduleError for a
    condition that no random variable meets or a trace of another program.
    """
    require_program(program)
    if target is not None:
        require_target(target)
    described, seed = _space_like(rules, module, "module"), seed_of(seed)
    return space_of(program, described, target=target, allow=allow, max_sketches=max_sketches, seed=seed)


def _space_like(rules: SpaceLike, space: SpaceLike, called: str = "space") -> SpaceLike:
    if space is not None and rules is not None:
        raise MetaschedError(f"`rules` and `{called}` both say what to search", hint="give one of them")
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
    trials: int | None = None,
    db: DatabaseURLs = DEFAULT_DATABASE,
    rules: RuleSpec = None,
    space: SpaceLike = None,
    seed: int = 0,
    *,
    budget: float | None = None,
    patience: int | None = None,
    strategy: str | MakeStrategy = DEFAULT_STRATEGY,
    model: str | MakeModel = DEFAULT_MODEL,
    runner: str | Runner = DEFAULT_EXECUTOR,
    target: Target | None = None,
    allow: Allow = None,
    knowledge: KnowledgeLike = None,
    inputs: Inputs | None = None,
    progress: Shown = None,
) -> Kernel[TuningReport]:
    """Search for a fast schedule by measuring candidates, and return the best kernel.

        kernel = ms.tune(prog, trials=64, db="sqlite:///tuned.db")

    Args:
        program: what to compute.
        trials: measurements to have in the database in the end, failures and earlier runs included, for this program,
            target, space and version; so the same call again is instant, and a larger number goes on. What was
            measured in other spaces teaches, and is not measured again. By default 64, or as many as there is time for
            where a budget is given.
        db: where they are kept, by URL; by default `metasched.db` in the working folder. (`ms.kernel` has another, the
            user's.) Of a list of URLs the first is written, and what the others have is timed again here before it
            counts.
        rules: rules that make the space: a specification such as "cpu,-inline", or a list; by default "cpu".
        space: instead of rules, a module `f(sch)` for this program, a trace, whose holes are searched, a `Space`, or
            what `condition` returns.
        seed: with the recorded times, decides every candidate; an integer from 0 to 2**63 - 1.
        budget: seconds that it may take in all, the turns at the end and this kernel's compilation included. What is
            proposed does not depend on it: only how much of it is measured.
        patience: end after so many trials without one that is faster than the best by more than noise, earlier runs'
            trials included. By default a search goes on, and says so where it has stagnated.
        strategy: the name of a strategy, such as "evolutionary" or "random", or what makes one.
        model: the name of a model that guides it, "trees" or "roofline", the path of a file that `metasched model
            train` wrote, or what makes one. "trees" and files learn from the other tasks of the database, too.
        runner: where to measure: the name or URL of an executor, by default "local", or a runner, which stays open.
        target: the CPU to compile for and measure on; by default this one.
        allow: what results may differ by besides the order of sums, by name: "fastmath", "flush_denormals", "winograd".
            By default products of bf16 or f16 that are summed in f32 may take denormal operands for zero, and nothing
            else differs; a set allows what it names, and nothing else. To give a module or a trace as `space` is
            consent to what its steps do.
        knowledge: what was found for other sizes, of which the guess and the first batch are made: the path of a file
            that `metasched db distill` wrote, "none", or by default all that is installed.
        inputs: what data an argument takes, by name: an array, a range (low, high), or a function of
            (generator, shape, dtype); by default signed random numbers.
        progress: how to show where the run stands. By default that is a line where somebody looks on, in a terminal or
            a notebook; False shows nothing, a function is called with a `Progress` after each measurement instead, and
            `progress_view(stream)` is a view for a stream of yours.

    Ctrl-C ends the search and returns the best so far; where there is none yet, KeyboardInterrupt is raised. Raises
    NoRecord when no candidate was valid; its message counts the reasons. `ms.TuningSession` tunes several programs,
    and in steps.
    """
    require_program(program)
    where = _target(target)
    searched = _space_like(rules, space)
    endless = trials is None and budget is None and patience is None
    goal = goal_of(DEFAULT_TRIALS if endless else trials, budget, patience)
    task = Task(program, searched, where, allow=allow, knowledge=knowledge, inputs=inputs)
    strategy, model = strategy_of(strategy), model_of(model)
    if searched is not None:
        # A mistake in what is searched shows whether or not anything is left to measure.
        task.check()
    with TuningSession(
        [task], db=db, runner=runner, strategy=strategy, model=model, seed=seed, progress=progress
    ) as session:
        (report,) = session.run(goal.trials, budget, patience=patience)
    return _kernel(program, own_trace(_best_of(report, program), program), where, report, Origin.MEASURED)


def _best_of(report: TuningReport, program: Program) -> Record:
    """The best record of a search. Raises as `tune` does."""
    if report.best is None and report.interrupted:
        raise KeyboardInterrupt
    if report.best is None:
        reasons = (
            ", ".join(f"{reason} ({count})" for reason, count in report.failures.items()) or "nothing was measured"
        )
        raise NoRecord(f"no candidate of {program.key} was valid: {reasons}")
    return report.best


def _target(target: Target | None) -> Target:
    if target is None:
        return Target.detect()
    require_target(target)
    return target


@overload
def compile(  # noqa: A001
    program: Program,
    *,
    trials: int,
    db: DatabaseURLs | None = None,
    rules: RuleSpec = None,
    target: Target | None = None,
    allow: Allow = None,
    knowledge: KnowledgeLike = None,
    inputs: Inputs | None = None,
) -> Kernel[TuningReport]: ...
@overload
def compile(  # noqa: A001
    program: Program,
    *,
    trace: Trace,
    target: Target | None = None,
    allow: Allow = None,
    policy: Policy = Policy.STRICT,
) -> Kernel[Repairs]: ...
@overload
def compile(  # noqa: A001
    program: Program, *, db: DatabaseURLs, target: Target | None = None, allow: Allow = None
) -> Kernel[Record]: ...
@overload
def compile(  # noqa: A001
    program: Program,
    *,
    trace: None = None,
    db: None = None,
    trials: None = None,
    rules: RuleSpec = None,
    target: Target | None = None,
    allow: Allow = None,
    knowledge: KnowledgeLike = None,
) -> Kernel[Guess]: ...
def compile(  # noqa: A001
    program: Program,
    *,
    trace: Trace | None = None,
    db: DatabaseURLs | None = None,
    trials: int | None = None,
    rules: RuleSpec = None,
    target: Target | None = None,
    allow: Allow = None,
    knowledge: KnowledgeLike = None,
    policy: Policy = Policy.STRICT,
    inputs: Inputs | None = None,
) -> Kernel[TuningReport] | Kernel[Repairs] | Kernel[Record] | Kernel[Guess]:
    """A kernel: of a trace, of the best record in a database, of a few trials, or of the best guess.

        kernel = ms.compile(prog)  # a guess: nothing is measured
        kernel = ms.compile(prog, trials=16)  # some seconds of measuring
        y = kernel(x)

    Args:
        program: what to compute.
        trace: how. One of another shape is carried over by `policy=Policy.REPAIR`; `kernel.report` then has what was
            mended, as a tuple of `Repair`.
        db: instead of a trace, the URL of a database: the best is taken over all spaces that the program was tuned in,
            under whatever names. `kernel.report` is its `Record`. Where this version of metasched, Numba and llvmlite
            has measured nothing of it yet, the best of another version is taken, and the record says so.
        trials: measure so many candidates first, as `tune` does: the guess, expert traces and what the model likes
            best. 16 take some seconds. They are kept in `db`, where a later `tune` goes on from them, or nowhere.
            `kernel.report` is a `TuningReport`.
        rules: of the guess, where no `trace` or `db` is given, and of the trials: the rules whose space it is chosen
            in. The report of a guess is a `Guess`, which says where it comes from.
        target: the CPU to compile for; by default this one.
        allow: what results may differ by, as of `tune`: only such records of `db` are taken. To give a `trace` is
            consent to what its steps let differ (`Trace.permissions`), unless `allow` says less.
        knowledge: what was found for other sizes, of which the guess is made, or the trials; as of `tune`.
        policy: what becomes of decisions of `trace` that do not fit.
        inputs: what data the trials are checked and timed on, as of `tune`.

    Raises ScheduleError or BuildError where a given trace does not apply, NoRecord when the database has nothing for
    this program and target, MetaschedError for arguments that do not go together.
    """
    _require_one_source(trace, db, trials, rules, knowledge, policy, inputs)
    require_program(program)
    where, allowed = _target(target), Allowed.of(allow)
    if trials is not None:
        return _of_trials(program, trials, db, rules, where, allowed, knowledge, inputs)
    if trace is not None:
        return _of_trace(program, trace, where, None if allow is None else allowed, policy)
    if db is not None:
        return _of_record(program, db, where, allowed)
    return _of_guess(program, rules, where, allowed, knowledge)


def _of_trials(
    program: Program,
    trials: int,
    db: DatabaseURLs | None,
    rules: RuleSpec,
    target: Target,
    allowed: Allowed,
    knowledge: KnowledgeLike,
    inputs: Inputs | None,
) -> Kernel[TuningReport]:
    kept = IN_MEMORY if db is None else db
    tuned = tune(program, trials, kept, rules, target=target, allow=allowed, knowledge=knowledge, inputs=inputs)
    return tuned if db is None or rules is not None else _best_over_spaces(tuned, db, allowed)


def _best_over_spaces(tuned: Kernel[TuningReport], db: DatabaseURLs, allowed: Allowed) -> Kernel[TuningReport]:
    """What a search of the default space came to, or what a search of another space of the program had found."""
    best = own_trace(_best_record(tuned.program, db, tuned.target, allowed), tuned.program)
    same = str(best) == str(tuned.trace)
    return tuned if same else _kernel(tuned.program, best, tuned.target, tuned.report, Origin.MEASURED)


def _of_trace(
    program: Program, trace: Trace, target: Target, allowed: Allowed | None, policy: Policy
) -> Kernel[Repairs]:
    """`allowed` is None where nothing was said of it: to give a trace is consent to what its steps do."""
    require_trace("trace", trace)
    if allowed is not None:
        _require_allowed(trace, allowed, program)
    schedule = trace.apply_to(program, policy)
    return _kernel_of_schedule(program, schedule, target, Repairs(schedule.repairs), Origin.TRACE)


def _of_record(program: Program, db: DatabaseURLs, target: Target, allowed: Allowed) -> Kernel[Record]:
    record = _best_record(program, db, target, allowed)
    return _kernel(program, own_trace(record, program), target, record, Origin.MEASURED)


def _of_guess(
    program: Program, rules: RuleSpec, target: Target, allowed: Allowed, knowledge: KnowledgeLike
) -> Kernel[Guess]:
    guessed = best_guess(program, target, rules, core=core_of(target), allowed=allowed, knowledge=knowledge)
    return _compile_func(program, guessed.func, guessed.trace, target, guessed, Origin.GUESS)


def _require_one_source(
    trace: Trace | None,
    db: DatabaseURLs | None,
    trials: int | None,
    rules: RuleSpec,
    knowledge: KnowledgeLike,
    policy: Policy,
    inputs: Inputs | None,
) -> None:
    """Raise MetaschedError for arguments of `compile` one of which would be ignored."""
    if trace is not None and trials is not None:
        raise MetaschedError(
            "`trace` says which schedule to take, and `trials` measures others",
            hint="leave out `trials`; the holes of a trace are searched by `tune(program, trials, space=trace)`",
        )
    if trace is not None and db is not None:
        raise MetaschedError("`trace` and `db` both say where the schedule comes from", hint="give one of them")
    given = None if trials is not None else "trace" if trace is not None else "db" if db is not None else None
    if given is not None and rules is not None:
        raise MetaschedError(
            f"`rules` are for a guess, and `{given}` says which schedule to take",
            hint=f"leave out `rules`, or `{given}`; a search by rules is `tune(program, rules=...)`",
        )
    if given is not None and knowledge is not None:
        raise MetaschedError(
            f"`knowledge` is for a guess, and `{given}` says which schedule to take",
            hint=f"leave out `knowledge`, or `{given}`",
        )
    if policy is not Policy.STRICT and trace is None:
        source = "a database has traces of this very shape" if db is not None else "a guess is made for this shape"
        raise MetaschedError(f"`policy` says how to mend a trace, and {source}", hint="leave it out, or give `trace=`")
    if inputs is not None and trials is None:
        raise MetaschedError("`inputs` say what to measure on, and only `trials` are measured", hint="leave them out")


def guess(
    program: Program,
    *,
    rules: RuleSpec = None,
    target: Target | None = None,
    allow: Allow = None,
    knowledge: KnowledgeLike = None,
    seed: int = 0,
) -> Trace:
    """The trace of the best guess: a schedule that is chosen without measuring.

        >>> ms.guess(prog, rules="vectorize")
        <trace of bias_gelu[M=4, N=8, T=f32, ACC=f32]: ...>

    The cost model compares three:

    - what was found for the nearest sizes of the same kind, carried over;
    - an expert's trace, where the program is an operator of the library (under any names);
    - where that may gain enough, the trace that it likes best of the default rules' space.

    Args:
        program: what to compute.
        rules: choose in the space of these rules instead.
        target: the CPU that the schedule is for; by default this one.
        allow: what results may differ by, as of `tune`.
        knowledge: what was found for other sizes, as of `tune`.
        seed: of the candidates that are looked at; an integer from 0 to 2**63 - 1.
    """
    require_program(program)
    where, seed = _target(target), seed_of(seed)
    allowed = Allowed.of(allow)
    return best_guess(program, where, rules, seed, core=core_of(where), allowed=allowed, knowledge=knowledge).trace


def records(db: str = DEFAULT_DATABASE, program: Program | str | None = None) -> RecordTable:
    """The records of a database as a table of columns, for pandas and polars.

        ms.records("sqlite:///tuned.db").with_decisions().to_pandas()

    Args:
        db: the URL of the database.
        program: the records of one program only: itself, or its name.

    Raises NoRecord where there is no database, or nothing in it of the program.
    """
    if not isinstance(program, Program | str | None):
        raise MetaschedError(f"`program` is {program!r}; it is a Program, the name of one, or None for all")
    with open_database(db, Access.READ) as database:
        if isinstance(program, Program):
            return table_of(database, tasks_of(database, program.structural_hash(), program.key))
        return table_of(database, database.stats().tasks if program is None else named_tasks(database, program))


def calibrate(threads: int | None = None, *, keep: bool = True) -> MachineCalibration:
    """Have this machine measure what its cores, caches and threads can do; it takes a few seconds.

        ms.calibrate().core(2)

    It is kept as a text file in the user's cache folder (METASCHED_CACHE, or the platform's), and from then on
    `compile`, `guess` and `tune` estimate by it on machines of this kind. Nothing else should run meanwhile: a round
    beside which something did is repeated, and takes as long again.

    Args:
        threads: the most threads to measure with; by default as many as Numba runs with.
        keep: whether to keep it, in place of an earlier one.

    Raises CalibrationError where it cannot be kept, and where the machine is busy all the time.
    """
    from metasched.calibration.measuring import measure  # this imports the compiler's code generator

    found = measure(Target.detect(threads))
    if keep:
        save(found)
    return found


def _best_record(program: Program, db: DatabaseURLs, target: Target, allowed: Allowed) -> Record:
    with open_database(db, Access.READ) as database:
        record = database.best(TaskKey.of(program, target), allowed.in_program(program.func))
    if record is None:
        raise NoRecord(
            f"{shown_urls(db)} has no valid measurement of {program.key} for {target.name} with {target.threads} "
            "threads"
            f"{'' if allowed == BY_DEFAULT else f', where no more is allowed than {allowed}'}",
            hint="`metasched tune` measures it",
        )
    return record


def _require_allowed(trace: Trace, allowed: Allowed, program: Program) -> None:
    more = sorted(p.value for p in trace.permissions - allowed.in_program(program.func))
    if more:
        raise MetaschedError(
            f'the trace lets results differ by "{more[0]}", and `allow` does not name it',
            hint="name it, or leave out `allow`: to give a trace is consent to what its steps do",
        )


def _kernel(program: Program, trace: Trace, target: Target, report: ReportT, origin: Origin) -> Kernel[ReportT]:
    return _kernel_of_schedule(program, trace.apply_to(program), target, report, origin)


def _kernel_of_schedule(
    program: Program, schedule: Schedule, target: Target, report: ReportT, origin: Origin
) -> Kernel[ReportT]:
    return _compile_func(program, schedule.func, schedule.trace, target, report, origin)


def _compile_func(
    program: Program, func: Func, trace: Trace, target: Target, report: ReportT, origin: Origin
) -> Kernel[ReportT]:
    compiled = build(func, target)
    return Kernel(compiled, program=program, trace=trace, report=report, origin=origin, profiler=profile_kernel)


__all__ = [
    "DEFAULT_DATABASE",
    "Guess",
    "Kernel",
    "Policy",
    "Program",
    "Schedule",
    "Space",
    "Target",
    "Trace",
    "calibrate",
    "compile",
    "condition",
    "guess",
    "load_program",
    "parse_program",
    "parse_trace",
    "records",
    "reference",
    "space",
    "tune",
]

"""Tuning networks: one session over the tasks of one or several, whose order a task scheduler chooses."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from functools import cache
from typing import TypeAlias

from metasched.cost.model_registry import DEFAULT_MODEL, MakeModel, model_of
from metasched.database.base import Database
from metasched.database.database_registry import DatabaseLike, opened_database
from metasched.database.record import Record, TaskKey
from metasched.functions.registry import functions
from metasched.graph.code.choices import Choice
from metasched.graph.code.default_choice import is_small
from metasched.graph.ir import Graph
from metasched.graph.tasks import NetworkTask, TaskRow, TaskTable, tasks_of
from metasched.graph.tuning.recorded import best_records, choices_of, surroundings_of
from metasched.graph.tuning.settling import Settlement
from metasched.graph.tuning.strip_turns import StripSettlement
from metasched.graph.tuning.view import NetworkProgress, NetworkShown, NetworkView, network_view_of
from metasched.ir.nodes import Call
from metasched.ir.program import Program
from metasched.knowledge.library import Knowledge, KnowledgeLike
from metasched.measure.checking.inputs import Inputs
from metasched.measure.executor_registry import DEFAULT_EXECUTOR, OpenedOnce
from metasched.measure.runner import Runner
from metasched.measure.timing import Surroundings
from metasched.permissions import Allow, Allowed
from metasched.report.progress import Progress
from metasched.report.progress_text import clock, duration
from metasched.search.budget.goal import goal_of
from metasched.search.report import TuningReport
from metasched.search.scheduler_registry import NETWORK_SCHEDULER, SCHEDULERS, MakeScheduler
from metasched.search.seeds import seed_of
from metasched.search.session import TuningSession
from metasched.search.several_tasks.objectives import Objective, objective_of
from metasched.search.strategy_registry import DEFAULT_STRATEGY, MakeStrategy, strategy_of
from metasched.search.task import Task
from metasched.settings import DEFAULT_DATABASE
from metasched.space.registry import RuleSpec, resolve
from metasched.support.data_classes import dataclass
from metasched.target import Target

DEFAULT_BUDGET_S = 600.0
# Tuning goes on for so long even where compiling took the whole budget: the guesses are measured.
_LEAST_TUNING_S = 1e-3
# Where a function has no value for negative numbers, a program is checked and timed on these.
_POSITIVE = (0.25, 1.25)

# A graph after all passes, and the target that it is for.
TunedGraph: TypeAlias = tuple[Graph, Target]


@dataclass(frozen=True)
class NetworkSettings:
    """How networks are tuned; the names are those of `Network.tune`."""

    db: DatabaseLike = DEFAULT_DATABASE
    objective: str | Objective = "sum"
    scheduler: str | MakeScheduler = NETWORK_SCHEDULER
    seed: int = 0
    progress: NetworkShown = None
    rules: RuleSpec = None
    allow: Allow = None
    knowledge: KnowledgeLike = None
    runner: str | Runner = DEFAULT_EXECUTOR
    strategy: str | MakeStrategy = DEFAULT_STRATEGY
    model: str | MakeModel = DEFAULT_MODEL


@dataclass(frozen=True, repr=False)
class NetworkReport:
    """What came of tuning networks.

    Attributes:
        tables: the tasks of each network with their best times.
        reports: what came of each task that was tuned, by what its records share: networks for several targets, or
            timed in other surroundings, may have one program as several tasks.
        before_s: of each network, seconds of the tuned kernels as they were guessed.
        after_s: the same with the best found. Both are of those tasks that have a time.
        trials: candidates measured, earlier ones included; `measured` of them now.
        elapsed_s: seconds that it took.
        interrupted: whether Ctrl-C ended it.
        unchecked: tasks that were not measured as their results cannot be checked, by the same, with the reason.
        choices: of each network, what its tasks are scheduled by now.
        settlements: of each network, what came of timing the tuned kernels in its own call, in turns with what it ran
            before.
        strips: of each network, what came of timing groups of reductions in strips by one kernel and by several.
    """

    tables: tuple[TaskTable, ...]
    reports: Mapping[TaskKey, TuningReport]
    before_s: tuple[float, ...]
    after_s: tuple[float, ...]
    trials: int
    measured: int
    elapsed_s: float
    interrupted: bool = False
    unchecked: Mapping[TaskKey, str] = field(default_factory=dict)
    choices: tuple[Mapping[str, Choice], ...] = field(default=(), repr=False)
    settlements: tuple[Settlement, ...] = ()
    strips: tuple[StripSettlement, ...] = ()

    def __str__(self) -> str:
        lines = [str(table) for table in self.tables]
        for before, after in zip(self.before_s, self.after_s, strict=True):
            if before and after:
                gain = f"{before / after:.2f} times as fast"
                lines.append(f"tuned kernels: {duration(before)} by the guess, {duration(after)} now, {gain}")
        if not self.reports:
            lines.append("no kernel is large enough to be tuned")
        lines += [str(one) for one in self.strips if str(one)]
        lines += map(str, self.settlements)
        lines.append(f"{self.trials} trials, {self.measured} of them new, in {clock(self.elapsed_s)}")
        failed: dict[str, int] = {}
        for report in self.reports.values():
            for reason, count in report.failures.items():
                failed[reason] = failed.get(reason, 0) + count
        lines += [f"failed {count} times: {reason}" for reason, count in sorted(failed.items(), key=lambda i: -i[1])]
        lines += [f"not measured: {reason}" for reason in self.unchecked.values()]
        if self.interrupted:
            lines.append("interrupted: the same call goes on from here")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)


@dataclass
class _SharedTask:
    """A task of the session, and how often each network runs it."""

    key: TaskKey
    task: NetworkTask
    made: Task
    weights: dict[int, float] = field(default_factory=dict)


def tune_graphs(
    tuned: Sequence[TunedGraph],
    settings: NetworkSettings,
    trials: int | None = None,
    budget: float | None = None,
    patience: int | None = None,
    prepare: Callable[[], float] = lambda: 0.0,
) -> NetworkReport:
    """Tune the tasks of graphs. `prepare` is called before anything is measured, and is in the budget, as are the
    seconds that it returns: they are kept for what follows.

    Raises MetaschedError for settings that are wrong.
    """
    started = time.perf_counter()
    shared = _shared_tasks(tuned, settings)
    networks = [{n: one.weights[j] for n, one in enumerate(shared) if j in one.weights} for j in range(len(tuned))]
    budget = budget_of(trials, budget, patience)
    with ExitStack() as own:
        db = settings.db
        database = own.enter_context(opened_database(db))
        if not shared:
            _require_settings(settings)
            return _untuned_report(tuned, time.perf_counter() - started)
        view = network_view_of(settings.progress)
        own.callback(view.close)
        watch = _Watch(shared, networks, view, started, None if budget is None else started + budget, trials)
        session = own.enter_context(
            TuningSession(
                [one.made for one in shared],
                db=database,
                runner=settings.runner,
                strategy=settings.strategy,
                model=settings.model,
                seed=settings.seed,
                progress=watch,
                scheduler=settings.scheduler,
                objective=settings.objective,
                networks=networks,
            )
        )
        watch.session = session
        kept = prepare()
        if budget is not None:
            watch.until = started + budget_without(budget, kept)
        reports = session.run(budget=_seconds_left(watch.until), total=trials, patience=patience)
        report = _report(tuned, shared, session, reports, time.perf_counter() - started)
        return replace(report, choices=tuple(_choices(database, one, settings) for one in tuned))


def _require_settings(settings: NetworkSettings) -> None:
    """Raise MetaschedError for settings that are wrong, where there is no task that a session would be made with."""
    Allowed.of(settings.allow)
    Knowledge.of(settings.knowledge)
    OpenedOnce(settings.runner, 1)
    SCHEDULERS.resolve(settings.scheduler)
    model_of(settings.model)
    objective_of(settings.objective)
    resolve(settings.rules)
    seed_of(settings.seed)
    strategy_of(settings.strategy)


def budget_of(trials: int | None, budget: float | None, patience: int | None) -> float | None:
    """The budget of a run: by default `DEFAULT_BUDGET_S`, where nothing else says when it ends.

    Raises MetaschedError for what is no number, before anything is worked out from it.
    """
    if trials is None and budget is None and patience is None:
        return DEFAULT_BUDGET_S
    goal_of(trials, budget, patience)
    return budget


def budget_without(budget: float, seconds: float) -> float:
    """What a budget leaves for measuring where something else takes seconds of it: half of it at least."""
    return max(budget - seconds, budget / 2)


def _untuned_report(tuned: Sequence[TunedGraph], elapsed: float) -> NetworkReport:
    """Whether each of the kernels is so small that it runs as it is written."""
    tables = tuple(TaskTable([TaskRow(task) for task in tasks_of(graph)]) for graph, _ in tuned)
    nothing = (0.0,) * len(tuned)
    return NetworkReport(
        tables=tables,
        reports={},
        before_s=nothing,
        after_s=nothing,
        trials=0,
        measured=0,
        elapsed_s=elapsed,
        choices=({},) * len(tuned),
    )


def _seconds_left(until: float | None) -> float | None:
    """The seconds until then."""
    return None if until is None else max(until - time.perf_counter(), _LEAST_TUNING_S)


def _choices(database: Database, tuned: TunedGraph, settings: NetworkSettings) -> Mapping[str, Choice]:
    graph, target = tuned
    tasks = tasks_of(graph)
    allowed = Allowed.of(settings.allow)
    return choices_of(best_records(database, tasks, target, surroundings_of(graph, target), allowed), tasks)


def _shared_tasks(tuned: Sequence[TunedGraph], settings: NetworkSettings) -> list[_SharedTask]:
    """The tasks of all networks, each once."""
    found: dict[TaskKey, _SharedTask] = {}
    first: dict[str, Task] = {}  # by target: what does not depend on the program is worked out once
    for number, (graph, target) in enumerate(tuned):
        surroundings = surroundings_of(graph, target)
        for task in tasks_of(graph):
            if is_small(task.program):
                continue
            has_constants = any(b.const for b in task.program.func.inputs)
            timed = surroundings if has_constants else Surroundings.NETWORK
            key = TaskKey.of(task.program, target, timed)
            if key not in found:
                if str(target) not in first:
                    given = settings.rules, target
                    first[str(target)] = Task(task.program, *given, allow=settings.allow, knowledge=settings.knowledge)
                made = first[str(target)].of_program(task.program, inputs_of(task.program), timed)
                found[key] = _SharedTask(key, task, made)
            found[key].weights[number] = float(task.weight)
    return list(found.values())


@cache
def _positive_functions() -> frozenset[str]:
    """The names of functions that have no value for some negative numbers."""
    found = set()
    for name, function in functions().items():
        try:
            function.evaluate(*[-0.7] * function.arity)
        except ValueError:
            found.add(name)
    return frozenset(found)


def inputs_of(program: Program) -> Inputs | None:
    """The data that a program is checked and timed on; None for what is usual, numbers of both signs."""
    called = {node.func for node in program.func.body.walk() if isinstance(node, Call)}
    if not called & _positive_functions():
        return None
    return {b.name: _POSITIVE for b in program.func.inputs if b.dtype.is_float}


@dataclass
class _Watch:
    """Turns what a session says after each measurement into the table of the networks."""

    shared: Sequence[_SharedTask]
    networks: Sequence[Mapping[int, float]]
    view: NetworkView
    started: float
    until: float | None
    total: int | None
    session: TuningSession | None = None

    def begin(self, task: str) -> None:
        self.view(self._progress())

    def __call__(self, progress: Progress) -> None:
        self.view(self._progress())

    def close(self) -> None:
        """The view is closed by who made it."""

    def _progress(self) -> NetworkProgress:
        session = self.session
        assert session is not None
        now = time.perf_counter()
        states = session.progress
        rows = []
        for n, (one, state) in enumerate(zip(self.shared, states, strict=True)):
            mark = "now" if n == session.running else "next" if n == session.following else ""
            best = state.best_s if state.best_s < float("inf") else None
            task = one.task
            rows.append(TaskRow(task, best, state.trials, mark, sum(one.weights.values())))
        left = None if self.until is None else max(self.until - now, 0.0)
        done = sum(state.trials for state in states)
        return NetworkProgress(TaskTable(rows), done, self.total, now - self.started, left)


def _report(
    tuned: Sequence[TunedGraph],
    shared: Sequence[_SharedTask],
    session: TuningSession,
    reports: Sequence[TuningReport],
    elapsed: float,
) -> NetworkReport:
    tables, before, after = [], [], []
    for number, (graph, _) in enumerate(tuned):
        by_key = {one.task.key: report for one, report in zip(shared, reports, strict=True) if number in one.weights}
        best = {key: _seconds(report.best) for key, report in by_key.items()}
        guess = {key: _seconds(report.guess) or best[key] for key, report in by_key.items()}
        tasks = tasks_of(graph)
        tables.append(TaskTable([_row(task, by_key.get(task.key)) for task in tasks]))
        before.append(sum(task.weight * (guess.get(task.key) or 0.0) for task in tasks))
        after.append(sum(task.weight * (best.get(task.key) or 0.0) for task in tasks))
    return NetworkReport(
        tables=tuple(tables),
        reports={one.key: report for one, report in zip(shared, reports, strict=True)},
        before_s=tuple(before),
        after_s=tuple(after),
        trials=sum(report.records for report in reports),
        measured=sum(report.measured for report in reports),
        elapsed_s=elapsed,
        interrupted=session.interrupted,
        unchecked={shared[n].key: reason for n, reason in session.unchecked.items()},
    )


def _row(task: NetworkTask, report: TuningReport | None) -> TaskRow:
    if report is None:
        return TaskRow(task, mark="too small to tune")
    over = report.over_guess
    mark = "the guess" if report.is_guess else "" if over is None else f"{over.gain:.2f} x the guess"
    return TaskRow(task, _seconds(report.best), report.records, mark)


def _seconds(record: Record | None) -> float | None:
    return None if record is None else record.seconds

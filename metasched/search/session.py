"""Tuning in steps: one task or several, with a given runner, strategy, model and database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from metasched.cost.model_registry import DEFAULT_MODEL, MakeModel, model_of
from metasched.database.best import FINALISTS
from metasched.database.claims import Claimant
from metasched.database.database_registry import DatabaseLike, opened_database
from metasched.errors import MetaschedError
from metasched.ir.program import Program
from metasched.measure.executor_registry import DEFAULT_EXECUTOR, OpenedOnce
from metasched.measure.machines import batches_at_once
from metasched.measure.records import CheckError
from metasched.measure.runner import Runner
from metasched.report.progress_view import Shown, view_of
from metasched.search.batch import NOTHING_MEANWHILE, Meanwhile
from metasched.search.budget.goal import Goal, goal_of
from metasched.search.records.other_tasks import OtherTasks
from metasched.search.report import TuningReport
from metasched.search.scheduler_registry import DEFAULT_SCHEDULER, SCHEDULERS, MakeScheduler, SchedulerInputs
from metasched.search.seeds import seed_of
from metasched.search.several_tasks.objectives import Objective, Weights, objective_of, weights_of
from metasched.search.several_tasks.side_by_side import SideBySide
from metasched.search.several_tasks.task_progress import TaskProgress
from metasched.search.several_tasks.waiting import Waiting
from metasched.search.strategy_registry import DEFAULT_STRATEGY, MakeStrategy, strategy_of
from metasched.search.task_protocol import SearchableTask
from metasched.search.task_search import Parts, Step, TaskSearch
from metasched.settings import DEFAULT_DATABASE
from metasched.support.calls import lacking_methods
from metasched.support.data_classes import dataclass
from metasched.support.messages import a_or_an

# How many of the fastest are timed again in turns where there are several tasks.
_FEW_FINALISTS = 2
# What timing the best of a task again takes at least, and the share of a budget that it may take for all tasks; where
# calls take long, that it may take at most. What is under way when the rest is over may take another share.
_SETTLING_S = 0.2
_SETTLING_SHARE = 0.15
_MOST_SETTLING_SHARE = 0.5
_LATENESS_SHARE = 0.03
# So many times as many tasks as steps may be under way once turns at their end are: turns take this process no time.
_TURNS_FOR_STEPS = 2


@dataclass(frozen=True)
class _UnderWay:
    """What is done of a task beside others: how far it was `before`, how many trials it has after it at `most`, and
    whether it `is_step`, or the turns at its end.
    """

    before: TaskProgress
    most: int
    is_step: bool


class TuningSession:
    """Tunes tasks in steps, a batch of candidates each, in an order that a scheduler chooses.

        with ms.TuningSession([ms.Task(a), ms.Task(b)], db="sqlite:///tuned.db") as session:
            session.run(budget=300)

    Proposals depend on the seed and on the recorded times, batch by batch. Recorded candidates are not measured again:
    a session that was closed, interrupted or killed is resumed by the next one. A session closes what it opened; a
    runner or a database that it was given stays open, and may serve other sessions.

    Args:
        tasks: what to tune; while one is measured, the next is made ready.
        db: where measurements are kept: a URL, or a database that is open.
        runner: what measures: the name or URL of an executor, such as "local", or a runner. It is opened when there is
            something to measure.
        strategy: by name, such as "evolutionary", or a function of `StrategyInputs`; each task has its own.
        model: by name, such as "trees", by the path of a file of `metasched model train`, or a function of a seed.
            What is recorded of each task, in this session and before, teaches the models of the others.
        seed: with the recorded times, decides every candidate; an integer from 0 to 2**63 - 1.
        progress: how to show where it stands, as of `tune`.
        guess: whether the first trial of a task is the guess, the schedule chosen without measuring.
        scheduler: which task is next, by name, such as "round_robin" or "gradient", or a function of
            `SchedulerInputs`.
        objective: what a scheduler may go by: "sum", "geomean", "early_stopping", "latency=SECONDS", or an `Objective`.
        networks: how often each network runs each task, by their numbers; by default there is one that runs each once.

    Raises MetaschedError for an unknown name, another seed or networks of other tasks, DatabaseError for a database
    that cannot be opened.
    """

    def __init__(
        self,
        tasks: Sequence[SearchableTask],
        *,
        db: DatabaseLike = DEFAULT_DATABASE,
        runner: str | Runner = DEFAULT_EXECUTOR,
        strategy: str | MakeStrategy = DEFAULT_STRATEGY,
        model: str | MakeModel = DEFAULT_MODEL,
        seed: int = 0,
        progress: Shown = None,
        guess: bool = True,
        scheduler: str | MakeScheduler = DEFAULT_SCHEDULER,
        objective: str | Objective = "sum",
        networks: Sequence[Weights] | None = None,
    ) -> None:
        self.tasks, seed = _checked_tasks(tasks), seed_of(seed)
        self.interrupted = False
        self._strategy, self._model = strategy_of(strategy), model_of(model)
        run_by = weights_of(networks, len(self.tasks))
        for_scheduler = SchedulerInputs(run_by, objective_of(objective), seed)
        self._scheduler = SCHEDULERS.make(SCHEDULERS.resolve(scheduler), for_scheduler)
        self._runner = OpenedOnce(runner, max(task.target.threads for task in self.tasks))
        self._own = ExitStack()
        self._own.callback(self._runner.close)
        self.database = self._own.enter_context(opened_database(db))
        self._view = self._own.enter_context(closing(view_of(progress)))
        self._last: int | None = None
        self._following: int | None = None
        self._unchecked: dict[int, str] = {}
        self._closed = False
        self._waiting = Waiting()
        self._under_way: dict[int, _UnderWay] = {}
        # Of each task whose best were timed in turns beside steps of others, after how many trials.
        self._settled: dict[int, int] = {}
        parts = self._parts(seed, guess)
        self._searches = [TaskSearch(task, number, parts) for number, task in enumerate(self.tasks)]

    def _parts(self, seed: int, guess: bool) -> Parts:
        """What the search of each task is made with."""
        return Parts(
            database=self.database,
            runner=self._opened_runner,
            strategy=self._strategy,
            model=self._model,
            seed=seed,
            claimant=Claimant.this_process(),
            tell=self._view,
            waiting=self._waiting,
            others=OtherTasks(self.database, self.tasks[0].core, at_once=lambda: self._at_once),
            guess=guess,
        )

    def __repr__(self) -> str:
        return f"<tuning session of {', '.join(task.program.key for task in self.tasks)}>"

    def step(self, trials: int | None = None) -> Step | None:
        """Propose, measure, record and learn once, for the next task.

        The scheduler chooses it among those with fewer than `trials` trials whose space is not exhausted; None if there
        are none, or if it ends the session.

        On Ctrl-C what has been measured is kept, and KeyboardInterrupt is raised. Raises MetaschedError when the
        session is closed.
        """
        return self._step(Goal(trials))

    def run(
        self,
        trials: int | None = None,
        budget: float | None = None,
        *,
        total: int | None = None,
        patience: int | None = None,
        reserve: float = 0.0,
    ) -> tuple[TuningReport, ...]:
        """Step until every task has `trials` trials, failures and earlier ones included, or the budget is spent.

        Then the best of each task are timed again in turns, and what came of each task is returned, in their order.

        Args:
            trials: of each task.
            budget: seconds that the call takes, the turns at the end included. It decides how much of the sequence of
                proposals is measured, and never what is proposed: a session that resumes goes on with the same. A guess
                is measured however long it takes.
            total: trials of all tasks together.
            patience: of each task, trials without one that is faster by more than noise.
            reserve: seconds of the budget that are kept for the caller.

        On Ctrl-C it ends early, and the reports say so. Raises MetaschedError where nothing says when to end, or a
        number is not positive.
        """
        self._require_open()
        goal = goal_of(trials if trials is not None else total, budget, patience)
        goal = replace(goal, trials=trials, total=total)
        end = None if goal.until is None else goal.until - reserve
        for search in self._searches:
            search.begin_run(goal)
        try:
            try:
                self._run_steps(lambda: self._with_time(goal, end, budget))
                for search in self._searches:
                    search.end_run(self._of_task(self._with_time(goal, end, budget), search))
            except KeyboardInterrupt:
                self.interrupted = True
            # After Ctrl-C, a second more for each task is spent to find the best of what was measured.
            self._settle(None if self.interrupted else end)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._under_way.clear()
            self._leave()
        return self.reports

    def settle(self) -> None:
        """Time the best of each task again, in turns, unless that was done already."""
        self._require_open()
        self._settle(None)

    def _settle(self, end: float | None) -> None:
        """Settle each task, in its share of the time that is left before the end."""
        if self._at_once == 1:
            with self._waiting.computing():
                for search, until in self._searches_to_settle(end):
                    search.settle(self._finalist_count, until)
            return
        with SideBySide[None](self._waiting) as contests:
            for search, until in self._searches_to_settle(end):
                contests.begin_step(partial(search.settle, self._finalist_count, until))
                if len(contests) == self._at_once:
                    contests.end_first()
            while contests:
                contests.end_first()

    def _searches_to_settle(self, end: float | None) -> Iterator[tuple[TaskSearch, float | None]]:
        """Each task, when its turn comes, with the time until which it may be settled."""
        left = None if end is None else end - sum(search.build_s for search in self._advanced_searches)
        needed = {search.number: search.settling_s(self._finalist_count)[0] for search in self._searches}
        for search in self._searches:
            until = None
            if left is not None:
                now = time.perf_counter()
                share = self._at_once * needed[search.number] / max(sum(needed.values()), 1e-9)
                until = now + (left - now) * min(1.0, share)
            yield search, until
            del needed[search.number]

    @property
    def reports(self) -> tuple[TuningReport, ...]:
        """The report of each task so far; `best` is not certain before `settle`."""
        return tuple(search.report(self.interrupted) for search in self._searches)

    def close(self) -> None:
        """Close what the session opened. Further calls do nothing."""
        if not self._closed:
            self._closed = True
            self._leave()
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- how

    def _is_over(self, goal: Goal) -> bool:
        """Whether the time is up, and there is something to return."""
        return goal.is_over and any(search.known.trial_count for search in self._searches)

    @property
    def _finalist_count(self) -> int:
        """The number of the fastest that are timed again: of many tasks, a third and a fourth are not worth it."""
        return FINALISTS if len(self._searches) == 1 else _FEW_FINALISTS

    @property
    def _advanced_searches(self) -> list[TaskSearch]:
        """The searches of which this session has measured something."""
        return [search for search in self._searches if search.has_new_trials]

    def _with_time(self, goal: Goal, end: float | None, budget: float | None) -> Goal:
        """The goal with the time until which candidates are measured, so that the turns at the end fit as well.

        These may take a share of the budget, and more if that is needed to tell the best from the guess.
        """
        if end is None or budget is None:
            return goal
        kept = 0.0
        for search in self._advanced_searches or self._searches[:1]:
            all_s, least_s = search.settling_s(self._finalist_count)
            kept += max(_SETTLING_S, min(all_s, max(least_s, _SETTLING_SHARE * budget / len(self._searches))))
            kept += search.build_s
        until = end - min(kept, _MOST_SETTLING_SHARE * budget)
        return replace(goal, until=until, deadline=until + _LATENESS_SHARE * budget)

    def _run_steps(self, goal: Callable[[], Goal]) -> None:
        """A step after the other; side by side, once it is known that the runner has several machines."""
        while self._at_once == 1:
            if self._is_over(now := goal()) or self._step(now) is None:
                return
        with SideBySide[int](self._waiting) as tasks:
            while True:
                self._begin_beside(goal, tasks)
                if not tasks:
                    return
                del self._under_way[tasks.end_first()]

    @property
    def _at_once(self) -> int:
        """How many steps may be under way: one for each machine, and one that is made ready."""
        runner = self._runner.at_hand
        machines = 1 if runner is None else batches_at_once(runner)
        return 1 if machines == 1 else machines + 1

    def _step(self, goal: Goal) -> Step | None:
        self._require_open()
        with self._waiting.computing():
            search = self._next_search(goal)
            if search is None:
                return None
            self._last = search.number
            meanwhile = Meanwhile(lambda: self._prepare_next(goal, search), self._lower_next)
            return self._step_search(search, self._of_task(goal, search), meanwhile)

    def _begin_beside(self, goal: Callable[[], Goal], tasks: SideBySide[int]) -> None:
        """Begin as many steps as may be under way; where there are no more, the turns of tasks that are done."""
        while sum(task.is_step for task in self._under_way.values()) < self._at_once:
            if (step := self._begun_beside(goal)) is not None:
                tasks.begin_step(step)
                continue
            while len(tasks) < _TURNS_FOR_STEPS * self._at_once and (turns := self._settled_beside(goal)) is not None:
                tasks.begin_step(turns)
            return

    def _begun_beside(self, goal: Callable[[], Goal]) -> Callable[[], int] | None:
        """The step of the task that is next, which is to be taken beside others; None where none is to begin."""
        with self._waiting.computing():
            now = goal()
            search = None if self._is_over(now) else self._next_search(now)
            if search is None:
                return None
            self._last = search.number
            of_task, made = self._of_task(now, search), search.known.trial_count
            most = min(made + search.next_trials, max(of_task.wanted_trials, made))
            if now.total is not None:
                of_task = replace(of_task, pause=most)
            self._under_way[search.number] = _UnderWay(self._starting_progress(search), most, True)
            return lambda: self._step_search(search, of_task, NOTHING_MEANWHILE).task

    def _settled_beside(self, goal: Callable[[], Goal]) -> Callable[[], int] | None:
        """The turns of the next task that is done, while others go on; None for a budget of seconds, as it is not known
        what of it will be left for them.
        """
        with self._waiting.computing():
            done = () if goal().until is not None else self._advanced_searches
            for search in done:
                made = search.known.trial_count
                if search.number not in self._under_way and self._settled.get(search.number) != made:
                    self._settled[search.number] = made
                    self._under_way[search.number] = _UnderWay(self._starting_progress(search), made, False)
                    return partial(self._settle_one, search)
        return None

    def _settle_one(self, search: TaskSearch) -> int:
        search.settle(self._finalist_count)
        return search.number

    def _starting_progress(self, search: TaskSearch) -> TaskProgress:
        """The progress of a task of which something is begun now."""
        course = search.known.course()
        return TaskProgress(search.number, False, search.facts, lambda: course)

    def _step_search(self, search: TaskSearch, goal: Goal, meanwhile: Meanwhile) -> Step:
        try:
            return search.step(goal, meanwhile)
        except KeyboardInterrupt:
            self.interrupted = True
            raise
        except CheckError as error:
            self._leave_out(search, error)
            return Step(search.number, 0, 0, True)

    def _leave_out(self, search: TaskSearch, error: CheckError) -> None:
        """Measure no more of a task whose results cannot be checked: that is no reason not to tune the others."""
        if len(self._searches) == 1:
            raise error
        search.exhausted = True
        self._unchecked[search.number] = error.said

    def _of_task(self, goal: Goal, search: TaskSearch) -> Goal:
        """The goal of one task: it may not take more than what is left of the total."""
        if goal.total is None:
            return goal
        return replace(goal, trials=min(goal.wanted_trials, search.known.trial_count + self._trials_left(goal)))

    def _trials_left(self, goal: Goal) -> int:
        """The number of trials that all tasks together may still make."""
        return max(goal.wanted_total - sum(map(self._trial_count, self._searches)), 0)

    def _trial_count(self, search: TaskSearch) -> int:
        """The number of trials that a task has, or may have once its batch under way is made."""
        under_way = self._under_way.get(search.number)
        return search.known.trial_count if under_way is None else under_way.most

    def _next_search(self, goal: Goal, beside: TaskSearch | None = None) -> TaskSearch | None:
        """The search that the scheduler chooses, other than the one `beside`."""
        found = self._scheduler.next(self._progress(goal, beside), self._last)
        return None if found is None else self._searches[found]

    @property
    def progress(self) -> tuple[TaskProgress, ...]:
        """How far each task is."""
        return self._progress(Goal())

    def _progress(self, goal: Goal, beside: TaskSearch | None = None) -> tuple[TaskProgress, ...]:
        return tuple(self._progress_of(goal, search, beside) for search in self._searches)

    def _progress_of(self, goal: Goal, search: TaskSearch, beside: TaskSearch | None = None) -> TaskProgress:
        """How far a task is; one with a batch under way is as far as it was before."""
        if search.number in self._under_way:
            return self._under_way[search.number].before
        may = goal.total is None or self._trials_left(goal) > 0
        is_open = may and search is not beside and search.wants_step(self._of_task(goal, search))
        return TaskProgress(search.number, is_open, search.facts, search.known.course)

    @property
    def running(self) -> int | None:
        """The number of the task that is measured now, or was measured last."""
        return self._last

    @property
    def following(self) -> int | None:
        """The number of the task that is made ready to be next, where that is another one."""
        return self._following

    @property
    def unchecked(self) -> Mapping[int, str]:
        """Tasks whose results cannot be checked, so that they are not measured, by number, with the reason."""
        return self._unchecked

    def _prepare_next(self, goal: Goal, now: TaskSearch) -> None:
        """Make the next task ready, while builders are busy and nothing is timed."""
        following = None if goal.is_over else self._next_search(goal, now)
        self._following = None if following is None else following.number
        if following is not None:
            try:
                following.make_ready(self._of_task(goal, following))
            except CheckError as error:
                self._leave_out(following, error)

    def _lower_next(self) -> None:
        """Have builders begin with the next task: where a kernel leaves cores for them, while another one is timed."""
        if self._following is not None:
            self._searches[self._following].lower_ahead()

    def _opened_runner(self) -> Runner:
        if not self._runner.is_open:
            self._view.begin(self.tasks[self._last or 0].program.key)
        return self._runner.open_runner()

    def _require_open(self) -> None:
        if self._closed:
            raise MetaschedError("this session is closed", hint="make another to go on from what is recorded")

    def _leave(self) -> None:
        for search in self._searches:
            search.leave()


def _checked_tasks(tasks: Sequence[SearchableTask]) -> tuple[SearchableTask, ...]:
    """Raises MetaschedError for what is no list of tasks, one at least."""
    given: object = tasks
    if not isinstance(given, list | tuple) or not given:
        raise MetaschedError(
            f"`tasks` is {tasks!r}; it is a list of tasks, one at least", hint="write TuningSession([Task(program)])"
        )
    for number, task in enumerate(given):
        _require_task(number, task)
    return tuple(tasks)


def _require_task(number: int, given: object) -> None:
    """Raises MetaschedError for what is no task."""
    if lacking_methods(given, "guesses"):
        hint = "make one by Task(program)" if isinstance(given, Program) else ""
        raise MetaschedError(f"`tasks[{number}]` is {a_or_an(type(given).__name__)}, and not a task", hint=hint)

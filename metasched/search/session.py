"""Tuning in steps: one task or several, with a given runner, strategy, model and database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Self

from metasched.cost.model_registry import DEFAULT_MODEL, MakeModel, model_of
from metasched.database.backends import open_database
from metasched.database.base import Database
from metasched.database.claims import Claimant
from metasched.errors import MetaschedError
from metasched.measure.executor_registry import DEFAULT_EXECUTOR, OpenedOnce
from metasched.measure.runner import Runner
from metasched.search.progress_view import Shown, view_of
from metasched.search.report import TuningReport
from metasched.search.strategy import DEFAULT_STRATEGY, MakeStrategy, strategy_of
from metasched.search.task_search import Goal, Parts, Searched, Step, TaskSearch

DEFAULT_DATABASE = "sqlite:///metasched.db"


class TuningSession:
    """Tunes tasks in steps, a batch of candidates each, one task after another.

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
        model: by name, such as "trees", or a function of a seed; each task has its own.
        seed: with the recorded times, decides every candidate.
        progress: how to show where it stands, as of `tune`.
        guess: whether the first trial of a task is the guess, the schedule chosen without measuring.

    Raises MetaschedError for an unknown name, DatabaseError for a database that cannot be opened.
    """

    def __init__(
        self,
        tasks: Sequence[Searched],
        *,
        db: str | Database = DEFAULT_DATABASE,
        runner: str | Runner = DEFAULT_EXECUTOR,
        strategy: str | MakeStrategy = DEFAULT_STRATEGY,
        model: str | MakeModel = DEFAULT_MODEL,
        seed: int = 0,
        progress: Shown = None,
        guess: bool = True,
    ) -> None:
        given: object = tasks
        if not isinstance(given, list | tuple) or not given:
            raise MetaschedError(
                f"`tasks` is {tasks!r}; it is a list of tasks, one at least\n  hint: TuningSession([Task(program)])"
            )
        self.tasks = tuple(tasks)
        self.interrupted = False
        self._strategy, self._model = strategy_of(strategy), model_of(model)
        self._runner = OpenedOnce(runner, max(task.target.threads for task in self.tasks))
        self._own = ExitStack()
        self._own.callback(self._runner.close)
        self.database = self._own.enter_context(open_database(db)) if isinstance(db, str) else db
        self._view = self._own.enter_context(closing(view_of(progress)))
        self._turn = 0
        self._closed = False
        claimant = Claimant.this_process()
        parts = Parts(
            self.database, self._opened_runner, self._strategy, self._model, seed, claimant, self._view, guess
        )
        self._searches = [TaskSearch(task, number, parts) for number, task in enumerate(self.tasks)]

    def __repr__(self) -> str:
        return f"<tuning session of {', '.join(task.program.key for task in self.tasks)}>"

    def step(self, trials: int | None = None) -> Step | None:
        """Propose, measure, record and learn once, for the next task in turn.

        Tasks with fewer than `trials` trials whose space is not exhausted take turns; None if there are none. On Ctrl-C
        what has been measured is kept, and KeyboardInterrupt is raised. Raises MetaschedError when the session is
        closed.
        """
        return self._step(Goal(trials))

    def run(self, trials: int | None = None, budget: float | None = None) -> tuple[TuningReport, ...]:
        """Step until every task has `trials` trials, failures and earlier ones included, or the budget is spent.

        Then the best of each task are timed again in turns, and what came of each task is returned, in their order.

        Args:
            trials: of each task.
            budget: seconds, after which no further batch is begun; the best are timed again after it. Which batches
                were made depends on time, then, and they are recorded: a session that resumes learns from the same.

        On Ctrl-C it ends early, and the reports say so. Raises MetaschedError where there is neither, or one is not
        positive.
        """
        self._require_open()
        goal = goal_of(trials, budget)
        try:
            try:
                while not goal.is_over and self._step(goal) is not None:
                    pass
            except KeyboardInterrupt:
                self.interrupted = True
            # After Ctrl-C, a second more is spent to find the best of what was measured.
            self.settle()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._leave()
        return self.reports

    def settle(self) -> None:
        """Time the best of each task again, in turns, unless that was done already."""
        self._require_open()
        for search in self._searches:
            search.settle()

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

    def _step(self, goal: Goal) -> Step | None:
        self._require_open()
        search = self._next(goal)
        if search is None:
            return None
        self._turn = search.number + 1
        try:
            return search.step(goal, lambda: self._prepare_next(goal))
        except KeyboardInterrupt:
            self.interrupted = True
            raise

    def _next(self, goal: Goal) -> TaskSearch | None:
        """The search whose turn it is."""
        count = len(self._searches)
        order = (self._searches[(self._turn + n) % count] for n in range(count))
        return next((search for search in order if search.wants_step(goal)), None)

    def _prepare_next(self, goal: Goal) -> None:
        """Prepare the next task, while builders are busy and nothing is timed."""
        following = None if goal.is_over else self._next(goal)
        if following is not None and not following.is_prepared:
            following.prepare()

    def _opened_runner(self) -> Runner:
        if not self._runner.is_open:
            self._view.begin(self.tasks[self._turn - 1].program.key)
        return self._runner.opened()

    def _require_open(self) -> None:
        if self._closed:
            raise MetaschedError("this session is closed; make another to go on from what is recorded")

    def _leave(self) -> None:
        for search in self._searches:
            search.leave()


def goal_of(trials: int | None, budget: float | None) -> Goal:
    """When a run that begins now ends. Raises MetaschedError if neither is given, or one is not positive."""
    if trials is None and budget is None:
        raise MetaschedError("say when to end: `trials`, how many measurements to have, or `budget`, seconds")
    counted: object = trials
    timed: object = budget
    if counted is not None and not isinstance(counted, int):
        raise MetaschedError(f"trials is {trials!r}; it is how many measurements to have, such as 64")
    if trials is not None and trials < 1:
        raise MetaschedError(f"trials is {trials}; at least one measurement is needed")
    if timed is not None and not (isinstance(timed, int | float) and timed > 0):
        raise MetaschedError(f"budget is {budget!r}; it is how many seconds to go on, such as 60")
    return Goal(trials, None if budget is None else time.perf_counter() + budget)

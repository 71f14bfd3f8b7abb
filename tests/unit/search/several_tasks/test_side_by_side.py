"""Batches of several tasks under way at once, where a runner has several machines."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from metasched.database.database_registry import open_database
from metasched.lang import parse_program
from metasched.measure.records import CheckError, Measurement
from metasched.search.budget.goal import Goal
from metasched.search.proposal import Guesses
from metasched.search.report import TuningReport
from metasched.search.session import TuningSession
from metasched.search.several_tasks.side_by_side import SideBySide
from metasched.search.several_tasks.waiting import Waiting
from metasched.search.short_list import SHORT_LIST
from tests.support.toy_search import TEXT, ToyRunner, ToySpace, ToyTask, strategy

GUESSES = Guesses("[0, 1, 64, 1, 64]", "[0, 1, 64, 1, 64]")


class Machines(ToyRunner):
    """Machines that measure in threads, a candidate each at a time, after a random delay. Until so many are at work as
    once have to `meet`, those that are wait for the others.
    """

    def __init__(
        self,
        machines: int,
        delay_s: float = 0.0,
        seed: int = 0,
        error: BaseException | None = None,
        meet: int = 0,
    ) -> None:
        super().__init__(ToySpace())
        self.batches_at_once = machines
        self._threads = ThreadPoolExecutor(machines)
        self._delay_s = delay_s
        self._random = random.Random(seed)
        self._error = error
        self._lock = threading.Lock()
        self._at_work = 0
        self.most_at_work = 0
        self._meet = meet
        self._have_met = threading.Event()

    def submit(self, program: Any, trace: str, target: str, *args: Any, **more: Any) -> Future[Measurement]:
        done = super().submit(program, trace, target, *args, **more)
        wait_s = self._delay_s * self._random.uniform(0.5, 1.5)
        return self._threads.submit(self._measure, str(program), done, wait_s)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def _measure(self, program: str, done: Future[Measurement], wait_s: float) -> Measurement:
        with self._lock:
            self._at_work += 1
            self.most_at_work = max(self.most_at_work, self._at_work)
            if self.most_at_work >= self._meet:
                self._have_met.set()
        have_met = self._have_met.wait(20)
        self._have_met.set()  # where they have not, nobody waits any more
        assert have_met
        time.sleep(wait_s)
        with self._lock:
            self._at_work -= 1
        if self._error is not None and "B[i] = A[i] + 1" in program and self.most_at_work > 1:
            raise self._error
        return done.result()


def tasks(count: int) -> list[ToyTask]:
    return [ToyTask(ToySpace(), GUESSES, parse_program(TEXT, N=8 + n)) for n in range(count)]


def run(runner: ToyRunner, count: int = 5, **goal: Any) -> tuple[list[Any], tuple[TuningReport, ...]]:
    """The records of each task in the order of proposal, and the reports."""
    with closing(runner), open_database("sqlite:///:memory:") as database:
        given = tasks(count)
        with TuningSession(given, db=database, runner=runner, strategy=strategy, progress=False) as session:
            reports = session.run(**goal)
            records = []
            for search in session._searches:
                found = database.records(search.key.task)
                records.append(sorted((r.batch, r.place, r.trace, r.search_seconds) for r in found))
    return records, reports


@pytest.mark.parametrize("goal", [{"trials": 28}, {"total": 60}])
def test_what_is_measured_does_not_depend_on_what_was_done_first(goal: dict[str, int]) -> None:
    first, _ = run(Machines(3, 0.002, seed=1), **goal)
    second, _ = run(Machines(3, 0.004, seed=2), **goal)
    assert first == second


def test_each_task_is_searched_as_on_one_machine() -> None:
    runner = Machines(3, meet=3)
    assert run(runner, trials=28)[0] == run(ToyRunner(ToySpace()), trials=28)[0]
    assert runner.most_at_work == 3


def test_a_total_is_kept() -> None:
    _, reports = run(Machines(4, 0.001), total=50)
    assert sum(report.records for report in reports) == 50


def test_a_total_leaves_room_for_as_many_batches_as_fit_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way: list[int] = []
    begun_beside = TuningSession._begun_beside

    def noting(session: TuningSession, goal: Callable[[], Goal]) -> Callable[[], int] | None:
        begun = begun_beside(session, goal)
        under_way.append(len(session._under_way))
        return begun

    monkeypatch.setattr(TuningSession, "_begun_beside", noting)
    _, reports = run(Machines(4, 0.001), 6, total=5 * SHORT_LIST)
    assert max(under_way) == 5
    assert sum(report.records for report in reports) == 5 * SHORT_LIST


def test_what_is_done_is_settled_beside_the_steps_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[int] = []
    settled_beside = TuningSession._settled_beside

    def noting(session: TuningSession, goal: Callable[[], Goal]) -> Callable[[], int] | None:
        turns = settled_beside(session, goal)
        if turns is not None:
            beside.append(len(session._under_way) - 1)
        return turns

    monkeypatch.setattr(TuningSession, "_settled_beside", noting)
    _, reports = run(Machines(3), trials=16)
    assert len(beside) == 5
    assert max(beside) > 0
    assert all(report.best is not None and report.noise is not None for report in reports)


def test_seconds_leave_no_task_settled_before_they_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TuningSession, "_settle_one", lambda *_: pytest.fail("there may be time for more trials"))
    _, reports = run(Machines(3, 0.001), trials=12, budget=60)
    assert [report.records for report in reports] == [12] * 5


def test_an_error_of_one_ends_all_and_loses_nothing_recorded() -> None:
    runner = Machines(2, 0.001, error=ZeroDivisionError("ours"))
    with pytest.raises(ZeroDivisionError):
        run(runner, trials=28)


def test_a_task_that_cannot_be_checked_is_left_out() -> None:
    class Unchecked(Machines):
        def submit(self, program: Any, *args: Any, **more: Any) -> Future[Measurement]:
            if program.params == (("N", 9),):
                raise CheckError("no data")
            return super().submit(program, *args, **more)

    _, reports = run(Unchecked(2), trials=12)
    assert [report.records for report in reports] == [12, 0, 12, 12, 12]


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


def test_steps_end_in_the_order_of_their_beginning(waiting: Waiting) -> None:
    futures: list[Future[int]] = [Future() for _ in range(3)]

    def step(n: int) -> Callable[[], int]:
        return lambda: waiting.result(futures[n])

    with SideBySide[int](waiting) as steps:
        for n in range(3):
            steps.begin_step(step(n))
        for n in (2, 1, 0):
            futures[n].set_result(n)
        assert [steps.end_first() for _ in range(3)] == [0, 1, 2]


def test_steps_compute_one_at_a_time(waiting: Waiting) -> None:
    computing = 0

    def step() -> int:
        nonlocal computing
        computing += 1
        time.sleep(0.002)
        assert computing == 1
        computing -= 1
        waiting.sleep(0.001)
        return 1

    with SideBySide[int](waiting) as steps:
        for _ in range(5):
            steps.begin_step(step)
        assert sum(steps.end_first() for _ in range(5)) == 5


def test_an_interrupt_ends_what_waits_and_later_steps_may_wait_again(waiting: Waiting) -> None:
    never: Future[int] = Future()
    seen: list[str] = []

    def step() -> None:
        try:
            waiting.result(never)
        except KeyboardInterrupt:
            seen.append("ended")
            raise

    def pressed() -> None:
        with SideBySide[None](waiting) as steps:
            steps.begin_step(step)
            steps.begin_step(step)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pressed()
    assert seen == ["ended", "ended"]
    done: Future[int] = Future()
    done.set_result(1)
    with waiting.computing():
        assert waiting.result(done) == 1


def test_what_is_back_from_waiting_goes_on_before_what_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, done = Waiting(), Future[int]()
    order: list[str] = []
    waits, in_line = threading.Event(), threading.Semaphore(0)
    wait_for = waiting._turn._changed.wait_for

    def noting(predicate: Callable[[], bool]) -> bool:
        in_line.release()
        return wait_for(predicate)

    def first() -> None:
        with waiting.computing():
            waits.set()
            waiting.result(done)
            order.append("back")

    def another() -> None:
        with waiting.computing():
            order.append("begun")

    with ThreadPoolExecutor(9) as threads:
        all_of_them = [threads.submit(first)]
        waits.wait()
        with waiting.computing():
            monkeypatch.setattr(waiting._turn._changed, "wait_for", noting)
            for _ in range(8):
                all_of_them.append(threads.submit(another))
                in_line.acquire()
            done.set_result(1)
            while not waiting._turn._back:
                time.sleep(1e-3)
        for thread in all_of_them:
            thread.result()
    assert order == ["back", *["begun"] * 8]


def test_what_takes_long_lets_those_go_on_whose_results_are_there_and_is_before_those_that_begin() -> None:
    waiting, answer, order = Waiting(), Future[None](), list[str]()
    begun = threading.Event()

    def asks() -> None:
        begun.set()
        waiting.result(answer)
        order.append("goes on")

    def takes_long() -> None:
        answer.set_result(None)
        while not waiting._turn._back:
            time.sleep(1e-3)
        steps.begin_step(lambda: order.append("begins"))
        waiting.give_way()
        order.append("takes long")

    with SideBySide[None](waiting) as steps:
        steps.begin_step(asks)
        begun.wait()
        steps.begin_step(takes_long)
        while steps:
            steps.end_first()
    assert order == ["goes on", "takes long", "begins"]

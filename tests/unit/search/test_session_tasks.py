"""Sessions step by step: several tasks, what is handed in and what is opened, and going on where one stopped."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import Features
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import CostModel
from metasched.cost.models.roofline import Roofline
from metasched.database.base import Database
from metasched.database.database_registry import open_database
from metasched.database.record import DatabaseError, Record
from metasched.errors import MetaschedError
from metasched.lang import parse_program
from metasched.measure.executor_registry import GROUP
from metasched.report.progress import Progress
from metasched.search.checked_model import CheckedModel
from metasched.search.proposal import Guesses
from metasched.search.session import TuningSession
from metasched.search.space_protocol import Candidate, Observation, Strategy
from metasched.search.strategies.evolutionary import Evolution, EvolutionConfig
from metasched.search.strategy_registry import StrategyInputs
from metasched.search.task_search import batch_size
from metasched.target import Target, TargetError
from tests.support.toy_search import TEXT, ToyRunner, ToySpace, ToyTask, key, strategy, tuned

GUESSES = Guesses("[0, 1, 64, 1, 64]", "[0, 1, 64, 1, 64]")


def task(n: int, guesses: Guesses = GUESSES) -> ToyTask:
    return ToyTask(ToySpace(), guesses, parse_program(TEXT, N=n))


def session(database: Database, runner: ToyRunner, *tasks: ToyTask, **settings: object) -> TuningSession:
    given = {"strategy": strategy, "progress": False, **settings}
    return TuningSession(list(tasks), db=database, runner=runner, **given)  # type: ignore[arg-type]


class RunnerOfSmallMachine(ToyRunner):
    def require_able(self, target: Target) -> None:
        raise TargetError(f"it lacks what {target.name} has")


def test_nothing_is_measured_for_a_target_that_the_runner_is_not_of(database: Database) -> None:
    runner = RunnerOfSmallMachine(ToySpace())
    with pytest.raises(TargetError, match="it lacks what"):
        tuned(database, 20, runner)
    assert (runner.prepared, runner.traces, database.records(key().task)) == ([], [], [])


class Journal(ToyRunner):
    """Says in which order it was asked for what."""

    def __init__(self) -> None:
        super().__init__(ToySpace())
        self.log: list[tuple[str, str]] = []

    def prepare(self, program, inputs=None):  # type: ignore[no-untyped-def]
        self.log.append(("prepare", program.key))

    def lower(self, program, trace, target):  # type: ignore[no-untyped-def]
        self.log.append(("lower", program.key))
        return super().lower(program, trace, target)

    def submit(self, program, trace, target, best_s=None, **more):  # type: ignore[no-untyped-def]
        self.log.append(("submit", program.key))
        return super().submit(program, trace, target, best_s, **more)


@pytest.mark.parametrize(
    ("start", "beside", "size"),
    [
        (0, 0, 8),
        (0, 1, 8),
        (0, 3, 7),
        (0, 4, 6),
        (0, 6, 5),
        (0, 10, 6),
        (0, 20, 4),
        (9, 1, 7),
        (14, 6, 4),
        (16, 6, 8),
        (64, 1, 16),
    ],
)
def test_the_short_list_is_proposed_in_halves_and_at_once_where_little_of_it_is_left(
    start: int, beside: int, size: int
) -> None:
    assert batch_size(start, beside) == size


def test_tasks_take_turns_a_batch_each(database: Database) -> None:
    seen: list[Progress] = []
    with session(database, ToyRunner(ToySpace()), task(8), task(9), task(10), progress=seen.append) as tuning:
        steps = [tuning.step(trials=12) for _ in range(7)]
    assert [step.task for step in steps if step is not None] == [0, 1, 2, 0, 1, 2]
    assert [step.batch for step in steps if step is not None] == [0, 0, 0, 1, 1, 1]
    assert [step.measured for step in steps if step is not None] == [1 + batch_size(0)] * 3 + [3] * 3
    assert steps[-1] is None
    assert [p.task for p in seen[:10]] == ["add[N=8]"] * 9 + ["add[N=9]"]


def test_each_task_is_searched_as_it_would_be_alone(database: Database) -> None:
    with session(database, ToyRunner(ToySpace()), task(8), task(9)) as tuning:
        reports = tuning.run(trials=28)
    with open_database("sqlite:///:memory:") as fresh:
        alone = tuned(fresh, 28, ToyRunner(ToySpace()), guesses=GUESSES)
    assert alone.best is not None
    for report in reports:
        assert report.records == 28
        assert report.best is not None
        assert report.best.trace == alone.best.trace


def test_guesses_and_expert_traces_are_lowered_while_the_space_is_made(database: Database) -> None:
    runner = Journal()

    class Slow(ToyTask):
        @property
        def arms(self) -> ToySpace:
            runner.log.append(("space", self.program.key))
            return super().arms

    first = Slow(ToySpace(), Guesses("[0, 1, 1, 1, 1]", "[0, 1, 1, 1, 1]", ("[0, 2, 1, 1, 1]",)))
    with session(database, runner, first) as tuning:
        tuning.step(trials=1)
        own = first.program.key
        assert runner.log == [("prepare", own), ("lower", own), ("lower", own), ("space", own), ("submit", own)]
        tuning.step(trials=2)
    assert runner.log[5:13] == [*[("lower", own)] * 7, ("submit", own)], "the expert trace was lowered already"
    del runner.log[:]
    with session(database, runner, first) as tuning:
        tuning.step(trials=3)
    assert runner.log[:2] == [("prepare", own), ("space", own)], "what was measured is not lowered again"


def test_the_next_task_is_made_ready_while_candidates_are_lowered_and_nothing_is_timed(database: Database) -> None:
    runner, second = Journal(), task(9)
    with session(database, runner, task(8), second, task(10)) as tuning:
        tuning.step()
        assert second.made == 1
        own, other = "add[N=8]", "add[N=9]"
        batch = [entry for entry in runner.log if entry[0] != "submit"]
        before = [("prepare", own), *[("lower", own)] * 9, ("prepare", other), ("lower", other)]
        assert batch == [*before, *[("lower", other)] * 8]
        assert runner.log[-17:-8] == [("submit", own)] * 9, "builders may begin with the next task once it is submitted"
        del runner.log[:]
        tuning.step()
    assert runner.log[:2] == [("prepare", "add[N=10]"), ("lower", "add[N=10]")], "all of this one was lowered already"
    assert ("prepare", other) not in runner.log


def test_a_task_that_is_done_is_not_made_ready(database: Database) -> None:
    with session(database, ToyRunner(ToySpace()), task(9)) as tuning:
        tuning.run(trials=16)
    done = task(9)
    with session(database, ToyRunner(ToySpace()), task(8), done) as tuning:
        tuning.run(trials=16)
    assert done.made == 0


def test_what_is_given_stays_open(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    for n in (8, 9):
        with session(database, runner, task(n)) as tuning:
            tuning.run(trials=2)
        tuning.close()
    assert not runner.closed
    assert len(database.stats().tasks) == 2


def test_what_a_session_opens_it_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\ntoys = runner_of_toys:make\n")
    (tmp_path / "runner_of_toys.py").write_text(
        "from tests.support.toy_search import ToyRunner, ToySpace\n"
        "made = []\n"
        "def make(wanted):\n"
        "    made.append(ToyRunner(ToySpace()))\n"
        "    return made[-1]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    url = f"sqlite:///{tmp_path}/own.db"
    with TuningSession([task(8)], db=url, runner="toys://", strategy=strategy, progress=False) as tuning:
        made = sys.modules["runner_of_toys"].made
        assert not made, "nothing was asked for yet"
        tuning.run(trials=2)
    assert [runner.closed for runner in made] == [True]
    with TuningSession([task(8)], db=url, runner="toys", strategy=strategy, progress=False) as tuning:
        assert [report.measured for report in tuning.run(trials=2)] == [0]
    assert len(made) == 1, "nothing was to be measured"
    monkeypatch.delitem(sys.modules, "runner_of_toys")


def test_a_budget_that_is_spent_when_the_guess_is_measured_begins_no_batch(database: Database) -> None:
    runner, second = Slow(ToySpace()), task(9)
    with session(database, runner, task(8), second) as tuning:
        first, other = tuning.run(budget=0.01)
        assert (first.records, other.records, second.made) == (1, 0, 0)
        assert other.out_of_time
        assert str(other).splitlines()[1] == "nothing was measured: the time was over before"
        assert tuning.step(trials=2) is not None, "a step has no seconds that could be over"
        (first, other) = tuning.run(trials=16)
        assert not first.out_of_time
        assert not other.out_of_time
    assert (first.records, other.records) == (16, 16)


class Slow(ToyRunner):
    """It takes a while to start."""

    def prepare(self, program, inputs=None):  # type: ignore[no-untyped-def]
        time.sleep(0.02)


def test_steps_of_one_session_are_those_of_one_run(tmp_path: Path) -> None:
    runners = ToyRunner(ToySpace(), fail=True), ToyRunner(ToySpace(), fail=True)
    with (
        open_database(f"sqlite:///{tmp_path}/one.db") as database,
        session(database, runners[0], task(8)) as tuning,
    ):
        for trials in (1, 5, 16, 19, 20, 40):
            while tuning.step(trials) is not None:
                pass
            assert tuning.reports[0].records == trials
    with open_database(f"sqlite:///{tmp_path}/two.db") as database, session(database, runners[1], task(8)) as tuning:
        while tuning.step(40) is not None:
            pass
    assert runners[0].traces == runners[1].traces


def listening(calls: list[list[Observation]]) -> object:
    class Listening(Evolution):
        def observe(self, results: Sequence[Observation]) -> None:
            calls.append(list(results))
            super().observe(results)

    def make(given: StrategyInputs) -> Strategy:
        return Listening(given.arms, CostModel(), 0, EvolutionConfig(population=64, generations=1), given.phases)

    return make


@pytest.mark.parametrize("first", [16, 24, 29, 40])
def test_a_strategy_is_told_of_batches_as_they_came(database: Database, first: int) -> None:
    live: list[list[Observation]] = []
    later: list[list[Observation]] = []
    runner = ToyRunner(ToySpace(), fail=True)
    runner.codes = lambda trace: trace.replace("13", "12")  # some have the code of others
    with session(database, runner, task(8), strategy=listening(live)) as tuning:
        while tuning.step(first) is not None:
            pass
    with session(database, runner, task(8), strategy=listening(later)) as tuning:
        while tuning.step(48) is not None:
            pass
    assert live
    assert later[: len(live)] == live
    assert len(later) > len(live)


def test_a_model_is_handed_to_the_strategy(database: Database) -> None:
    given: list[StrategyInputs] = []

    def make(inputs: StrategyInputs) -> Strategy:
        given.append(inputs)
        return strategy(inputs)

    with session(database, ToyRunner(ToySpace()), task(8), task(9), strategy=make, model="roofline", seed=5) as tuning:
        tuning.step()
        tuning.step()
    models = [inputs.model for inputs in given]
    assert [type(model.own) for model in models if isinstance(model, CheckedModel)] == [Roofline] * 2
    assert given[0].model is not given[1].model
    assert [inputs.seed for inputs in given] == [5, 5]


class Noting(CostModel):
    """A model that notes when it is told to get ready, and when it learns."""

    def __init__(self, noted: list[str]) -> None:
        super().__init__()
        self.noted = noted

    def get_ready(self) -> None:
        self.noted.append("ready")

    def fit(self, own: TaskTimes) -> None:
        self.noted.append("fit")
        super().fit(own)


@pytest.mark.parametrize(("trials", "first"), [(40, ["ready", "fit"]), (2, [])])
def test_a_model_gets_ready_while_what_it_learns_from_is_built(
    database: Database, trials: int, first: list[str]
) -> None:
    noted: list[str] = []

    def make(given: StrategyInputs) -> Strategy:
        return Evolution(given.arms, given.model, 0, EvolutionConfig(population=64, generations=1))

    tuned_by = {"strategy": make, "model": lambda seed: Noting(noted)}
    with session(database, ToyRunner(ToySpace()), task(8), **tuned_by) as tuning:
        tuning.run(trials)
    assert list(dict.fromkeys(noted)) == first


def test_a_model_that_predicts_no_scores_ends_the_search(database: Database) -> None:
    class Silent(CostModel):
        def predict(self, features: Features) -> Array:
            return super().predict(features)[1:]

    runner = ToyRunner(ToySpace())
    refused = pytest.raises(MetaschedError, match="the model Silent predicted an array of shape")
    with session(database, runner, task(8), model=Silent) as tuning, refused:
        tuning.step()


def test_an_interrupt_of_a_step_is_raised_and_what_was_measured_is_kept(database: Database) -> None:
    with session(database, ToyRunner(ToySpace(), stop_at=5), task(8), task(9)) as tuning:
        with pytest.raises(KeyboardInterrupt):
            tuning.step()
        first, second = tuning.reports
    assert first.interrupted
    assert (first.records, second.records) == (5, 0)


def test_the_best_is_timed_again_by_run_and_by_settle(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    with session(database, runner, task(8)) as tuning:
        tuning.step()
        assert not runner.again
        tuning.settle()
        again = len(runner.again)
        assert again > 0
        tuning.settle()
        assert len([t for t in runner.again[again:] if t in runner.again[:again]]) == 0, "it is settled"


def test_a_candidate_that_is_illegal_is_told_at_once(database: Database) -> None:
    calls: list[list[Observation]] = []
    toys = task(8)
    toys.space.illegal = set(range(1, 40))
    with session(database, ToyRunner(toys.space), toys, strategy=listening(calls)) as tuning:
        tuning.step()
    illegal = [o for o in calls[0] if o.seconds is None]
    assert illegal
    assert all(o.candidate.row[0] < 40 for o in illegal)
    assert isinstance(illegal[0].candidate, Candidate)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": []}, "`tasks` is []; it is a list of tasks, one at least"),
        ({"tasks": task(8)}, "it is a list of tasks, one at least"),
        ({"strategy": "lucky"}, "there is no strategy `lucky`"),
        ({"model": "oracle"}, "there is no model `oracle`"),
        ({"model": 5}, "this is no model: it is 5, and not a function of a seed"),
        ({"model": lambda: None}, "this is no model: it cannot be called with one argument, a seed"),
        ({"strategy": lambda: 1}, "this is no strategy: it cannot be called with one argument, the StrategyInputs"),
        ({"scheduler": 5}, "this is no task scheduler: it is 5, and not a function of SchedulerInputs"),
        ({"scheduler": lambda given: 3}, "`<lambda>` made 3 of SchedulerInputs, which is no task scheduler"),
        ({"tasks": [task(8).program]}, "`tasks[0]` is a Program, and not a task\n  hint: make one by Task(program)"),
        ({"tasks": [task(8), 5]}, "`tasks[1]` is an int, and not a task"),
        ({"networks": [{0: 2.0}, {5: 1.0}]}, "`networks[1]` runs task 5; there is 1 task, counted from 0"),
        ({"networks": [{0: 0.0}]}, "`networks[0]` runs task 0 0.0 times; it is how often, and positive"),
        ({"networks": [3]}, "`networks[0]` is 3; it says how often tasks run, by number"),
        ({"runner": 5}, "`runner` is 5, and no runner: it has no `lower`"),
        ({"progress": 3}, "`progress` is 3; it is True, False, or a function"),
        ({"strategy": 5}, "this is no strategy: it is 5, and not a function of StrategyInputs"),
        ({"runner": "moon://base"}, "there is no executor `moon`"),
        ({"db": "paper"}, "`paper` is not a database URL"),
        (
            {"db": None},
            "`None` is a NoneType, not the URL of a database\n  hint: write it as a text: 'sqlite:///metasched.db'",
        ),
        ({"db": Path("my.db")}, "not the URL of a database\n  hint: write it as a text: 'sqlite:///my.db'"),
        ({"db": [Path("my.db")]}, "is no list of database URLs"),
    ],
)
def test_mistakes(settings: dict[str, object], message: str) -> None:
    given = {"tasks": [task(8)], "db": "sqlite:///:memory:", "progress": False, **settings}
    with pytest.raises(MetaschedError, match=re.escape(message)):
        TuningSession(**given)  # type: ignore[arg-type]


class _ProposesNone:
    def propose(self, count: int) -> None: ...

    def observe(self, results: Sequence[Observation]) -> None: ...


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"strategy": lambda given: None},
            "`<lambda>` made None of StrategyInputs, which is no strategy: it has no `prop",
        ),
        (
            {"strategy": lambda given: _ProposesNone()},
            "the strategy _ProposesNone proposed None; `propose` returns a list",
        ),
        ({"model": lambda seed: None}, "`<lambda>` made None of a seed, which is no model: it has no `fit`"),
    ],
)
def test_parts_of_ones_own_that_make_something_else(
    settings: dict[str, object], message: str, database: Database
) -> None:
    with (
        session(database, ToyRunner(ToySpace()), task(8), **settings) as tuning,
        pytest.raises(MetaschedError, match=re.escape(message)),
    ):
        tuning.run(trials=8)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "say when to end: `trials`, how many measurements to have, `budget`, seconds, or `patience`, how many"),
        ({"trials": 0}, "trials is 0; at least one measurement is needed"),
        ({"trials": "many"}, "trials is 'many'; it is how many measurements"),
        ({"budget": -1}, "budget is -1; it is how many seconds"),
        ({"budget": float("inf")}, "budget is inf; it is how many seconds"),
        ({"budget": "long"}, "budget is 'long'; it is how many seconds"),
        ({"trials": True}, "trials is True; it is how many measurements"),
        ({"budget": True}, "budget is True; it is how many seconds"),
        ({"patience": True}, "patience is True; it is how many trials"),
        ({"trials": np.True_}, "it is how many measurements"),
        ({"budget": np.True_}, "it is how many seconds"),
        ({"patience": np.True_}, "it is how many trials"),
        ({"patience": 0}, "patience is 0; it is how many trials may be made without a gain"),
    ],
)
def test_a_run_without_an_end(settings: dict[str, object], message: str, database: Database) -> None:
    with (
        session(database, ToyRunner(ToySpace()), task(8)) as tuning,
        pytest.raises(MetaschedError, match=re.escape(message)),
    ):
        tuning.run(**settings)  # type: ignore[arg-type]


def test_what_is_recorded_when_ctrl_c_is_pressed_is_counted(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(record: Record) -> int:
        number = kept(record)
        if record.trial == 4:
            signal.raise_signal(signal.SIGINT)
        return number

    kept = database.add
    monkeypatch.setattr(database, "add", add)
    report = tuned(database, 20, ToyRunner(ToySpace()))
    assert report.interrupted
    assert report.measured == report.records == len(database.records(key().task))


def test_a_search_that_adds_nothing_changes_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise DatabaseError("it may not be written")

    tuned(database, 8, ToyRunner(ToySpace()))
    for name in ("join", "leave", "claim", "add", "update"):
        monkeypatch.setattr(database, name, refuse)
    assert tuned(database, 8, ToyRunner(ToySpace())).measured == 0
    with pytest.raises(DatabaseError, match="it may not be written"):
        tuned(database, 9, ToyRunner(ToySpace()))


@pytest.mark.parametrize(("default", "is_told"), [("[2, 12, 12, 12, 12]", True), ("[0, 12, 12, 12, 12]", False)])
def test_a_guess_that_is_faster_and_of_no_space_that_was_searched_is_told(
    default: str, is_told: bool, database: Database
) -> None:
    """Whoever gives a space should know what they would have without it."""
    own = "[0, 1, 64, 1, 64]"
    runner = ToyRunner(ToySpace())
    runner.fixed = {default: 1e-6, own: 1e-4}
    for _ in range(2):
        report = tuned(database, 1, runner, guesses=Guesses(own, default))
        assert report.best is not None
        assert report.best.trace == own
        assert (report.default is not None) == is_told
        line = "the guess where no space is named takes 0.001 ms, 100.0 times as fast: it is not in this space"
        assert (line in str(report)) == is_told


def test_a_session_that_is_closed_measures_nothing(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    with session(database, runner, task(8)) as tuning:
        pass
    with pytest.raises(MetaschedError, match="this session is closed\n  hint: make another"):
        tuning.step()
    with pytest.raises(MetaschedError, match="this session is closed"):
        tuning.run(trials=1)
    assert not runner.prepared


def test_a_session_says_what_it_tunes(database: Database) -> None:
    with session(database, ToyRunner(ToySpace()), task(8), replace(task(9))) as tuning:
        assert repr(tuning) == "<tuning session of add[N=8], add[N=9]>"

"""Code is measured once, whoever proposes it and whichever process began it; some is measured again."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from metasched.database.base import Database
from metasched.database.claims import Claimant
from metasched.database.database_registry import open_database
from metasched.database.record import Duplicate, VisitKind
from metasched.ir.program import Program
from metasched.measure.records import Lowered
from metasched.search.contest import REPEATS
from metasched.search.phases import Phase
from metasched.search.proposal import Guesses
from metasched.search.space_protocol import Candidate, Observation, Strategy
from metasched.search.strategies.random import RandomSearch
from metasched.search.strategy_registry import StrategyInputs
from tests.support.toy_search import ToyRunner, ToySpace, key, tuned

SLOW = "[0, 1, 64, 1, 64]"


class Watched(ToyRunner):
    """Keeps the traces in the order in which they were asked for as code."""

    def __init__(self) -> None:
        super().__init__(ToySpace())
        self.lowered: list[str] = []

    def lower(self, program: Program, trace: str, target: str) -> Future[Lowered]:
        self.lowered.append(trace)
        return super().lower(program, trace, target)


class InParts:
    """Proposes one candidate after another, and keeps how many were being built when the next was looked for."""

    def __init__(self, given: StrategyInputs, runner: Watched) -> None:
        self.drawn = RandomSearch(given.arms, given.seed)
        self.runner = runner
        self.built: list[int] = []

    def propose(self, count: int) -> list[Candidate]:
        raise AssertionError("there is another way to be asked")

    def propose_in_parts(self, count: int) -> Iterator[list[Candidate]]:
        for candidate in self.drawn.propose(count):
            self.built.append(len(self.runner.lowered))
            yield [candidate]

    def observe(self, results: Sequence[Observation]) -> None:
        self.drawn.observe(results)


def test_what_is_chosen_first_is_built_while_the_rest_is_looked_for(database: Database) -> None:
    runner = Watched()
    made: list[InParts] = []

    def make(given: StrategyInputs) -> Strategy:
        made.append(InParts(given, runner))
        return made[-1]

    report = tuned(database, 12, runner, make=make)
    assert made[0].built[:12] == list(range(12))
    assert runner.traces == runner.lowered[:12]
    assert report.phases[Phase.AHEAD] > 0


# --- equal code


def coarse(trace: str) -> str:
    """Tiles of a size and the next are the same code."""
    arm, *row = json.loads(trace)
    return json.dumps([arm, *(max(1, value // 2 * 2) for value in row)])


def test_equal_code_is_measured_once_and_is_one_trial(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    runner.codes = coarse
    report = tuned(database, 44, runner)
    records = database.records(key().task)
    assert len({record.code for record in records}) == len(records) == 44
    assert len(runner.traces) == 44
    assert report.duplicates == len(database.duplicates(key())) > 0


def test_a_search_with_duplicates_goes_on_as_if_it_had_not_been_interrupted(tmp_path: Path) -> None:
    runners = [ToyRunner(ToySpace()) for _ in range(5)]
    guesses = Guesses(SLOW, SLOW)
    for runner in runners:
        runner.codes = coarse
    with open_database(f"sqlite:///{tmp_path}/one.db") as database:
        assert tuned(database, 46, runners[0], guesses=guesses).duplicates > 1
    for first, one, two in ((1, runners[1], runners[2]), (19, runners[3], runners[4])):
        with open_database(f"sqlite:///{tmp_path}/{first}.db") as database:
            tuned(database, first, one, guesses=guesses)
            tuned(database, 46, two, guesses=guesses)
        assert runners[0].traces == one.traces + two.traces, first


def test_a_space_of_few_codes_ends_the_run(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    runner.codes = lambda trace: "[0, 8, 8, 8, 8]" if json.loads(trace)[0] else "[1, 8, 8, 8, 8]"
    report = tuned(database, 40, runner)
    assert report.exhausted
    assert report.records == 2


def test_a_few_measurements_are_repeated_and_tell_the_noise(database: Database) -> None:
    runner = ToyRunner(ToySpace())
    report = tuned(database, 64, runner)
    assert report.noise is not None
    assert report.noise.repeats == REPEATS
    assert report.noise.deviation == 0
    assert f"{REPEATS} measured again" in str(report)
    assert report.records == 64, "they are no trials"
    assert tuned(database, 64, runner).noise == report.noise
    short = [r.by_group(VisitKind.REPEAT) for r in database.records(key().task)]
    assert sum(map(len, short)) == REPEATS


# --- several processes


def test_what_another_process_has_begun_is_waited_for_and_not_begun_again(database: Database) -> None:
    other = Claimant(socket.gethostname(), 1, psutil.Process(1).create_time())
    alone = ToyRunner(ToySpace())
    with open_database("sqlite:///:memory:") as fresh:
        tuned(fresh, 16, alone)
    theirs = alone.traces[3]
    database.join(key(), other)
    assert database.claim(key(), [theirs, "elsewhere"], 9, other) == [theirs, "elsewhere"]
    waited: list[float] = []

    def record(seconds: float) -> None:
        """The other process finishes."""
        waited.append(seconds)
        with open_database("sqlite:///:memory:") as fresh:
            tuned(fresh, 16, ToyRunner(ToySpace()))
            (found,) = (r for r in fresh.records(key().task) if r.trace == theirs)
        database.add(found)
        database.leave(key(), other)

    runner = ToyRunner(ToySpace())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metasched.search.several_tasks.waiting.Waiting.sleep", lambda self, seconds: record(seconds))
        report = tuned(database, 16, runner)
    assert waited
    assert theirs not in runner.traces
    assert report.records == 16
    assert len(runner.traces) == 15


def test_a_guess_of_recorded_code_waits_for_nobody(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody measures its code any more: two processes would each wait for the other to leave."""
    first = ToyRunner(ToySpace())
    tuned(database, 4, first)
    database.join(key(), Claimant(socket.gethostname(), 1, psutil.Process(1).create_time()))
    monkeypatch.setattr(
        "metasched.search.several_tasks.waiting.Waiting.sleep", lambda self, seconds: pytest.fail("it waits")
    )
    runner = ToyRunner(ToySpace())
    runner.codes = lambda trace: first.traces[0] if trace == SLOW else trace
    report = tuned(database, 20, runner, guesses=Guesses(SLOW, SLOW))
    assert report.records == 20
    assert SLOW not in runner.traces
    assert [duplicate.trace for duplicate in database.duplicates(key())] == [SLOW]


def test_code_that_another_process_measured_of_another_trace_is_a_duplicate(database: Database) -> None:
    other = Claimant(socket.gethostname(), 1, psutil.Process(1).create_time())
    alone = ToyRunner(ToySpace())
    with open_database("sqlite:///:memory:") as fresh:
        tuned(fresh, 16, alone)
        (found,) = (record for record in fresh.records(key().task) if record.trace == alone.traces[3])
    database.join(key(), other)
    assert database.claim(key(), [found.code], 9, other) == [found.code]

    def record(seconds: float) -> None:
        database.add(replace(found, trace="[0, 3, 3, 3, 3]"))
        database.leave(key(), other)

    runner = ToyRunner(ToySpace())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metasched.search.several_tasks.waiting.Waiting.sleep", lambda self, seconds: record(seconds))
        tuned(database, 16, runner)
    assert found.trace not in runner.traces
    assert database.duplicates(key())[0] == Duplicate(found.trace, found.code, found.batch, found.place)


def test_claims_of_a_process_that_ended_cost_nothing(database: Database) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    dead = Claimant(socket.gethostname(), process.pid, psutil.Process(process.pid).create_time())
    runner = ToyRunner(ToySpace())
    database.join(key(), dead)
    with open_database("sqlite:///:memory:") as fresh:
        tuned(fresh, 16, runner)
    assert len(database.claim(key(), runner.traces, 99, dead)) == 16
    assert database.claim(key(), runner.traces, 99, Claimant.this_process()) == []
    process.communicate(b"\n")
    assert tuned(database, 16, ToyRunner(ToySpace())).measured == 16

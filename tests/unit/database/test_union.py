"""Several databases as one: one's own is written, and what a team or a stranger has counts once it was timed here."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from metasched.database import (
    Access,
    BaseDatabase,
    DamagedRecordWarning,
    Database,
    DatabaseError,
    Record,
    TaskKey,
    code_version,
    open_database,
)
from metasched.database.database_registry import opened_database
from metasched.database.union import UnionDatabase
from metasched.errors import NoRecord
from tests.support.database_records import ADD_TASK, ADD_TRACE, sound
from tests.support.toy_search import TEXT, ToyRunner, ToySpace, tuned


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    """Mine, the team's, and another team's."""
    found = [f"sqlite:///{tmp_path}/{name}.db" for name in ("mine", "team", "other")]
    for n, url in enumerate(found):
        with open_database(url) as database:
            if n:
                database.add_all([sound(0.5 / n, 10 * n), sound(0.25 / n, 10 * n + 1)])
    return found


@pytest.fixture
def union(urls: list[str]) -> Iterator[Database]:
    with open_database(urls) as database:
        yield database


def test_it_reads_all_and_writes_the_first(union: Database, urls: list[str]) -> None:
    assert isinstance(union, UnionDatabase)
    union.add(sound(1.0, 1))
    assert union.url == urls[0]
    assert [found.trial for found in union.records(ADD_TASK)] == [1, 11, 10, 21, 20]
    assert [summary.number for summary in union.summaries(ADD_TASK)] == [-4, -3, -2, -1, 1]
    assert [summary.number for summary in union.summaries(ADD_TASK, after=1)] == []
    loaded = union.load(ADD_TASK, [-3, 1])
    assert (loaded[-3].trial, loaded[1].trial) == (21, 1)
    assert union.count(ADD_TASK) == union.stats().records == 1
    for url in urls[1:]:
        with open_database(url, Access.READ) as database:
            assert database.count(ADD_TASK) == 2


def test_what_others_have_is_of_another_version_that_says_where_it_is_from(union: Database, urls: list[str]) -> None:
    assert all(not found.is_current for found in union.records(ADD_TASK))
    assert union.records(ADD_TASK)[0].code_version == f"{code_version()}, recorded in {urls[1]}"


def test_the_best_is_ones_own_and_else_the_teams(union: Database) -> None:
    best = union.best(ADD_TASK)
    assert best is not None
    assert best.trial == 21
    union.add(sound(9.0, 1, code_version="metasched 0"))
    best = union.best(ADD_TASK)
    assert best is not None
    assert best.trial == 21, "this version's, elsewhere, before another's here"
    union.add(sound(9.0, 2))
    best = union.best(ADD_TASK)
    assert best is not None
    assert best.trial == 2


def test_a_search_times_what_others_have_again_before_it_counts(tmp_path: Path) -> None:
    """A team's records save the search; a stranger's that lies is found out, and ends nobody's race."""
    runner = ToyRunner(ToySpace())
    mine, team = (f"sqlite:///{tmp_path}/{name}.db" for name in ("mine", "team"))
    with open_database(team) as database:
        tuned(database, 40, runner)
        best = min((r for r in database.records(ADD_TASK)), key=lambda r: r.seconds or 1.0)
    assert best.seconds is not None
    lies = ToyRunner(ToySpace())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metasched.database.union.check_meaning", lambda found: None)  # toys have no traces
        with open_database([mine, team]) as database:
            report = tuned(database, 12, lies)
    assert best.trace in lies.traces
    assert report.best is not None
    assert report.best.is_current
    assert report.best.seconds == best.seconds
    assert report.measured == 12


BOMB = "program add[N=8](A: f32[N]) -> B: f32[N]:\n    add: B[i] = " + "(" * 20_000 + "A[i]" + ")" * 20_000 + "\n"


@pytest.mark.parametrize(
    "hostile",
    [
        {"program": BOMB},
        {"program": "import os; os.system('true')"},
        {"trace": "__import__('os').abort()"},
        {"trace": ADD_TRACE + "    # " + "x" * 70_000 + "\n"},
        {"trace": ADD_TRACE.replace("add", "other")},
        {"program": TEXT.replace("+ 1", "+ 2")},
        {"params": (("N", 10**18),)},
    ],
    ids=["nested", "code as a program", "code as a trace", "long", "another's trace", "another program", "size"],
)
def test_a_strangers_record_runs_nothing_and_is_not_taken(urls: list[str], hostile: dict[str, object]) -> None:
    with open_database(urls[2]) as database:
        database.add(sound(1e-9, 99, **hostile))
    began = time.process_time()
    with open_database(urls) as union:
        with pytest.warns(
            DamagedRecordWarning, match=r"other\.db`: 1 record of a task is passed over, since it is .* applies: "
        ):
            assert {found.trial for found in union.records(ADD_TASK)} == {10, 11, 20, 21}
        best = union.best(ADD_TASK)
    assert best is not None
    assert best.trial == 21
    assert time.process_time() - began < 60, "a stranger's record is no reason to wait"


def test_several_hostile_records_are_counted(urls: list[str]) -> None:
    with open_database(urls[2]) as database:
        for trial in (98, 99):
            database.add(sound(1e-9, trial, trace="(" * 9))
    with (
        open_database(urls) as union,
        pytest.warns(
            DamagedRecordWarning, match=r"2 records of a task are passed over, since they are .*\(the first: "
        ),
    ):
        union.records(ADD_TASK)


def test_derived_columns_of_a_stranger_are_not_believed(urls: list[str], tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "team.db") as connection:
        connection.execute("UPDATE records SET structure = '[', decisions = 'not JSON', search_seconds = -1")
    connection.close()
    with open_database(urls) as union:
        summaries = union.summaries(ADD_TASK)
    assert all(json.loads(summary.decisions) == [] for summary in summaries)
    assert all((summary.search_seconds or 0) > 0 for summary in summaries)


def test_many_records_of_a_stranger_are_not_all_read(urls: list[str]) -> None:
    with open_database(urls[1]) as database:
        database.add_all([sound(1.0 + n, 100 + n) for n in range(100)])
    with open_database(urls) as union:
        assert len(union.records(ADD_TASK)) <= 32 + 2


def test_long_records_of_a_stranger_are_read_up_to_a_limit(
    urls: list[str], caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    """None of them is too long, so that none is said to be, nor are those beyond the limit damaged."""
    trace = ADD_TRACE + "    # " + "x" * 40_000 + "\n"
    with open_database(urls[1]) as database:
        database.add_all([sound(0.1 + n, 100 + n, trace=trace) for n in range(20)])
    with open_database(urls) as union, caplog.at_level(logging.INFO, "metasched"):
        taken = union.records(ADD_TASK)
    assert 5 < sum(found.trial >= 100 for found in taken) < 15
    assert not [warning for warning in recwarn if warning.category is DamagedRecordWarning]
    assert "those beyond 524288 characters are not read" in caplog.text


def test_lists_of_urls(urls: list[str], tmp_path: Path) -> None:
    with open_database(urls[:1]) as one:
        assert one.url == urls[0]
        assert not isinstance(one, UnionDatabase)
        with opened_database(one) as same:
            assert same is one
        assert one.count(ADD_TASK) == 0, "it stays open"
    with opened_database(tuple(urls)) as several:
        assert isinstance(several, UnionDatabase)
    for wrong in ([], [1], [urls[0], None]):
        with pytest.raises(DatabaseError, match="no list of database URLs"):
            open_database(wrong)  # type: ignore[arg-type]
    with pytest.raises(NoRecord, match="there is no database at"):
        open_database([urls[0], f"sqlite:///{tmp_path}/nowhere.db"])


def test_a_store_that_reads_whole_records_finds_the_fastest(union: Database) -> None:
    class Plain(BaseDatabase):
        def add_all(self, records: object) -> list[int]:
            raise NotImplementedError

        def records(self, task: TaskKey) -> list[Record]:
            return [sound(3.0, 1), sound(1.0, 2), sound(2.0, 3), sound(1.0, 4, raced=True)]

        def close(self) -> None: ...

    assert [found.trial for found in Plain().leading(ADD_TASK, 2)] == [2, 3]

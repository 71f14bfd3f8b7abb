"""What every store of records does, whatever it is kept in: SQLite, PostgreSQL, and several databases as one."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from metasched.database import (
    Access,
    DamagedRecordWarning,
    Database,
    DatabaseError,
    Duplicate,
    Record,
    Role,
    Visit,
    VisitKind,
    open_database,
)
from metasched.database.claims import EXPIRY_S, Claimant
from metasched.database.database_registry import DatabaseURLs
from metasched.database.record import NO_TRIAL
from metasched.database.summary import summary_of
from metasched.database.transfer import new_records
from metasched.errors import NoRecord
from tests.support.database_records import FAILED, RECORD, SEARCH, TASK, timed
from tests.support.postgres import opened, postgres_server, postgres_url  # noqa: F401 - fixtures


@pytest.fixture(params=["sqlite", "postgresql", "union"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseURLs:
    """Of a database that is not there yet."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    own = f"sqlite:///{tmp_path}/own.db"
    if request.param == "sqlite":
        return own
    open_database(f"sqlite:///{tmp_path}/other.db").close()
    return [own, f"sqlite:///{tmp_path}/other.db"]


@pytest.fixture
def db(urls: DatabaseURLs) -> Iterator[Database]:
    with opened(urls) as database:
        yield database


def test_records_come_back_as_they_were_from_a_new_connection(urls: DatabaseURLs) -> None:
    given = [RECORD, FAILED, replace(RECORD, prologue_seconds=0.25, expected_seconds=0.5, trial=NO_TRIAL)]
    with opened(urls) as db:
        assert db.add(given[0]) < db.add(given[1]) < db.add(given[2])
    for access in (Access.READ, Access.WRITE):
        with opened(urls, access) as db:
            assert db.records(TASK) == given
            assert db.count(TASK) == 3


def test_texts_and_numbers_of_any_kind_survive(db: Database) -> None:
    odd = replace(RECORD, program="π 'quoted' \"twice\"; DROP TABLE records; \n\t\\ %s ? $1", trace="", space="%")
    long = replace(RECORD, trace="t" * 300_000, trial=9, seed=2**63 - 1, timestamp=1 / 3)
    least = replace(RECORD, visits=(Visit((1e-12, 1e7, 0.1 + 0.2)),), trial=10, seed=-(2**63))
    db.add_all([odd, long, least])
    assert db.records(TASK) == [odd, long, least]


def test_values_that_cannot_be_held_leave_nothing(db: Database) -> None:
    for wrong in (replace(RECORD, seed=2**63), replace(RECORD, program="\ud800")):
        with pytest.raises(DatabaseError, match="cannot hold"):
            db.add_all([FAILED, wrong])
    assert db.count(TASK) == 0


def test_best_is_the_least_median_of_those_that_are_no_bounds(db: Database) -> None:
    assert db.best(TASK) is None
    assert db.leading(TASK, 5) == []
    db.add(FAILED)
    db.add(replace(timed(2.0, trial=3), raced=True))
    db.add(replace(timed(1.0, trial=5), visits=(Visit((1.0, 1.0)),)))
    assert db.best(TASK) is None
    for record in (timed(1.0, 9.0, 9.0, trial=0), timed(3.0, 3.0, 3.0, trial=1), timed(3.0, trial=2)):
        db.add(record)
    best = db.best(TASK)
    assert best is not None
    assert (best.trial, best.seconds) == (1, 3.0)
    assert [record.trial for record in db.leading(TASK, 2)] == [1, 2]
    assert db.stats().tasks[0].best_seconds == 3.0


def test_records_are_given_other_visits_and_removed(db: Database) -> None:
    again = replace(RECORD, visits=(*RECORD.visits, Visit((0.125,), VisitKind.REPEAT, "9")), raced=True)
    failed = replace(RECORD, trial=9, visits=(), failure="crash SIGSEGV")
    db.add_all([RECORD, replace(RECORD, trial=8), replace(RECORD, trial=9)])
    db.update([again, failed])
    assert db.records(TASK) == [again, replace(RECORD, trial=8), failed]
    db.remove([again, replace(RECORD, trial=77)])
    assert [record.trial for record in db.records(TASK)] == [8, 9]
    assert db.damaged() == []


def test_the_number_of_a_removed_record_is_not_given_to_another(db: Database) -> None:
    """A search that is under way takes what has a number that it knows for known."""
    numbers = db.add_all([RECORD, replace(RECORD, trial=8)])
    db.remove([replace(RECORD, trial=8)])
    assert db.add(replace(RECORD, trial=9)) > max(numbers)
    assert [s.trial for s in db.summaries(TASK, after=max(numbers))] == [9]


def test_records_whose_trace_does_not_parse_are_told_and_removed(db: Database) -> None:
    sound = timed(3.0, 3.0, trial=1)
    db.add_all([sound, replace(timed(1.0, 1.0, trial=2), trace="no trace")])
    with pytest.warns(DamagedRecordWarning):
        assert db.best(TASK) == sound
    assert len(db.damaged()) == 1
    db.remove_damaged()
    assert (db.damaged(), db.records(TASK)) == ([], [sound])


def test_duplicates_are_kept_with_their_search(db: Database) -> None:
    found = [Duplicate("trace", "c" * 32, 3, 4), Duplicate("another", "d" * 32, 3, 1)]
    db.add(RECORD)
    db.add_duplicates(SEARCH, found)
    assert db.duplicates(SEARCH) == found
    assert db.duplicates(replace(SEARCH, task=replace(TASK, threads=1))) == []
    assert db.duplicates(replace(SEARCH, space="another")) == []
    db.remove([RECORD])
    assert db.duplicates(SEARCH) == []


def test_summaries_say_what_records_say(db: Database) -> None:
    trace = 'trace 1 of p[N=4]:\n    t ~ sample_categorical([1, 2]) @ "a" := 2\n'
    records = [RECORD, FAILED, timed(0.5, 0.25), replace(RECORD, trace=trace, raced=True, trial=NO_TRIAL)]
    numbers = db.add_all(records)
    found = db.summaries(TASK)
    assert found == [summary_of(r, n, found[0].written) for r, n in zip(records, numbers, strict=True)]
    assert db.load(TASK, numbers[1:3]) == dict(zip(numbers[1:3], records[1:3], strict=True))
    assert db.load(TASK, []) == {}
    assert [s.number for s in db.summaries(TASK, after=numbers[1])] == numbers[2:]


def test_tasks_are_kept_apart_by_every_field(db: Database) -> None:
    others = [
        replace(TASK, program_hash="cd" * 32),
        replace(TASK, target="cpu other " + "feature," * 1000),
        replace(TASK, threads=1),
        replace(TASK, surroundings="network"),
    ]
    db.add_all([RECORD, FAILED])
    for other in others:
        assert (db.count(other), db.records(other), db.summaries(other), db.best(other)) == (0, [], [], None)
        db.add(replace(RECORD, task=other))
    assert [db.count(task) for task in (TASK, *others)] == [2, 1, 1, 1, 1]


def test_stats_name_the_program_and_count_failures_by_reason(db: Database) -> None:
    assert db.stats().tasks == ()
    for record in (RECORD, FAILED, FAILED, replace(FAILED, failure="run-timeout", timestamp=5.0)):
        db.add(record)
    db.add(replace(FAILED, task=replace(TASK, threads=1)))
    stats = db.stats()
    assert stats.records == 5
    first, second = stats.tasks
    assert (first.program, first.params, first.records, first.spaces) == ("p", (("N", 4),), 4, 1)
    assert first.failures == (("wrong-result", 2), ("run-timeout", 1))
    assert (first.best_seconds, first.first, first.last) == (1 / 3, 5.0, RECORD.timestamp)
    assert first.code_versions == (RECORD.code_version,)
    assert (second.task.threads, second.best_seconds) == (1, None)


def test_merging_twice_changes_nothing(db: Database) -> None:
    records = [RECORD, FAILED, replace(RECORD, task=replace(TASK, threads=4))]
    db.add(records[0])
    db.add_all(new_records(db, [*records, records[1]]))
    assert new_records(db, records) == []
    assert db.stats().records == 3


def test_a_database_that_is_only_read_is_not_made_or_changed(urls: DatabaseURLs) -> None:
    for access in (Access.READ, Access.WRITE):
        with pytest.raises(NoRecord):
            opened(urls, access)
    with opened(urls) as db:
        db.add(RECORD)
    with opened(urls, Access.READ) as db:
        with pytest.raises(DatabaseError):
            db.add(FAILED)
        assert db.records(TASK) == [RECORD]


def test_a_closed_database_says_so(urls: DatabaseURLs) -> None:
    db = opened(urls)
    db.close()
    with pytest.raises(DatabaseError, match="closed database"):
        db.add(RECORD)


# --- claims

ME = Claimant.this_process()
OTHER = Claimant(socket.gethostname(), 1, psutil.Process(1).create_time())
AFAR = Claimant("another machine", 7, 1.0)
DEAD = Claimant(socket.gethostname(), 2**22 + 1, 1.0)


def test_codes_are_claimed_once_and_given_up(db: Database) -> None:
    db.join(SEARCH, ME)
    assert (db.others(SEARCH, ME), db.others(SEARCH, OTHER)) == (0, 1)
    db.join(SEARCH, OTHER)
    db.join(SEARCH, OTHER)
    assert db.others(SEARCH, ME) == 1
    assert db.claim(SEARCH, ["a", "b", "c"], 2, ME) == ["a", "b"]
    assert db.claim(SEARCH, ["a", "b", "c", "d"], 9, OTHER) == ["c", "d"]
    assert (db.under_way(SEARCH, ME), db.under_way(SEARCH, OTHER)) == (2, 2)
    assert db.claim(replace(SEARCH, space="another"), ["a"], 9, OTHER) == ["a"]
    db.release(SEARCH, ME)
    assert db.under_way(SEARCH, OTHER) == 0
    assert db.others(SEARCH, OTHER) == 1
    assert db.claim(SEARCH, ["a", "c"], 9, ME) == ["a"]
    db.leave(SEARCH, OTHER)
    assert (db.others(SEARCH, ME), db.under_way(SEARCH, ME)) == (0, 0)


def test_what_is_recorded_is_not_claimed(db: Database) -> None:
    db.add(replace(RECORD, code="known"))
    assert db.claim(SEARCH, ["known", "new"], 9, ME) == ["new"]
    assert db.claim(replace(SEARCH, code_version="another"), ["known"], 9, ME) == ["known"]
    assert db.claim(SEARCH, ["x"], 0, ME) == []


def test_claims_of_those_that_ended_or_are_old_are_void(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    db.join(SEARCH, DEAD)
    assert db.claim(SEARCH, ["a"], 9, DEAD) == ["a"]
    assert (db.others(SEARCH, ME), db.under_way(SEARCH, ME)) == (0, 0)
    assert db.claim(SEARCH, ["a"], 9, ME) == ["a"]
    db.release(SEARCH, ME)
    assert db.claim(SEARCH, ["a"], 9, AFAR) == ["a"]
    assert db.claim(SEARCH, ["a"], 9, ME) == []
    later = time.time() + EXPIRY_S + 1
    monkeypatch.setattr("metasched.database.claims.time.time", lambda: later)
    assert db.claim(SEARCH, ["a"], 9, ME) == ["a"]


# --- many at once

WRITER = """
import sys
from dataclasses import replace
from metasched.database.claims import Claimant
from tests.support.database_records import RECORD, SEARCH
from tests.support.postgres import opened
urls, first, count = sys.argv[1].split("\\n"), int(sys.argv[2]), int(sys.argv[3])
me = Claimant.this_process()
print("ready", flush=True)
sys.stdin.readline()
with opened(urls[0] if len(urls) == 1 else urls) as db:
    db.join(SEARCH, me)
    for trial in range(first, first + count):
        db.add(replace(RECORD, trial=trial, trace=f"t{trial} " + "x" * 2000, code=f"own {trial}"))
        mine = db.claim(SEARCH, [f"code {n}" for n in range(trial % 5, trial % 5 + 3)], 1, me)
        for code in mine:
            db.add(replace(RECORD, trial=trial, trace=code, code=code))
        db.release(SEARCH, me)
        print(trial, flush=True)
    db.leave(SEARCH, me)
"""


def writer(urls: DatabaseURLs, first: int, count: int) -> subprocess.Popen[str]:
    given = urls if isinstance(urls, str) else "\n".join(urls)
    command = [sys.executable, "-c", WRITER, given, str(first), str(count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()


def test_many_writers_lose_nothing_measure_no_code_twice_and_hide_nothing_from_readers(urls: DatabaseURLs) -> None:
    """A reader that asks for what came since misses none, though records of several writers end at once."""
    opened(urls).close()
    count, writers = 10, int(os.environ.get("METASCHED_TEST_WRITERS", "3"))
    processes = [writer(urls, 1000 * n, count) for n in range(writers)]
    for process in processes:
        begin(process)
    seen: list[int] = []
    with opened(urls, Access.READ) as db:
        while any(process.poll() is None for process in processes):
            seen += [summary.number for summary in db.summaries(TASK, max(seen, default=0))]
            time.sleep(0.001)
        seen += [summary.number for summary in db.summaries(TASK, max(seen, default=0))]
        records = db.records(TASK)
        assert seen == [summary.number for summary in db.summaries(TASK)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    own = [record.trial for record in records if record.code.startswith("own")]
    assert sorted(own) == [1000 * n + trial for n in range(writers) for trial in range(count)]
    claimed = [record.code for record in records if record.code.startswith("code")]
    assert sorted(claimed) == [f"code {n}" for n in range(7)]


def test_a_writer_that_is_killed_loses_nothing_that_it_was_told_is_there(urls: DatabaseURLs) -> None:
    process = writer(urls, 0, 100_000)
    begin(process)
    assert process.stdout is not None
    lines = [process.stdout.readline()]
    time.sleep(random.Random(0).uniform(0.02, 0.05))
    os.kill(process.pid, signal.SIGKILL)
    lines += process.stdout.read().splitlines(keepends=True)
    process.communicate()
    told = int([line for line in lines if line.endswith("\n")][-1])
    with opened(urls) as db:
        trials = sorted(record.trial for record in db.records(TASK) if record.code.startswith("own"))
        assert trials == list(range(len(trials)))
        assert len(trials) > told
        assert db.others(SEARCH, ME) == 0


def test_threads_may_share_one(db: Database) -> None:
    threads = [threading.Thread(target=lambda n=n: db.add(replace(RECORD, trial=n))) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r.trial for r in db.records(TASK)) == list(range(8))


def test_roles_are_those_of_records(db: Database) -> None:
    given: list[Record] = [replace(RECORD, role=role, trial=n) for n, role in enumerate(Role)]
    db.add_all(given)
    assert [s.role for s in db.summaries(TASK)] == [role.value for role in Role]

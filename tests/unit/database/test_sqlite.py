from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, replace
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from metasched.database import (
    DATABASES,
    Access,
    DamagedRecordWarning,
    DatabaseError,
    Role,
    SearchKey,
    TaskKey,
    Visit,
    VisitKind,
    code_version,
    open_database,
)
from metasched.database import sqlite as backend
from metasched.database import sqlite_schema as schema
from metasched.database.claims import Claimant
from metasched.database.database_registry import GROUP
from metasched.database.record import NO_TRIAL
from metasched.database.summary import summary_of
from metasched.database.visits_json import visits_to_json
from metasched.errors import NoRecord
from metasched.lang import parse_program
from tests.support.database_records import FAILED, RECORD, TASK, VERSION, timed


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


PROGRAM = "program p[N=4](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n"
RENAMED = "program q[M=4](X: f32[M]) -> Y: f32[M]:\n    Y[j] = X[j]\n"


def old_file(path: Path, version: int) -> sqlite3.Connection:
    """A database as an older metasched made it."""
    connection = sqlite3.connect(path)
    schema.migrate(connection, 0, version)
    connection.execute(f"PRAGMA application_id = {backend._APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    return connection


def test_what_version_1_wrote_is_read_as_one_visit(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = old_file(path, 1)
    connection.execute("INSERT INTO tasks VALUES (1, ?, ?, ?, ?)", (*astuple(TASK)[:3], VERSION))
    row = ("program", '[["N", 4]]', RECORD.trace, "[0.5, 0.25]", 0.375, None, 1, "[]", 5.0, 7, 3)
    connection.execute(f"INSERT INTO records VALUES (1, 1, {', '.join('?' * len(row))})", row)
    failed = ("program", "[]", RECORD.trace, "[]", None, "wrong-result", 0, "[]", 5.0, 7, 4)
    connection.execute(f"INSERT INTO records VALUES (2, 1, {', '.join('?' * len(row))})", failed)
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with open_database(url_of(path), Access.READ) as db:
        record, failure = db.records(TASK)
        assert record.visits == (Visit((0.5, 0.25)),)
        assert (record.raced, record.code, record.role) == (True, "", Role.CANDIDATE)
        assert (record.space, record.code_version) == ("", VERSION)
        assert failure.failure == "wrong-result"
        assert db.best(TASK) is None
    assert path.read_bytes() == before
    with open_database(url_of(path)) as db:
        assert db.records(TASK) == [record, failure]
        db.add(RECORD)
        assert db.records(TASK)[-1] == RECORD


def test_what_version_2_wrote_is_one_task_up_to_names_and_versions_with_data_beside_its_traces(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = old_file(path, 2)
    programs = {PROGRAM: (("N", 4),), RENAMED: (("M", 4),)}
    parsed = [parse_program(text, **dict(params)) for text, params in programs.items()]
    keys = [(parsed[0].named_hash(), "v1"), (parsed[0].named_hash(), "v2"), (parsed[1].named_hash(), "v2")]
    for number, (program_hash, version) in enumerate(keys, start=1):
        connection.execute("INSERT INTO tasks VALUES (?, ?, 't', 2, ?)", (number, program_hash, version))
        connection.execute("INSERT INTO duplicates VALUES (?, ?, 'trace', 'code', 0, 1)", (number, number))
        text, params = list(programs.items())[number == 3]
        visits = json.dumps(visits_to_json(RECORD.visits[:1] * 2 + (Visit((1.0,), VisitKind.TURN, "7/0"),)))
        trace = f'trace 1 of p[N=4]:\n    t ~ sample_categorical([1, 2]) @ "a" := {number}\n'
        row = (text, json.dumps(params), trace, visits, 0.5, None, 0, "[]", number, 7, 3, 2, 5, "c", "guess")
        connection.execute(f"INSERT INTO records VALUES (?, ?, {', '.join('?' * len(row))})", (number, number, *row))
    connection.commit()
    connection.close()
    with open_database(url_of(path)) as db:
        (stats,) = db.stats().tasks
        assert stats.task == TaskKey(parsed[0].structural_hash(), "t", 2)
        assert (stats.records, stats.code_versions) == (3, ("v1", "v2"))
        found = db.summaries(stats.task)
        assert [json.loads(s.decisions) for s in found] == [[1], [2], [3]]
        assert len({s.structure for s in found}) == 1
        assert [s.code_version for s in found] == ["v1", "v2", "v2"]
        assert [s.written == found[0].written for s in found] == [True, True, False]
        assert {(s.space, s.settled, s.turns, s.repeats, s.search_seconds) for s in found} == {("", 1, 1, 0, 0.375)}
        assert [len(db.duplicates(SearchKey(stats.task, "", version))) for version in ("v1", "v2")] == [1, 2]
        db.join(SearchKey(stats.task, "", "v2"), Claimant.this_process())
        assert db.best(stats.task) is not None


def test_what_version_3_timed_with_prologues_is_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    connection = old_file(path, 3)
    plain = parse_program(PROGRAM)
    weights = parse_program(PROGRAM.replace("(A", "(const A"))
    for number, program in enumerate((plain, weights), start=1):
        connection.execute("INSERT INTO tasks VALUES (?, ?, 't', 2)", (number, program.structural_hash()))
        connection.execute(
            "INSERT INTO duplicates (task, trace, code, batch, place, code_version) VALUES (?, 'x', 'c', 0, 1, 'v1')",
            (number,),
        )
        row = (number, str(program), "[]", RECORD.trace, "[]", "run-timeout", 0, "[]", 5.0, 7, 3, "v1")
        connection.execute(
            "INSERT INTO records (task, program, params, trace, visits, failure, raced, phases, timestamp, seed, trial,"
            f" code_version) VALUES ({', '.join('?' * len(row))})",
            row,
        )
    connection.commit()
    connection.close()
    with open_database(url_of(path)) as db:
        for stats, version in zip(db.stats().tasks, ("v1", "v1, prologues in its times"), strict=True):
            assert stats.code_versions == (version,)
            assert db.records(stats.task)[0].prologue_seconds is None
            assert len(db.duplicates(SearchKey(stats.task, "", version))) == 1


def test_what_version_7_wrote_stays_with_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with open_database(url_of(path)) as db:
        db.add_all([RECORD, FAILED, timed(0.5, 0.25)])
        records, summaries = db.records(TASK), db.summaries(TASK)
    old = old_file(tmp_path / "7.db", 7)
    old.execute("ATTACH ? AS new", (str(path),))
    for table in ("tasks", "records"):
        columns = ", ".join(row[1] for row in old.execute(f"PRAGMA main.table_info({table})").fetchall())
        old.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
    old.execute("DELETE FROM main.records WHERE id = 2")
    old.commit()
    old.close()
    url = url_of(tmp_path / "7.db")
    with open_database(url, Access.READ) as db:
        assert (db.records(TASK), db.summaries(TASK)) == (records[::2], summaries[::2])
    with open_database(url) as db:
        assert (db.records(TASK), db.summaries(TASK)) == (records[::2], summaries[::2])
        db.remove(records[2:])
        assert db.add_all([FAILED]) == [4]


def test_what_is_run_once_is_kept_beside_the_times(tmp_path: Path) -> None:
    with open_database(url_of(tmp_path / "p.db")) as db:
        db.add(replace(RECORD, prologue_seconds=0.25))
    with open_database(url_of(tmp_path / "p.db"), Access.READ) as db:
        assert db.records(TASK)[0].prologue_seconds == 0.25
        (stats,) = db.stats().tasks
        assert stats.best_prologue_seconds == 0.25
        assert "+ 250 ms once for constant arguments" in repr(db.best(TASK))
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite and not negative"):
            replace(RECORD, prologue_seconds=wrong)


def test_what_was_expected_of_a_candidate_is_kept_beside_its_time(tmp_path: Path) -> None:
    with open_database(url_of(tmp_path / "e.db")) as db:
        db.add(replace(RECORD, expected_seconds=0.5))
    with open_database(url_of(tmp_path / "e.db"), Access.READ) as db:
        assert db.records(TASK)[0].expected_seconds == 0.5
    for wrong in (0.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite and positive"):
            replace(RECORD, expected_seconds=wrong)


def test_a_summary_says_of_a_record_what_the_record_says(tmp_path: Path) -> None:
    trace = 'trace 1 of p[N=4]:\n    t ~ sample_categorical([1, 2]) @ "a" := 2\n'
    records = [RECORD, FAILED, timed(0.5, 0.25), replace(RECORD, trace=trace, raced=True, trial=NO_TRIAL)]
    with open_database(url_of(tmp_path / "s.db")) as db:
        numbers = db.add_all(records)
        found = db.summaries(TASK)
        assert found == [summary_of(r, n, found[0].written) for r, n in zip(records, numbers, strict=True)]
        assert db.load(TASK, numbers[1:3]) == dict(zip(numbers[1:3], records[1:3], strict=True))
        again = replace(RECORD, visits=(*RECORD.visits, Visit((0.125,), VisitKind.REPEAT, "9")))
        db.update([again])
        assert db.summaries(TASK)[0] == summary_of(again, numbers[0], found[0].written)
        assert [s.number for s in db.summaries(TASK, after=numbers[1])] == numbers[2:]


def test_summaries_are_read_from_the_index_alone(tmp_path: Path) -> None:
    """Rows are ten times as long: a hundred thousand of them take a second to read."""
    with open_database(url_of(tmp_path / "i.db")) as db:
        db.add(RECORD)
        assert isinstance(db, backend.SQLiteDatabase)
        plans: list[str] = []
        db._connection.set_trace_callback(plans.append)
        db.summaries(TASK)
        db._connection.set_trace_callback(None)
        (query,) = (p for p in plans if "INDEXED" in p)
        plan = db._connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
        assert any("COVERING INDEX records_in_short" in row[-1] for row in plan)


@pytest.mark.parametrize("times", [(0.0,), (-1.0,), (float("nan"),), (float("inf"),), ()])
def test_times_are_positive_and_finite(times: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="times"):
        replace(RECORD, visits=(Visit(times),))


def test_the_file_is_in_wal_mode_and_each_add_is_a_commit(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    with open_database(url_of(path)) as db:
        db.add(RECORD)
        with sqlite3.connect(path) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert other.execute("SELECT count(*) FROM records").fetchone() == (1,)
        other.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("metasched.db", "hint: for a file, write `sqlite:///metasched.db`"),
        ("postgres://host/db", "there is no database `postgres`\n  hint: installed are `sqlite`"),
        ("sqlite://file.db", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:////no/such/folder/x.db", "no folder `/no/such/folder`\n  hint: make the folder"),
        ("sqlite:////", "no file, but a folder or a device\n  hint: name a file"),
    ],
)
def test_a_bad_url_says_what_to_write(url: str, message: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        open_database(url)
    assert message.lower() in str(caught.value).lower()


def test_a_folder_that_is_gone_or_closed_says_what_to_look_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(
        DatabaseError, match="unable to open database file\n  hint: see whether its folder is still there"
    ):
        open_database("sqlite:///x.db")


def test_a_missing_database_is_not_made_by_reading(tmp_path: Path) -> None:
    path = tmp_path / "typo.db"
    with pytest.raises(NoRecord, match="no database at"):
        open_database(url_of(path), Access.READ)
    assert not path.exists()


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "n.db"
    open_database(url_of(path)).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {schema.SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(DatabaseError, match="newer metasched"):
        open_database(url_of(path))


def test_somebody_elses_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(DatabaseError, match="something else"):
        open_database(url_of(path))
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is not a database\n" * 100)
    with pytest.raises(DatabaseError, match="not a sound SQLite database"):
        open_database(url_of(path))


def test_a_locked_database_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_BUSY_SECONDS", 0.05)
    path = tmp_path / "l.db"
    with open_database(url_of(path)) as db:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="locked by another process"):
            db.add(RECORD)
        other.execute("ROLLBACK")
        other.close()
        db.add(RECORD)
        assert db.count(TASK) == 1


@pytest.mark.parametrize("damaged", [False, True])
def test_what_was_removed_is_no_failure_where_another_process_is_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: bool
) -> None:
    """Only the file stays as large as it was."""
    monkeypatch.setattr(backend, "_BUSY_SECONDS", 0.05)
    path = tmp_path / "l.db"
    with open_database(url_of(path)) as db:
        db.add_all([RECORD, timed(0.5)])
        if damaged:
            change(path, "UPDATE records SET place = -1 WHERE id = 1")
        other = sqlite3.connect(path, isolation_level=None)
        assert isinstance(db, backend.SQLiteDatabase)
        db._connection.set_trace_callback(lambda query: other.execute("BEGIN IMMEDIATE") if query == "VACUUM" else None)
        if damaged:
            db.remove_damaged()
        else:
            db.remove([RECORD])
        db._connection.set_trace_callback(None)
        assert other.in_transaction
        other.close()
        assert db.records(TASK) == [timed(0.5)]


def change(path: Path, statement: str) -> None:
    """What somebody did to a database behind our back."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        """visits = '["__import__(1)"]'""",
        """visits = '[{"times": [1e999], "kind": "search", "group": ""}]'""",
        """visits = '[{"times": [1], "kind": "stroll", "group": ""}]'""",
        """visits = '[{"times": [1]}]'""",
        """visits = '[{"times": [], "kind": "search", "group": ""}]'""",
        "role = 'lead'",
        "place = -1",
        "visits = 'not JSON'",
        "visits = '[]'",
        f"visits = '{'[' * 100_000}'",
        "params = 'null'",
        "params = '[[1]]'",
        "phases = '{\"a\": 1}'",
        "program = CAST(x'ff00' AS TEXT)",
        "timestamp = 1e300",
        "trial = -2",
    ],
)
def test_an_edited_record_is_told_not_believed_and_hides_no_other(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "e.db"
    sound = timed(0.5, trial=4)
    with open_database(url_of(path)) as db:
        db.add(RECORD)
        db.add(sound)
        change(path, f"UPDATE records SET {damage} WHERE trial = 3")
        with pytest.warns(
            DamagedRecordWarning, match=r"1 record of a task cannot be read.*\n  hint: .*prune --damaged"
        ):
            assert db.records(TASK) == [sound]
        with pytest.warns(DamagedRecordWarning):
            assert db.best(TASK) == sound
        assert db.stats().tasks[0].records == 2
        assert len(db.damaged()) == 1
        db.remove_damaged()
        assert db.damaged() == []
        assert db.records(TASK) == [sound]


def test_a_trace_that_does_not_parse_is_never_the_best(tmp_path: Path) -> None:
    path = tmp_path / "e.db"
    sound = timed(0.5, trial=4)
    with open_database(url_of(path)) as db:
        db.add(replace(timed(0.1), trace="trace 1 of p[N=4]:\n    get_block("))
        db.add(sound)
        with pytest.warns(DamagedRecordWarning, match="the trace does not parse"):
            assert db.best(TASK) == sound
        assert len(db.damaged()) == 1


def test_a_file_damaged_anywhere_gives_what_is_left_or_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "whole.db"
    with open_database(url_of(path)) as db:
        db.add_all([replace(RECORD, trial=trial, trace=RECORD.trace + f"    # {'x' * 400}\n") for trial in range(8)])
    whole = path.read_bytes()
    rng = random.Random(0)
    outcomes: Counter[bool] = Counter()
    for number in range(300):
        data = bytearray(whole)
        at = rng.randrange(min(len(data), 400) if number % 2 else len(data))
        data[at : at + rng.choice([1, 16, 512])] = rng.randbytes(rng.choice([0, 1, 16, 512]))
        damaged = tmp_path / f"{number}.db"
        damaged.write_bytes(data)
        outcomes[_reads(damaged)] += 1
    assert min(outcomes.values()) >= 30


def _reads(path: Path) -> bool:
    """Whether it can be used; anything but a sentence fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedRecordWarning)
        try:
            with open_database(url_of(path), Access.WRITE) as db:
                for task in db.stats().tasks:
                    db.records(task.task)
                    db.best(task.task)
                db.remove_damaged()
                db.add(RECORD)
        except DatabaseError:
            return False
    return True


@pytest.mark.parametrize("number", [-1, 1 << 20])
def test_a_version_that_never_was(tmp_path: Path, number: int) -> None:
    path = tmp_path / "v.db"
    open_database(url_of(path)).close()
    change(path, f"PRAGMA user_version = {number}")
    with pytest.raises(DatabaseError):
        open_database(url_of(path))


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "x.db"
    make(path)
    for access in Access:
        with pytest.raises(DatabaseError, match="is no file"):
            open_database(url_of(path), access)


def test_what_may_not_be_written_is_read_by_who_would_add_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(tmp_path / "r.db")
    with open_database(url) as db:
        db.add(RECORD)
    before = (tmp_path / "r.db").read_bytes()
    monkeypatch.setattr(backend, "_may_write", lambda file: not file.exists())
    with open_database(url) as db:
        assert db.records(TASK) == [RECORD]
        with pytest.raises(DatabaseError, match="readonly database\n  hint: give yourself the right to write"):
            db.add(RECORD)
    assert (tmp_path / "r.db").read_bytes() == before
    with open_database(url_of(tmp_path / "new.db")) as db:
        db.add(RECORD)


def test_other_schemes_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("memory", f"{__name__}:_open_memory", GROUP)
    monkeypatch.setattr(
        "metasched.support.registry.entry_points", lambda **given: [point] if given.get("group") else []
    )
    with open_database("memory://x") as opened:
        assert opened.url == "memory://x"
    assert DATABASES.names() == ("memory", "sqlite")
    point = EntryPoint("memory", f"{__name__}:TASK", GROUP)
    with pytest.raises(DatabaseError, match=r"is no database: it is .*, and not a function of a URL and an Access"):
        open_database("memory://x")


def _open_memory(url: str, access: Access) -> backend.SQLiteDatabase:
    del access
    return backend.SQLiteDatabase(url, sqlite3.connect(":memory:"))


def test_the_code_version_names_all_three() -> None:
    assert [word for word in code_version().split() if word.isalpha()] == ["metasched", "numba", "llvmlite"]


class PressedAfter(sqlite3.Connection):
    """A connection during whose transactions Ctrl-C is pressed, once a statement that begins so has been executed."""

    statement = ""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        cursor = super().execute(sql, parameters)
        if self.statement and sql.startswith(self.statement):
            signal.raise_signal(signal.SIGINT)
        return cursor


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT INTO records", "COMMIT"])
def test_an_interrupt_waits_for_the_end_of_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr("metasched.database.sqlite.sqlite3.connect", partial(sqlite3.connect, factory=PressedAfter))
    with open_database(url_of(tmp_path / "r.db")) as db:
        monkeypatch.setattr(PressedAfter, "statement", statement)
        with pytest.raises(KeyboardInterrupt):
            db.add(RECORD)
        monkeypatch.setattr(PressedAfter, "statement", "")
        assert db.count(TASK) == 1
        db.add(RECORD)
        assert db.count(TASK) == 2

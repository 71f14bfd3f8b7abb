from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.database import Database, DatabaseError, Record, TaskKey, open_database
from metasched.database.transfer import Removal, fastest, lines_of, new_records, read_lines, removable

TASK = TaskKey("0" * 64, "cpu=generic", 2, "metasched 0")


def record(trial: int, seconds: float | None = 1e-3, **changes: object) -> Record:
    made = Record(
        task=TASK,
        program="program dense(...)",
        params=(("N", 64), ("T", "bf16")),
        trace=f"trace 1 of dense[N=64]:\n    # {trial}\n",
        times=() if seconds is None else (seconds, seconds),
        failure="run-timeout" if seconds is None else None,
        raced=False,
        phases=(("build", 0.5),),
        timestamp=1000.0 + trial,
        seed=0,
        trial=trial,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(f"sqlite:///{tmp_path}/t.db") as found:
        yield found


finite = st.floats(1e-9, 1e3)


@given(
    st.lists(
        st.builds(
            record,
            st.integers(0, 9),
            st.none() | finite,
            program=st.text(),
            trace=st.text(),
            params=st.lists(st.tuples(st.text(), st.integers() | st.text()), max_size=2).map(tuple),
            phases=st.lists(st.tuples(st.text(), finite), max_size=2).map(tuple),
            task=st.builds(TaskKey, st.text(), st.text(), st.integers(1, 99), st.text()),
            raced=st.booleans(),
        )
    )
)
def test_text_and_back(records: list[Record]) -> None:
    lines = list(lines_of(records))
    assert list(read_lines((line + "\n" for line in lines), "f")) == records
    assert all("\n" not in line for line in lines)


def test_merging_twice_changes_nothing(database: Database) -> None:
    records = [record(0), record(1, None), record(0, task=replace(TASK, threads=4))]
    database.add(records[0])
    first = new_records(database, [*records, records[1]])
    assert first == records[1:]
    database.add_all(first)
    assert new_records(database, records) == []
    assert database.stats().records == 3


def test_records_are_added_all_or_none(database: Database) -> None:
    wrong = record(1, program=None)
    with pytest.raises(DatabaseError):
        database.add_all([record(0), wrong])
    assert database.stats().records == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "f is empty; `metasched db export` writes such files"),
        (["{}"], "f does not begin as a file of records does"),
        (["not json"], "f:1: this is no record: Expecting value"),
        (["[]"], "f:1: this is no record: a line is a JSON object"),
        (
            ['{"metasched": "records", "version": 9}'],
            "f has version 9 of the format, and this metasched knows",
        ),
        ([*lines_of([]), '{"trace": ""}'], "f:2: the record has no `program_hash`"),
    ],
)
def test_texts_that_are_wrong(lines: list[str], message: str) -> None:
    with pytest.raises(DatabaseError, match=message.replace("(", r"\(")):
        list(read_lines(lines, "f"))


@pytest.mark.parametrize(("field", "value"), [("times", [-1.0]), ("times", 3), ("params", [1]), ("trial", "x")])
def test_fields_that_are_wrong(field: str, value: object) -> None:
    header, line = lines_of([record(0)])
    data = {**json.loads(line), field: value}
    with pytest.raises(DatabaseError, match="f:2: the record does not read"):
        list(read_lines([header, json.dumps(data)], "f"))


# --- removing


@pytest.mark.parametrize(
    ("removal", "trials"),
    [
        (Removal(failures=True), [1]),
        (Removal(before=1002.0), [0, 1]),
        (Removal(keep_best=1), [0, 1, 3]),
        (Removal(keep_best=2, before=1003.0), [1]),
        (Removal(failures=True, before=1001.0), []),
        (Removal(other_than="metasched 0"), []),
        (Removal(other_than="metasched 1"), [0, 1, 2, 3]),
        (Removal(program="dense"), [0, 1, 2, 3]),
        (Removal(program="conv"), []),
    ],
)
def test_what_is_removed(database: Database, removal: Removal, trials: list[int]) -> None:
    records = [record(0, 2e-3), record(1, None), record(2, 1e-3), record(3, 0.5e-3, raced=True)]
    database.add_all(records)
    found = removable(database, removal)
    assert [r.trial for r in found] == trials
    database.remove(found)
    assert database.records(TASK) == [r for r in records if r.trial not in trials]
    assert len(database.stats().tasks) == (len(trials) < len(records))


def test_the_fastest_are_those_measured_in_full() -> None:
    records = [record(0, 2e-3), record(1, 1e-3, raced=True), record(2, None), record(3, 2e-3)]
    assert [r.trial for r in fastest(records, 3)] == [0, 3, 1]


def test_nothing_given_is_no_removal() -> None:
    assert Removal().is_empty
    assert not Removal(keep_best=1).is_empty

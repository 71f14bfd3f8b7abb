from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.database import Database, DatabaseError, Record, Role, TaskKey, Visit, open_database
from metasched.database.transfer import (
    Removal,
    check_record,
    lines_of,
    new_records,
    read_lines,
    records_to_remove,
)
from metasched.lang import parse_program
from metasched.target import Target

TASK = TaskKey("0" * 64, "cpu=generic", 2)


def record(trial: int, seconds: float | None = 1e-3, **changes: object) -> Record:
    made = Record(
        task=TASK,
        program="program dense(...)",
        params=(("N", 64), ("T", "bf16")),
        trace=f"trace 1 of dense[N=64]:\n    # {trial}\n",
        visits=() if seconds is None else (Visit((seconds, seconds)), Visit((seconds,))),
        failure="run-timeout" if seconds is None else None,
        raced=False,
        phases=(("build", 0.5),),
        timestamp=1000.0 + trial,
        seed=0,
        trial=trial,
        space="a" * 32,
        code_version="metasched 0",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(f"sqlite:///{tmp_path}/t.db") as found:
        yield found


finite = st.floats(1e-9, 1e3)


def anything(record: Record) -> None:
    """A check that takes every record."""


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
            task=st.builds(TaskKey, st.text(), st.text(), st.integers(1, 99)),
            space=st.text(),
            code_version=st.text(),
            raced=st.booleans(),
            code=st.text(),
            role=st.sampled_from(Role),
            prologue_seconds=st.none() | finite,
            expected_seconds=st.none() | finite,
        )
    )
)
def test_text_and_back(records: list[Record]) -> None:
    lines = list(lines_of(records))
    assert list(read_lines((line + "\n" for line in lines), "f", anything)) == records
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
        raise next(e for e in read_lines(lines, "f", anything) if isinstance(e, DatabaseError))


TEXT = "program dense[N=4](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n"
GOOD = record(
    3,
    program=TEXT,
    params=(("N", 4),),
    trace='trace 1 of dense[N=4]:\n    b = get_block("B")\n',
    task=TaskKey.of(parse_program(TEXT), Target.detect(2)),
)


def visit(times: list[float]) -> dict[str, object]:
    return {"kind": "search", "group": "", "times": times}


def read(**changed: object) -> Record | DatabaseError:
    """The record that a line gives, some of whose fields were changed, or what is wrong with it."""
    header, line = lines_of([GOOD])
    data = {**json.loads(line), **changed}
    (found,) = read_lines([header, json.dumps(data)], "f", check_record)
    return found


def test_a_sound_record_is_taken() -> None:
    assert read() == GOOD


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("visits", [visit([-1.0])], "times are finite, positive seconds"),
        ("visits", [visit([0])], "times are finite, positive seconds"),
        ("visits", [visit([float("nan")])], "times are finite, positive seconds"),
        ("visits", [visit([10**400])], "int too large"),
        ("visits", [visit([1.0, 5e-324])], r"a time is 5e-324 seconds, not within 1e-12 to 1e\+07"),
        ("visits", [visit([1e300])], r"a time is 1e\+300 seconds, not within"),
        ("expected_seconds", 1e-300, "`expected_seconds` is 1e-300 seconds, not within"),
        ("prologue_seconds", 1e300, r"`prologue_seconds` is 1e\+300, more than 1e\+07"),
        ("visits", 3, "`visits` is a list of objects"),
        ("visits", [1.0], "`visits` is a list of objects"),
        ("visits", [{"times": [1.0]}], "`visits` is a list of objects"),
        ("visits", [{**visit([1.0]), "kind": "stroll"}], "is not a valid VisitKind"),
        ("role", "lead", "`role` is one of candidate, guess, default, "),
        ("batch", -1, "`batch` or `place` is negative"),
        ("visits", [visit([True])], "`visits` is a list of objects"),
        ("visits", [], "either times or a reason"),
        ("visits", [visit([1.0] * 100_001)], "more than 100000 times"),
        ("params", [1], "`params` is a list of pairs"),
        ("params", [["N", 2**70]], "`N` does not fit 64 bits"),
        ("params", [["N", 8]], "`program_hash` is that of another program"),
        ("params", [["M", 4]], "the program does not parse: "),
        ("params", [], "`params` are not all that the program has"),
        ("trial", "x", "`trial` is an integer"),
        ("trial", 2**63, "`trial` is negative or does not fit 64 bits"),
        ("trial", -2, "`trial` is negative"),
        ("seed", 2**63, "`seed` does not fit"),
        ("seed", -1, r"`seed` is -1; it is an integer from 0 to 2\*\*63 - 1"),
        ("seed", 1.5, "`seed` is an integer"),
        ("threads", 0, "`threads` is 0"),
        ("threads", 4, "`target` says otherwise"),
        ("timestamp", float("inf"), "no date"),
        ("timestamp", 1e300, "no date"),
        ("raced", "false", "`raced` is true or false"),
        ("failure", "x", "either times or a reason"),
        ("phases", [["build", float("nan")]], "the phase `build` took nan seconds"),
        ("phases", [["build", -1]], "the phase `build` took -1"),
        ("phases", [["build", 1e300]], r"the phase `build` took 1e\+300"),
        ("phases", [["build"]], "`phases` is a list of pairs"),
        ("program", "program", "the program does not parse: "),
        ("program", TEXT.replace("A[i]\n", "A[i] + 1\n"), "`program_hash` is that of another program"),
        ("program_hash", "0" * 64, "`program_hash` is that of another program"),
        ("program_hash", 0, "`program_hash` is text"),
        ("target", "generic", "the target does not parse: "),
        ("code_version", " ", "`code_version` is empty"),
        ("trace", "rm -rf /", "the trace does not parse: "),
        ("trace", "trace 1 of other[N=4]:\n", r"one of other\[N=4\], and the program is dense\[N=4\]"),
        ("trace", "trace 1 of dense[N=5]:\n", r"one of dense\[N=5\], and"),
        ("trace", "trace 1 of dense[N=4]:\n    nothing()\n", "the trace is wrong: line 2"),
        ("trace", "x" * ((1 << 20) + 1), "more than 1048576 characters"),
        (
            "trace",
            GOOD.trace + '    i = get_loops(b)\n    t0, t1 ~ sample_tile(i, parts=2) @ "i"\n',
            "leaves i open",
        ),
        ("trace", "\ud800", "is not Unicode"),
    ],
)
def test_records_that_are_wrong(field: str, value: object, message: str) -> None:
    found = read(**{field: value})
    assert isinstance(found, DatabaseError)
    assert re.match("f:2: the record .*" + message, str(found), re.DOTALL)


def test_lines_that_are_wrong_leave_the_others() -> None:
    header, line = lines_of([GOOD])
    deep = "[" * 100_000 + "]" * 100_000
    found = list(read_lines([header, "{}", line, deep, "", line], "f", check_record))
    assert [f if isinstance(f, Record) else str(f) for f in found] == [
        "f:2: the record has no `program_hash`",
        GOOD,
        "f:4: this is no record: it is nested too deeply",
        GOOD,
    ]


# --- removing


@pytest.mark.parametrize(
    ("removal", "trials"),
    [
        (Removal(failures=True), [1]),
        (Removal(before=1002.0), [0, 1]),
        (Removal(keep_best=1), [0, 1, 3]),
        (Removal(keep_best=1, other_than="metasched 0"), []),
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
    found = records_to_remove(database, removal)
    assert [r.trial for r in found] == trials
    database.remove(found)
    assert database.records(TASK) == [r for r in records if r.trial not in trials]
    assert len(database.stats().tasks) == (len(trials) < len(records))


def older(version: int, *without: str, **changed: object) -> list[str]:
    """A file of an older version of the format with the sound record in it."""
    header, line = lines_of([GOOD])
    data = {**json.loads(line), "program_hash": parse_program(TEXT).named_hash(), **changed}
    return [
        header.replace("6}", f"{version}}}"),
        json.dumps({k: v for k, v in data.items() if k not in {*without, "surroundings", "expected_seconds"}}),
    ]


def test_a_text_of_version_1_is_read_as_one_visit() -> None:
    later = ("visits", "batch", "place", "code", "role", "space", "prologue_seconds")
    (found,) = read_lines(older(1, *later, times=[1e-3, 2e-3]), "f", check_record)
    assert found == replace(GOOD, visits=(Visit((1e-3, 2e-3)),), space="")
    assert isinstance(found, Record)
    assert not found.settled
    (wrong,) = read_lines(older(1, *later, times=[-1]), "f", check_record)
    assert "times are finite" in str(wrong)
    (wrong,) = read_lines(older(1, *later), "f", check_record)
    assert "no `times`" in str(wrong)


def test_a_text_of_version_2_is_of_no_space_and_of_the_program_up_to_names() -> None:
    (found,) = read_lines(older(2, "space", "prologue_seconds"), "f", check_record)
    assert found == replace(GOOD, space="")
    (wrong,) = read_lines(older(2, "space", "prologue_seconds", program_hash="0" * 64), "f", check_record)
    assert "`program_hash` is that of another program" in str(wrong)


def test_times_of_version_3_are_set_apart_where_a_prologue_may_be_in_them() -> None:
    weights = parse_program(TEXT.replace("(A", "(const A"))
    task = replace(GOOD.task, program_hash=weights.structural_hash())
    for record, version in ((GOOD, "metasched 0"), (replace(GOOD, task=task, program=str(weights)), None)):
        header, line = lines_of([record])
        newer = {"prologue_seconds", "surroundings", "expected_seconds"}
        data = {key: value for key, value in json.loads(line).items() if key not in newer}
        (found,) = read_lines([header.replace("6}", "3}"), json.dumps(data)], "f", check_record)
        assert isinstance(found, Record), found
        assert found.prologue_seconds is None
        assert found.code_version == (version or "metasched 0, prologues in its times")


def test_a_record_of_version_5_does_not_say_what_was_expected() -> None:
    header, line = lines_of([replace(GOOD, expected_seconds=2e-3)])
    data = json.loads(line)
    assert data.pop("expected_seconds") == 2e-3
    (found,) = read_lines([header.replace("6}", "5}"), json.dumps(data)], "f", check_record)
    assert found == GOOD
    (wrong,) = read_lines([header, json.dumps({**data, "expected_seconds": -1.0})], "f", check_record)
    assert "expected seconds are finite and positive" in str(wrong)


def test_a_record_that_was_timed_again_is_there_already(database: Database) -> None:
    database.add(replace(GOOD, visits=(*GOOD.visits, Visit((1e-3,)))))
    assert new_records(database, [GOOD]) == []


def test_nothing_given_is_no_removal() -> None:
    assert Removal().is_empty
    assert not Removal(keep_best=1).is_empty

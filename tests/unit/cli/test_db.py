from __future__ import annotations

import io
import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from metasched.cli.command import Console
from metasched.cli.main import main
from metasched.database import Record, TaskKey, Visit, code_version, open_database
from metasched.lang import parse_program
from metasched.target import Target
from tests.support import command_line

PROGRAM = "program dense[N=64](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i]\n"
TASK = TaskKey.of(parse_program(PROGRAM), Target.detect(2))


def record(trial: int, times: tuple[float, ...], failure: str | None) -> Record:
    return Record(
        task=TASK,
        program=PROGRAM,
        params=(("N", 64),),
        trace="trace 1 of dense[N=64]:\n",
        visits=(Visit(times), Visit(times)) if times else (),
        failure=failure,
        raced=False,
        phases=(),
        timestamp=1.0e9 + trial,
        seed=0,
        trial=trial,
        code_version="metasched 0",
    )


def stats(tmp_path: Path, *arguments: str) -> str:
    url = f"sqlite:///{tmp_path}/d.db"
    with open_database(url) as database:
        database.add(record(0, (2e-3, 3e-3, 4e-3), None))
        database.add(record(1, (), "run-timeout"))
    out = io.StringIO()
    assert main(["db", "stats", "--db", url, *arguments], Console(out, io.StringIO())) == 0
    return out.getvalue()


def test_stats_are_a_table(tmp_path: Path) -> None:
    text = stats(tmp_path)
    assert "2 records" in text
    assert "dense[N=64]" in text
    assert "3.00 ms" in text
    assert "1 failed (1 run-timeout)" in text
    assert TASK.target in text


def test_stats_say_of_records_that_cannot_be_read(tmp_path: Path) -> None:
    stats(tmp_path)
    with closing(sqlite3.connect(tmp_path / "d.db")) as connection:
        connection.execute("UPDATE records SET visits = '{'")
        connection.commit()
    out, err = io.StringIO(), io.StringIO()
    assert main(["db", "stats", "--db", f"sqlite:///{tmp_path}/d.db"], Console(out, err)) == 0
    assert "2 records" in out.getvalue()
    assert "2 records cannot be read (the first: " in err.getvalue()
    assert "hint: `metasched db prune --damaged` removes such records" in err.getvalue()


def test_stats_for_machines(tmp_path: Path) -> None:
    data = json.loads(stats(tmp_path, "--json"))
    assert data["program"] == "dense"
    assert data["params"] == {"N": 64}
    assert data["best_ms"] == 3.0
    assert data["failures"] == {"run-timeout": 1}


def test_an_empty_database_says_so(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.db"
    open_database(url).close()
    out = io.StringIO()
    assert main(["db", "stats", "--db", url], Console(out, io.StringIO())) == 0
    assert "holds no records yet" in out.getvalue()


def test_stats_say_where_the_users_database_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path / "cache"))
    open_database("sqlite:///metasched.db").close()
    for there in (False, True):
        if there:
            (tmp_path / "cache").mkdir()
            open_database(f"sqlite:///{tmp_path}/cache/kernels.db").close()
        err = io.StringIO()
        assert main(["db", "stats"], Console(io.StringIO(), err)) == 0
        assert (
            f"ms.kernel have tuned is in sqlite:///{tmp_path}/cache/kernels.db; --db takes it" in err.getvalue()
        ) == there


# --- export, import, prune


def run(*arguments: str, status: int = 0) -> str:
    found, out, err = command_line.run("db", *arguments)
    assert found == status, err
    return out if status == 0 else err


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with open_database("sqlite:///metasched.db") as database:
        database.add(record(0, (2e-3, 3e-3, 4e-3), None))
        database.add(record(1, (), "run-timeout"))
    return tmp_path


def test_what_is_exported_can_be_imported(there: Path) -> None:
    text = run("export")
    assert len(text.splitlines()) == 3
    run("export", "--out", "records.jsonl")
    assert Path("records.jsonl").read_text() == text
    other = ("--db", "sqlite:///other.db")
    assert "2 records would be added" in run("import", "records.jsonl", "--dry-run", *other)
    assert not Path("other.db").exists()
    assert run("import", "records.jsonl", *other) == (
        "2 records added to sqlite:///other.db; 0 of 2 were there already\n"
    )
    assert "0 records added to sqlite:///other.db; 4 of 4" in run("import", "records.jsonl", "records.jsonl", *other)
    assert run("export", *other) == text
    assert "0 records would be added" in run("import", "records.jsonl", "--dry-run", *other)


def test_a_part_is_exported(there: Path) -> None:
    assert len(run("export", "--best", "3").splitlines()) == 2
    assert len(run("export", "--program", "dense").splitlines()) == 3


def test_importing_from_standard_input(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(run("export")))
    assert "0 records added" in run("import", "-")


def test_importing_from_standard_input_that_is_closed(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert "standard input is empty" in run("import", "-", status=2)
    sys.stdin.close()


def test_a_wrong_line_keeps_all_out_unless_it_is_skipped(there: Path) -> None:
    header, *lines = run("export").splitlines()
    wrong = lines[0].replace('"timestamp": 1000000000.0', '"timestamp": -1')
    Path("r.jsonl").write_text("\n".join([header, *lines, *[wrong] * 7]))
    other = ("--db", "sqlite:///other.db")
    message = run("import", "r.jsonl", *other, status=2)
    assert "r.jsonl:4: the record is refused: `timestamp` is -1" in message
    assert "r.jsonl:8: " in message
    assert "and 2 records more\n  hint: nothing was added; --skip-invalid adds the others" in message
    assert not Path("other.db").exists()
    assert "2 records added" in run("import", "r.jsonl", "--skip-invalid", *other)


def test_importing_what_is_no_text_from_standard_input(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), "utf-8"))
    assert "standard input is not text" in run("import", "-", status=2)


def test_pruning(there: Path) -> None:
    assert run("prune", "--failures", "--dry-run") == (
        "1 record would be removed from sqlite:///metasched.db; 1 left\n"
    )
    assert "1 record removed from sqlite:///metasched.db; 1 left" in run("prune", "--failures")
    assert "0 records removed" in run("prune", "--keep-best", "1")
    assert "1 record removed from sqlite:///metasched.db; 0 left" in run("prune", "--older-than", "30")
    assert "holds no records yet" in run("stats")


def test_pruning_what_other_versions_have_measured(there: Path) -> None:
    with open_database("sqlite:///metasched.db") as database:
        database.add(replace(record(2, (5e-3,), None), code_version=code_version()))
    assert "2 records removed from sqlite:///metasched.db; 1 left" in run("prune", "--other-versions")
    assert json.loads(run("stats", "--json"))["code_versions"] == [code_version()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("prune",), "say which records to remove"),
        (("prune", "--failures", "--db", "sqlite:///none.db"), "there is no database"),
        (("prune", "--program", "dens"), "has no record of `dens`\n  hint: did you mean `dense`?"),
        (("export", "--program", "dens"), "has no record of `dens`\n  hint: did you mean `dense`?"),
        (("import", "none.jsonl"), "none.jsonl: No such file"),
        (("import", "metasched.db"), "this is not text"),
    ],
)
def test_mistakes(there: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in run(*arguments, status=2)


def test_knowledge_is_distilled_and_added_to_a_file(tmp_path: Path) -> None:
    url, out = f"sqlite:///{tmp_path}/d.db", tmp_path / "mine.knowledge"
    trace = 'trace 1 of dense[N=64]:\n    B = get_block("B")\n    i = get_loops(B)\n'
    trace += "    t0, t1 ~ sample_tile(i, parts=2) := [_, 8]\n    i_0, i_1 = split(i, [t0, t1])\n"
    with open_database(url) as database:
        database.add(replace(record(0, (2e-3, 3e-3, 4e-3), None), trace=trace))
        database.add(record(1, (), "run-timeout"))
    note = io.StringIO()
    for _ in range(2):
        assert main(["db", "distill", "--db", url, "--out", str(out)], Console(io.StringIO(), note)) == 0
        assert "  64 in 3000 us: [[null,8]]\n" in out.read_text()
    assert "1 entry of 1 size and 1 kind of anchor" in note.getvalue()

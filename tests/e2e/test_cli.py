"""The command line from outside: tune, look, replay, and what a person sees when something is wrong."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from metasched.cli.main import main

PROGRAM = """\
program tiny[N=24, K=16](A: f32[N, K], B: f32[K, N]) -> D: f32[N, N]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu: D[i, j] = max(C[i, j], 0)
"""
DB = ("--db", "sqlite:///t.db")


@dataclass(frozen=True)
class Said:
    """What a command printed."""

    out: str
    err: str


def in_process(folder: Path, *arguments: str) -> str:
    """What a command prints on standard output, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "metasched", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def run(folder: Path, *arguments: str, status: int = 0) -> Said:
    """What a command prints here, in this process: importing is paid for once."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert main(arguments) == status, err.getvalue()
    assert "Traceback" not in err.getvalue()
    return Said(out.getvalue(), err.getvalue())


def metasched(folder: Path, *arguments: str, status: int = 0) -> str:
    """What a command prints on standard output, or on standard error where it is expected to fail."""
    said = run(folder, *arguments, status=status)
    return said.out if status == 0 else said.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program, tuned for three trials."""
    path = tmp_path_factory.mktemp("cli")
    (path / "tiny.ms").write_text(PROGRAM)
    lines = [
        json.loads(line) for line in in_process(path, "tune", "tiny.ms", "--trials", "3", *DB, "--json").splitlines()
    ]
    assert [line["event"] for line in lines] == ["progress"] * 3 + ["result"]
    result = lines[-1]
    assert result["trials"] == 3
    assert result["best_ms"] > 0
    (path / "best.trace").write_text(result["trace"])
    return path


def test_the_same_call_again_measures_nothing(folder: Path) -> None:
    text = metasched(folder, "tune", "tiny.ms", "--trials", "3", *DB)
    assert "trace 1 of tiny[N=24, K=16]" in text
    assert re.match(r"tiny\[N=24, K=16\]: [\d.]+ us, [\d.]+ GFLOP/s after 3 trials, none of them new", text)
    again = json.loads(metasched(folder, "tune", "tiny.ms", "--trials", "3", *DB, "--json"))
    assert again["best_ms"] > 0
    assert again["gflops"] > 0
    assert (again["trials"], again["measured"]) == (3, 0)
    assert "metasched replay tiny.ms --db sqlite:///t.db" in text
    shutil.copy(folder / "tiny.ms", folder / "a copy.ms")
    text = metasched(folder, "tune", "a copy.ms", "--trials", "3", *DB)
    assert "metasched replay 'a copy.ms' --db sqlite:///t.db" in text
    assert "metasched report 'a copy.ms' --db sqlite:///t.db" in text
    stats = json.loads(metasched(folder, "db", "stats", *DB, "--json"))
    assert stats["records"] == 3
    assert stats["program"] == "tiny"


def test_replay_checks_and_times(folder: Path) -> None:
    data = json.loads(metasched(folder, "replay", "tiny.ms", *DB, "--check", "--time", "--json"))
    assert data["checked"]
    assert data["failure"] is None
    assert data["ms"] > 0
    said = run(folder, "replay", "tiny.ms", "--trace", "best.trace", "--check")
    assert "results agree with the reference" in said.err
    assert said.out == (folder / "best.trace").read_text()


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("--program", "program tiny["),
        ("--space", "multi_level_tiling"),
        ("--schedule", "func tiny("),
        ("--loops", "kernel tiny("),
        ("--llvm", "define"),
        ("--asm", ".globl"),
    ],
)
def test_show(folder: Path, what: str, expected: str) -> None:
    assert expected in metasched(folder, "show", "tiny.ms", what)


@pytest.mark.parametrize("what", ["--schedule", "--loops", "--asm"])
def test_show_says_what_a_guess_expects_and_why(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "op:matmul_nn", "-D", "N=64", what]) == 0
    out, err = capsys.readouterr()
    assert "a guess: " not in out
    assert re.search("a guess: (the expert trace matmul_nn[.]|what was found for [0-9])", err)  # by what suits this CPU
    assert "why: " in err
    assert "expected, not measured: " in err


def test_show_a_trace(folder: Path) -> None:
    assert "func tiny(" in metasched(folder, "show", "tiny.ms", "--trace", "best.trace")


def test_parameters_make_another_task(folder: Path) -> None:
    message = metasched(folder, "replay", "tiny.ms", "-D", "N=32", *DB, status=2)
    assert "no valid measurement of tiny[N=32, K=16]" in message


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("show", "missing.ms"), "missing.ms: No such file"),
        (("show", "tiny.ms", "-D", "Q=1"), "has no parameter `Q`"),
        (("show", "tiny.ms", "-D", "N"), "NAME=VALUE"),
        (("tune", "tiny.ms", "--seed", "-1"), "a seed is an integer from 0"),
        (("tune", "tiny.ms", "--input", "A"), "write NAME=LOW,HIGH"),
        (("replay", "tiny.ms", "--trace", "best.trace", "--input", "A=0,1"), "add --check or --time"),
        (("replay", "tiny.ms", "--trace", "best.trace", "--check", "--input", "Q=0,1"), "no argument `Q`; it has A, B"),
        (("show", "/proc/self/mem"), "Input/output error\n  hint: "),
        (("show", "tiny.ms::other"), "there is no program `other`"),
        (("tune", "tiny.ms", "--rules", "nonsense"), "no rule or preset `nonsense`"),
        (("replay", "tiny.ms", "--db", "sqlite:///none.db"), "there is no database"),
        (("replay", "tiny.ms", "--trace", "tiny.ms"), "trace"),
        (("show", "tiny.ms", "--trace", "best.trace", "--db", "sqlite:///t.db"), "give one of them"),
    ],
)
def test_mistakes_are_messages(
    folder: Path,
    arguments: tuple[str, ...],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    try:
        status = main(arguments)
    except SystemExit as end:  # how argparse ends
        status = int(end.code or 0)
    assert status == 2
    message = capsys.readouterr().err
    assert expected in message
    assert "Traceback" not in message


def test_a_trace_in_the_database_that_does_not_parse(folder: Path) -> None:
    """What a search learns from is stored beside the traces: only the best is parsed."""
    shutil.copy(folder / "t.db", folder / "edited.db")
    connection = sqlite3.connect(folder / "edited.db")
    connection.execute("UPDATE records SET trace = 'garbage'")
    connection.commit()
    connection.close()
    edited = ("--db", "sqlite:///edited.db")
    message = metasched(folder, "tune", "tiny.ms", "--trials", "1", *edited, status=2)
    assert "the trace of a record does not parse: <trace>:1:1: expected `trace`" in message
    assert "metasched db prune --damaged" in message
    assert "0 left" in metasched(folder, "db", "prune", "--damaged", *edited)
    assert "trace 1 of tiny" in metasched(folder, "tune", "tiny.ms", "--trials", "1", *edited)


def test_a_mark_at_the_beginning_of_a_file_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "tiny.ms").write_text("\ufeff" + PROGRAM, encoding="utf-8")
    assert "program tiny[" in in_process(tmp_path, "show", "tiny.ms")


def test_a_program_that_needs_other_data_is_tuned_and_checked_on_it(tmp_path: Path) -> None:
    (tmp_path / "logs.ms").write_text("program logs[N=62](X: f32[N]) -> B: f32[N]:\n    B[i] = log(X[i])\n")
    (tmp_path / "a.trace").write_text("trace 1 of logs[N=62]:\n")
    check = ("replay", "logs.ms", "--trace", "a.trace", "--check")
    for command in (("tune", "logs.ms", "--trials", "1", *DB), check):
        said = run(tmp_path, *command, status=2).err
        assert "hint: say what it takes: `--input NAME=LOW,HIGH` for `X`" in said
    text = metasched(tmp_path, "tune", "logs.ms", "--trials", "1", *DB, "--input", "X=0.1,2")
    assert "metasched replay logs.ms --input X=0.1,2.0 --db sqlite:///t.db --check --time" in text
    assert "results agree with the reference" in run(tmp_path, *check, "--input", "X=0.1,2").err


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_was_measured(sent: signal.Signals, status: int, tmp_path: Path) -> None:
    (tmp_path / "tiny.ms").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "metasched",
        "tune",
        "tiny.ms",
        "--trials",
        "5000",
        *DB,
        "--strategy",
        "random",
        "--rules",
        "multi_level_tiling",
        "--json",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(3):
        assert json.loads(process.stdout.readline())["event"] == "progress"
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, err
    result = json.loads(out.splitlines()[-1])
    assert result["event"] == "result"
    assert result["interrupted"]
    assert json.loads(metasched(tmp_path, "db", "stats", *DB, "--json"))["records"] >= 3
    assert result["measured"] == result["trials"]

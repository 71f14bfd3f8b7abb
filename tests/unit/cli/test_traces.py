"""The commands about traces: carried over to another shape, shown in other forms, compared, checked."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

import metasched as ms
from metasched.measure.records import Failure, MeasureCandidate, Measurement
from tests.support.command_line import run

PROGRAM = """\
program dense[N=24, K=16](A: f32[N, K], B: f32[K, N]) -> C: f32[N, N]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
"""
TRACE = """\
trace 1 of dense[N=24, K=16]:
    dense = get_block("dense")
    i, j, k = get_loops(dense)
    t0, t1 ~ sample_tile(i) @ "rows" := [_, 12]
    i0, i1 = split(i, [t0, t1])
    t2 ~ sample_categorical([4, 8]) @ "lanes" := 8
    vectorize(j, lanes=t2)
"""
SMALL = ("-D", "N=7")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "dense.ms").write_text(PROGRAM)
    (tmp_path / "a.trace").write_text(TRACE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["show", "replay"])
def test_another_shape_is_refused(command: str) -> None:
    status, _, err = run(command, "dense.ms", *SMALL, "--trace", "a.trace")
    assert status == 2
    assert "it was made for dense[N=24, K=16], and the program is dense[N=7, K=16]" in err
    assert "--repair" in err


@pytest.mark.usefixtures("folder")
def test_showing_a_trace_of_another_shape() -> None:
    status, out, err = run("show", "dense.ms", *SMALL, "--trace", "a.trace", "--repair")
    assert status == 0
    assert "func dense(A: f32[7, 16]" in out
    assert err == (
        'repaired 1 decision:\n    "rows": [_, 12] -> [_, 7]  '
        "(the support here: 1 inner factor of 7, the innermost at most 64)\n"
    )


@pytest.mark.usefixtures("folder")
def test_replaying_a_trace_of_another_shape() -> None:
    status, out, err = run("replay", "dense.ms", *SMALL, "--trace", "a.trace", "--repair")
    assert status == 0
    assert 'repaired 1 decision:\n    "rows": [_, 12] -> [_, 7]' in err
    assert ms.parse_trace(out).decisions["rows"][1] == 7  # type: ignore[index]
    _, out, _ = run("replay", "dense.ms", *SMALL, "--trace", "a.trace", "--repair", "--json")
    assert json.loads(out)["repairs"][0].startswith('"rows": [_, 12] -> [_, 7]')
    _, _, err = run("replay", "dense.ms", "--trace", "a.trace", "--repair")
    assert "nothing had to be repaired" in err
    _, _, err = run("replay", "dense.ms", "--trace", "a.trace")
    assert "repaired" not in err


@pytest.mark.usefixtures("folder")
def test_what_failed_in_a_worker_is_not_run_for_a_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    profiled: list[object] = []
    monkeypatch.setattr("metasched.cli.replay.profile_on_random_data", profiled.append)
    candidate = MeasureCandidate("dense", (), TRACE, "")
    failed = Measurement(candidate, (), raced=False, failure=Failure("crash", "SIGSEGV"), phases=())
    monkeypatch.setattr("metasched.cli.replay.measure", lambda *_: failed)
    status, _, err = run("replay", "dense.ms", "--trace", "a.trace", "--check", "--profile")
    assert (status, "FAILED: crash\nSIGSEGV" in err, profiled) == (1, True, [])
    assert run("replay", "dense.ms", "--trace", "a.trace", "--profile")[0] == 0
    assert len(profiled) == 1


def test_the_other_forms(folder: Path) -> None:
    _, out, _ = run("show", "dense.ms", "--trace", "a.trace", "--python")
    space: dict[str, object] = {}
    exec(out, space)
    sch = ms.Schedule(ms.parse_program(PROGRAM))
    space["schedule"](sch)  # type: ignore[operator]
    assert str(sch.trace) == TRACE
    _, out, _ = run("show", "dense.ms", "--trace", "a.trace", "--json")
    assert str(ms.Trace.from_json(out)) == TRACE
    (folder / "b.json").write_text(out)
    _, out, _ = run("show", "dense.ms", "--trace", "b.json")
    assert "vectorized(8) j" in out


def test_what_is_replayed_reads_back_in_every_form(folder: Path) -> None:
    """From standard output, and from a file in the form of its name; each is taken where a trace is."""
    _, out, err = run("replay", "dense.ms", "--trace", "a.trace")
    assert out == TRACE
    assert "replays and compiles" in err
    for name in ("b.trace", "b.json", "b.py"):
        status, out, err = run("replay", "dense.ms", "--trace", "a.trace", "--out", name)
        assert (status, out) == (0, "")
        assert "replays and compiles" in err
        assert (folder / name).read_text().startswith({"b.trace": "trace", "b.json": "{", "b.py": "import"}[name])
        assert run("show", "dense.ms", "--trace", "a.trace", "--diff", name)[1] == "the traces say the same\n"
        assert run("show", "dense.ms", "--trace", name, "--problems")[0] == 0
        assert run("replay", "dense.ms", "--trace", name)[:2] == (0, TRACE)
        assert "func dense" in run("show", "dense.ms", *SMALL, "--trace", name, "--repair")[1]


def test_python_given_as_a_trace_is_not_run(folder: Path) -> None:
    (folder / "b.py").write_text('def schedule(sch):\n    """dense[N=24, K=16]"""\n    open("ran", "w")\n')
    status, _, err = run("show", "dense.ms", "--trace", "b.py")
    assert status == 2
    assert "b.py:3:5: only methods of `sch` are called in a trace" in err
    assert not (folder / "ran").exists()


def test_a_trace_from_a_pipe_is_read_once(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    writer = threading.Thread(target=lambda: (folder / "pipe").write_text(TRACE))
    writer.start()
    status, out, _ = run("show", "dense.ms", "--trace", "pipe", "--schedule")
    writer.join()
    assert status == 0
    assert "func dense" in out


def test_differences(folder: Path) -> None:
    (folder / "b.trace").write_text(TRACE.replace("[_, 12]", "[_, 6]").replace("i0", "outer"))
    _, out, _ = run("show", "dense.ms", "--trace", "a.trace", "--diff", "b.trace")
    assert out == 'decision "rows": [_, 12] -> [_, 6]\n'
    _, out, _ = run("show", "dense.ms", "--trace", "a.trace", "--diff", "a.trace")
    assert out == "the traces say the same\n"


def test_a_trace_with_holes_is_shown_with_its_numbers_free(folder: Path) -> None:
    (folder / "b.trace").write_text(TRACE.replace(" := [_, 12]", ""))
    status, out, _ = run("show", "dense.ms", "--trace", "b.trace")
    assert status == 0
    assert "in grid(ceildiv(24, t1), t1)" in out
    assert ms.parse_trace((folder / "b.trace").read_text()).holes == ("rows",)
    status, _, err = run("show", "dense.ms", "--trace", "b.trace", "--llvm")
    assert status == 2
    assert 'no decision is given for "rows"' in err


def test_the_space_of_a_trace_with_holes(folder: Path) -> None:
    (folder / "b.trace").write_text(TRACE.replace(" := [_, 12]", ""))
    status, out, _ = run("show", "dense.ms", "--trace", "b.trace", "--space")
    assert status == 0
    assert out.strip() == str(
        ms.space(ms.parse_program(PROGRAM), ms.parse_trace((folder / "b.trace").read_text())).explain()
    )
    assert "inline" not in out  # no rule is tried


def test_problems(folder: Path) -> None:
    assert run("show", "dense.ms", "--trace", "a.trace", "--problems") == (0, "nothing is wrong with the trace\n", "")
    (folder / "b.trace").write_text(TRACE.replace("[_, 12]", "[_, 25]").replace(":= 8", ":= 5"))
    status, out, _ = run("show", "dense.ms", "--trace", "b.trace", "--problems")
    assert status == 1
    assert [line.split(":")[0] for line in out.splitlines() if line.startswith("line")] == ["line 4", "line 6"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "dense.ms", "--repair"), "--repair mends a trace; say which with --trace FILE"),
        (("show", "dense.ms", "--problems"), "--problems is about a trace; say which with --trace FILE"),
        (("tune", "dense.ms", "--trace", "a.trace", "--rules", "cpu"), "--trace and --rules both say what to search"),
        (("show", "dense.ms", "--trace", "a.trace", "--rules", "cpu", "--space"), "give one of them"),
        (
            ("show", "dense.ms", "--program", "--trace", "a.trace"),
            "--program shows none\n  hint: leave out one of them",
        ),
        (
            ("show", "dense.ms", "--program", "--db", "sqlite:///none.db"),
            "--db says where the schedule comes from, and",
        ),
        (("show", "dense.ms", "--space", "--db", "sqlite:///none.db"), "and --space shows none"),
        (("show", "dense.ms", "--rules", "cpu"), "--rules is about the space of the program\n  hint: add --space"),
        (("show", "dense.ms", "--schedule", "--module", "dense.ms"), "--module is about the space of the program"),
        (("tune", "dense.ms", "--trace", "a.trace", "--module", "m.ms"), "--trace and --module both say what"),
    ],
)
def test_what_does_not_go_together(arguments: tuple[str, ...], message: str) -> None:
    status, _, err = run(*arguments)
    assert status == 2
    assert message in err

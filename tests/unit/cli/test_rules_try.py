from __future__ import annotations

import io
import json
import signal
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path

import pytest

from metasched.cli import rules_try
from metasched.cli.command import TERMINATED, Console
from metasched.cli.main import main
from metasched.cli.rule_trial import Trial, place, spaces
from metasched.cli.rules_try import render_spaces, render_trial, watch
from metasched.database import Record, TaskKey, Visit
from metasched.errors import MetaschedError
from metasched.lang import parse_program
from metasched.measure.comparison import Comparison
from metasched.search.report import TuningReport
from metasched.space.registry import resolve
from metasched.space.rule_errors import RuleNote
from tests.support.targets import AVX2

PROGRAM = """\
program dense_relu[N=64, M=64, K=64](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
"""
RULES = '''\
import metasched as ms


@ms.rule
def rows(sch, block, *, size: int = 8):
    """Split the rows of a reduction, or not."""
    if not sch.describe(block).reduces:
        return ms.skip("it is not a reduction")
    if sch.choose("how", ["not", "rows"]) == "rows":
        i, *_ = sch.get_loops(block)
        sch.split(i, [None, size])


@ms.rule
def idle(sch, block):
    """Do nothing."""
    return ms.skip("it is Saturday")
'''


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.py").write_text(RULES)
    Path("mine.py").write_text(RULES.replace("def idle", "def unroll") + "\n\neither = ms.choice('c', rows, unroll)\n")
    Path("p.ms").write_text(PROGRAM)


RFACTOR = [rule.name for rule in resolve("cpu")].index("rfactor")


@pytest.mark.parametrize(
    ("at", "instead", "spec", "position"),
    [
        ("first", None, "my.py:rows,cpu", 0),
        ("last", None, "cpu,+my.py:rows", -1),
        ("rfactor", None, None, RFACTOR),
        ("first", "rfactor", None, RFACTOR),
    ],
)
def test_where_the_rule_goes(at: str, instead: str | None, spec: str | None, position: int) -> None:
    placed = place("my.py:rows", None, at, instead)
    assert placed.rules[position].name == "rows"
    assert [r.name for r in resolve(placed.spec)] == [r.name for r in placed.rules]
    assert spec is None or placed.spec == spec
    assert len(placed.rules) == len(placed.without) + (instead is None)


CPU = "inline,rfactor,multi_level_tiling,compute_location,tile_transposition,columns,parallelize,vectorize"


@pytest.mark.parametrize(
    ("base", "at", "instead", "spec"),
    [
        (f"{CPU},stream,unroll", None, None, f"{CPU},stream,unroll"),
        (f"{CPU},stream,unroll", "vectorize", None, f"{CPU},stream,unroll"),
        ("inline,vectorize,unroll", "first", None, "vectorize,inline,unroll"),
        ("inline,vectorize,unroll", "last", None, "inline,vectorize,unroll,-vectorize,+vectorize"),
        ("inline,vectorize,unroll", "inline", None, "vectorize,inline,unroll"),
        ("inline,vectorize,unroll", None, "inline", "vectorize,unroll"),
        ("vectorize", "first", None, "vectorize"),
    ],
)
def test_a_rule_that_the_list_has_is_taken_out_on_the_other_side(
    base: str, at: str | None, instead: str | None, spec: str
) -> None:
    placed = place("vectorize", base, at, instead)
    assert placed.listed
    assert placed.spec == spec
    assert [r.name for r in placed.rules] == [r.name for r in resolve(placed.spec)]
    assert [r.name for r in placed.rules].count("vectorize") == 1
    assert placed.without_spec == f"{base},-vectorize"
    assert placed.without == resolve(placed.without_spec)


def test_a_rule_of_a_file_that_the_list_has_for_some_blocks() -> None:
    placed = place("my.py:rows", "cpu,+my.py:rows@dense", None, None)
    assert placed.listed
    assert placed.rule.blocks.only == ("dense",)
    assert placed.without == resolve("cpu")
    assert not place("my.py:rows", None, None, None).listed


def test_a_rule_that_the_list_has_is_said() -> None:
    both = spaces(parse_program(PROGRAM), place("vectorize", "inline,vectorize", None, None), AVX2, seed=0)
    shown = render_spaces("dense_relu", both, whole=False).splitlines()
    assert shown[1:3] == [
        "rules: inline,vectorize",
        "without it: inline,vectorize,-vectorize (the rule is in the list, and is taken out of it)",
    ]
    assert sum(line.startswith("    vectorize ") for line in shown) == 2
    trial = Trial(report(1.0), report(1.0), None)
    assert render_trial(both.placement, trial).endswith(
        "To use it: --rules inline,vectorize\nTo leave it out: --rules inline,vectorize,-vectorize"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("my.py", "p.ms"), "my.py has 2 rules; try one: my.py:rows or my.py:idle"),
        (("my.py:row", "p.ms"), "my.py has no `row`\n  hint: its rules are `idle` and `rows`"),
        (("your.py", "p.ms"), "there is no file your.py"),
        (("cpu", "p.ms"), " rules; try one of winograd, padding_terms, scans, blocked_sums"),
        (
            ("my.py:rows", "p.ms", "--at", "tile"),
            "no rule `tile` is in the list: there are winograd, padding_terms, scans, blocked_sums",
        ),
        (("my.py:rows", "p.ms", "--instead-of", "tile"), "no rule `tile` is in the list"),
        (("my.py:rows", "q.ms"), "q.ms: No such file"),
        (
            ("vectorize", "p.ms", "--instead-of", "vectorize"),
            "--instead-of vectorize: the rule on trial is that one; without --instead-of, it is left out",
        ),
        (
            ("mine.py:unroll", "p.ms"),
            (
                "the list has another rule `unroll`, and what rules do is told by name; "
                "try yours with --instead-of unroll, or give it another name"
            ),
        ),
    ],
)
def test_what_cannot_be_tried(arguments: tuple[str, ...], message: str) -> None:
    err = io.StringIO()
    assert main(["rules", "try", *arguments], Console(io.StringIO(), err)) == 2
    assert message in err.getvalue()


def test_what_the_rule_did_and_what_it_added() -> None:
    both = spaces(parse_program(PROGRAM), place("my.py:rows", None, "first", None), AVX2, seed=0)
    text = render_spaces("dense_relu[N=64]", both, whole=False)
    assert text.splitlines()[:2] == ["dense_relu[N=64]: rule rows (my.py:4)", "rules: my.py:rows,cpu"]
    assert "rows  not applied: it is not a reduction" in text
    assert "rows  applied" in text
    without = len(both.without)
    assert f"sketches: {without} without the rule, {without + 1} with it, 1 of them new" in text
    assert 'rows(dense)/how = "rows"' in text
    assert "func dense_relu(" in render_spaces("dense_relu", both, whole=True)


@pytest.mark.parametrize("more", [(), ("--sketches",)])
def test_the_sketches_are_printed_whole_where_that_is_asked_for(
    more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules_try, "run_trial", lambda *_: Trial(report(1.0), report(1.0), None))
    out = io.StringIO()
    assert main(["rules", "try", "my.py:rows", "p.ms", *more], Console(out, io.StringIO())) == 0
    assert "1 of them new" in out.getvalue()
    assert ("func dense_relu(" in out.getvalue()) == bool(more)


def test_a_rule_that_never_applies_is_not_measured() -> None:
    out = io.StringIO()
    assert main(["rules", "try", "my.py:idle", "p.ms"], Console(out, io.StringIO())) == 1
    assert "rule idle never applied\n    relu   it is Saturday\n    dense  it is Saturday" in out.getvalue()
    assert "there is nothing to measure" in out.getvalue()
    out = io.StringIO()
    assert main(["rules", "try", "my.py:idle", "p.ms", "--json"], Console(out, io.StringIO())) == 1
    assert '"fired": false' in out.getvalue()


def test_the_parts_of_a_combination_are_shown() -> None:
    out = io.StringIO()
    both = spaces(parse_program(PROGRAM), place("mine.py:either", "inline", None, None), AVX2, seed=0)
    text = render_spaces("dense_relu", both, whole=False)
    assert "rule c > unroll never applied\n    relu   it is Saturday\n    dense  it is Saturday" in text
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules_try, "run_trial", lambda *_: Trial(report(1.0), report(1.0), None))
        main(["rules", "try", "mine.py:either", "p.ms", "--rules", "inline", "--json"], Console(out, io.StringIO()))
    space = json.loads(out.getvalue().splitlines()[0])
    assert (space["rules"], space["rules_without"]) == ("mine.py:either,inline", "inline")
    assert space["parts"] == {
        "c > rows": {"relu": {"it is not a reduction": 2}, "dense": {"applied": 2}},
        "c > unroll": {"relu": {"it is Saturday": 2}, "dense": {"it is Saturday": 2}},
    }


# --- results


def report(seconds: float | None, trace: str = "t", *, interrupted: bool = False) -> TuningReport:
    best = None
    if seconds is not None:
        key = TaskKey("0" * 64, "cpu", 1)
        best = Record(key, "p", (), trace, (Visit((seconds,)),) * 2, None, False, (), 0.0, 0, 0)
    return TuningReport(best, 32, 32, {"run-timeout": 1}, {}, {}, 1.0, interrupted=interrupted)


def comparison(gain: float, noise: float) -> Comparison:
    return Comparison(tuple((gain * (1 + noise * (n % 3 - 1)), 1.0) for n in range(12)))


@pytest.mark.parametrize(
    ("trial", "expected"),
    [
        (Trial(report(2.0, "a"), report(1.0, "b"), comparison(2.0, 0.01)), "faster with the rule"),
        (Trial(report(1.0, "a"), report(2.0, "b"), comparison(0.5, 0.01)), "slower with the rule"),
        (Trial(report(1.0, "a"), report(1.0, "b"), comparison(1.0, 0.2)), "no difference that these timings show"),
        (Trial(report(1.0), report(1.0), None), "gain 1: both searches ended at the same schedule"),
        (Trial(report(1.0), report(None), None), "one of the searches found no valid schedule"),
        (Trial(report(1.0), report(None, interrupted=True), None), "Interrupted."),
    ],
)
def test_the_verdict(trial: Trial, expected: str) -> None:
    assert expected in render_trial(place("my.py:rows", None, "first", None), trial)


def test_the_result_as_a_table() -> None:
    trial = Trial(report(2e-3, "a"), report(1e-3, "b"), comparison(2.0, 0.01))
    text = render_trial(place("my.py:rows", None, "first", None), trial)
    assert "without      32             2.00 ms       2.00 s  1 failed (1 run-timeout)" in text
    assert "gain 2.000x, 95 % interval 1.980 to 2.020: faster with the rule" in text
    assert text.endswith("To use it: --rules my.py:rows,cpu")


# --- signals


def terminated() -> None:
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL, "it would end this process"
    signal.raise_signal(signal.SIGTERM)


def test_sigterm_ends_a_trial_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(*_: object) -> Trial:
        with pytest.raises(KeyboardInterrupt):
            terminated()
        return Trial(report(1.0), report(None, interrupted=True), None)

    monkeypatch.setattr(rules_try, "run_trial", half)
    out = io.StringIO()
    assert main(["rules", "try", "my.py:rows", "p.ms"], Console(out, io.StringIO())) == TERMINATED
    assert "Interrupted." in out.getvalue()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, TERMINATED), (signal.SIGINT, 0)])
def test_signals_end_watching(monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int) -> None:
    def once(*_: object) -> int:
        if number == signal.SIGTERM:
            terminated()
        raise KeyboardInterrupt

    monkeypatch.setattr(rules_try, "run_once", once)
    arguments = ["rules", "try", "my.py:rows", "p.ms", "--watch"]
    assert main(arguments, Console(io.StringIO(), io.StringIO())) == status


# --- watching


class Waits:
    """Each wait does the next thing, and the last one presses Ctrl-C."""

    def __init__(self, *things: Callable[[], object]) -> None:
        self.things = list(things)

    def __call__(self) -> None:
        if not self.things:
            raise KeyboardInterrupt
        self.things.pop(0)()


def test_watching_does_it_again_on_save_and_shows_mistakes() -> None:
    file, calls, err = Path("my.py"), [], io.StringIO()

    def once() -> None:
        calls.append(file.read_text())
        if calls[-1] == "wrong":
            raise MetaschedError("it is wrong")
        if calls[-1] == "bug":
            error = ZeroDivisionError("division by zero")
            error.add_note(RuleNote("in rule rows"))
            raise error

    def save(text: str) -> Callable[[], object]:
        return lambda: file.write_text(text)

    waits = Waits(lambda: None, save("wrong"), save("bug"), file.unlink, save("right"))
    assert watch(once, [file], Console(io.StringIO(), err), waits) == 0
    assert [call for call in calls if call in {"wrong", "bug", "right"}] == ["wrong", "bug", "right"]
    text = err.getvalue()
    assert "metasched rules try: it is wrong" in text
    assert "metasched rules try: ZeroDivisionError: division by zero\n\nin rule rows" in text
    assert "watching my.py; Ctrl-C ends it" in text
    assert "my.py: " not in text or "No such file" in text


def test_a_bug_of_ours_ends_watching() -> None:
    def once() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        watch(once, [Path("my.py")], Console(io.StringIO(), io.StringIO()), Waits())


@pytest.mark.parametrize("rule", ["my.py", "my.py:rows"])
def test_the_files_that_are_watched(rule: str) -> None:
    parser = ArgumentParser()
    rules_try.add_arguments(parser)
    args = parser.parse_args([rule, "p.ms", "--watch"])
    assert rules_try._files(args) == [Path("my.py"), Path("p.ms")]

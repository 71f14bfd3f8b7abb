"""The comparison of pipelines with Halide, without Halide."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.pipelines import CASES, Refusals, _refusal, _result, run
from benchmarks.registry import OptionError, Options
from benchmarks.sides import SideProcess


def test_the_best_autoscheduler_is_the_peer() -> None:
    seconds = {"guess": 2.0, "searched": 1.0, "by hand": 3.0, "Adams2019": 4.0, "Li2018": 5.0}
    line = _result("blur", seconds, {"Mullapudi2016": "it cannot"})
    assert (line["peer"], line["peer_ms"], line["ratio"]) == ("Halide, Adams2019", 4000, 2)
    assert (line["searched_ratio"], line["by_hand_ratio"], line["refused"]) == (4, 1.5, {"Mullapudi2016": "it cannot"})


def test_without_halide_there_is_no_ratio() -> None:
    line = _result("blur", {"guess": 2.0}, {})
    assert [line[key] for key in ("peer", "peer_ms", "ratio", "searched_ratio", "by_hand_ratio")] == [None] * 5


def test_pipelines_are_named() -> None:
    with pytest.raises(OptionError, match=f"no pipeline `sharpen`: there are {', '.join(CASES)}"):
        list(run(Options(pipelines=("sharpen",))))


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import time; time.sleep(60)", "not done in 1 s"),
        ("raise SystemExit(3)", "the side `halide_side` ended with status 3; its error is above"),
        ('input(); print(\'{"refused": "too much memory"}\')', "too much memory"),
        ("input(); print('{\"compile_s\": 1}')", None),
    ],
)
def test_a_schedule_that_is_not_to_be_had_says_why(code: str, reason: str | None) -> None:
    with SideProcess("halide_side", [sys.executable, "-S", "-c", code], 1) as side:
        assert _refusal(side, "{}", 1 if reason and reason.startswith("not done") else 30) == reason


def test_what_was_refused_is_kept_for_the_next_run(tmp_path: Path) -> None:
    file = tmp_path / "kept" / "refused.json"
    Refusals(file, "blur").add("Li2018", "not done in 9 s")
    assert Refusals(file, "blur").known == {"Li2018": "not done in 9 s"}
    assert Refusals(file, "harris").known == {}
    assert Refusals(None, "blur").known == {}

"""The comparison of pipelines with Halide, without Halide."""

from __future__ import annotations

import pytest

from benchmarks.pipelines import CASES, _result, run
from benchmarks.registry import OptionError, Options


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

"""What a line says of TVM: whose time it is, when it was reached, and what TVM's tuning took over that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.kernel_cases import CASES
from benchmarks.kernels import Limits
from benchmarks.registry import OptionError, Options
from benchmarks.tvm_figures import TvmFigures, read_figures
from benchmarks.twelve import _Found, _means, _Operator

FOUND = _Found("a trace", 40.0, [(3.0, 4e-3), (5.0, 2.05e-3), (8.0, 2.03e-3), (20.0, 1.9e-3)])
CASE = next(case for case in CASES if case.suite == "NRM")
OPERATOR = _Operator(CASE, 0, TvmFigures(best_s=2e-3, tune_s=240.0), (), Path(), Limits(Options()), Options())


def test_within_two_percent_is_reached() -> None:
    assert FOUND.seconds_to_reach(2e-3) == 8.0
    assert FOUND.seconds_to_reach(1e-3) is None
    assert FOUND.seconds_to_reach(None) is None


def test_tuning_is_compared_until_tvm_s_best_is_reached() -> None:
    assert OPERATOR._tuning(FOUND, None) == {"reached_tvm_s": 8.0, "tvm_tune_s": 240.0, "tuning_ratio": 30.0}
    assert OPERATOR._tuning(FOUND, 4e-3)["tuning_ratio"] == 80.0, "what was run here counts, not the file"
    assert OPERATOR._tuning(FOUND, 1e-3) == {"reached_tvm_s": None, "tvm_tune_s": 240.0, "tuning_ratio": 0.0}
    alone = replace(OPERATOR, of_tvm=None)
    assert alone._tuning(FOUND, 4e-3) == {"reached_tvm_s": 3.0, "tvm_tune_s": None, "tuning_ratio": None}
    assert alone._tuning(FOUND, None) == {"reached_tvm_s": None, "tvm_tune_s": None, "tuning_ratio": None}


def test_the_peer_is_tvm_by_a_run_here_or_by_the_file() -> None:
    run = OPERATOR._peer(2e-3, 3e-3)
    assert run == {"peer": "TVM", "peer_ms": 3.0, "ratio": pytest.approx(1.5), "peer_from": "a run here"}
    stored = OPERATOR._peer(1e-3, None)
    assert (stored["peer_ms"], stored["ratio"], stored["peer_from"]) == (2.0, pytest.approx(2.0), "the file")
    none = replace(OPERATOR, of_tvm=None)._peer(1e-3, None)
    assert none == {"peer": "TVM", "peer_ms": None, "ratio": None, "peer_from": None}


def test_the_median_counts_what_was_not_reached() -> None:
    ratios = {"ratio": 2.0, "to_pytorch": None, "to_expert": 0.5}
    found = _means([{**ratios, "tuning_ratio": tuning} for tuning in (0.0, 30.0, 50.0, None)])
    assert (found["tuning_ratio"], found["tuning_ratio_least"], found["not_reached"]) == (30.0, 0.0, 1)
    assert (found["ratio"], found["to_pytorch"], found["to_expert_least"]) == (pytest.approx(2.0), None, 0.5)


def test_figures_of_tvm_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    assert read_figures(None) == {}
    path.write_text(json.dumps({"machine": "any", "operators": {"NRM": {"tvm_ms": 2, "tvm_tune_s": 240, "more": 1}}}))
    assert read_figures(path) == {"NRM": TvmFigures(pytest.approx(2e-3), 240.0)}
    for wrong in ("", "[]", '{"operators": {"NRM": {"tvm_ms": 2}}}', '{"operators": {"NRM": 3}}'):
        path.write_text(wrong)
        with pytest.raises(OptionError, match="has no figures of TVM's tuning, which have the form"):
            read_figures(path)
    with pytest.raises(OptionError, match="cannot be read"):
        read_figures(tmp_path / "none.json")

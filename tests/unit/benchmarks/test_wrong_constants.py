"""Constants that are wrong on purpose, and the summary over parts of the benchmark."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import metasched as ms
from benchmarks.wrong_constants import of_files, wrong_core
from metasched.cost.core import DEFAULT_CORE


def test_every_constant_is_wrong_by_a_factor_of_two_to_four() -> None:
    wrong, right = (asdict(core) for core in (wrong_core(DEFAULT_CORE, 1), DEFAULT_CORE))
    assert wrong.pop("throughputs") == right.pop("throughputs")
    factors = [wrong[name] / right[name] for name in right]
    assert all(2 <= max(factor, 1 / factor) <= 4 for factor in factors)
    assert min(factors) < 1 < max(factors)
    assert wrong_core(DEFAULT_CORE, 1) == wrong_core(DEFAULT_CORE, 1) != wrong_core(DEFAULT_CORE, 2)


def test_parts_are_summarised(tmp_path: Path) -> None:
    """Of a pair of searches that was made twice the last line counts; lines of summaries are passed over."""

    def line(layer: str, seed: int, ratio: float) -> str:
        return json.dumps({"case": f"{layer}, seed {seed}", "layer": layer, "ratio": ratio})

    first, second, none = (tmp_path / f"{n}.jsonl" for n in range(3))
    first.write_text("\n".join([line("DEP", 0, 0.1), line("GMM", 0, 0.5), '{"case": "DEP"}']) + "\n")
    second.write_text("\n".join([line("DEP", 0, 0.8), line("DEP", 1, 1.0), line("DEP", 2, 0.9)]) + "\n")
    none.write_text("{}\n")
    depthwise, product, whole = of_files([first, second])
    assert depthwise == {"case": "DEP", "seeds": 3, "median_ratio": 0.9, "worst_ratio": 0.8}
    assert product["median_ratio"] == 0.5
    assert whole["mean_of_medians"] == pytest.approx((0.9 * 0.5) ** 0.5)
    assert whole["worst_median"] == 0.5
    with pytest.raises(ms.MetaschedError, match="no line of searches"):
        of_files([none])

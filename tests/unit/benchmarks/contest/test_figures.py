"""Means, intervals and wins of a contest."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import numpy as np
import pytest

from benchmarks.contest.figures import codes_until, interval, mean_at, ratio_to_other, summary, table, wins
from benchmarks.contest.plot import plot

# Two tasks, of which one has more seeds: (seeds, trials).
GOOD = {"a": np.array([[2.0, 1.0], [2.0, 1.0]]), "b": np.array([[8.0, 1.0], [2.0, 1.0], [4.0, 1.0]])}
POOR = {"a": np.array([[2.0, 2.0], [2.0, 2.0]]), "b": np.array([[4.0, 2.0], [4.0, 2.0], [4.0, 2.0]])}


def test_the_mean_is_geometric_and_tasks_count_alike() -> None:
    assert mean_at(GOOD, 1) == pytest.approx((2 * 4) ** 0.5)
    assert mean_at(GOOD, 2) == 1.0


def test_an_interval_is_of_seeds_and_one_of_a_comparison_of_tasks() -> None:
    low, high = interval(GOOD, 1)
    assert low < mean_at(GOOD, 1) < high
    assert interval(POOR, 1) == pytest.approx((8**0.5, 8**0.5)), "equal seeds leave no doubt"
    ratio, (low, high) = ratio_to_other(POOR, GOOD, 2)
    assert (ratio, low, high) == pytest.approx((2.0, 2.0, 2.0))
    ratio, (low, high) = ratio_to_other(GOOD, {"a": POOR["a"] / 2, "b": POOR["b"]}, 1)
    assert ratio == pytest.approx(2**0.5)
    assert (low, high) == pytest.approx((1.0, 2.0))
    with pytest.raises(ValueError, match="are not those of the other"):
        ratio_to_other(GOOD, {"a": GOOD["a"]}, 1)


def test_codes_until_near_the_best_are_a_median_that_may_be_infinite() -> None:
    assert codes_until(GOOD) == 2.0
    assert codes_until(POOR) == np.inf
    assert codes_until({"a": np.array([[1.0], [1.04], [2.0]])}) == 1.0
    assert codes_until({"a": np.array([[1.0], [2.0]])}) == np.inf, "half of them did not"


def test_who_is_as_good_as_the_best_wins() -> None:
    close = {"a": np.array([[2.008, 1.2]]), "b": np.array([[4.0, 1.0]])}
    found = wins({"good": GOOD, "poor": POOR, "close": close}, 1)
    assert found == {"good": ["a", "b"], "poor": ["a", "b"], "close": ["a", "b"]}
    assert wins({"good": GOOD, "poor": POOR, "close": close}, 2) == {"good": ["a", "b"], "poor": [], "close": ["b"]}


def test_the_summary_is_a_table_the_best_first() -> None:
    lines = summary({"poor": POOR, "good": GOOD}, {"poor": [1.0], "good": [2.0, 4.0]}, "good", (1, 2))
    assert [line["case"] for line in lines] == ["good", "poor"]
    assert lines[1]["over_default"][2][0] == pytest.approx(2.0)  # type: ignore[index]
    assert lines[0]["search_s"] == 3.0
    head, _, good, poor = table(lines, (1, 2)).splitlines()
    assert head.count("|") == good.count("|") == poor.count("|")
    assert "| – |" in poor


def test_the_plot_has_a_line_for_each_contestant() -> None:
    image = ET.fromstring(plot("a < b", {"good": [np.inf, 3, 2, 1.5, 1.2, 1.0], "poor & old": [4.0] * 6}))
    lines = [found for found in image if found.tag.endswith("polyline")]
    assert len(lines) == 2
    assert all(len(line.get("points", "").split()) == 3 for line in lines), "from the fourth code on"
    assert any(found.text == "poor & old" for found in image)

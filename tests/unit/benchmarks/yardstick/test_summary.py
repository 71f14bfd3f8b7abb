"""Figures over tasks, their intervals, and the table of all."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.yardstick.evaluation import Protocol, Verdict
from benchmarks.yardstick.summary import summary
from benchmarks.yardstick.table import table
from metasched.cost.learning.figures import FIGURES, columns_of, interval
from metasched.cost.learning.ranking import judge

TIMES = np.arange(1.0, 65.0)


def verdict(name: str = "it") -> Verdict:
    """One task that is ranked right, and one ten times as long whose order is reversed; the same for two seeds."""
    right = judge("right", -TIMES, TIMES, TIMES)
    reversed_ = judge("reversed", TIMES, 2 * TIMES, 10 * TIMES, known=5.0)
    return Verdict(name, Protocol.UNSEEN, "space", 2, ((right, reversed_), (right, reversed_)))


def test_figures_are_means_over_tasks() -> None:
    line = summary(verdict())
    assert (line["tasks"], line["seeds"]) == (2, 2)
    assert line["pair_accuracy"] == 0.5
    assert line["pair_accuracy_worst"] == 0.0
    assert line["worst_tasks"] == {"reversed": 0.0, "right": 1.0}
    assert line["recall_10_in_30"] == 0.5
    assert line["twelve_pair_accuracy"] is None


def test_the_twelve_are_told_apart() -> None:
    tasks = [judge(name, -TIMES, None, TIMES, suite=name) for name in ("C1D", "C2D")]
    tasks += [judge("C3D", TIMES, None, TIMES, suite="C3D"), judge("other", TIMES, None, TIMES)]
    line = summary(Verdict("it", Protocol.UNSEEN, "space", 1, (tuple(tasks),)))
    assert line["twelve"] == 3
    assert line["twelve_pair_accuracy"] == pytest.approx(2 / 3)
    assert line["twelve_pair_accuracy_worst"] == 0.0


def test_regret_is_a_geometric_mean() -> None:
    line = summary(verdict())
    assert line["regret_1"] == pytest.approx(8.0)  # of 1 and 64
    assert line["regret_16"] == pytest.approx(7.0)  # of 1 and 49
    assert line["regret_1_of_known"] == pytest.approx(128**0.5)


def test_the_top_k_score_is_of_sums_over_tasks() -> None:
    line = summary(verdict())
    assert line["top1_score"] == pytest.approx((1 + 10) / (1 + 640))
    assert line["top5_score"] == pytest.approx((1 + 10) / (1 + 600))


def test_calibration_is_over_tasks_and_inside_them() -> None:
    line = summary(verdict())
    assert line["log2_expected_over_measured"] == pytest.approx(np.log2(0.2) / 2)
    assert line["spread_in_task"] == 0.0
    none = Verdict("it", Protocol.UNSEEN, "space", 1, ((judge("x", -TIMES, None, TIMES),),))
    assert summary(none)["log2_expected_over_measured"] is None


def test_an_interval_holds_the_mean_and_shrinks_with_tasks() -> None:
    rng = np.random.default_rng(0)
    few, many = ({"pairs": rng.normal(0.8, 0.1, count)} for count in (10, 1000))
    figure = FIGURES["pair_accuracy"]
    widths = []
    for columns in (few, many):
        low, high = interval(columns, figure)
        assert low < figure(columns) < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 5
    assert widths[1] == pytest.approx(2 * 1.96 * 0.1 / 1000**0.5, rel=0.2)


def test_one_task_has_no_interval_to_speak_of() -> None:
    columns = columns_of([judge("x", -TIMES, TIMES, TIMES)])
    assert all(interval(columns, figure)[0] == interval(columns, figure)[1] for figure in FIGURES.values())


def test_the_table_has_a_row_for_each_model() -> None:
    text = table([summary(verdict("one")), summary(verdict("other"))])
    heading, _, titles, rule, *rows = text.splitlines()
    assert heading == "families never seen; pool space; 2 tasks"
    assert {line.count("|") for line in (titles, rule, *rows)} == {titles.count("|")}
    assert [row.split("|")[1].strip() for row in rows] == ["one", "other"]
    assert "| .500 (.000 to 1.00) | .000 |" in rows[0]

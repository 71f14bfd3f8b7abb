"""Lines that several reads of a statement have in common come into a cache once."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.statement import StatementView
from metasched.cost.program.nest import Analyses, analyse
from metasched.ir.integers.evaluate import Evaluator
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from metasched.target import Target

TARGET = Target("skylake-avx512", frozenset({"avx512f", "fma"}), 1, 48 << 10, 1 << 20, 64 << 20)


def lines(text: str, level: int = 0) -> list[float]:
    """Lines that each read of the first statement brings, under its loops from a level on."""
    analyses = Analyses()
    statement = analyse(Schedule(parse_program(text), seed=0).func, analyses).statements[0]
    sizes = [np.asarray(size, np.float32) for size in Evaluator(analyses.table.exprs)({})]
    view = StatementView(statement, sizes, 1, TARGET, DEFAULT_CORE)
    return [float(footprint.lines[level][0]) for footprint in view.footprints[1:]]


ROW = "program row(X: f32[4098]) -> Y: f32[4096]:\n    Y[i < 4096] = X[i] + X[i + 1] + X[i + 2]\n"
COLUMN = "program column(X: f32[66, 1024]) -> Y: f32[64, 1024]:\n    Y[i < 64, j] = X[i, j] + X[i + 1, j]\n"
FAR = "program far(X: f32[64, 2048]) -> Y: f32[64, 1024]:\n    Y[i, j < 1024] = X[i, j] + X[i, j + 1024]\n"
TURNED = "program turned(v: f32[4096, 3]) -> w: f32[4096, 3]:\n    w[n, i] = v[n, i] - v[n, (i + 1) % 3]\n"
ACROSS = "program across(A: f32[512, 512]) -> S: f32[512, 512]:\n    S[i, j] = A[i, j] + A[j, i]\n"


def test_neighbours_of_an_element_lie_in_its_lines() -> None:
    first, *others = lines(ROW)
    assert first == pytest.approx(4096 / 16, abs=1)
    assert sum(others) < 0.01 * first


@pytest.mark.parametrize(("level", "share"), [(0, 1 / 64), (1, 1.0)], ids=["of all rows", "of one row"])
def test_the_next_row_is_another_within_a_row_and_one_of_many_over_all(level: int, share: float) -> None:
    first, other = lines(COLUMN, level)
    assert other == pytest.approx(share * first, rel=0.05)


def test_what_is_apart_has_lines_of_its_own() -> None:
    first, other = lines(FAR, 1)
    assert other > 0.98 * first


def test_elements_of_a_short_row_in_another_order_are_in_its_lines() -> None:
    assert lines(TURNED)[1] == 0


def test_another_way_through_a_matrix_is_not_known_to_share_lines() -> None:
    first, other = lines(ACROSS)
    assert other == first


def test_rows_that_only_one_read_goes_through_as_one_are_not_compared() -> None:
    text = "program both(A: f32[28, 28]) -> S: f32[784]:\n    S[f < 784] = A[f // 28, f % 28] + A[f % 28, f // 28]\n"
    first, other = lines(text)
    assert first == 49
    assert other >= 49

"""Waits for what was stored just before, of which vectors take parts of two stores."""

from __future__ import annotations

import numpy as np
import pytest

from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.handed_on import waits_for_stores
from metasched.cost.estimate.reuse_between_statements import views_of
from metasched.cost.estimate.statement import StatementView
from metasched.cost.program.nest import Analyses, analyse
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Func
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from metasched.target import Target

TARGET = Target("skylake-avx512", frozenset({"avx512f", "fma"}), 1, 48 << 10, 1 << 20, 64 << 20)
ALONG_ROWS = "Y[i, j, k] = max[r < 3](T[i, j, k + r])"
DOWN_COLUMNS = "Y[i, j, k] = max[r < 3](T[i, j, k] + X[i, j, r])"


def second_view(text: str, at: str) -> StatementView:
    """The view of a second statement, in vectors along its rows, where the first is computed at a loop of it."""
    schedule = Schedule(
        parse_program(f"""program p(X: f32[64, 28, 34]) -> Y: f32[64, 28, 32]:
    T[i, j, k] = X[i, j, k] + 1.0
    {text}
""")
    )
    result = schedule.get_block("Y")
    loops = dict(zip(("plane", "row", "column", "term"), schedule.get_loops(result), strict=True))
    schedule.reorder(loops["term"], loops["column"])
    schedule.compute_at(schedule.get_block("T"), loops[at])
    schedule.vectorize(loops["column"], lanes=16)
    return views(schedule.func)[-1]


def views(func: Func) -> list[StatementView]:
    analyses = Analyses()
    nest = analyse(func, analyses)
    sizes = [np.asarray(size, np.float32) for size in Evaluator(analyses.table.exprs)({})]
    return views_of(nest, sizes, 1, TARGET, DEFAULT_CORE)


@pytest.mark.parametrize(("at", "times"), [("plane", 64), ("row", 64 * 28)])
def test_windows_along_rows_wait_once_in_each_iteration_around_both(at: str, times: int) -> None:
    assert waits_for_stores(second_view(ALONG_ROWS, at)) == times * DEFAULT_CORE.split_load


def test_vectors_that_were_stored_so_do_not_wait() -> None:
    assert waits_for_stores(second_view(DOWN_COLUMNS, "row")) == 0


def test_what_is_computed_in_a_loop_lies_in_one_place() -> None:
    """One row of the first statement's result is in the caches, however many there are."""
    row = second_view(ALONG_ROWS, "row").footprints[1].lines
    assert row[0] == row[2] == np.ceil(34 * 4 / 64)

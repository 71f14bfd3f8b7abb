"""What a statement finds in the caches because one before it, in the same iteration, has just used it."""

from __future__ import annotations

import numpy as np

from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.reuse_between_statements import views_of
from metasched.cost.estimate.statement import StatementView
from metasched.cost.program.earlier_uses import EarlierUse
from metasched.cost.program.nest import Analyses, analyse
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Func
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from metasched.target import Target

TARGET = Target("skylake-avx512", frozenset({"avx512f", "fma"}), 1, 48 << 10, 1 << 20, 64 << 20)
ROWS = """program scaled[N=4096, M=1024](X: f32[N, M]) -> Y: f32[N, M]:
    s[i] = max[j](X[i, j])
    Y[i, j] = X[i, j] - s[i]
"""


def views(func: Func) -> list[StatementView]:
    analyses = Analyses()
    nest = analyse(func, analyses)
    sizes = [np.asarray(size, np.float32) for size in Evaluator(analyses.table.exprs)({})]
    return views_of(nest, sizes, 1, TARGET, DEFAULT_CORE)


def scaled(*, by_row: bool, text: str = ROWS) -> Func:
    schedule = Schedule(parse_program(text), seed=0)
    if by_row:
        rows = schedule.get_loops(schedule.get_block("Y"))[0]
        schedule.compute_at(schedule.get_block("s"), rows)
    return schedule.func


def bytes_moved(func: Func, cache: int) -> tuple[float, float]:
    """Bytes of `X` that the two statements bring into a cache."""
    first, second = views(func)
    return float(first.traffic[cache][1][0]), float(second.traffic[cache][1][0])


def test_a_row_that_was_just_read_is_still_in_the_caches() -> None:
    func = scaled(by_row=True)
    for cache in range(2):
        first, second = bytes_moved(func, cache)
        assert first >= 4096 * 1024 * 4
        assert second == 0


def test_what_is_read_in_a_loop_of_its_own_comes_again() -> None:
    for cache in range(2):
        first, second = bytes_moved(scaled(by_row=False), cache)
        assert first == second >= 4096 * 1024 * 4


def test_a_row_that_a_cache_does_not_hold_comes_again() -> None:
    """A row of 128 KiB is in the second cache, and not in the first."""
    func = scaled(by_row=True, text=ROWS.replace("M=1024", "M=32768").replace("N=4096", "N=128"))
    assert bytes_moved(func, 0)[1] > 0
    assert bytes_moved(func, 1)[1] == 0


def test_uses_name_the_nearest_statement_and_the_loops_around_both() -> None:
    nest = analyse(scaled(by_row=True), Analyses())
    of_x = EarlierUse(1, 0, 1, ((0, 1), (1, 1)))
    of_s = EarlierUse(2, 0, 0, ((0, 1), (1, 1)))
    assert nest.earlier_uses == ((), (of_x, of_s))
    assert analyse(scaled(by_row=False), Analyses()).earlier_uses == ((), ())


def test_a_parallel_loop_that_was_taken_apart_counts_as_its_loops() -> None:
    text = """program scaled(X: f32[8, 512, 64]) -> Y: f32[8, 512, 64]:
    s[b, i] = max[j](X[b, i, j])
    Y[b, i, j] = X[b, i, j] - s[b, i]
    """
    schedule = Schedule(parse_program(text), seed=0)
    block = schedule.get_block("Y")
    b, i, _ = schedule.get_loops(block)
    rows = schedule.fuse(b, i)
    schedule.parallel(rows)
    schedule.compute_at(schedule.get_block("s"), rows)
    nest = analyse(schedule.func, Analyses())
    assert len(schedule.get_loops(block)) == 2
    assert len(nest.statements[1].loops) == 3
    assert {level for uses in nest.earlier_uses for use in uses for _, level in use.levels} == {2}

"""Footprints against counting: every element and line that a small nest touches, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.cost.estimate.footprint import Ranges, footprint_of, usable_sets
from metasched.cost.memory import conflicts
from metasched.cost.program.nest import Analyses, Statement, StatementAccess, analyse
from metasched.dtypes import DType
from metasched.ir.integers.evaluate import Evaluator, evaluate
from metasched.ir.nodes import Block, Buffer, Const, Expr, For, Func, IterKind, IterVar, Load, Store, Var


def nest_of(
    loops: dict[str, int], indices: tuple[Expr, ...], shape: tuple[int, ...]
) -> tuple[Statement, list[np.ndarray]]:
    """A statement that reads A at `indices` under `loops`."""
    iters = tuple(IterVar(f"v{name}", Const(extent), IterKind.SPATIAL) for name, extent in loops.items())
    store = Store("B", tuple(Var(it.name) for it in iters), Load("A", indices, DType.F32))
    body: Block | For = Block("b", iters, tuple(Var(name) for name in loops), (), store)
    for name, extent in reversed(loops.items()):
        body = For(name, Const(extent), body)
    a = Buffer("A", tuple(Const(e) for e in shape), DType.F32)
    b = Buffer("B", tuple(Const(e) for e in loops.values()), DType.F32)
    analyses = Analyses()
    statement = analyse(Func("f", (a,), (), ("A",), (b,), (), body), analyses).statements[0]
    return statement, [np.asarray(v, np.float32) for v in Evaluator(analyses.table.exprs)({})]


def touched(loops: dict[str, int], indices: tuple[Expr, ...], level: int) -> set[tuple[int, ...]]:
    """Elements read while the first `level` loops stand at 0."""
    spans = [range(1) if n < level else range(extent) for n, extent in enumerate(loops.values())]
    found = set()
    for point in itertools.product(*spans):
        env = {f"v{name}": value for name, value in zip(loops, point, strict=True)}
        found.add(tuple(int(evaluate(e, env)) for e in indices))
    return found


VI, VJ, VK = Var("vi"), Var("vj"), Var("vk")
EXTENTS = st.sampled_from([1, 2, 3, 5])


@given(i=EXTENTS, j=EXTENTS, k=EXTENTS, case=st.integers(0, 4))
def test_elements_equal_counting_where_each_loop_has_one_term(i: int, j: int, k: int, case: int) -> None:
    loops = {"i": i, "j": j, "k": k}
    indices: tuple[Expr, ...] = [
        (VI, VK),
        (VK, VJ),
        (VI * Const(j) + VJ, VK),
        (VI, VI * 0 + VK, VJ),
        (VI + VJ, VK),
    ][case]
    statement, sizes = nest_of(loops, indices, (25, 25, 25)[: len(indices)])
    footprint = footprint_of(statement.accesses[1], Ranges(statement, sizes, 1))
    for level in range(4):
        assert footprint.elements[level, 0] == len(touched(loops, indices, level))


def test_lines_merge_rows_that_are_read_whole() -> None:
    loops = {"i": 4, "j": 8}
    statement, sizes = nest_of(loops, (VI, VJ), (4, 8))
    assert footprint_of(statement.accesses[1], Ranges(statement, sizes, 1)).lines[0, 0] == 2
    statement, sizes = nest_of(loops, (VI, VJ), (4, 800))
    assert footprint_of(statement.accesses[1], Ranges(statement, sizes, 1)).lines[0, 0] == 4


def lines_touched(loops: dict[str, int], indices: tuple[Expr, ...], shape: tuple[int, ...], level: int) -> int:
    """Lines of 16 elements that are read while the first `level` loops stand at 0, one by one."""
    return len({int(np.ravel_multi_index(at, shape)) // 16 for at in touched(loops, indices, level)})


@given(i=st.integers(1, 6), j=st.integers(1, 6), k=EXTENTS, step=st.integers(1, 4), case=st.integers(0, 2))
def test_elements_of_strided_reads_equal_counting(i: int, j: int, k: int, step: int, case: int) -> None:
    loops = {"k": k, "i": i, "j": j}
    indices: tuple[Expr, ...] = [
        (VI * Const(step), VJ),
        (VI * Const(step) + VK * Const(step * 6), VJ),
        (VI, VJ * Const(step)),
    ][case]
    statement, sizes = nest_of(loops, indices, (240, 240))
    footprint = footprint_of(statement.accesses[1], Ranges(statement, sizes, 1))
    for level in range(4):
        assert footprint.elements[level, 0] == len(touched(loops, indices, level))


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_window_that_moves_by_strides_has_the_rows_that_it_reads(step: int) -> None:
    loops = {"k": 3, "i": 10}
    statement, sizes = nest_of(loops, (VI * Const(step) + VK,), (100,))
    elements = footprint_of(statement.accesses[1], Ranges(statement, sizes, 1)).elements[:, 0]
    assert elements.tolist() == [len(touched(loops, (VI * Const(step) + VK,), level)) for level in range(3)]


@pytest.mark.parametrize(("channels", "step"), [(3, 1), (3, 2), (4, 2), (8, 1), (16, 2), (64, 1)])
def test_pixels_nearer_than_a_line_share_lines(channels: int, step: int) -> None:
    loops, shape = {"k": channels, "i": 32}, (80, channels)
    indices = (VI * Const(step), VK)
    statement, sizes = nest_of(loops, indices, shape)
    footprint = footprint_of(statement.accesses[1], Ranges(statement, sizes, 1))
    for level in range(3):
        counted = lines_touched(loops, indices, shape, level)
        assert counted <= footprint.lines[level, 0] <= counted + 1


def test_no_part_of_a_nest_touches_more_lines_than_the_nest() -> None:
    # A column of 32 rows of 9 elements: 18 lines; of all 9 columns as many.
    statement, sizes = nest_of({"k": 9, "i": 32}, (VI, VK), (32, 9))
    lines = footprint_of(statement.accesses[1], Ranges(statement, sizes, 1)).lines[:, 0]
    assert lines.tolist() == [18, 18, 1]


@pytest.mark.parametrize(("row", "crowded"), [(1024, True), (1040, False)])
def test_power_of_two_rows_collide(row: int, crowded: bool) -> None:
    loops = {"i": 64, "j": 16}
    statement, sizes = nest_of(loops, (VI, VJ), (64, row))
    access: StatementAccess = statement.accesses[1]
    footprint = footprint_of(access, Ranges(statement, sizes, 1))
    ratio = conflicts(footprint.lines / usable_sets(footprint, access.element_bytes), np.zeros(1, np.int64), 32768)
    # 64 rows of one line each, 4 KB apart: eight of them fit the ways of their one set.
    assert (ratio[0] > 1) == crowded


@pytest.mark.parametrize(("heads", "crowded"), [(16, True), (15, False)])
def test_rows_collide_that_another_dimension_lies_between(heads: int, crowded: bool) -> None:
    """Attention reads a head of each row: 64 of 16 x 64 floats are 4 KB apart."""
    statement, sizes = nest_of({"i": 64, "j": 64}, (VI, Const(0), VJ), (64, heads, 64))
    access: StatementAccess = statement.accesses[1]
    footprint = footprint_of(access, Ranges(statement, sizes, 1))
    share = usable_sets(footprint, access.element_bytes)[0, 0]
    assert share == (4 / 64 if crowded else 1.0)

from __future__ import annotations

from typing import Any

import pytest

from metasched.lang.instructions import HOLE
from metasched.schedule.handlers import Policy, Repair
from metasched.schedule.module import module, rerun
from metasched.schedule.trace import Schedule, Trace
from metasched.schedule.values import BlockRV, LoopRV
from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, fails, program


@module
def halve(sch: Schedule, loop: LoopRV) -> list[LoopRV]:
    """Split by a sampled size."""
    parts: list[LoopRV] = sch.split(loop, sch.sample_tile(loop, name="size"))
    return parts


@module
def tile(sch: Schedule, block: BlockRV, *, how: str = "rows") -> list[LoopRV]:
    i, j, _ = sch.get_loops(block)
    return halve(sch, i if how == "rows" else j)


def dense(sch: Schedule) -> None:
    how = sch.choose("how", ["rows", "columns"])
    outer, _ = tile(sch, sch.get_block("dense"), how=how)
    sch.parallel(outer)


def test_modules_open_scopes_and_return_handles() -> None:
    sch = Schedule(program())
    outer, inner = tile(sch, sch.get_block("dense"))
    assert (outer.label, inner.label) == ("i_0", "i_1")
    assert [r.site.address for r in sch.sites] == ["tile(dense)/halve(i)/size"]
    assert tile.__name__ == "tile"
    assert halve.__doc__ == "Split by a sampled size."


def test_a_module_without_a_handle_has_its_name_alone() -> None:
    @module
    def all_of_it(sch: Schedule, size: int) -> int:
        return sch.choose("x", [size, size + 1])

    sch = Schedule(program())
    all_of_it(sch, 3)
    all_of_it(sch, 3)
    assert [r.site.address for r in sch.sites] == ["all_of_it/x", "all_of_it/x#2"]


@pytest.mark.parametrize("args", [(), ("dense",)])
def test_a_module_wants_a_schedule(args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="module tile: the first argument must be a Schedule"):
        tile(*args)


def test_running_again_with_the_decisions_of_a_trace() -> None:
    for seed in range(4):
        first = Schedule(program(), seed=seed)
        dense(first)
        again = rerun(dense, program(), decisions=first.trace)
        assert again.trace == first.trace
        assert again.func == first.func
        checked(again)


def test_matching_is_by_address_and_not_by_position() -> None:
    def other_order(sch: Schedule) -> None:
        sch.sample_categorical([1, 2, 4], name="first")
        sch.sample_categorical([1, 2, 4], name="second")

    def this_order(sch: Schedule) -> None:
        sch.sample_categorical([1, 2, 4], name="second")
        sch.sample_categorical([1, 2, 4], name="first")

    drawn = Schedule(program(), seed=5)
    other_order(drawn)
    trace = drawn.trace.with_decisions({"first": 1, "second": 4})
    assert rerun(this_order, program(), trace).trace.decisions == {"second": 4, "first": 1}


def test_missing_decisions() -> None:
    holes = rows_trace().with_decisions({"tile(dense)/halve(i)/size": None})
    with fails('sample_tile: no decision is given for "tile(dense)/halve(i)/size"'):
        rerun(dense, program(), holes)


def rows_trace() -> Trace:
    return Trace.parse(
        "trace 1 of dense_relu[N=11, M=9, K=7]:\n"
        '    how ~ choose("rows", "columns") @ "how" := "rows"\n'
        '    dense = get_block("dense")\n'
        "    i, j, k = get_loops(dense)\n"
        '    t0, t1 ~ sample_tile(i) @ "tile(dense)/halve(i)/size" := [_, 4]\n'
    )


def test_left_over_decisions() -> None:
    """Other structure: one variable is missing now, and another one is left over."""
    columns = rows_trace().with_decisions({"how": "columns"})
    with fails('sample_tile: no decision is given for "tile(dense)/halve(j)/size"'):
        rerun(dense, program(), columns)

    def shorter(sch: Schedule) -> None:
        sch.choose("how", ["rows", "columns"])

    hint = "the module has changed since; use Policy.REPAIR to drop such decisions"
    with fails('shorter: the trace decides "tile(dense)/halve(i)/size", which the module never asked for', hint):
        rerun(shorter, program(), rows_trace())


def test_repairing_a_rerun_draws_mends_and_drops() -> None:
    columns = rows_trace().with_decisions({"how": "columns"})
    sch = rerun(dense, program(), columns, Policy.REPAIR, seed=2)
    drawn = sch.trace.decisions["tile(dense)/halve(j)/size"]
    assert Repair("tile(dense)/halve(j)/size", None, drawn) in sch.repairs
    assert Repair("tile(dense)/halve(i)/size", (HOLE, 4), None) in sch.repairs
    assert rerun(dense, program(), columns, Policy.REPAIR, seed=2).trace == sch.trace
    checked(sch)


def test_a_rerun_on_another_shape() -> None:
    small = program(DENSE_RELU, N=3)
    with fails(
        'sample_tile: the decision [_, 4] at "tile(dense)/halve(i)/size" is not in the support '
        "(1 inner factor of 3, the innermost at most 64)"
    ):
        rerun(dense, small, rows_trace())
    sch = rerun(dense, small, rows_trace(), Policy.REPAIR)
    assert sch.repairs == [Repair("tile(dense)/halve(i)/size", (HOLE, 4), (HOLE, 3))]
    checked(sch)

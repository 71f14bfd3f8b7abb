"""The rule that takes running reductions in blocks."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.ir import query
from tests.support.rulework import apply, correct, reasons, rule

RUNNING = """
program running[M=3, N=300](X: f32[M, N]) -> Y: f32[M, N]:
    Y[i, j < N] = sum[k < N if k <= j](X[i, k])
"""
ADDRESS = "scans(Y)/blocks"


def choices(text: str, spec: str | ms.Rule = "scans", **params: int) -> set[object]:
    return {apply(text, spec, seed=seed, **params)[0].trace.decisions[ADDRESS] for seed in range(30)}


def test_blocks_of_several_sizes_or_each_element_as_it_is() -> None:
    assert choices(RUNNING) == {"of 8", "of 16", "of 32", "of 64", ms.LEFT_ALONE}


def test_long_rows_are_always_taken_in_blocks() -> None:
    assert choices(RUNNING, N=5000) == {"of 8", "of 16", "of 32", "of 64"}


def test_blocks_are_smaller_than_rows() -> None:
    assert choices(RUNNING, rule("scans")(few=16), N=48) == {"of 8", "of 16", "of 32", ms.LEFT_ALONE}
    assert choices(RUNNING, rule("scans")(sizes=(1000, 8))) == {"of 8", ms.LEFT_ALONE}
    assert reasons(RUNNING, rule("scans")(sizes=(1000,))) == {
        "Y": "decompose_scan: 1000 elements are no block of the 300 of `Y`"
    }
    assert reasons(RUNNING, rule("scans")(sizes=())) == {"Y": "no size of a block is given"}


@pytest.mark.parametrize("seed", range(6))
def test_what_it_makes_is_right(seed: int) -> None:
    correct(apply(RUNNING, "scans", seed=seed)[0])


@pytest.mark.parametrize("text", [RUNNING, RUNNING.replace("k <= j", "k < j and X[i, k] > 0")])
def test_whole_numbers_go_on_from_one_another(text: str) -> None:
    sch = apply(text.replace("f32", "i64"), "scans", N=40)[0]
    assert [loop.kind for loop in query.loops(sch.func)] == [ms.LoopKind.SERIAL, *[ms.LoopKind.CARRIED] * 2]
    correct(sch)


def test_whole_numbers_from_the_end_on_are_taken_in_blocks() -> None:
    assert choices(RUNNING.replace("k <= j", "k >= j").replace("f32", "i64"))


def test_many_blocks_are_taken_in_blocks_in_turn() -> None:
    names = {
        str(sch.trace.decisions[ADDRESS]): sch.block_names()
        for sch in (apply(RUNNING, "scans", seed=seed, N=5000)[0] for seed in range(30))
    }
    assert [name for name in names["of 64"] if "before" in name] == [
        "Y.before.within",
        "Y.before.totals",
        "Y.before.before",
        "Y.before",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (RUNNING.replace("N=300", "N=40"), "its rows are short (40 elements)"),
        (RUNNING.replace(" if k <= j", ""), "it is no reduction whose terms have a condition"),
    ],
)
def test_why_not(text: str, reason: str) -> None:
    assert reasons(text, "scans") == {"Y": reason}


def test_a_condition_that_is_no_relation_of_the_two() -> None:
    text = RUNNING.replace("k <= j", "(k + j) % 2 == 0")
    (reason,) = reasons(text, "scans").values()
    assert reason is not None
    assert "no running reduction" in reason


COLUMNS = """
program columns[B=2, N=300, M=40](X: f32[B, N, M]) -> Y: f32[B, N, M]:
    Y[b, i < N, j] = sum[k < N if k <= i](X[b, k, j])
"""


def test_rows_of_columns_go_on_from_one_another() -> None:
    sch = apply(COLUMNS, "scans", M=2000)[0]
    assert sch.block_names() == ("Y",)
    assert [loop.kind for loop in query.loops(sch.func)].count(ms.LoopKind.CARRIED) == 2
    widths = {apply(COLUMNS, "scans", seed=n, M=2000)[0].trace.decisions["scans(Y)/columns"] for n in range(30)}
    assert widths == {2000, 256, 512, 1024}


@pytest.mark.parametrize("seed", range(4))
def test_threads_and_lanes_are_for_columns(seed: int) -> None:
    sch = apply(COLUMNS, "scans", "parallelize", "vectorize", seed=seed, M=600)[0]
    kinds = [loop.kind for loop in query.loops(sch.func)]
    assert kinds == [ms.LoopKind.PARALLEL, ms.LoopKind.CARRIED, ms.LoopKind.CARRIED, ms.LoopKind.VECTORIZED]
    correct(sch)


def test_few_columns_and_sums_from_the_end_are_in_blocks() -> None:
    assert choices(COLUMNS, M=4) == {"of 8", "of 16", "of 32", "of 64", ms.LEFT_ALONE}
    assert choices(COLUMNS.replace("k <= i", "k > i")) == {"of 8", "of 16", "of 32", "of 64", ms.LEFT_ALONE}

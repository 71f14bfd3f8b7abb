from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import metasched as ms
from metasched.schedule.block_queries import block_queries
from metasched.schedule.kinds import ArgumentKind
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL, ROWS
from tests.support.schedules import program

TRANSPOSE = """
program transpose[N=5, M=6](A: f32[M, N], B: f32[N]) -> C: f32[N, M]:
    C[i, j] = exp(A[j, i] / B[i])
"""


def ask(sch: ms.Schedule, name: str, *values: str) -> Any:
    return block_queries()[name].run(sch.context, *values)


@pytest.mark.parametrize(
    ("text", "block", "expected"),
    [
        (
            DENSE_RELU,
            "dense",
            {"reduces": True, "initialises": True, "output": False, "conditional": False, "divides": False}
            | {"elementwise": False, "trivial": True, "reuses": True, "transposes": False, "name": "dense"}
            | {"reads": ("A", "B"), "rank": 2, "results": 99, "terms": 7},
        ),
        (
            DENSE_RELU,
            "relu",
            {"reduces": False, "initialises": False, "output": True, "elementwise": True, "reuses": False}
            | {"transposes": False, "reads": ("C",), "terms": 1, "results": 99},
        ),
        (
            TRANSPOSE,
            "C",
            {"transposes": True, "divides": True, "elementwise": True, "reads": ("A", "B"), "reuses": True},
        ),
        (RELU_PAD_MATMUL, "pad", {"conditional": True, "transposes": False}),
        (CONV, "conv", {"rank": 3, "terms": 18, "reads": ("Xp", "K")}),
        (ROWS, "apart", {"reads": ("A", "M"), "reuses": True, "transposes": False}),
    ],
)
def test_of_blocks(text: str, block: str, expected: dict[str, object]) -> None:
    sch = ms.Schedule(program(text))
    assert {name: ask(sch, name, block) for name in expected} == expected


def test_calls() -> None:
    sch = ms.Schedule(program(TRANSPOSE))
    assert ask(sch, "calls", "C", "exp", "log")
    assert not ask(sch, "calls", "C", "log")
    assert not ask(sch, "calls", "C")


def test_of_loops() -> None:
    sch = ms.Schedule(program(DENSE_RELU))
    block = sch.get_block("dense")
    i, _, k = sch.get_loops(block)
    assert [ask(sch, "spatial", loop) for loop in "ijk"] == [True, True, False]
    assert [ask(sch, "extent", loop) for loop in "ijk"] == [11, 9, 7]
    assert [ask(sch, "alone", loop) for loop in "ijk"] == [True, True, True]
    sch.reverse_compute_at(sch.get_block("relu"), i)
    assert [ask(sch, "alone", loop) for loop in "ijk"] == [False, True, True]
    sch.unroll(k)
    assert [ask(sch, "serial", loop) for loop in "ijk"] == [True, True, False]
    assert not ask(sch, "trivial", "relu")


def test_after_a_split_and_after_initialisation() -> None:
    sch = ms.Schedule(program(DENSE_RELU))
    block = sch.get_block("dense")
    i, j, k = sch.get_loops(block)
    sch.reorder(k, i, j)
    sch.split(i, [None, 2])
    assert not ask(sch, "trivial", "dense")
    sch = ms.Schedule(program(DENSE_RELU))
    block = sch.get_block("dense")
    sch.decompose_reduction(block, sch.get_loops(block)[-1])
    assert ask(sch, "reduces", "dense")
    assert not ask(sch, "initialises", "dense")


def test_what_depends_on_tile_sizes_is_not_known() -> None:
    seen = []

    def module(sch: ms.Schedule) -> None:
        (i, *_) = sch.get_loops(sch.get_block("dense"))
        outer, _ = sch.split(i, sch.sample_tile(i))
        seen.append(ask(sch, "extent", str(outer)))

    list(ms.space(program(DENSE_RELU), module))
    assert seen == [None]


def test_of_the_program() -> None:
    sch = ms.Schedule(program(DENSE_RELU))
    assert ask(sch, "has_block", "relu")
    assert not ask(sch, "has_block", "none")


def test_what_is_not_there() -> None:
    sch = ms.Schedule(program(DENSE_RELU))
    for name, declaration in block_queries().items():
        kinds = [p.kind for p in declaration.params if not p.variadic]
        if kinds[0] is ArgumentKind.STR:
            continue
        with pytest.raises(ms.ScheduleError, match=r"no longer exists|there is no block"):
            ask(sch, name, "none")


def test_each_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "language.md").read_text()
    for name, declaration in block_queries().items():
        assert declaration.pure
        assert not declaration.random
        assert f"`{declaration.signature}`" in text, f"docs/language.md lacks the query {name}"

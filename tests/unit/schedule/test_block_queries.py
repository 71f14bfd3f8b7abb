from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.schedule.block_queries import QueryContext, block_queries
from metasched.schedule.kinds import ArgumentKind
from metasched.target import Target
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL, ROWS
from tests.support.schedules import program

TRANSPOSE = """
program transpose[N=5, M=6](A: f32[M, N], B: f32[N]) -> C: f32[N, M]:
    C[i, j] = exp(A[j, i] / B[i])
"""


def ask(sch: ms.Schedule, name: str, *values: str) -> Any:
    return block_queries()[name].run(QueryContext.of(sch.context, lambda: sch.target), *values)


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


SMALL = Target("haswell", frozenset({"avx", "avx2", "fma"}), 3, 1 << 15, 1 << 18, 1 << 23)
BF16 = """
program p[N=4, K=8](A: bf16[N, K], B: i8[K], C: bf16[N, K]) -> D: f32[N]:
    D[i] = sum[k](f32(A[i, k]) * f32(B[k]) + f32(C[i, k]) * f32(A[i, k]))
"""


def test_of_element_types() -> None:
    sch = ms.Schedule(program(BF16))
    assert ask(sch, "dtype", "D") == "f32"
    assert ask(sch, "reads", "D") == ("A", "B", "C")
    assert ask(sch, "operand_dtypes", "D") == ("bf16", "i8", "bf16")
    info = sch.describe(sch.get_block("D"))
    assert info.dtype is DType.F32
    assert [read.dtype for read in info.reads] == [DType.BF16, DType.I8, DType.BF16, DType.BF16]


def test_of_the_target() -> None:
    sch = ms.Schedule(program(DENSE_RELU), SMALL)
    assert ask(sch, "target_has", "avx2") is True
    assert ask(sch, "target_has", "amx-bf16") is False
    assert [ask(sch, f"target_{name}") for name in ("l1", "l2", "l3", "threads")] == [1 << 15, 1 << 18, 1 << 23, 3]
    assert [ask(sch, "target_lanes", name) for name in ("f32", "i8")] == [8, 32]
    with pytest.raises(ms.ScheduleError, match='there is no element type "f31"'):
        ask(sch, "target_lanes", "f31")
    with pytest.raises(ms.MetaschedError, match=r"no instruction set `amx-bf15`\n  hint: did you mean `amx-bf16`"):
        ask(sch, "target_has", "amx-bf15")


def test_what_is_not_there() -> None:
    sch = ms.Schedule(program(DENSE_RELU))
    for name, declaration in block_queries().items():
        kinds = [p.kind for p in declaration.params if not p.variadic]
        if not set(kinds) & {ArgumentKind.BLOCK, ArgumentKind.LOOP}:
            continue
        with pytest.raises(ms.ScheduleError, match=r"no longer exists|there is no block"):
            ask(sch, name, "none")


def test_each_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "language.md").read_text()
    for name, declaration in block_queries().items():
        assert declaration.pure
        assert not declaration.random
        assert f"`{declaration.signature}`" in text, f"docs/language.md lacks the query {name}"

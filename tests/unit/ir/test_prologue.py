"""Programs divided for constant arguments: what is computed ahead, and what every call computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import metasched as ms
from metasched.ir.nodes import Func
from metasched.ir.prologue import constants, divide, main_part, unpacks
from metasched.ir.query import blocks, find_block
from metasched.ir.validate import validate

TEXT = """
program layer[N=6, M=8, K=4](X: f32[N, K], alpha: f32, const W: f32[K, M], const bias: f32[M]) -> Y: f32[N, M]:
    V: f32[K, M]
    squared: V[k, j] = W[k, j] * W[k, j]
    dense: D[i, j] = sum[k](X[i, k] * V[k, j])
    Y[i, j] = D[i, j] * alpha + bias[j]
"""


def scheduled(change: Callable[[ms.Schedule], object] = lambda sch: None, text: str = TEXT) -> Func:
    schedule = ms.Schedule(ms.parse_program(text))
    change(schedule)
    return schedule.func


def names(func: Func) -> list[str]:
    return [block.name for block in blocks(func)]


def test_a_statement_at_the_root_that_depends_on_constants_alone_is_ahead() -> None:
    func = scheduled()
    assert constants(func) == ("W", "bias")
    division = divide(func, constants(func))
    assert division.prologue is not None
    assert (names(division.prologue), names(division.main)) == (["squared"], ["dense", "Y"])
    assert division.prologue.order == ("W",)
    assert division.main.order == ("X", "alpha", "bias", "V")
    assert division.held == ("bias",)
    for part in (division.prologue, division.main):
        validate(part)
    assert main_part(func) == division.main


@pytest.mark.parametrize(
    "change",
    [
        lambda sch: sch.compute_at(sch.get_block("squared"), sch.get_loops(sch.get_block("dense"))[1]),
        lambda sch: sch.compute_inline(sch.get_block("squared")),
    ],
)
def test_what_is_computed_in_the_main_part_is_not_ahead(change: Callable[[ms.Schedule], object]) -> None:
    func = scheduled(change)
    assert divide(func, constants(func)).prologue is None
    assert main_part(func) is func


@pytest.mark.parametrize(("rows", "ahead"), [(10, True), (2000, False)])
def test_what_makes_constants_much_larger_is_not_ahead(rows: int, ahead: bool) -> None:
    text = f"""
program unpacked(X: f32[{rows}], const W: u8[{rows}, 20]) -> Y: f32[20]:
    F: f32[{rows}, 20]
    F[k, j] = f32(W[k, j]) * 0.1
    Y[j] = sum[k](X[k] * F[k, j])
"""
    func = scheduled(text=text)
    assert (divide(func, constants(func)).prologue is not None) is ahead
    assert unpacks(func, find_block(func, "F")) is not ahead
    assert not unpacks(func, find_block(func, "Y"))


def test_a_chain_of_copies_is_ahead_as_a_whole() -> None:
    func = scheduled(
        lambda sch: sch.transform_layout(sch.cache_read(sch.get_block("dense"), "V"), "k, j -> j//4, k, j%4")
    )
    division = divide(func, constants(func))
    assert division.prologue is not None
    assert names(division.prologue) == ["squared", "dense.V.read"]
    assert [b.name for b in division.prologue.temps] == ["V"]
    assert len(division.prologue.outputs) == 1


def test_what_needs_a_scalar_or_writes_a_result_is_not_ahead() -> None:
    text = """
program p[N=4](const A: f32[N], s: f32) -> (B: f32[N], C: f32[N]):
    B[i] = A[i] * 2
    T[i] = A[i] * s
    C[i] = T[i] + 1
"""
    func = scheduled(text=text)
    assert divide(func, constants(func)).prologue is None


def test_arguments_that_are_no_constants_are_not_known_ahead() -> None:
    plain = scheduled(text=TEXT.replace("const ", ""))
    assert constants(plain) == ()
    assert main_part(plain) is plain
    assert divide(plain, ()).main == plain


def test_phases_of_a_shared_region_are_divided() -> None:
    def change(sch: ms.Schedule) -> None:
        first, second = (sch.get_loops(sch.get_block(name))[0] for name in ("squared", "dense"))
        sch.parallel(first)
        sch.parallel(second)
        sch.merge_parallel(first, second)

    func = scheduled(change)
    division = divide(func, constants(func))
    assert division.prologue is not None
    for part in (division.prologue, division.main):
        validate(part)

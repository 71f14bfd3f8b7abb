"""Ways to compute a block with a tensor intrinsic: which variables are its axes, and what lies ready."""

from __future__ import annotations

import metasched as ms
from metasched.ir import query
from metasched.schedule.tensor_fit import fits_of

CONVOLUTION = """
program conv(A: u8[18, 18, 64], B: i8[3, 3, 64, 32]) -> Y: i32[16, 16, 32]:
    Y[h, w, o] = sum[r, s, c](i32(A[h + r, w + s, c]) * i32(B[r, s, c, o]))
"""


def test_each_variable_or_all_of_a_kind_may_be_an_axis() -> None:
    func = ms.parse_program(CONVOLUTION).func
    fits = fits_of(func, query.blocks(func)[0], ["tile_u8i8_amx"])
    rows = {next(axis.iters for axis in fit.axes if "h" in axis.iters or "w" in axis.iters) for fit in fits}
    summed = {next(axis.iters for axis in fit.axes if axis.reduces) for fit in fits}
    assert rows == {("h",), ("w",), ("h", "w")}
    assert summed == {("c",), ("r", "s", "c")}  # three places of a filter are no tile, and cannot be padded
    best = fits[0]
    assert [operand.buffer for operand in best.operands] == ["Y", "A", "B"]
    assert [operand.ready for operand in best.operands] == [True, True, False]
    assert best.operands[2].layout == "d0, d1, d2, d3 -> d0, d1, d3//16, d2//4, d3%16, d2%4"


def test_they_are_found_once_a_program() -> None:
    """A rule asks after every step that it takes, and again when it is tried under other choices."""
    func = ms.parse_program(CONVOLUTION).func
    block = query.blocks(func)[0]
    assert fits_of(func, block, ["tile_u8i8_amx"]) is fits_of(func, block, ["tile_u8i8_amx"])
    assert fits_of(func, block, ["dot_u8i8_vnni"]) is not fits_of(func, block, ["tile_u8i8_amx"])


def test_of_several_instructions_that_with_most_products_a_cycle_comes_first() -> None:
    func = ms.parse_program(CONVOLUTION.replace("32]", "24]")).func  # three vectors of 8, and one and a half of 16
    fits = fits_of(func, query.blocks(func)[0], ["dot_u8i8_avxvnni", "dot_u8i8_vnni"])
    assert fits[0].intrinsic.name == "dot_u8i8_vnni"
    assert fits[0].waste > 1.0
    assert {fit.intrinsic.form for fit in fits} == {fits[0].intrinsic.form}

"""Sums of products of bytes in blocks: where weights are unpacked, and what the schedules compute."""

from __future__ import annotations

from math import prod
from pathlib import Path

import pytest
from metasched.rules.products_in_blocks import products_in_blocks

import metasched as ms
from metasched.ir.prologue import divide
from tests.support.rulework import TARGET, apply, correct, reasons
from tests.support.structural import same
from tests.support.targets import ALDER

BLOCKS = (Path(__file__).parents[3] / "examples/layers/four_bit_blocks.ms").read_text(encoding="utf-8")
SIZES = {"N": 192, "K": 128}
# Weights that fill a byte, in panels.
BYTES = """
program bytes[M=1, N=128, K=128, B=32](
    A: i8[M, K // B, B], const Q: u8[N // 64, K // 4, 64, 4], H: f32[M, K // B]
) -> Y: f32[M, N]:
    D: i32[M, K // B, N]
    products: D[i, b, j] = sum[t](i32(A[i, b, t]) * i32(Q[j // 64, b * (B // 4) + t // 4, j % 64, t % 4]))
    T: f32[M, N]
    sums: T[i, j] = sum[b](f32(D[i, b, j]) * H[i, b])
    bias: Y[i, j] = max(T[i, j] + 1.0, 0)
"""

able = pytest.mark.skipif(not TARGET.has("avx512vnni"), reason="this machine adds up no products of bytes")


@able
@pytest.mark.parametrize("rows", [1, 2, 12, 29])
@pytest.mark.parametrize("block", [16, 32, 128])
def test_weights_are_unpacked_a_block_at_a_time_and_once_for_all_rows(rows: int, block: int) -> None:
    sch, _ = apply(BLOCKS, products_in_blocks, **SIZES, M=rows, B=block)
    unpacked, products, total = (sch.describe(sch.get_block(name)) for name in ("weights", "products", "Y"))
    shared = [loop for loop in total.loops if loop in unpacked.loops]
    extents = dict(zip(total.loops, total.extents, strict=True))
    assert prod(extents[loop] or 0 for loop in shared) == SIZES["N"] // 64 * (SIZES["K"] // block)
    assert unpacked.kinds[-2:] == (ms.LoopKind.UNROLLED, ms.LoopKind.VECTORIZED)
    assert unpacked.extents[-2:] == (2, TARGET.lanes(unpacked.dtype))  # the numbers in a byte
    assert '@tensorize("dot_i8u8_vnni")' in str(sch)
    assert products.extents[-3] == 4  # vectors of a panel
    correct(sch)


@able
@pytest.mark.parametrize(("columns", "vectors"), [(64, 4), (96, 3), (80, 1)])
def test_a_panel_is_of_whole_vectors_of_columns(columns: int, vectors: int) -> None:
    sch, _ = apply(BLOCKS.replace("64", "16"), products_in_blocks, N=columns, K=128, M=3)
    assert sch.describe(sch.get_block("products")).extents[-3] == vectors
    correct(sch)


@able
@pytest.mark.parametrize("rows", [1, 6])
def test_bytes_in_panels_are_copied_as_if_they_were_unpacked(rows: int) -> None:
    sch, _ = apply(BYTES, products_in_blocks, M=rows)
    assert '@tensorize("dot_i8u8_vnni")' in str(sch)
    assert sch.describe(sch.get_block("bias")).loops[0] == sch.describe(sch.get_block("sums")).loops[0]
    correct(sch)


@able
def test_guesses_use_it_and_compute_nothing_ahead() -> None:
    for rows in (1, 16):
        kernel = ms.compile(ms.parse_program(BLOCKS, **SIZES, M=rows), target=TARGET)
        assert "dot_i8u8_vnni" in str(kernel.trace)
        assert divide(kernel.trace.apply_to(kernel.program).func, ("Q", "S")).prologue is None


def test_where_it_does_not_apply() -> None:
    other = "it is no sum over blocks of what is a sum of products in each"
    again = BLOCKS.replace("D[i, b, j] - 8", "D[i, b, j] + D[i, 0, j] - 8")
    assert reasons(again, products_in_blocks, **SIZES)["Y"] == other
    narrow = BLOCKS.replace("64", "8")
    padded = "`dot_i8u8_vnni` would compute 1.3 times as much as needed, the rest for padding"
    assert reasons(narrow, products_in_blocks, N=24, K=128)["Y"] == padded


def test_a_target_without_the_instruction_is_told() -> None:
    program = ms.parse_program(BLOCKS, **SIZES)
    sch = ms.Schedule(program, TARGET.without({"avx512vnni", "avxvnni"}))
    found = products_in_blocks.apply(sch, sch.get_block("Y"))
    assert isinstance(found, ms.Skip)
    assert "`dot_i8u8_vnni` would fit, and the target lacks avx512vnni" in found.reason


@pytest.mark.parametrize("rows", [1, 12])
def test_tiles_of_sums_take_half_of_the_registers(rows: int) -> None:
    sch = ms.Schedule(ms.parse_program(BLOCKS, **SIZES, M=rows), ALDER)
    products_in_blocks.apply(sch, sch.get_block("Y"))
    assert '@tensorize("dot_i8u8_avxvnni")' in str(sch)
    assert sch.describe(sch.get_block("products")).extents[-3] == 4
    assert sch.describe(sch.get_block("products")).extents[-5] == min(rows, 2)
    same(sch.program.func, sch.func)

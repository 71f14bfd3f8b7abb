"""Products with weights of few bits: where they are unpacked, and what the schedules compute."""

from __future__ import annotations

import pytest
from metasched.rules.dot_products import IN_LANES

import metasched as ms
from metasched.ir.prologue import divide
from tests.support.rulework import TARGET, apply, correct, reasons

NAME = "unpacking"
# A number is in half a byte of `Q`, and some of them have a scale in common.
PRODUCT = """
program product[M=1, N=192, K=640, B=16](
    X: f32[M, K], {const}Q: u8[K // 2, N], {const}S: f32[K // B, N], b: f32[N]
) -> Y: f32[M, N]:
    W: f32[K, N]
    T: f32[M, N]
    weights: W[k, j] = f32((i32(Q[k // 2, j]) // 16 if k % 2 == 1 else i32(Q[k // 2, j]) % 16) - 8) * S[k // B, j]
    sums: T[i, j] = sum[k](X[i, k] * W[k, j])
    bias: Y[i, j] = max(T[i, j] + b[j], 0)
"""
WEIGHTS = PRODUCT.format(const="const ")
# The same matrix the other way round.
TRANSPOSED = WEIGHTS.replace("W: f32[K, N]", "W: f32[N, K]").replace("W[k, j]", "W[j, k]")


@pytest.mark.parametrize("text", [WEIGHTS, TRANSPOSED], ids=["rows", "columns"])
@pytest.mark.parametrize("columns", [192, 50])
def test_for_one_row_they_are_unpacked_in_the_vectors_that_multiply_them(text: str, columns: int) -> None:
    sch, _ = apply(text, NAME, N=columns)
    assert [name for name in ("weights", "sums", "bias") if name in str(sch)] == ["sums", "bias"]
    info = sch.describe(sch.get_block("sums"))
    assert info.kinds[-2:] == (ms.LoopKind.UNROLLED, ms.LoopKind.VECTORIZED)
    assert info.extents[-2:] == (16, 4 * TARGET.lanes(info.dtype))  # what has one scale, and a tile of columns
    assert sch.describe(sch.get_block("bias")).loops[0] == info.loops[0]
    correct(sch)


@pytest.mark.parametrize(("block", "terms"), [(16, 16), (32, 32), (128, 32), (40, 20)])
def test_the_scale_multiplies_what_it_is_common_to(block: int, terms: int) -> None:
    sch, _ = apply(WEIGHTS, NAME, B=block)
    assert f"@blocked_sum({terms})  @common_factor(1)" in str(sch)
    correct(sch)


@pytest.mark.parametrize("text", [WEIGHTS, TRANSPOSED], ids=["rows", "columns"])
@pytest.mark.parametrize(("rows", "columns"), [(2, 192), (29, 192), (16, 50)])
def test_for_several_rows_a_tile_is_unpacked_once(text: str, rows: int, columns: int) -> None:
    sch, _ = apply(text, NAME, M=rows, N=columns)
    unpacked, sums = (sch.describe(sch.get_block(name)) for name in ("weights", "sums"))
    shared = [loop for loop in sums.loops if loop in unpacked.loops]
    assert {it.name for loop in shared for it in sums.iter_of(loop)} == {"j", "k"}  # no loop over rows is around it
    assert unpacked.kinds[-2:] == (ms.LoopKind.UNROLLED, ms.LoopKind.VECTORIZED)
    assert unpacked.extents[-2] == 2  # the numbers in a byte
    correct(sch)


# Numbers of four bits along the terms of a result, eight in a word.
ALONG_TERMS = """
program product[M=1, N=192, K=640, B=16](
    X: f32[M, K], const Q: u32[N, K // 8], const S: f32[N, K // B], b: f32[N]
) -> Y: f32[M, N]:
    W: f32[N, K]
    T: f32[M, N]
    weights: W[j, k] = f32(i32(Q[j, k // 8] >> 4 * (k % 8) & 15) - 8) * S[j, k // B]
    sums: T[i, j] = sum[k](X[i, k] * W[j, k])
    bias: Y[i, j] = max(T[i, j] + b[j], 0)
"""
ACROSS = ALONG_TERMS.replace("W: f32[N, K]", "W: f32[K, N]").replace("W[j, k]", "W[k, j]")


@pytest.mark.parametrize("text", [ALONG_TERMS, ACROSS], ids=["rows", "columns"])
@pytest.mark.parametrize("columns", [192, 50])
def test_for_one_row_numbers_along_the_terms_are_unpacked_in_lanes_of_terms(text: str, columns: int) -> None:
    drawn = (apply(text, NAME, "dot_products", seed=seed, N=columns)[0] for seed in range(20))
    sch = next(sch for sch in drawn if f':= "{IN_LANES}"' in str(sch.trace))
    info = sch.describe(sch.get_block("sums"))
    assert info.sources == ()
    assert info.kinds[-1] is ms.LoopKind.VECTORIZED
    assert [it.name for it in info.iter_of(info.loops[-1])] == ["k"]
    correct(sch)


@pytest.mark.parametrize("text", [ALONG_TERMS, ACROSS], ids=["rows", "columns"])
@pytest.mark.parametrize(("rows", "columns"), [(2, 192), (29, 192), (16, 50)])
def test_for_several_rows_a_tile_of_them_is_unpacked_as_it_lies(text: str, rows: int, columns: int) -> None:
    sch, _ = apply(text, NAME, M=rows, N=columns)
    unpacked, sums = (sch.describe(sch.get_block(name)) for name in ("weights", "sums"))
    shared = [loop for loop in sums.loops if loop in unpacked.loops]
    assert {it.name for loop in shared for it in sums.iter_of(loop)} == {"j"}  # no loop over rows or terms is around it
    assert unpacked.kinds[-1] is sums.kinds[-1] is ms.LoopKind.VECTORIZED
    assert [it.name for it in sums.iter_of(sums.loops[-1])] == ["k"]
    correct(sch)


@pytest.mark.parametrize(("rows", "tile"), [(5, 5), (128, 8), (100, 10), (37, 13)])
def test_a_tile_of_rows_computes_few_in_vain(rows: int, tile: int) -> None:
    if TARGET.registers < 32:
        pytest.skip("tiles are smaller with fewer registers")
    sch, _ = apply(WEIGHTS, NAME, M=rows)
    assert sch.describe(sch.get_block("sums")).extents[-2] == tile


def test_guesses_use_it() -> None:
    for rows in (1, 16):
        kernel = ms.compile(ms.parse_program(WEIGHTS, M=rows), target=TARGET)
        assert divide(kernel.trace.apply_to(kernel.program).func, ("Q", "S")).prologue is None


def test_where_it_does_not_apply() -> None:
    found = reasons(PRODUCT.format(const=""), NAME)
    assert found["sums"] == "it is no sum over one index of products with weights that are unpacked for it"
    again = WEIGHTS.replace("b[j], 0)", "b[j], W[0, j])")
    assert reasons(again, NAME)["sums"] == found["sums"]
    assert reasons(WEIGHTS, "inline")["weights"] == "it unpacks weights, which `unpacking` and `compute_location` place"

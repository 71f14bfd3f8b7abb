from __future__ import annotations

from math import inf

import pytest

import metasched as ms
from metasched.ir import query
from metasched.knowledge.anchor import anchor_of, operands

MATMUL = "y[s0, s1] sum= x0[s0, r0] * x1[r0, s1] of x0: f32, x1: f32, y: f32"
OTHER_NAMES = """
program mine(W: f32[30, 50], V: f32[20, 30], bias: f32[50]) -> Z: f32[20, 50]:
    mul: T[row, col] = sum[inner](V[row, inner] * W[inner, col])
    act: Z[row, col] = tanh(T[row, col] + bias[col])
"""


@pytest.mark.parametrize(
    ("program", "block"),
    [
        (ms.operator("matmul_nn", M=20, N=50, K=30), "C"),
        (ms.operator("dense_bias_relu", M=20, N=50, K=30), "dense"),
        (ms.parse_program(OTHER_NAMES), "mul"),
    ],
)
def test_a_kind_depends_neither_on_names_nor_on_what_is_fused(program: ms.Program, block: str) -> None:
    anchor = anchor_of(program.func)
    assert (anchor.block, anchor.kind, anchor.extents, anchor.steps) == (block, MATMUL, (20, 50, 30), ())


def test_the_anchor_is_the_reduction_with_most_work() -> None:
    assert anchor_of(ms.operator("conv2d_nhwc").func).block == "conv"
    assert anchor_of(ms.operator("attention", L=16, M=16, D=8, E=64).func).block == "mixed"
    assert anchor_of(ms.operator("attention", L=16, M=16, D=64, E=8).func).block == "scores"
    assert anchor_of(ms.operator("scale_shift_add_relu", M=4, N=4).func).kind.startswith("y[s0, s1] = x0[s0, s1] +")


def test_strides_and_dilations_are_part_of_the_size() -> None:
    plain, strided = (
        anchor_of(ms.operator("conv2d_nhwc", H=14, W=14, CI=4, CO=8, S=s, D=d).func) for s, d in ((1, 1), (2, 3))
    )
    assert plain.kind == strided.kind
    assert (plain.steps, sorted(strided.steps)) == ((1, 1, 1, 1), [2, 2, 3, 3])


CONDITIONAL = """
program c[H=8, P=1](X: f32[H + 2 * P, 16], W: f32[3, 16]) -> Y: f32[H, 16]:
    Y[h, c] = sum[r%s](X[h + r, c] * W[r, c])
"""


def test_bounds_that_keep_terms_out_make_no_other_kind() -> None:
    plain, bounded, both, parity = (
        anchor_of(ms.parse_program(CONDITIONAL % condition).func)
        for condition in (
            "",
            " if h + r >= P and h + r < H + P",
            " if h + r >= P and (h + r) % 2 == 0",
            " if (h + r) % 2 == 0",
        )
    )
    assert (plain.kind, plain.steps) == (bounded.kind, bounded.steps)
    assert both.kind == parity.kind != plain.kind


def test_element_types_make_other_kinds() -> None:
    kinds = {anchor_of(ms.operator("matmul_nn", M=8, N=8, K=8, T=t, ACC="f32").func).kind for t in ("f32", "bf16")}
    assert len(kinds) == 2


def test_the_distance_is_in_factors_of_two() -> None:
    anchor = anchor_of(ms.operator("matmul_nn", M=64, N=64, K=64).func)
    assert anchor.distance((64, 64, 64), ()) == 0
    assert anchor.distance((128, 64, 32), ()) == 2
    assert anchor.distance((64, 64), ()) == inf


def test_operands_are_those_read_in_the_order_of_the_statement() -> None:
    func = ms.parse_program(OTHER_NAMES).func
    assert operands(query.find_block(func, "mul")) == ("V", "W")
    assert operands(query.find_block(func, "act")) == ("T", "bias")


@pytest.mark.parametrize(
    "product",
    [
        "f64(A[i, k]) * f64(B[k, j])",
        "f64(B[k, j]) * f64(A[i, k])",
        "f64(B[k, j]) * f64(A[i, k]) if k + i < 7 else 0.0",
    ],
)
def test_the_matrix_with_the_columns_of_the_result_is_the_second(product: str) -> None:
    text = f"program p(A: f32[4, 5], B: f32[5, 6]) -> Y: f64[4, 6]:\n    Y[i, j] = sum[k]({product})\n"
    func = ms.parse_program(text).func
    assert anchor_of(func).kind == "y[s0, s1] sum= f64(x0[s0, r0]) * f64(x1[r0, s1]) of x0: f32, x1: f32, y: f64"
    assert operands(query.find_block(func, "Y")) == ("A", "B")


def test_data_and_filter_of_a_convolution_are_as_written() -> None:
    nchw = anchor_of(ms.operator("conv2d_nchw").func).kind
    assert "x0[s0, r0, r1+s2, r2+s3] * x1[s1, r0, r1, r2]" in nchw

"""What is known of products of f32 is known of those whose second operand is kept in f16."""

from __future__ import annotations

import pytest

from metasched.knowledge.anchor import Anchor, anchor_of
from metasched.knowledge.library import shipped
from metasched.knowledge.narrow_elements import kind_in_wide_elements
from metasched.lang import parse_program
from metasched.target import Target

PRODUCT = """
program product[M=196, K=512, N=512](X: {of_x}[M, K], W: {dtype}[K, N]) -> Y: f32[M, N]:
    Y[m, n] = sum[k]({x} * f32(W[k, n]))
"""
OF_F32 = "y[s0, s1] sum= x0[s0, r0] * x1[r0, s1] of x0: f32, x1: f32, y: f32"


def _anchor(of_x: str, dtype: str) -> Anchor:
    x = "X[m, k]" if of_x == "f32" else "f32(X[m, k])"
    return anchor_of(parse_program(PRODUCT.format(of_x=of_x, dtype=dtype, x=x)).func)


def test_a_product_of_f32_and_weights_of_f16_is_one_of_f32() -> None:
    assert kind_in_wide_elements(_anchor("f32", "f16").kind) == OF_F32


def test_a_sum_of_f16_is_one_of_f32() -> None:
    found = kind_in_wide_elements("y[s0] sum= f32(x0[s0, r0]) of x0: f16, y: f32")
    assert found == "y[s0] sum= x0[s0, r0] of x0: f32, y: f32"


@pytest.mark.parametrize(("of_x", "dtype"), [("f16", "f16"), ("f32", "f32"), ("f32", "bf16")])
def test_elements_that_are_converted_one_by_one_and_other_types_are_other_kinds(of_x: str, dtype: str) -> None:
    assert kind_in_wide_elements(_anchor(of_x, dtype).kind) is None


def test_neighbours_of_weights_of_f16_are_those_of_f32() -> None:
    target = Target.detect(1)
    near = {dtype: shipped().nearest(_anchor("f32", dtype), target, 3) for dtype in ("f16", "f32")}
    assert near["f16"] == near["f32"]
    assert near["f16"]

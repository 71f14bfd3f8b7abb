"""The rule for inlining: what stays small, and what is a choice."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from tests.support.rulework import apply, correct, reasons

INVERSE = "program inverse[N=64](X: f32[N]) -> Y: f32[N]:\n    S0[i] = 0.5 * X[i]\n"
NORMALISED = """
program normalised[M=8, N=24, K=40](X: f32[M, K], D: f32[K], W: f32[K, N]) -> Y: f32[M, N]:
    scaled: H[i, k] = {}
    product: Y[i, j] = sum[k](H[i, k] * W[k, j])
"""


def chain(step: str, count: int) -> str:
    stages = [f"    S{k + 1}[i] = {step.format(k)}\n" for k in range(count)]
    return f"{INVERSE}{''.join(stages)}    Y[i] = S{count}[i]\n"


@pytest.mark.parametrize(
    ("step", "count"), [("S{0}[i] * (2 - X[i] * S{0}[i])", 12), ("S{0}[i] * S{0}[i]", 30)], ids=["Newton", "squares"]
)
def test_chains_that_read_each_stage_twice(step: str, count: int) -> None:
    program = ms.parse_program(chain(step, count))
    kernel = ms.compile(program)
    X = np.linspace(0.5, 1.5, 64, dtype=np.float32)
    np.testing.assert_allclose(kernel(X), ms.reference(program)(X), rtol=1e-5)
    largest = max(kernel_operations(kernel))
    assert largest <= 64


def kernel_operations(kernel: ms.Kernel) -> list[int]:
    sch = kernel.trace.apply_to(kernel.program)
    return [sch.describe(sch.get_block(name)).operations for name in sch.block_names()]


def test_why_a_stage_is_kept() -> None:
    found = reasons(chain("S{0}[i] * S{0}[i]", 8), "inline")
    assert found["S8"] is None
    assert "`Y` reads it 32 times and would have 63 operations" not in found.values()
    assert "`Y` reads it 64 times and would have 127 operations" in found.values()


@pytest.mark.parametrize("value", ["X[i, k] / D[k]", "X[i, k] * sqrt(D[k])", "X[i, k] * rsqrt(D[k])"])
def test_divisions_and_roots_in_a_reduction_are_a_choice(value: str) -> None:
    program = ms.parse_program(NORMALISED.format(value))
    choices = {sketch.structure.get("inline(scaled)/division") for sketch in ms.space(program, rules="inline")}
    assert choices == {"inlined", "kept"}


def test_cheap_arithmetic_in_a_reduction_is_none() -> None:
    sch, _ = apply(NORMALISED.format("X[i, k] * D[k] + 1"), "inline")
    assert sch.block_names() == ("product",)
    correct(sch)


def test_arithmetic_that_many_terms_repeat_is_a_choice() -> None:
    """Centred columns, each read with every other one."""
    text = """
program scatter_matrix[N=12, M={}](X: f32[N, M], m: f32[M]) -> C: f32[M, M]:
    centred: D[i, j] = X[i, j] - m[j]
    product: C[j, k] = sum[i](D[i, j] * D[i, k])
"""
    many, few = (ms.space(ms.parse_program(text.format(m)), rules="inline") for m in (80, 40))
    assert {sketch.structure.get("inline(centred)/arithmetic") for sketch in many} == {"inlined", "kept"}
    assert {sketch.structure.get("inline(centred)/arithmetic") for sketch in few} == {None}


def test_bytes_that_few_terms_repeat_are_a_choice() -> None:
    """In memory they are operands of instructions."""
    text = """
program centred_product[M=4](X: u8[32, 32], Y: i8[M, 32]) -> C: i32[M, 32]:
    centred: D[k, j] = u8(X[k, j] - 3)
    product: C[i, j] = sum[k](i32(D[k, j]) * i32(Y[i, k]))
"""
    one, few = (ms.space(ms.parse_program(text, M=m), rules="inline") for m in (1, 4))
    assert {sketch.structure.get("inline(centred)/arithmetic") for sketch in few} == {"inlined", "kept"}
    assert {sketch.structure.get("inline(centred)/arithmetic") for sketch in one} == {None}


@pytest.mark.parametrize("call", ["exp2", "expm1", "log1p", "log2", "exp", "tanh"])
def test_expensive_functions_are_not_repeated(call: str) -> None:
    found = reasons(NORMALISED.format(f"{call}(X[i, k]) * D[k]"), "inline")
    assert found["scaled"] == "it calls a costly function"


FOLLOWED = """
program followed(X: f32[16, 24], W: f32[24, 32], c: f32[32], V: f32[32, 20]) -> Y: f32[16, 20]:
    wide: U[i, h] = sum[k](X[i, k] * W[k, h])
    biased: T[i, h] = U[i, h] + c[h]
    clipped: S[i, h] = max(T[i, h], 0)
    {}
"""


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        ("last: Y[i, j] = sum[h](S[i, h] * V[h, j])", ("wide", "clipped", "last")),
        ("last: Y[i, j] = S[i, j + 1] * V[i, j]", ("wide", "clipped", "last")),
        ("last: Y[i, j] = S[i, j] * V[i, j]", ("wide", "last")),
        # Then the sum is stored in any case.
        ("last: Y[i, j] = sum[h](S[i, h] * U[i, h] * V[h, j])", ("wide", "last")),
    ],
    ids=["reduction", "shifted", "element-wise", "sum read twice"],
)
def test_what_ends_a_tile_is_computed_with_it(last: str, kept: tuple[str, ...]) -> None:
    sch, _ = apply(FOLLOWED.format(last), "inline")
    assert sch.block_names() == kept
    correct(sch)


def test_why_what_ends_a_tile_is_kept() -> None:
    found = reasons(FOLLOWED.format("last: Y[i, j] = sum[h](S[i, h] * V[h, j])"), "inline")
    assert found["clipped"] == "it ends what `wide` computes in tiles, and is read at other places"


def test_a_mean_is_no_tile() -> None:
    text = "program m(X: f32[8, 9]) -> Y: f32[8]:\n    s: S[i] = sum[k](X[i, k])\n    mean: M[i] = S[i] * 0.25\n"
    sch, _ = apply(text + "    spread: Y[i] = sum[k]((X[i, k] - M[i]) * (X[i, k] - M[i]))\n", "inline")
    assert sch.block_names() == ("s", "spread")

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from metasched.ir import query
from metasched.ir.nodes import Const
from metasched.ir.validate import InvalidProgram, validate
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.compute_inline import compute_inline
from metasched.schedule.primitives.fuse_reduction_epilogue import fuse_reduction_epilogue
from metasched.schedule.primitives.reorder import reorder
from metasched.schedule.primitives.skip_padding import skip_padding
from metasched.target import Target
from tests.support.native import native_agrees
from tests.support.programs import CONV, DENSE_RELU
from tests.support.structural import body, refused, same, split, start

LINE = """
program line[N=6](X: f32[N], const K: f32[3]) -> Y: f32[N]:
    pad: P[i < N + 2] = X[i - 1] if i >= 1 and i < N + 1 else 0
    conv: Y[i] = sum[k](P[i + k] * K[k])
"""
BIASED = """
program biased[N=6](X: f32[N], K: f32[3], b: f32[N]) -> Y: f32[N]:
    pad: P[i < N + 2] = X[i - 1] if i >= 1 and i < N + 1 else 0
    conv: S[i < N] = sum[k](P[i + k] * K[k])
    out: Y[i] = S[i] + b[i]
"""
# Each channel has a filter of its own, which comes first in the product.
DEPTHWISE = """
program depthwise[H=5, W=6, C=3, D=2, T=f32](X: T[H, W, C], K: T[3, 3, C]) -> Y: T[H, W, C]:
    pad: P[h < H + 2*D, w < W + 2*D, c] = X[h - D, w - D, c] if h >= D and h < H + D and w >= D and w < W + D else 0
    conv: Y[h, w, c] = sum[r, s](K[r, s, c] * P[h + D*r, w + D*s, c])
"""


def done() -> ms.Schedule:
    sch = ms.Schedule(ms.parse_program(LINE))
    sch.skip_padding(sch.get_block("conv"), 1)
    return sch


def test_along_one_dimension() -> None:
    ctx = start(LINE)
    before = ctx.func
    assert skip_padding(ctx, "conv", 1) == ("conv.zeros", "conv.start")
    assert (
        body(ctx.func)
        == """
temp P: f32[8]
temp Y_zeros: f32[3]
temp Y_start: f32[6]
for i in 8:
    pad: P[i] = X[i - 1] if i >= 1 and i < 7 else 0.0
for k_conv_zeros in 3:
    conv.zeros: Y_zeros[k] = K[k] * 0.0  with k = k_conv_zeros
for i_conv_start, k_conv_start in grid(6, 3):
    conv.start: Y_start[i] += 0.0 if i + k >= 1 and i + k < 7 else Y_zeros[k]
        init 0.0  with i = i_conv_start, k = k_conv_start
for i_conv, k in grid(6, 3):
    conv: Y[i] += P[i + k] * K[k] if i + k >= 1 and i + k < 7 else 0.0  init Y_start[i]  with i = i_conv
"""
    )
    same(before, ctx.func)
    native_agrees(before, ctx.func)


@pytest.mark.parametrize("inlined", [False, True], ids=["a stage", "inlined"])
@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("text", [CONV, DEPTHWISE], ids=["plain", "depthwise"])
def test_the_sum_is_what_it_was(text: str, dimensions: int, inlined: bool) -> None:
    ctx = start(text)
    before = ctx.func
    if inlined:
        compute_inline(ctx, "pad")
    skip_padding(ctx, "conv", dimensions)
    same(before, ctx.func)
    native_agrees(before, ctx.func)


@pytest.mark.parametrize("value", [np.inf, np.nan], ids=["infinite", "no number"])
@pytest.mark.parametrize("dimensions", [1, 2])
def test_zeros_times_what_is_no_finite_number(dimensions: int, value: float) -> None:
    ctx = start(DEPTHWISE)
    before = ctx.func
    skip_padding(ctx, "conv", dimensions)
    data = np.random.default_rng(0).standard_normal((5, 6, 3)).astype(np.float32)
    filters = np.ones((3, 3, 3), np.float32)
    filters[0, 2, 1] = value
    results = [Kernel(build(func, Target.detect(threads=1)))(data, filters) for func in (before, ctx.func)]
    assert np.isnan(results[0]).any()
    assert np.isfinite(results[0]).any()
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def test_integers_need_no_more_blocks() -> None:
    ctx = start(DEPTHWISE.replace("T=f32", "T=i32"))
    before = ctx.func
    assert skip_padding(ctx, "conv", 2) == ()
    assert isinstance(ctx.block("", "conv").init, Const)
    same(before, ctx.func)


def test_what_is_known_of_constants_is_computed_ahead_of_calls() -> None:
    sch = done()
    kernel = ms.compile(sch.program, trace=sch.trace)
    filters = np.array([1.0, 2.0, np.inf], np.float32)
    packed = kernel.pack(K=filters)
    data = np.arange(1, 7, dtype=np.float32)
    np.testing.assert_array_equal(packed(data), [np.inf] * 5 + [np.nan])


# Terms outside of the elements, as tiles of a reduction are.
TERMS_FIRST = "`conv` starts from what `conv.start` computes before its reduction loop `k`"


def test_what_a_sum_starts_from_is_computed_before_its_terms() -> None:
    ctx = start(LINE)
    skip_padding(ctx, "conv", 1)
    reorder(ctx, "k", "i_conv")
    with refused(TERMS_FIRST):
        compute_at(ctx, "conv.start", "i_conv")
    with refused(TERMS_FIRST):
        compute_at(ctx, "conv.start", "k")


def test_a_sum_that_starts_from_something_within_it_is_no_program() -> None:
    ctx = start(LINE)
    skip_padding(ctx, "conv", 1)
    compute_at(ctx, "conv.start", "i_conv")
    validate(ctx.func)
    over_terms = query.map_blocks(
        ctx.func.body, lambda b: replace(b, bindings=b.bindings[::-1]) if b.name == "conv" else b
    )
    with pytest.raises(InvalidProgram, match=r"block `conv`: it starts from what `conv.start` computes within its"):
        validate(replace(ctx.func, body=over_terms))


_NO_PRODUCT = "block `conv` does not sum products of two operands, all of whose terms are there"
_NOT_PADDED = "no operand of block `{}` is padded with zeros"


@pytest.mark.parametrize(
    ("text", "block", "dimensions", "message"),
    [
        (DENSE_RELU, "relu", 1, "block `relu` is not a sum"),
        (DENSE_RELU, "dense", 1, _NOT_PADDED.format("dense")),
        (LINE.replace("else 0", "else 1"), "conv", 1, _NOT_PADDED.format("conv")),
        (LINE, "conv", 2, "2 dimensions of padding of block `conv`, which reads 1"),
        (LINE.replace("P[i + k] * K[k]", "P[i + k] + K[k]"), "conv", 1, _NO_PRODUCT),
        (LINE.replace("sum[k]", "sum[k if k <= i]"), "conv", 1, _NO_PRODUCT),
        (
            LINE.replace("if i >= 1 and", "if i % 2 == 1 and i >= 1 and"),
            "conv",
            1,
            "the padding that block `conv` reads is more than bounds on its indices",
        ),
    ],
)
def test_what_it_requires(text: str, block: str, dimensions: int, message: str) -> None:
    ctx = start(text)
    with refused(message):
        skip_padding(ctx, block, dimensions)


def test_it_comes_before_loops_change() -> None:
    ctx = start(LINE)
    split(ctx, query.loops_above(ctx.func, "conv")[0].var, 2)
    with refused("the loops of block `conv` are not its iteration variables any more"):
        skip_padding(ctx, "conv", 1)


def test_the_sum_starts_from_0() -> None:
    ctx = start(BIASED)
    fuse_reduction_epilogue(ctx, "conv", "out")
    with refused("the sum of block `conv` does not start from 0"):
        skip_padding(ctx, "conv", 1)

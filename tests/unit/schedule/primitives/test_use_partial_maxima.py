from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.ir import query
from metasched.ir.nodes import Func
from metasched.ir.validate import validate
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.context import Context
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.compute_inline import compute_inline
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.primitives.rfactor import rfactor
from metasched.schedule.primitives.use_partial_maxima import use_partial_maxima
from metasched.target import Target
from tests.support.structural import body, refused, split, start

SOFTMAX = """
program softmax[M=3, N=20](X: f32[M, N]) -> Y: f32[M, N]:
    top:    m[i] = max[j](X[i, j])
    exps:   e[i, j] = exp(X[i, j] - m[i])
    total:  s[i] = sum[k](e[i, k])
    normal: Y[i, j] = e[i, j] / s[i]
"""

# Weighted sums of several columns relative to scaled maxima, as in attention.
MIXED = """
program mixed[M=3, N=20, D=2](X: f32[M, N], V: f32[N, D]) -> (Y: f32[M, D], L: f32[M]):
    top:    m[i] = max[j](X[i, j])
    exps:   e[i, j] = exp2((X[i, j] - m[i]) * 0.25)
    total:  L[i] = sum[k](e[i, k])
    mixed:  Y[i, d] = sum[k](2.0 * e[i, k] * V[k, d])
"""


def parts(ctx: Context, block: str, *inner: int | str) -> str:
    """Partial results of the outer part of the block's reduction."""
    loop = query.loops_above(ctx.func, block)[-1].var
    return rfactor(ctx, split(ctx, loop, *inner)[0])


def ready(text: str = SOFTMAX, *sums: str, inner: int | str = 8) -> Context:
    """A program with partial maxima, and partial sums of terms with exponentials."""
    ctx = start(text)
    compute_inline(ctx, "exps")
    for block in ("top", *(sums or ("total",))):
        parts(ctx, block, inner)
    return ctx


def done() -> ms.Schedule:
    """Softmax whose partial sums are computed next to partial maxima, in parts of a sampled size."""
    sch = ms.Schedule(ms.parse_program(SOFTMAX), seed=1)
    sch.compute_inline(sch.get_block("exps"))
    tops, sums = (sch.get_loops(sch.get_block(name)) for name in ("top", "total"))
    tile = sch.sample_tile(tops[1], parts=2)
    maxima, partial = (sch.rfactor(sch.split(loops[1], tile)[0]) for loops in (tops, sums))
    sch.use_partial_maxima(partial, maxima)
    sch.reverse_compute_at(partial, sch.get_loops(maxima)[1])
    return sch


def agrees(before: Func, after: Func, *args: np.ndarray) -> None:
    """Interpreted and compiled, the program gives what it did, up to rounding."""
    validate(after)
    expected = reference(before)(*args)
    for run in (reference(after), Kernel(build(after, Target.detect(threads=2)))):
        got = run(*args)
        pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (expected, got)), strict=True)
        for x, y in pairs:
            np.testing.assert_allclose(y, x, rtol=2e-6, atol=1e-30)


def rows(seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((3, 20)) * 30).astype(np.float32)


def test_one_pass_computes_the_partial_results_of_both() -> None:
    ctx = ready()
    before = start(SOFTMAX).func
    use_partial_maxima(ctx, "total.rf", "top.rf")
    reverse_compute_at(ctx, "total.rf", "j_0")
    agrees(before, ctx.func, rows())
    assert (
        "\n".join(body(ctx.func).splitlines()[5:])
        == """\
for i, j_0 in grid(3, 3):
    for j_1 in 8:
        top.rf: m_rf[j_0, i] max= X[i, j_0*8 + j_1]  init -inf  if j_0*8 + j_1 < 20
    for k_0_total_rf, i_total_rf, k_1_total_rf in grid(1, 1, 8):
        total.rf: s_rf[k_0, i] += exp(X[i, k_0*8 + k_1] - max(m_rf[k_0, i], -3.4028234663852886e+38))
            init 0.0  with k_0 = j_0 + k_0_total_rf, i = i + i_total_rf, k_1 = k_1_total_rf
            if j_0*8 + k_0_total_rf*8 + k_1 - 20 < 0
for i_1, j_0_1 in grid(3, 3):
    top: m[i] max= m_rf[j_0, i]  init -inf  with i = i_1, j_0 = j_0_1
for i_total_1, k_0_1 in grid(3, 3):
    total: s[i] += s_rf[k_0, i] * exp(m_rf[k_0, i] - m[i])  init 0.0  with i = i_total_1, k_0 = k_0_1
for i_normal, j_normal in grid(3, 20):
    normal: Y[i, j] = exp(X[i, j] - m[i]) / s[i]  with i = i_normal, j = j_normal"""
    )


def test_weighted_sums_of_scaled_exponents() -> None:
    ctx = ready(MIXED, "total", "mixed")
    before = start(MIXED).func
    use_partial_maxima(ctx, "mixed.rf", "top.rf")
    use_partial_maxima(ctx, "total.rf", "top.rf")
    agrees(before, ctx.func, rows(), np.random.default_rng(1).standard_normal((20, 2)).astype(np.float32))
    assert "2.0 * exp2((X[" in body(ctx.func)
    assert "Y_rf[k_mixed_0, i, d] * exp2((m_rf[k_mixed_0, i] - m[i]) * 0.25)" in body(ctx.func)


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan, 3e38, -3e38])
@pytest.mark.parametrize("where", [slice(0, 8), slice(8, 16), slice(3, 4), slice(None)])
def test_parts_that_are_masked_or_no_numbers(value: float, where: slice) -> None:
    ctx = ready()
    before = start(SOFTMAX).func
    use_partial_maxima(ctx, "total.rf", "top.rf")
    x = rows(2)
    x[1, where] = value
    with np.errstate(invalid="ignore", over="ignore"):
        agrees(before, ctx.func, x)


def test_parts_of_a_sampled_size() -> None:
    sch = done()
    agrees(sch.program.func, sch.func, rows(3))
    assert sch.trace.apply_to(sch.program).func == sch.func


def test_with_free_tile_sizes_it_is_what_it_is_with_numbers() -> None:
    free = ready(inner="t")
    use_partial_maxima(free, "total.rf", "top.rf")
    assert "total.rf: s_rf[k_0, i] += exp(X[i, k_0*t + k_1] - max(m_rf[k_0, i]" in body(free.func)


def test_parts_of_other_sizes() -> None:
    ctx = ready()
    other = start(SOFTMAX)
    compute_inline(other, "exps")
    parts(other, "top", 4)
    parts(other, "total", 8)
    with refused("`top.rf` does not reduce the exponents of `total.rf`, part by part"):
        use_partial_maxima(other, "total.rf", "top.rf")
    use_partial_maxima(ctx, "total.rf", "top.rf")  # the same sizes are no problem


def test_maxima_of_something_else() -> None:
    ctx = ready(SOFTMAX.replace("max[j](X[i, j])", "max[j](X[i, j] * 2.0)"))
    with refused("`top.rf` does not reduce the exponents of `total.rf`, part by part"):
        use_partial_maxima(ctx, "total.rf", "top.rf")


def test_terms_whose_exponentials_are_kept() -> None:
    ctx = start(SOFTMAX)
    parts(ctx, "top", 8)
    parts(ctx, "total", 8)
    with refused("the terms of `total.rf` have no single factor exp(x - m[..]) that reads `m`"):
        use_partial_maxima(ctx, "total.rf", "top.rf")


@pytest.mark.parametrize(
    "term",
    [
        "exp(m[i] - X[i, j])",
        "exp(X[i, j] + m[i])",
        "exp((X[i, j] - m[i]) * -1.0)",
        "tanh(X[i, j] - m[i])",
        "exp(X[i, j] - m[i]) * m[i]",
        "exp(X[i, j] - m[i]) + 1.0",
        "1.0 / exp(X[i, j] - m[i])",
    ],
)
def test_terms_that_no_factor_scales(term: str) -> None:
    ctx = ready(SOFTMAX.replace("exp(X[i, j] - m[i])", term))
    with refused("the terms of `total.rf` have no single factor exp(x - m[..]) that reads `m`"):
        use_partial_maxima(ctx, "total.rf", "top.rf")


@pytest.mark.parametrize("other", ["M - 1 - i", "0", "j % M"])
def test_exponents_relative_to_another_maximum(other: str) -> None:
    ctx = ready(SOFTMAX.replace("X[i, j] - m[i])", f"X[i, j] - m[{other}])"))
    with refused("exponents are relative to another element of `m` than the maximum of their own terms"):
        use_partial_maxima(ctx, "total.rf", "top.rf")


def test_guards_that_always_hold() -> None:
    text = SOFTMAX.partition("    normal")[0].replace("-> Y: f32[M, N]", "-> s: f32[M]")
    ctx = start(text, N=16)
    before = ctx.func
    compute_inline(ctx, "exps")
    compute_at(ctx, "top", "i_total")
    for block in ("top", "total"):
        parts(ctx, block, 8)
    use_partial_maxima(ctx, "total.rf", "top.rf")
    agrees(before, ctx.func, rows()[:, :16].copy())


def test_one_row() -> None:
    ctx = start(SOFTMAX, M=1)
    before = ctx.func
    compute_inline(ctx, "exps")
    for block in ("top", "total"):
        parts(ctx, block, 8)
    use_partial_maxima(ctx, "total.rf", "top.rf")
    agrees(before, ctx.func, rows()[:1])


def test_blocks_that_are_no_partial_results() -> None:
    ctx = ready()
    with refused("`normal` does not compute partial sums"):
        use_partial_maxima(ctx, "normal", "top.rf")
    with refused("`total.rf` does not compute partial maxima"):
        use_partial_maxima(ctx, "total.rf", "total.rf")
    with refused("no one block reduces what `top` writes to a maximum"):
        use_partial_maxima(ctx, "total.rf", "top")
    with refused("what `total` writes is not read by one sum alone, which adds it up"):
        use_partial_maxima(ctx, "total", "top.rf")


def test_twice() -> None:
    ctx = ready()
    use_partial_maxima(ctx, "total.rf", "top.rf")
    with refused("what `total.rf` writes is not read by one sum alone, which adds it up"):
        use_partial_maxima(ctx, "total.rf", "top.rf")


def test_maxima_of_a_type_of_storage() -> None:
    text = SOFTMAX.replace("X: f32[M, N]", "X: bf16[M, N]").replace(
        "exp(X[i, j] - m[i])", "exp(f32(X[i, j]) - f32(m[i]))"
    )
    ctx = ready(text)
    use_partial_maxima(ctx, "total.rf", "top.rf")
    assert "s_rf[k_0, i] * exp(f32(m_rf[k_0, i]) - f32(m[i]))" in body(ctx.func)
    agrees(start(text).func, ctx.func, rows().astype(DType.BF16.numpy))


def test_after_decompose_reduction() -> None:
    ctx = ready()
    decompose_reduction(ctx, "total.rf", "k_0")
    with refused("`total.rf` does not compute partial sums"):
        use_partial_maxima(ctx, "total.rf", "top.rf")


def test_a_guard_that_leaves_out_terms_of_the_maxima_alone() -> None:
    ctx = ready()
    tops = query.find_block(ctx.func, "total.rf")
    ctx.func = query.replace_stmt(ctx.func, tops, replace(tops, guards=()))
    with refused("`top.rf` does not reduce the exponents of `total.rf`, part by part"):
        use_partial_maxima(ctx, "total.rf", "top.rf")

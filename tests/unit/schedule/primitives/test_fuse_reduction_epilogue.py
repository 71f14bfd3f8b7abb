from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Seq
from metasched.ir.validate import InvalidProgram, validate
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.schedule.primitives.cache_read import cache_read
from metasched.schedule.primitives.cache_write import cache_write
from metasched.schedule.primitives.compute_at import compute_at
from metasched.schedule.primitives.compute_inline import compute_inline
from metasched.schedule.primitives.decompose_reduction import decompose_reduction
from metasched.schedule.primitives.fuse_reduction_epilogue import fuse_reduction_epilogue
from metasched.schedule.primitives.pad_einsum import pad_einsum
from metasched.schedule.primitives.reindex import reindex
from metasched.schedule.primitives.reverse_compute_at import reverse_compute_at
from metasched.schedule.primitives.reverse_compute_inline import reverse_compute_inline
from metasched.schedule.primitives.rfactor import rfactor
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.native import native_agrees
from tests.support.schedules import checked, loops_of, schedule
from tests.support.structural import body, refused, same, split, start, with_position

BIAS = """
program biased[N=6, M=9, K=7](A: f32[N, K], B: f32[K, M], b: f32[M]) -> E: f32[N, M]:
    scaled: s[j] = b[j] * 2
    dense:  C[i, j] = sum[k](A[i, k] * B[k, j])
    bias:   D[p, q] = C[p, q] + s[q]
    relu:   E[i, j] = max(D[i, j], 0)
"""


# The same, with `s` read again.
USED = BIAS.replace("max(D[i, j], 0)", "max(D[i, j], s[j])")


def fused(text: str = BIAS):  # type: ignore[no-untyped-def]
    ctx = start(text)
    before = ctx.func
    fuse_reduction_epilogue(ctx, "dense", "bias")
    same(before, ctx.func)
    native_agrees(before, ctx.func)
    return ctx


def test_a_bias_is_what_the_sum_starts_from() -> None:
    assert (
        body(fused().func)
        == """
temp s: f32[9]
temp D: f32[6, 9]
for j in 9:
    scaled: s[j] = b[j] * 2.0
for i, j_dense, k in grid(6, 9, 7):
    dense: D[i, j] += A[i, k] * B[k, j]  init 0.0 + s[j]  with j = j_dense
for i_relu, j_relu in grid(6, 9):
    relu: E[i, j] = max(D[i, j], 0.0)  with i = i_relu, j = j_relu
"""
    )


@pytest.mark.parametrize(
    ("reduce", "epilogue", "init"),
    [
        ("sum", "s[q] + C[p, q]", "init 0.0 + s[j]"),
        ("sum", "C[p, q] - s[q]", "init 0.0 + -s[j]"),
        ("sum", "s[q] + C[p, q] + s[q]", "init 0.0 + (s[j] + s[j])"),
        ("sum", "C[p, q] + 3", "init 0.0 + 3.0"),
        ("max", "max(s[q], C[p, q])", "init s[j]"),
        ("min", "min(C[p, q], 1)", "init 1.0"),
        ("prod", "C[p, q] * s[q]", "init s[j]"),
    ],
)
def test_the_operation_of_the_reduction(reduce: str, epilogue: str, init: str) -> None:
    ctx = fused(USED.replace("sum[k]", f"{reduce}[k]").replace("C[p, q] + s[q]", epilogue))
    assert init in body(ctx.func)


def test_transposed() -> None:
    text = BIAS.replace("D[p, q] = C[p, q] + s[q]", "D[q, p] = C[p, q] + s[q]").replace("max(D[i, j], 0)", "D[j, i]")
    assert "dense: D[j, i] += A[i, k] * B[k, j]  init 0.0 + s[j]" in body(fused(text).func)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize("decomposed", [False, True])
def test_zeros_keep_their_sign(dtype: str, decomposed: bool) -> None:
    """Of a bias of -0.0 without a term, and with terms of -0.0."""
    program = ms.parse_program(
        f"program zeros[N=5, K=4](A: {dtype}[N, K], b: {dtype}[N]) -> D: {dtype}[N]:\n"
        f"    dense: C[i] = sum[k if k < i](A[i, k])\n    bias: D[i] = C[i] + b[i]\n"
    )
    sch = ms.Schedule(program)
    sch.fuse_reduction_epilogue(sch.get_block("dense"), sch.get_block("bias"))
    if decomposed:
        sch.decompose_reduction(sch.get_block("dense"), loops_of(sch, "dense")[1])
    assert ("0.0 + b[i]" in str(sch)) is dtype.startswith("f")
    given = [-np.zeros(shape, DType(dtype).numpy) for shape in ((5, 4), 5)]
    for kernel in (ms.compile(program), ms.compile(program, trace=sch.trace)):
        np.testing.assert_array_equal(kernel(*given), np.zeros(5))
        assert not np.signbit(kernel(*given)).any()


def test_dimensions_of_one() -> None:
    text = """
    program total[K=7](A: f32[K], b: f32[1]) -> D: f32[1]:
        dense: C[z < 1] = sum[k](A[k])
        bias:  D[y] = C[y] + b[y]
    """
    fused(text)


# --- what other primitives make of it --------------------------------------------------------------------


def native(sch: Schedule) -> None:
    """Machine code and the reference agree on integer-valued inputs."""
    rng = np.random.default_rng(0)
    shapes = [tuple(int(e.value) for e in sch.func.buffer(n).shape) for n in sch.func.order]  # type: ignore[attr-defined]
    args = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    expected = reference(sch.program)(*args)
    result = np.empty_like(expected)
    build(sch.func, Target.detect(threads=1))(*args, result)
    np.testing.assert_array_equal(result, expected)


def test_machine_code_of_imperfect_vector_tiles() -> None:
    sch = schedule(BIAS)
    dense, relu = sch.get_block("dense"), sch.get_block("relu")
    sch.fuse_reduction_epilogue(dense, sch.get_block("bias"))
    i, j, k = loops_of(sch, "dense")
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, j0, k, i1, j1)
    sch.unroll(i1)
    sch.vectorize(j1, lanes=8)
    sch.reverse_compute_at(relu, j0)
    checked(sch)
    native(sch)


def test_machine_code_without_registers_and_with_one_term() -> None:
    sch = schedule(BIAS, K=1)
    sch.fuse_reduction_epilogue(sch.get_block("dense"), sch.get_block("bias"))
    native(sch)
    sch = schedule(BIAS)
    sch.fuse_reduction_epilogue(sch.get_block("dense"), sch.get_block("bias"))
    i, j, k = loops_of(sch, "dense")
    sch.reorder(k, i, j)
    native(sch)


def test_machine_code_where_the_start_has_a_layout() -> None:
    sch = schedule(BIAS)
    sch.transform_layout(sch.get_block("scaled"), "j -> j % 3, j // 3")
    sch.fuse_reduction_epilogue(sch.get_block("dense"), sch.get_block("bias"))
    native(sch)


def test_it_can_be_inlined_cached_and_moved() -> None:
    for step in (
        lambda c: compute_inline(c, "scaled"),
        lambda c: compute_at(c, "scaled", "i"),
        lambda c: compute_at(c, "scaled", "j_dense"),
        lambda c: reverse_compute_at(c, "dense", "j"),
        lambda c: cache_read(c, "dense", "s", "local"),
        lambda c: cache_write(c, "dense", "local"),
        lambda c: decompose_reduction(c, "dense", "k"),
        lambda c: decompose_reduction(c, "dense", "i"),
        lambda c: rfactor(c, "k"),
    ):
        ctx = fused()
        before = ctx.func
        step(ctx)
        same(before, ctx.func)
        native_agrees(before, ctx.func)


def test_steps_that_do_not_take_it() -> None:
    with refused("the reduction of block `dense` starts from `s`"):
        reindex(fused(), "dense", "s")
    with refused("the reduction of block `dense` starts from what a buffer holds"):
        pad_einsum(fused(), "dense", (const(4), const(4), const(4)))


def test_validity_asks_for_what_sums_start_from() -> None:
    ctx = fused()
    validate(ctx.func)
    nest = ctx.func.body.stmts
    with pytest.raises(InvalidProgram, match="it reads `s` before anything writes it"):
        validate(replace(ctx.func, body=Seq((nest[1], nest[0], nest[2]))))


# --- what is refused -------------------------------------------------------------------------------------


def test_no_reduction() -> None:
    with refused("block `scaled` is not a reduction"):
        fuse_reduction_epilogue(start(BIAS), "scaled", "bias")


def test_decomposed() -> None:
    ctx = start(BIAS)
    decompose_reduction(ctx, "dense", "k")
    with refused("block `dense` has its initialisation in a block already"):
        fuse_reduction_epilogue(ctx, "dense", "bias")


def test_a_value_and_its_position() -> None:
    text = "program p(A: f32[4, 3]) -> D: f32[4]:\n    dense: C[i] = max[k](A[i, k])\n    bias: D[i] = max(C[i], 0)\n"
    ctx = start(text)
    with_position(ctx, "dense")
    with refused("block `dense` writes a value and its position"):
        fuse_reduction_epilogue(ctx, "dense", "bias")


def test_an_output() -> None:
    text = "program p(A: f32[4]) -> C: f32[1]:\n    dense: C[z] = sum[k](A[k])\n"
    with refused("block `dense` writes the output `C`"):
        fuse_reduction_epilogue(start(text), "dense", "dense")


def test_a_block_that_does_not_read_it() -> None:
    with refused("`relu` does not read `C`, which `dense` writes"):
        fuse_reduction_epilogue(start(BIAS), "dense", "relu")


def test_another_reader() -> None:
    with refused("`relu` reads `C` as well as `bias`"):
        fused(BIAS.replace("max(D[i, j], 0)", "max(D[i, j], C[i, j])"))


def test_an_epilogue_that_reduces() -> None:
    text = BIAS.replace("D[p, q] = C[p, q] + s[q]", "D[p, q] = sum[z < 1](C[p, q] + s[q])")
    with refused("`bias` is a reduction"):
        fused(text)


def test_under_one_loop() -> None:
    ctx = start(BIAS)
    reverse_compute_at(ctx, "bias", "i")
    with refused("`dense` and `bias` are both under loop `i`"):
        fuse_reduction_epilogue(ctx, "dense", "bias")


@pytest.mark.parametrize(
    "epilogue",
    ["max(C[p, q], 0)", "C[p, q] * s[q]", "s[q] - C[p, q]", "C[p, q] + C[p, q]", "C[p, q] + exp(C[p, q])", "C[p, q]"],
)
def test_another_operation(epilogue: str) -> None:
    with refused("`bias` does not combine `C` with something by `+`, as `dense` does its terms"):
        fused(USED.replace("C[p, q] + s[q]", epilogue))


@pytest.mark.parametrize(
    ("left", "read"), [("D[p, q]", "C[p, 0]"), ("D[p, q]", "C[p, (q + 1) % M]"), ("D[p, q]", "C[p, p]")]
)
def test_elements_that_are_not_one_for_one(left: str, read: str) -> None:
    text = BIAS.replace("D[p, q] = C[p, q]", f"{left} = {read}").replace("N=6", "N=9")
    with refused("`bias` does not read one element of `C` for each of its own"):
        fused(text)


def test_a_part_of_the_result() -> None:
    """Sums of what was padded would be written where nothing is."""
    ctx = start(BIAS)
    _, _, unpad = pad_einsum(ctx, "dense", (const(4), const(4), const(4)))
    compute_inline(ctx, "scaled")
    reverse_compute_inline(ctx, "bias")
    with refused(f"`{unpad}` reads a part of `C_pad` only: it has no elements for the rest"):
        fuse_reduction_epilogue(ctx, "dense", unpad)


def test_what_is_written_after_the_reduction() -> None:
    lines = BIAS.strip().splitlines()
    text = "\n".join([lines[0], lines[2], lines[1], *lines[3:]])
    with refused("`scaled`, which `bias` reads, is computed after `dense`"):
        fused(text)


def test_tiles_of_the_epilogue_do_not_matter() -> None:
    ctx = start(BIAS)
    before = ctx.func
    split(ctx, "q", 4)
    fuse_reduction_epilogue(ctx, "dense", "bias")
    same(before, ctx.func)

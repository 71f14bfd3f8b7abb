"""Reductions along vectorised loops: a part of the sum in each lane, folded at the end."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.cost.features import NAMES, features_of
from metasched.ir import query
from metasched.ir.nodes import Binary, Const
from metasched.ir.validate import validate
from metasched.lang import parse_program
from metasched.operators import load
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.lir_interpreter import run_lir

HERE = Target.detect(threads=1)
ROWS = """
program rows[M=5, N=150, T=f32](X: T[M, N]) -> Y: T[M]:
    s: Y[i] = {reduce}[j](X[i, j])
"""
PRODUCT = """
program product[M=6, N=5, K=75](A: f32[M, K], B: f32[N, K]) -> C: f32[M, N]:
    dot: C[i, j] = sum[k](A[i, k] * B[j, k])
"""


def rows(reduce: str = "sum", **sizes: object) -> Schedule:
    return Schedule(parse_program(ROWS.format(reduce=reduce), **sizes))  # type: ignore[arg-type]


def agrees(sch: Schedule, low: int = -8, high: int = 8, target: Target = HERE) -> None:
    """On whole numbers, whose sums are exact in any order."""
    validate(sch.func)
    rng = np.random.default_rng(0)
    args = []
    for buffer in sch.program.func.inputs:
        shape = tuple(int(e.value) for e in buffer.shape if isinstance(e, Const))
        least = max(low, 0) if buffer.dtype.value.startswith("u") else low
        args.append(rng.integers(least, high, shape).astype(buffer.dtype.numpy))
    expected = reference(sch.program)(*args)
    result = np.full_like(expected, 77)
    build(sch.func, target)(*args, result)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("lanes", [1, 2, 3, 5, 16, 64])
@pytest.mark.parametrize("extent", [1, 2, 7, 64, 65, 150])
def test_any_number_of_terms_and_lanes(extent: int, lanes: int) -> None:
    sch = rows(N=extent)
    sch.vectorize(sch.get_loops(sch.get_block("s"))[-1], lanes=lanes)
    agrees(sch)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "u8", "i16", "i32", "i64"])
@pytest.mark.parametrize("reduce", ["sum", "max", "min", "prod"])
def test_every_type_and_reduction(dtype: str, reduce: str) -> None:
    sch = rows(reduce, T=dtype, N=23)
    sch.vectorize(sch.get_loops(sch.get_block("s"))[-1], lanes=16)
    agrees(sch, -1, 3)


@pytest.mark.parametrize("reduce", ["max", "min"])
def test_nan_and_infinities(reduce: str) -> None:
    sch = rows(reduce, M=4, N=40)
    sch.vectorize(sch.get_loops(sch.get_block("s"))[-1], lanes=16)
    x = np.random.default_rng(0).standard_normal((4, 40)).astype(np.float32)
    x[1, 39], x[2, 3] = np.nan, np.inf
    x[3] = -np.inf if reduce == "max" else np.inf
    out = np.empty(4, np.float32)
    build(sch.func, HERE)(x, out)
    np.testing.assert_array_equal(out, getattr(x, reduce)(axis=1))


def test_a_sum_of_negative_zeros() -> None:
    """From a negative zero, it is one: what lanes start from does not show."""
    text = """
    program f[N=20](X: f32[1, N], S: f32[1]) -> Y: f32[1]:
        s: C[i] = sum[j](X[i, j])
        out: Y[i] = C[i] + S[i]
    """
    sch = Schedule(parse_program(text))
    sch.fuse_reduction_epilogue(sch.get_block("s"), sch.get_block("out"))
    sch.vectorize(sch.get_loops(sch.get_block("s"))[-1], lanes=8)
    sums = query.find_block(sch.func, "s")
    assert isinstance(sums.init, Binary)
    func = query.replace_stmt(sch.func, sums, replace(sums, init=sums.init.b))
    out = np.ones(1, np.float32)
    build(func, HERE)(np.full((1, 20), -0.0, np.float32), np.full(1, -0.0, np.float32), out)
    assert np.signbit(out[0])


def blocked(sch: Schedule, rows: int | None = 2) -> Schedule:
    i, j, k = sch.get_loops(sch.get_block("dot"))
    k0, k1 = sch.split(k, [None, 16])
    i0, i1 = sch.split(i, [None, rows or 2])
    sch.reorder(i0, j, k0, i1, k1)
    sch.vectorize(k1, lanes=16)
    if rows is not None:
        sch.unroll(i1)
    return sch


def product(**sizes: int) -> Schedule:
    return Schedule(parse_program(PRODUCT, **sizes))


@pytest.mark.parametrize(
    "steps",
    [
        lambda s: blocked(s, 4),
        lambda s: blocked(s, 3),
        lambda s: blocked(s, None),
        lambda s: (blocked(s), s.parallel(s.get_loops(s.get_block("dot"))[0])),
        lambda s: (blocked(s), s.decompose_reduction(s.get_block("dot"), s.get_loops(s.get_block("dot"))[2])),
        lambda s: (
            s.vectorize(s.get_loops(s.get_block("dot"))[2], lanes=32),
            s.unroll(s.get_loops(s.get_block("dot"))[0]),
        ),
        lambda s: (
            blocked(s),
            s.annotate(s.get_block("dot"), "fastmath", True),
            s.annotate(s.get_block("dot"), "unroll_limit", 64),
        ),
        lambda s: (
            blocked(s),
            s.reverse_compute_at(s.cache_write(s.get_block("dot"), "register"), s.get_loops(s.get_block("dot"))[1]),
        ),
    ],
    ids=["imperfect", "perfect", "serial rows", "threads", "decomposed", "one loop", "notes", "register"],
)
def test_schedules(steps: Callable[[Schedule], object]) -> None:
    sch = product()
    steps(sch)
    agrees(sch)


def test_terms_that_are_left_out() -> None:
    text = """
    program conv[N=9](X: f32[N], W: f32[3]) -> Y: f32[N]:
        s: Y[i] = sum[k](W[k] * X[i + k - 1] if i + k >= 1 and i + k <= N else 0)
    """
    sch = Schedule(parse_program(text))
    sch.vectorize(sch.get_loops(sch.get_block("s"))[-1], lanes=4)
    agrees(sch)


def test_a_condition_on_a_loop_that_the_reduction_does_not_use() -> None:
    sch = rows(N=40)
    block = sch.get_block("s")
    _, j = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    unit0, unit1 = sch.split(sch.add_unit_loop(j0), [None, 4])
    sch.reorder(unit0, j0, unit1, j1)
    sch.vectorize(j1, lanes=16)
    agrees(sch)


@pytest.mark.parametrize("lanes", [None, 16])
def test_a_condition_on_a_loop_around_the_reduction(lanes: int | None) -> None:
    sch = rows(N=40)
    block = sch.get_block("s")
    _, j = sch.get_loops(block)
    _, unit = sch.split(sch.add_unit_loop(j), [None, 4])
    if lanes is not None:
        sch.vectorize(j, lanes=lanes)
    sch.decompose_reduction(block, unit)
    agrees(sch)


def test_fused_loops_of_a_reduction() -> None:
    sch = Schedule(
        parse_program("program f[M=3, N=7, K=5](X: f32[M, N, K]) -> Y: f32[M]:\n    s: Y[i] = sum[j, k](X[i, j, k])\n")
    )
    _, j, k = sch.get_loops(sch.get_block("s"))
    sch.vectorize(sch.fuse(j, k), lanes=8)
    agrees(sch)


def test_softmax_a_row_at_a_time() -> None:
    sch = Schedule(load("softmax", M=3, N=150))
    total, exponential, maximum, normal = (sch.get_block(n) for n in ("total", "exponential", "maximum", "normal"))
    i, j = sch.get_loops(normal)
    for block in (total, exponential, maximum):
        sch.compute_at(block, i)
    for block in (maximum, total):
        sch.vectorize(sch.get_loops(block)[-1], lanes=64)
    sch.vectorize(sch.get_loops(exponential)[-1], lanes=16)
    sch.vectorize(j, lanes=16)
    validate(sch.func)
    x = np.random.default_rng(0).standard_normal((3, 150)).astype(np.float32)
    out = np.empty_like(x)
    build(sch.func, HERE)(x, out)
    np.testing.assert_allclose(out, reference(sch.program)(x), rtol=2e-6)


# --- code ------------------------------------------------------------------------------------------------


def test_the_low_level_program() -> None:
    text = print_kernel(lower(blocked(product(M=4, N=1, K=64)).func, HERE))
    assert (
        text[text.index("    register") :]
        == """\
    register C.lanes: f32[32]
    for i_0 in range(2):
        for i_1_init in range(2):
            C[i_0*2 + i_1_init] = 0.0
        unrolled i_1_lanes in range(2):
            vector(16) k_1_lanes in range(16):
                C.lanes[i_1_lanes*16 + k_1_lanes] = -0.0
        for k_0 in range(4):
            unrolled i_1 in range(2):
                vector(16) k_1 in range(16):
                    C.lanes[i_1*16 + k_1] = C.lanes[i_1*16 + k_1] + A[i_0*128 + k_0*16 + i_1*64 + k_1] * B[k_0*16 + k_1]
        unrolled i_1_lanes_1 in range(2):
            vector(16) k_1_lanes_1 in range(16):
                C[i_0*2 + i_1_lanes_1] = C[i_0*2 + i_1_lanes_1] + C.lanes[i_1_lanes_1*16 + k_1_lanes_1]
""".replace("        for i_1_init", "        unrolled i_1_init")
    )


@pytest.mark.skipif("avx512f" not in HERE.features, reason="counts registers of 512 bits")
def test_several_accumulators_and_a_few_shuffles() -> None:
    sch = rows(N=1000)
    sch.vectorize(sch.get_loops(sch.get_block("s"))[-1], lanes=64)
    llvm = emit(lower(sch.func, HERE), HERE).text
    assert [f"<{n} x float>" for n in (32, 16, 8, 4, 2, 1)] == [
        m[1] for m in re.finditer(r"fadd contract (<(?:32|16|8|4|2|1) x float>)", llvm)
    ]
    asm = build(sch.func, HERE).asm
    body = asm[asm.index("body:") : asm.index("metasched_python:")]
    innermost = next(part for part in body.split("\t.p2align") if "vaddps" in part).partition("\tjb")[0]
    assert innermost.count("vaddps") == 4
    assert "rsp" not in body


def test_more_rows_than_registers_stay_in_memory() -> None:
    sch = product(M=40, N=1, K=32)
    i, _, k = sch.get_loops(sch.get_block("dot"))
    sch.vectorize(k, lanes=16)
    sch.reorder(i, k)
    assert "register C.lanes: f32[16]" in print_kernel(lower(sch.func, HERE))
    many = blocked(product(M=40, N=1, K=32), 40)
    assert "shared C.lanes: f32[640]" in print_kernel(lower(many.func, HERE))
    agrees(many)


def test_the_model_of_cost_sees_lanes() -> None:
    sch = rows()
    sch.vectorize(sch.get_loops(sch.get_block("s"))[-1], lanes=16)
    assert features_of(sch.func, HERE)[NAMES.index("s0.lanes")] == np.float32(np.log2(17))


@pytest.mark.parametrize(("extent", "lanes"), [(150, 16), (7, 16), (150, 64)])
def test_accesses_are_in_bounds_and_registers_are_known(extent: int, lanes: int) -> None:
    sch = rows(N=extent)
    sch.vectorize(sch.get_loops(sch.get_block("s"))[-1], lanes=lanes)
    x = np.arange(5 * extent, dtype=np.float32).reshape(5, extent) % 7
    np.testing.assert_array_equal(run_lir(lower(sch.func, HERE), [x]).data["Y"], x.sum(axis=1))


BYTES = """
program bytes[M=3, K=8, T=u8, U=i8](A: T[K], B: U[M, K]) -> C: i32[M]:
    dot: C[j] = sum[k]({term})
"""
DOT, DISTANCE = "i32(A[k]) * i32(B[j, k])", "max(i32(A[k]) - i32(B[j, k]), i32(B[j, k]) - i32(A[k]))"


@pytest.mark.parametrize(("term", "types"), [(DOT, "u8 i8"), (DOT, "i8 u8"), (DISTANCE, "u8 u8")])
@pytest.mark.parametrize(("extent", "lanes"), [(8, 8), (8, 64), (16, 16), (64, 64)])
def test_sums_of_bytes_are_whole(term: str, types: str, extent: int, lanes: int) -> None:
    left, right = types.split()
    sch = Schedule(parse_program(BYTES.format(term=term), K=extent, T=left, U=right))
    sch.vectorize(sch.get_loops(sch.get_block("dot"))[1], lanes=lanes)
    agrees(sch, high=100)
    agrees(sch, high=100, target=HERE.without(f for f in HERE.features if f.startswith("avx")))

"""What lowering makes of the nests that matter, as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.ir.nodes import Func, LoopKind, Store, seq
from metasched.lang import parse_program
from metasched.operators.experts import expert
from metasched.schedule.trace import Schedule
from tests.support.nests import block, buf, dense, func, ld, loops, matmul_store, relu, v
from tests.support.targets import AVX512

Golden = Callable[[str, str], None]


def product(n: int, *, limit: int, fused: bool) -> Func:
    """Tiles of 8 rows of 2 vectors of 16, the reduction in steps of 64."""
    i, j, k = v("i0") * 8 + v("i1"), v("j0") * 32 + v("j1"), v("k0") * 64 + v("k1")
    mm = block(
        "dense",
        {"vi": (n, i), "vj": (n, j), "vk": (n, k)},
        matmul_store(),
        guards=(i < n, j < n, k < n),
        reduce=("vk",),
    )
    up = lambda size: -(-n // size)  # noqa: E731
    tile = loops([("k0", up(64)), ("k1", 64), ("i1", 8), ("j1", 32, 16)], mm)
    outer = [("i0", up(8), LoopKind.PARALLEL), ("j0", up(32))]
    inputs = [buf("A", n, n), buf("B", n, n)]
    if not fused:
        return func("dense", inputs, [buf("C", n, n)], [], loops(outer, tile, limit=limit))
    i2, j2 = v("i0") * 8 + v("i2"), v("j0") * 32 + v("j2")
    act = block(
        "relu",
        {"vi": (n, i2), "vj": (n, j2)},
        Store("D", (v("vi"), v("vj")), relu(ld("C", v("vi"), v("vj")))),
        guards=(i2 < n, j2 < n),
    )
    after = loops([("i2", 8), ("j2", 32, 16)], act)
    return func("dense_relu", inputs, [buf("D", n, n)], [buf("C", n, n)], loops(outer, seq([tile, after]), limit=limit))


def test_product_with_its_activation(golden: Golden) -> None:
    golden("lowered_dense_relu", print_kernel(lower(product(512, limit=64, fused=True), AVX512)))


def test_product_alone_stores_its_accumulators(golden: Golden) -> None:
    golden("lowered_dense", print_kernel(lower(product(512, limit=64, fused=False), AVX512)))


def test_imperfect_tiles_unrolled(golden: Golden) -> None:
    golden("lowered_dense_imperfect", print_kernel(lower(product(500, limit=64, fused=False), AVX512)))


def test_imperfect_tiles_in_loops(golden: Golden) -> None:
    golden("lowered_dense_clipped", print_kernel(lower(product(500, limit=0, fused=True), AVX512)))


def test_unscheduled(golden: Golden) -> None:
    golden("lowered_unscheduled", print_kernel(lower(dense(7, 5, 3), AVX512)))


def test_partial_sums(golden: Golden) -> None:
    k = v("k0") * 16 + v("k1")
    partial = block(
        "s.rf",
        {"p": (16, v("k1")), "q": (8, v("k0"))},
        Store("S_rf", (v("p"),), ld("X", v("q") * 16 + v("p"))),
        guards=(k < 120,),
        reduce=("q",),
    )
    final = block("s", {"p": (16, v("k1_1"))}, Store("S", (), ld("S_rf", v("p"))), reduce=("p",))
    f = func(
        "total",
        [buf("X", 120)],
        [buf("S")],
        [buf("S_rf", 16)],
        loops([("k0", 8), ("k1", 16, 16)], partial),
        loops([("k1_1", 16)], final),
    )
    golden("lowered_partial_sums", print_kernel(lower(f, AVX512)))


def test_reduction_in_a_vectorised_loop(golden: Golden) -> None:
    mm = block("mm", {"vi": (4, v("i")), "vj": (40, v("j")), "vk": (9, v("k"))}, matmul_store(), reduce=("vk",))
    f = func(
        "mm", [buf("A", 4, 9), buf("B", 9, 40)], [buf("C", 4, 40)], [], loops([("i", 4), ("j", 40, 16), ("k", 9)], mm)
    )
    golden("lowered_strips", print_kernel(lower(replace(f, name="strips"), AVX512)))


def test_nests_that_share_a_parallel_region(golden: Golden) -> None:
    """A phase for each parallel loop, one of a single iteration for what one thread runs, and barriers."""
    program = parse_program(
        """
        program merged[N=64, M=8](A: f32[N, M]) -> (Y: f32[N, M], Z: f32[M]):
            B[i, j] = A[i, j] * 2
            S[i] = sum[j](B[i, j])
            T[] = sum[i](S[i])
            Y[i < N, j] = B[N - 1 - i, j] * T[]
            Z[j] = sum[i](Y[i, j])
        """
    )
    sch = Schedule(program)
    nests = [sch.get_loops(sch.get_block(name))[0] for name in ("B", "S", "Y")]
    for loop in nests:
        sch.parallel(loop)
    sch.merge_parallel(*nests)
    golden("lowered_parallel_region", print_kernel(lower(sch.func, AVX512)))


@pytest.mark.parametrize(
    "name", ["box_blur.rolling", "matmul_nn.vnni", "dense_bias_relu.from_bias", "depthwise_conv2d_nhwc.borders"]
)
def test_an_experts_trace(golden: Golden, name: str) -> None:
    found = expert(name)
    func = found.trace.apply_to(found.program()).func
    golden(f"lowered_{name.replace('.', '_')}", print_kernel(lower(func, AVX512)))

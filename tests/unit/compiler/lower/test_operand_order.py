"""Tiles whose operands do not all fit beside accumulators: the order of their loops, what is spilled, and results."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from metasched.compiler.cpu.spills import inner_loops
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.lang import parse_program
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.cross import AVX2, WIDE, assembly, plain

DENSE = """program dense[N=30, M=64, K=40](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])"""
FILTER = """program filter[W=15, C=32, R=3](X: f32[W + 2, 4], K: f32[R, 4, C]) -> Y: f32[W, C]:
    Y[w, c] = sum[r, q](X[w + r, q] * K[r, q, c])"""
TRIPLE = "x86_64-unknown-linux-gnu"
SKYLAKE, HASWELL = "skylake-avx512", "haswell"
WIDEST, NARROW = plain(SKYLAKE, frozenset((*AVX2, *WIDE))), plain(HASWELL, frozenset(AVX2))


def tile(rows: int, vectors: int, lanes: int = 16, terms: int = 1) -> Schedule:
    """A product whose tile is all of it, with `terms` of its sums in straight code."""
    sch = Schedule(parse_program(DENSE, N=rows, M=vectors * lanes))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    k0, k1 = sch.split(k, [None, terms])
    sch.reorder(k0, k1, i, j)
    sch.vectorize(j, lanes=lanes)
    sch.annotate(block, "unroll_limit", 128)
    return sch


def loops(sch: Schedule, target: Target = WIDEST) -> list[str]:
    """The lines inside the reduction, besides the update."""
    lines = [line.strip() for line in print_kernel(lower(sch.func, target)).splitlines()]
    start = next(n for n, line in enumerate(lines) if line.startswith("for k"))
    update = next(n for n, line in enumerate(lines) if line.startswith("C.acc[") and "A[" in line)
    return lines[start + 1 : update]


def spilled(sch: Schedule, target: Target, cpu: str) -> int:
    """Vectors that innermost loops store for lack of registers."""
    text = assembly(sch.func, target, TRIPLE, cpu, "", comments=True)
    assert "Inner Loop Header" in text
    return sum(loop.stores for loop in inner_loops(text))


def test_what_fits_is_as_the_schedule_has_it() -> None:
    assert loops(tile(8, 3)) == ["unrolled i in range(8):", "vector(16, unrolled) j in range(48):"]
    assert loops(tile(30, 1)) == ["unrolled i in range(30):", "vector(16) j in range(16):"]


def test_one_vector_after_the_other() -> None:
    assert loops(tile(2, 13)) == [
        "unrolled j_strip in range(13):",
        "unrolled i in range(2):",
        "vector(16) j in range(16):",
    ]


def test_vectors_take_turns() -> None:
    assert loops(tile(15, 2)) == [
        "unrolled j_strip in range(2):",
        "reread",
        "unrolled i in range(15):",
        "vector(16) j in range(16):",
    ]


def test_rows_take_turns() -> None:
    assert loops(tile(2, 15)) == [
        "unrolled i in range(2):",
        "reread",
        "unrolled j_strip in range(15):",
        "vector(16) j in range(16):",
    ]


def test_terms_in_straight_code_keep_their_order() -> None:
    assert loops(tile(15, 2, terms=2)) == [
        "unrolled k_1 in range(2):",
        "unrolled j_strip in range(2):",
        "reread",
        "unrolled i in range(15):",
        "vector(16) j in range(16):",
    ]


def test_a_tile_with_lanes_left_over_stays() -> None:
    sch = Schedule(parse_program(DENSE, N=15, M=30))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.reorder(k, i, j)
    sch.vectorize(j, lanes=16)
    sch.annotate(block, "unroll_limit", 128)
    assert loops(sch) == ["unrolled i in range(15):", "vector(16, unrolled) j in range(30):"]


def test_rows_take_turns_where_a_vector_has_lanes_left_over() -> None:
    # Of 27 accumulators of 12 lanes, with 9 broadcasts kept beside them, many were spilled.
    text = """program contract[B=3, C=9, F=40](X: f32[C, F], Y: f32[F, B, 12]) -> Z: f32[B, C, 12]:
    Z[b, c, d] = sum[f](X[c, f] * Y[f, b, d])"""
    sch = Schedule(parse_program(text))
    block = sch.get_block("Z")
    b, c, d, f = sch.get_loops(block)
    sch.reorder(f, b, c, d)
    sch.vectorize(d, lanes=16)
    sch.annotate(block, "unroll_limit", 128)
    assert spilled(sch, WIDEST, SKYLAKE) == 0


# Not 2 rows of 14 vectors, nor 7 rows of 4: of these, one vector is spilled, which costs less than to read all again.
TILES = [(24, 1), (28, 1), (31, 1), (6, 4), (12, 2), (14, 2), (15, 2), (8, 3), (9, 3), (10, 3), (6, 5)]


@pytest.mark.parametrize(
    ("rows", "vectors"), [*TILES, (4, 6), (2, 12), (2, 13), (2, 15), (3, 8), (3, 9), (3, 10), (5, 6), (1, 31)]
)
def test_nothing_is_spilled_of_32_registers(rows: int, vectors: int) -> None:
    assert spilled(tile(rows, vectors), WIDEST, SKYLAKE) == 0


@pytest.mark.parametrize(("rows", "vectors"), [(14, 1), (6, 2), (2, 6), (4, 3), (3, 4), (7, 2), (2, 7)])
def test_nothing_is_spilled_of_16_registers(rows: int, vectors: int) -> None:
    assert spilled(tile(rows, vectors, lanes=8), NARROW, HASWELL) == 0


def test_turns_fold_broadcasts_and_cost_no_instruction() -> None:
    text = assembly(tile(15, 2).func, WIDEST, TRIPLE, SKYLAKE, "")
    assert text.count("{1to16}") == 30
    assert "fence" not in text
    neon = plain("cortex-a76", frozenset({"neon", "fullfp16"}))
    sch = tile(15, 2, lanes=4)
    assert "reread" in loops(sch, neon)
    text = assembly(sch.func, neon, "aarch64-unknown-linux-gnu", "cortex-a76", "+neon,+fullfp16")
    assert "fmla" in text
    assert "dmb" not in text


def kernel(sch: Schedule) -> Kernel:
    return Kernel(build(sch.func, Target.detect(threads=1)))


def result(sch: Schedule, *inputs: np.ndarray) -> np.ndarray:
    return kernel(sch)(*inputs)


@pytest.mark.parametrize(
    ("rows", "vectors", "terms"),
    [
        *((15, 2, 1), (2, 15, 1), (2, 13, 1), (31, 1, 1), (1, 31, 1), (10, 3, 1), (5, 5, 1), (4, 7, 1)),
        *((15, 2, 4), (2, 13, 4), (31, 1, 4)),
    ],
)
def test_sums_have_their_terms_in_order(rows: int, vectors: int, terms: int) -> None:
    """To the bit as one row after the other, whose tiles are not crowded."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape, np.float32) for shape in ((rows, 40), (40, vectors * 16)))
    out = result(tile(rows, vectors, terms=terms), x, y)
    assert np.allclose(out, x @ y, rtol=1e-4, atol=1e-4)
    row = kernel(tile(1, vectors, terms=terms))
    assert np.array_equal(out, np.concatenate([row(x[n : n + 1], y) for n in range(rows)]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [("A[i, k] * A[k, j]", lambda a: a @ a), ("A[i, k] * A[k, j] * A[k, j]", lambda a: a @ (a * a))],
)
def test_both_operands_are_of_one_array(value: str, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    sch = Schedule(parse_program(f"program square[N=30](A: f32[N, N]) -> C: f32[N, N]:\n    C[i, j] = sum[k]({value})"))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i_0, i_1 = sch.split(i, [None, 15])
    sch.reorder(i_0, k, i_1, j)
    sch.vectorize(j, lanes=15)
    sch.annotate(block, "unroll_limit", 128)
    assert "reread" in print_kernel(lower(sch.func, WIDEST))
    a = np.random.default_rng(2).integers(-9, 9, (30, 30)).astype(np.float32)
    assert np.array_equal(result(sch, a), expected(a))


def test_sums_along_lanes_stay() -> None:
    sch = Schedule(
        parse_program(
            "program g[N=5, M=6, K=64](A: f32[M, K], B: f32[N]) -> C: f32[N, M]:\n    C[i, j] = sum[k](A[j, k] * B[i])"
        )
    )
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    k_0, k_1 = sch.split(k, [None, 16])
    sch.reorder(k_0, i, j, k_1)
    sch.vectorize(k_1, lanes=16)
    sch.annotate(block, "unroll_limit", 128)
    assert "reread" not in print_kernel(lower(sch.func, WIDEST))
    rng = np.random.default_rng(3)
    a, b = rng.integers(-9, 9, (6, 64)), rng.integers(-9, 9, 5)
    expected = b[:, None] * a.sum(1)
    assert np.array_equal(result(sch, a.astype(np.float32), b.astype(np.float32)), expected)


def test_operands_of_a_convolution_take_turns() -> None:
    sch = Schedule(parse_program(FILTER))
    block = sch.get_block("Y")
    w, c, r, q = sch.get_loops(block)
    sch.reorder(q, r, w, c)
    sch.vectorize(c, lanes=16)
    sch.unroll(r)
    sch.annotate(block, "unroll_limit", 128)
    assert "reread" in print_kernel(lower(sch.func, WIDEST))
    rng = np.random.default_rng(1)
    x, k = rng.integers(-9, 9, (17, 4)), rng.integers(-9, 9, (3, 4, 32))
    expected = sum(np.einsum("wq,qc->wc", x[n : n + 15], k[n]) for n in range(3))
    assert np.array_equal(result(sch, x.astype(np.float32), k.astype(np.float32)), expected)


def test_each_register_of_a_wide_vector_is_an_operand() -> None:
    """Three broadcasts fit beside twelve sums; the four registers that are multiplied by them do not."""
    wide = tile(3, 2, lanes=16, terms=4)
    assert loops(wide, NARROW) == [
        "unrolled k_1 in range(4):",
        "unrolled j_strip in range(4):",
        "unrolled i in range(3):",
        "vector(8) j in range(8):",
    ]
    assert spilled(wide, NARROW, HASWELL) == 0

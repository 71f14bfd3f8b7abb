"""Sums in blocks: whatever the nest is, every term is in one of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import metasched as ms
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.errors import ScheduleError
from metasched.ir.nodes import Const
from metasched.ir.validate import validate
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.target import Target
from tests.support.lir_interpreter import run_lir
from tests.support.targets import AVX2

HERE = Target.detect(threads=2)
PRODUCT = """
program product[M=3, N=10, K=90](A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    dot: C[i, j] = sum[k](A[i, k] * B[k, j])
"""
COLUMNS = "program columns[N=100000](X: f32[N, 4]) -> Y: f32[4]:\n    s: Y[j] = sum[i](X[i, j])\n"


def product(length: int) -> tuple[ms.Schedule, ms.BlockRV, list[ms.LoopRV]]:
    sch = ms.Schedule(ms.parse_program(PRODUCT))
    dot = sch.get_block("dot")
    sch.annotate(dot, "blocked_sum", length)
    return sch, dot, list(sch.get_loops(dot))


def agrees(sch: ms.Schedule) -> str:
    """On whole numbers, whose sums are exact in any order; the low-level program."""
    validate(sch.func)
    rng = np.random.default_rng(0)
    args = [
        rng.integers(-8, 8, [int(e.value) for e in b.shape if isinstance(e, Const)]).astype(b.dtype.numpy)
        for b in sch.program.func.inputs
    ]
    expected = reference(sch.program)(*args)
    result = np.full_like(expected, 77)
    build(sch.func, HERE)(*args, result)
    np.testing.assert_array_equal(result, expected)
    text = print_kernel(lower(sch.func, HERE))
    interpreted = run_lir(lower(sch.func, HERE), args).data[sch.func.outputs[0].name]
    np.testing.assert_array_equal(interpreted.reshape(expected.shape), expected)
    return text


def as_written(sch: ms.Schedule, i: ms.LoopRV, j: ms.LoopRV, k: ms.LoopRV) -> None:
    """Loops as they are."""


def terms_outside(sch: ms.Schedule, i: ms.LoopRV, j: ms.LoopRV, k: ms.LoopRV) -> None:
    sch.reorder(k, i, j)
    sch.vectorize(j, lanes=4)


def register_tile(sch: ms.Schedule, i: ms.LoopRV, j: ms.LoopRV, k: ms.LoopRV) -> None:
    i0, i1 = sch.split(i, [None, 2])
    j0, j1 = sch.split(j, [None, 8])
    k0, k1 = sch.split(k, [None, 11])
    sch.reorder(i0, k0, j0, k1, i1, j1)
    sch.parallel(i0)
    sch.unroll(i1)
    sch.vectorize(j1, lanes=8)


def unrolled_terms(sch: ms.Schedule, i: ms.LoopRV, j: ms.LoopRV, k: ms.LoopRV) -> None:
    sch.unroll(sch.split(k, [None, 4])[1])


def lanes(sch: ms.Schedule, i: ms.LoopRV, j: ms.LoopRV, k: ms.LoopRV) -> None:
    sch.vectorize(k, lanes=4)


def threads_inside(sch: ms.Schedule, i: ms.LoopRV, j: ms.LoopRV, k: ms.LoopRV) -> None:
    sch.reorder(k, i, j)
    sch.parallel(i)


def factored(sch: ms.Schedule, i: ms.LoopRV, j: ms.LoopRV, k: ms.LoopRV) -> None:
    sch.rfactor(sch.split(k, [None, 45])[0])


def start_apart(sch: ms.Schedule, i: ms.LoopRV, j: ms.LoopRV, k: ms.LoopRV) -> None:
    sch.decompose_reduction(sch.get_block("dot"), k)


NESTS = [as_written, terms_outside, register_tile, unrolled_terms, lanes, threads_inside, factored, start_apart]


@pytest.mark.parametrize(
    ("steps", "length"),
    [
        *((steps, length) for steps in NESTS for length in (7, 1000)),
        *((steps, length) for steps in (as_written, register_tile, lanes) for length in (2, 20)),
    ],
)
def test_any_nest_and_any_length(steps: Callable[..., None], length: int) -> None:
    sch, _, loops = product(length)
    steps(sch, *loops)
    text = agrees(sch)
    assert ("_part" in text) is (length < 1000)


@pytest.mark.parametrize(
    ("terms", "most", "steps"),
    [(20, 8, 5), (90, 7, 6), (12, 6, 6), (22, 8, 8), (23, 8, 8)],
    ids=["a divisor", "a closer one", "that many", "a divisor of less than half", "a prime"],
)
def test_blocks_are_equal_where_they_need_not_be_half_as_long(terms: int, most: int, steps: int) -> None:
    sch = ms.Schedule(ms.parse_program(PRODUCT, K=terms))
    sch.annotate(sch.get_block("dot"), "blocked_sum", most)
    loops = [line.strip() for line in agrees(sch).splitlines() if line.strip().startswith("for k_")]
    blocks, own = -(-terms // steps), f"range({steps})" if terms % steps == 0 else "min("
    assert f"range({blocks})" in loops[0]
    assert own in loops[1]


def test_a_tile_of_accumulators_stays_in_registers() -> None:
    sch, _, (i, j, k) = product(16)
    register_tile(sch, i, j, k)
    assert "register C_part" in agrees(sch)


def test_blocks_lose_fewer_digits() -> None:
    """Blocks of 512 of 10^5 terms: additions one after another are 196 and 512."""
    program = ms.parse_program(COLUMNS)
    X = np.random.default_rng(0).random((100000, 4), dtype=np.float32)
    right = X.sum(0, dtype=np.float64)
    plain, blocked = ms.Schedule(program), ms.Schedule(program)
    blocked.annotate(blocked.get_block("s"), "blocked_sum", 512)
    errors = [np.abs(ms.compile(program, trace=s.trace)(X) / right - 1).max() for s in (plain, blocked)]
    assert errors[1] < 1e-6
    assert errors[0] > 4 * errors[1]


def test_what_is_no_sum_of_floats() -> None:
    sch = ms.Schedule(ms.parse_program("program p[N=8](X: i32[N]) -> Y: i32[1]:\n    s: Y[j < 1] = sum[i](X[i])\n"))
    with pytest.raises(ScheduleError, match="`s` is not a sum of floats"):
        sch.annotate(sch.get_block("s"), "blocked_sum", 512)
    with pytest.raises(ScheduleError, match='"blocked_sum" is about a block'):
        sch.annotate(sch.get_loops(sch.get_block("s"))[0], "blocked_sum", 512)


SCALED = """
program scaled[M=3, N=10, B=6](A: f32[M, 16*B], Q: f32[16*B, N], S: f32[B, N]) -> C: f32[M, N]:
    dot: C[i, j] = sum[k < 16*B](A[i, k] * (Q[k, j] * S[k // 16, j]))
"""


@pytest.mark.parametrize(("terms", "common"), [(16, True), (8, True), (32, False)])
def test_a_common_factor_multiplies_the_sum_of_a_block(terms: int, common: bool) -> None:
    sch = ms.Schedule(ms.parse_program(SCALED))
    dot = sch.get_block("dot")
    i, j, k = sch.get_loops(dot)
    blocks, run = sch.split(k, [None, terms])
    sch.reorder(i, blocks, run, j)
    sch.annotate(dot, "blocked_sum", terms)
    sch.annotate(dot, "common_factor", True)
    (read,) = [line for line in agrees(sch).splitlines() if "S[" in line]
    assert ("* C_part[" in read or "C_part[j_part_1] * S[" in read) is common
    assert ("A[" in read) is not common


def test_a_common_factor_is_of_blocks() -> None:
    sch = ms.Schedule(ms.parse_program(SCALED))
    with pytest.raises(ScheduleError, match="the sum `dot` is not taken in blocks"):
        sch.annotate(sch.get_block("dot"), "common_factor", True)


def test_a_negative_length() -> None:
    sch, dot, _ = product(0)
    with pytest.raises(ScheduleError, match="counts terms, and is less than 0"):
        sch.annotate(dot, "blocked_sum", -1)


@pytest.mark.parametrize(
    ("rows", "total"),
    [pytest.param(3, ArrayKind.REGISTER, id="both fit"), pytest.param(6, ArrayKind.SHARED, id="only one fits")],
)
def test_sums_of_blocks_have_registers_before_their_totals(rows: int, total: ArrayKind) -> None:
    """A total that is read from registers leaves none for sums that are added to at every term."""
    sch = ms.Schedule(ms.parse_program(PRODUCT, M=6, N=16))
    dot = sch.get_block("dot")
    sch.annotate(dot, "blocked_sum", 30)
    i, j, k = sch.get_loops(dot)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, k, i1, j1)
    copy = sch.cache_write(dot)
    sch.reverse_compute_at(copy, j0)
    for block in (dot, copy):
        sch.vectorize(sch.get_loops(block)[-1], lanes=8)
        sch.annotate(block, "unroll_limit", 16)
    kinds = {array.name: array.kind for array in lower(sch.func, AVX2).arrays}
    assert kinds["C_global"] is total
    assert kinds["C_global_part"] is ArrayKind.REGISTER
    agrees(sch)


PARITIES = """
program upsampled[N=8, K=24](X: f32[N, K], W: f32[3, K]) -> Y: f32[3*N]:
    up: Y[i] = sum[r, k if (i + 2*r) % 3 == 0](X[min((i + 2*r) // 3, N - 1), k] * W[r, k])
"""


def test_blocks_without_a_term_are_not_begun_nor_added() -> None:
    """Two of three copies of the code have no term, whatever the other loops are at."""
    sch = ms.Schedule(ms.parse_program(PARITIES))
    up = sch.get_block("up")
    sch.annotate(up, "blocked_sum", 8)
    i, r, k = sch.get_loops(up)
    i0, i1 = sch.split(i, [None, 3])
    sch.reorder(i0, i1, r, k)
    sch.unroll(i1)
    sch.unroll(r)
    text = agrees(sch)
    begun = [line for line in text.splitlines() if "= -0" in line]
    assert begun
    conditions = [n for n, line in enumerate(text.splitlines()) if "% 3 == 0" in line]
    lines = text.splitlines()
    for line in begun:
        place = lines.index(line)
        around = [n for n in conditions if n < place and _depth(lines[n]) < _depth(line)]
        assert around, text


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())

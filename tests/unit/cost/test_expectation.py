"""What the roofline expects of a schedule, and which term limits it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import metasched as ms
from metasched import operators
from metasched.cost.baseline import analytic_score
from metasched.cost.core import Core
from metasched.cost.expectation import (
    Limit,
    expectation_of,
    least_cycles,
    least_transfer_cycles,
    least_vector_cycles,
)
from metasched.cost.features import features_of
from tests.support.cross import AVX2, WIDE

LAPTOP = ms.Target("haswell", frozenset({"avx", "avx2", "fma"}), 2, 32 << 10, 512 << 10, 32 << 20)
SERVER = ms.Target("sapphirerapids", frozenset({"avx512f", "fma"}), 2, 32 << 10, 1 << 20, 32 << 20)


def scheduled(name: str, **params: int) -> ms.Schedule:
    return operators.expert(name).trace.apply_to(operators.load(name.partition(".")[0], **params), ms.Policy.REPAIR)


@pytest.mark.parametrize(
    ("name", "params", "limit"),
    [
        ("matmul_nn.goto", {"M": 1024, "N": 1024, "K": 1024}, Limit.OPERATIONS),
        ("scale_shift_add_relu.folded", {"M": 8192, "N": 4096}, Limit.MEMORY),
        ("scale_shift_add_relu.folded", {"M": 4, "N": 64}, Limit.LAUNCH),
    ],
)
def test_the_term_that_limits(name: str, params: dict[str, int], limit: Limit) -> None:
    found = expectation_of(scheduled(name, **params).func, SERVER)
    assert found.limit is limit
    assert limit.value in str(found)
    assert ("bound by memory" in str(found)) == (limit is Limit.MEMORY)


def test_it_is_the_estimate_that_a_search_starts_from() -> None:
    func = scheduled("softmax.fast", M=256, N=512).func
    found = expectation_of(func, SERVER)
    assert found.cycles == pytest.approx(2.0 ** -analytic_score(features_of(func, SERVER)[None, :])[0], rel=1e-4)
    assert sum(found.parts.values()) >= found.cycles


def test_no_schedule_goes_below_its_operations() -> None:
    program = operators.load("matmul_nn", M=512, N=512, K=512)
    least = least_cycles(program.func, SERVER)
    assert least == 512**3 / 16 / 2 / 2  # a multiply-add for a vector of 16, two a cycle, on two threads
    assert expectation_of(scheduled("matmul_nn.small", M=512, N=512, K=512).func, SERVER).cycles > least
    assert least_cycles(program.func, SERVER.with_threads(1)) == 2 * least
    assert least_vector_cycles(program.func, SERVER) == least


def test_without_intrinsics_operations_take_longer() -> None:
    program = operators.load("matmul_nn", M=64, N=64, K=64, T="u8", U="i8", ACC="i32")
    with_vnni = ms.Target("znver4", SERVER.features | {"avx512vnni", "avx512bw"}, 2, 32 << 10, 1 << 20, 32 << 20)
    least = least_vector_cycles(program.func, with_vnni)
    assert least == least_cycles(program.func, SERVER)
    assert least_cycles(program.func, with_vnni) < least / 2


def test_no_schedule_goes_below_what_it_moves() -> None:
    """The arguments of a product stay in the second cache; those of an elementwise program come from memory."""
    text = "program p[N=4096](A: f32[N, N]) -> B: f32[N, N]:\n    B[i, j] = A[i, j] + 1"
    copied = ms.parse_program(text).func
    least = least_transfer_cycles(copied, SERVER)
    assert least == pytest.approx(2 * 4096**2 * 4 / 5 / 2)  # 5 bytes of memory a cycle of each of two threads
    assert expectation_of(copied, SERVER.with_threads(1)).cycles > least_transfer_cycles(copied, SERVER.with_threads(1))
    assert least_transfer_cycles(ms.parse_program(text, N=1024).func, SERVER) == pytest.approx(3 * 1024**2 * 4 / 12 / 2)
    assert least_transfer_cycles(operators.load("matmul_nn", M=256, N=256, K=256).func, SERVER) == 0


def test_of_what_a_condition_leaves_out_nothing_is_moved() -> None:
    text = "program p[N=4096](A: f32[N, N]) -> B: f32[N]:\n    B[i] = sum[j{}](A[i, j])"
    every, odd = (
        least_transfer_cycles(ms.parse_program(text.format(c)).func, SERVER) for c in ("", " if (i + j) % 2 == 1")
    )
    assert odd < 0.6 * every


def test_terms_that_a_condition_leaves_out_are_no_operations() -> None:
    text = "program p[N=64, M=64](A: f32[N, M]) -> B: f32[N]:\n    B[i] = sum[j if {}](A[i, j])"
    every, odd, few = (
        least_cycles(ms.parse_program(text.format(c)).func, SERVER) for c in ("j < 64", "(i + j) % 2 == 1", "j < 16")
    )
    assert odd == pytest.approx(every / 2)
    assert few == pytest.approx(every / 4)


@pytest.mark.parametrize("stored", ["u8", "i16", "bf16"])
def test_the_least_is_of_vectors_of_what_is_computed(stored: str) -> None:
    """Were the results counted in vectors of bytes, a machine could do four times as much as it can."""
    text = "program p(A: f32[4096]) -> B: {0}[4096]:\n    B[i] = {0}(A[i] * A[i] + A[i])"
    bare = "program p(A: f32[4096]) -> B: f32[4096]:\n    B[i] = A[i] * A[i] + A[i]"
    narrow, wide = (ms.parse_program(each).func for each in (text.format(stored), bare))
    assert least_cycles(narrow, SERVER) == pytest.approx(least_cycles(wide, SERVER) * 3 / 2)  # with the conversion
    assert expectation_of(narrow, SERVER).efficiency <= expectation_of(wide, SERVER).efficiency


def test_an_intrinsic_of_the_target_does_more_in_a_cycle() -> None:
    program = operators.load("matmul_nn", M=512, N=512, K=512, T="u8", U="i8", ACC="i32")
    vectors = least_cycles(program.func, SERVER)
    vnni = replace(SERVER, features=SERVER.features | {"avx512vnni"})
    assert least_cycles(program.func, vnni) == 512**3 / 64 / 2 / 2 < vectors


def test_accumulators_in_registers_bring_nothing_into_a_cache() -> None:
    """An estimate grows with the work: a tile's sums are stored once, however often the tile runs over its terms."""
    small, large = (
        expectation_of(scheduled("transpose_batch_matmul.heads", L=length, HEADS=12, D=64).func, SERVER).parts[Limit.L2]
        for length in (256, 1024)
    )
    assert large < 60 * small  # sixteen times the work; more than a hundred times, where every term had moved its sum


def product(rows: int, columns: int) -> ms.Schedule:
    """A product of matrices by register tiles of so many rows and columns."""
    sch = ms.Schedule(operators.load("matmul_nn", M=84, N=256, K=256))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i0, i1), (j0, j1) = sch.split(i, [None, rows]), sch.split(j, [None, columns])
    sch.reorder(i0, j0, k, i1, j1)
    sch.vectorize(j1, lanes=8)
    sch.annotate(block, "unroll_limit", 64)
    return sch


def test_broadcasts_bound_a_tile_where_they_are_instructions_of_their_own() -> None:
    wide, tall, again = (product(*tile).func for tile in ((6, 16), (12, 8), (7, 16)))
    assert expectation_of(wide, LAPTOP).limit is Limit.OPERATIONS
    for func in (tall, again):  # a broadcast for each product; in the second because there are too few registers
        assert expectation_of(func, LAPTOP).limit is Limit.PORTS
        assert expectation_of(func, LAPTOP).cycles > 1.5 * expectation_of(wide, LAPTOP).cycles
        assert expectation_of(func, LAPTOP, Core(broadcasts=2.0)).cycles < 0.75 * expectation_of(func, LAPTOP).cycles
        assert expectation_of(func, SERVER, Core(broadcasts=0.1)) == expectation_of(func, SERVER)


WIDE_TARGET = ms.Target("any", frozenset((*AVX2, *WIDE)), 2, 48 << 10, 2 << 20, 100 << 20)
ARGMAX = """program best(X: f32[1000, 512]) -> (V: f32[512], P: i64[512]):
    V[j], P[j] = argmax[i](X[i, j])
"""
MAXIMUM = """program best(X: f32[1000, 512]) -> V: f32[512]:
    V[j] = max[i](X[i, j])
"""


def cycles_of_columns(text: str, columns: int) -> float:
    """Of columns side by side in registers, down all rows."""
    sch = ms.Schedule(ms.parse_program(text))
    j, i = sch.get_loops(sch.get_block("V"))
    outer, inner = sch.split(j, [None, columns])
    sch.reorder(outer, i, inner)
    sch.parallel(outer)
    sch.vectorize(inner, lanes=16)
    sch.annotate(sch.get_block("V"), "unroll_limit", 256)
    return expectation_of(sch.func, WIDE_TARGET).cycles


@pytest.mark.parametrize(("text", "most"), [(ARGMAX, 128), (MAXIMUM, 256)], ids=["arg-reduction", "maximum"])
def test_more_columns_than_registers_hold_take_longer(text: str, most: int) -> None:
    """Of 512 columns, 1000 rows: 256 at a time with their positions took 47 us, and fewer 26 (Zen 4)."""
    assert cycles_of_columns(text, most) <= 1.1 * cycles_of_columns(text, 64)
    assert cycles_of_columns(text, 2 * most) > (2 if text is ARGMAX else 1) * cycles_of_columns(text, most)

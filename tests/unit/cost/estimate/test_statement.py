"""Features of one statement where they follow what lowering does: unrolling, accumulators, vector widths."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lower import lower
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.condition_cycles import joint_share
from metasched.cost.estimate.statement import StatementView
from metasched.cost.features import NAMES, FeatureProgram
from metasched.cost.program.nest import Analyses, analyse
from metasched.cost.program.operations import count
from metasched.dtypes import DType
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.node_base import Node
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Func,
    Load,
    Reducer,
    Scope,
    Select,
    Var,
    lift,
)
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.cross import assembly
from tests.support.targets import AVX2, AVX512
from tests.unit.cost.conftest import COLUMNS, dense_relu

A, B = (Load(name, (Var("i"),), DType.F32) for name in "AB")
N, M = (Load(name, (Var("i"),), DType.I32) for name in "NM")


def value(func: Func, row: list[int], name: str, target: Target | None = None) -> float:
    """A feature of one row, back from its logarithm."""
    features = FeatureProgram(func, COLUMNS, target or AVX512)(np.array([row]))[0]
    return float(np.exp2(features[NAMES.index(name)]) - 1)


def with_loops(func: Func, change: dict[str, dict[str, object]]) -> Func:
    """`func` with fields of some loops replaced."""

    def visit(node: Node) -> Node:
        node = node.map(visit)
        return replace(node, **change[node.var]) if isinstance(node, For) and node.var in change else node

    return func.map(visit)


def in_memory(func: Func) -> Func:
    """`func` with its accumulators in a plain buffer."""
    return replace(func, temps=tuple(replace(b, scope=Scope.GLOBAL) for b in func.temps))


@pytest.mark.parametrize(
    ("limit", "copies"),
    [(1, 1), (2, 2), (15, 2), (16, 16), (64, 64), (255, 64)],  # 2 strips of j2, 8 of i2, 4 of k1
)
def test_the_innermost_run_is_unrolled_within_the_limit(limit: int, copies: int) -> None:
    assert value(in_memory(dense_relu()), [4, 8, 4, 32, 4, limit], "s0.copies") == pytest.approx(copies, rel=1e-5)


def test_nothing_is_unrolled_without_a_limit() -> None:
    func = with_loops(in_memory(dense_relu()), {"i1": {"annotations": ()}})
    assert value(func, [4, 8, 4, 32, 4, 512], "s0.copies") == pytest.approx(1)


def test_loops_over_a_register_buffer_are_unrolled_whatever_the_limit() -> None:
    assert value(dense_relu(), [4, 8, 4, 32, 4, 1], "s0.copies") == pytest.approx(16, rel=1e-5)


@pytest.mark.parametrize(("rows", "held"), [(8, 1), (14, 1), (15, 1), (16, 0)])
def test_accumulators_are_held_where_they_fit(rows: int, held: int) -> None:
    features = FeatureProgram(in_memory(dense_relu()), COLUMNS, AVX512)(np.array([[4, rows, 4, 32, 4, 64]]))[0]
    assert features[NAMES.index("s0.held")] == held


STRIDED = """program strided[N=64, C=32, S=2](X: f32[S*N + 1, C], K: f32[C, 16]) -> Y: f32[N, 16]:
    Y[n, o] = sum[c](X[S*n, c] * K[c, o])
"""


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_tile_loads_what_it_uses_whatever_lies_between(stride: int) -> None:
    schedule = Schedule(parse_program(STRIDED, S=stride), seed=0)
    block = schedule.get_block("Y")
    n, o, c = schedule.get_loops(block)
    n0, n1 = schedule.split(n, [None, 8])
    schedule.reorder(n0, c, n1, o)
    schedule.vectorize(o, lanes=16)
    schedule.unroll(n1)
    features = FeatureProgram(schedule.func, (), AVX512)(np.empty((1, 0), np.int64))[0]
    # 8 elements that are broadcast, and a vector, for 8 multiplications.
    assert features[NAMES.index("s0.loads_per_operation")] == pytest.approx(9 / 8)


@pytest.mark.parametrize(("rows", "loads"), [(14, (14 + 2) / 28), (15, (15 * 2 + 2) / 30)])
def test_operands_that_do_not_fit_are_read_again(rows: int, loads: float) -> None:
    features = FeatureProgram(in_memory(dense_relu()), COLUMNS, AVX512)(np.array([[4, rows, 4, 32, 4, 64]]))[0]
    assert features[NAMES.index("s0.loads_per_operation")] == pytest.approx(loads, rel=1e-5)


def test_a_crowded_tile_that_reads_nothing() -> None:
    program = parse_program("program r[N=60, M=64, K=8]() -> C: f32[N, M]:\n    C[i, j] = sum[k < K](f32(i*k + j))")
    sch = Schedule(program)
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    (i_0, i_1), (j_0, j_1) = sch.split(i, [None, 15]), sch.split(j, [None, 32])
    sch.reorder(i_0, j_0, k, i_1, j_1)
    sch.vectorize(j_1, lanes=16)
    sch.annotate(block, "unroll_limit", 512)
    assert np.isfinite(FeatureProgram(sch.func, (), AVX512)(np.zeros((1, 0), np.int64))).all()


def test_accumulators_are_not_held_where_loops_stay() -> None:
    features = FeatureProgram(in_memory(dense_relu()), COLUMNS, AVX512)(np.array([[4, 8, 4, 32, 4, 8]]))[0]
    assert features[NAMES.index("s0.held")] == 0


def test_a_vector_wider_than_a_register_takes_several() -> None:
    wide = with_loops(dense_relu(), {"j2_b": {"lanes": Const(32)}})
    row = [4, 8, 4, 32, 4, 64]
    assert value(wide, row, "s0.accumulators") == pytest.approx(16, rel=1e-5)
    narrow = AVX2
    assert value(dense_relu(), row, "s0.accumulators", narrow) == pytest.approx(32, rel=1e-5)


def test_a_guard_over_unrolled_loops_stays_a_condition_there() -> None:
    func = dense_relu(500, 512, 512)
    assert value(func, [4, 8, 4, 32, 4, 64], "s0.unrolled_guards") == pytest.approx(1)
    assert value(func, [1, 1, 4, 32, 4, 64], "s0.unrolled_guards") == pytest.approx(0)


_BYTE = Load("U", (Var("i"),), DType.U8)
_SIGNED_BYTE = Load("V", (Var("i"),), DType.I8)


@pytest.mark.parametrize(
    ("e", "reducer", "flops", "instructions"),
    [
        (A * B, Reducer.SUM, 2, 1.0),
        (A + B, Reducer.SUM, 2, 2.0),
        (A, Reducer.MAX, 1, 3.0),
        (N, Reducer.MAX, 1, 1.0),
        (Binary(BinOp.MAX, A, B), None, 1, 3.0),
        (Binary(BinOp.MAX, A, lift(0.0, A)), None, 1, 1.0),
        (A / B, None, 1, 18.0),
        (Call("exp", (A,), DType.F32), None, 1, 16.0),
        (A, None, 0, 1.0),
        (N * M, Reducer.SUM, 2, 3.0),
        (Cast(_BYTE, DType.I32) * Cast(_SIGNED_BYTE, DType.I32), Reducer.SUM, 2, 1.0),
        (Cast(_SIGNED_BYTE, DType.I32) * Cast(_SIGNED_BYTE, DType.I32), Reducer.SUM, 2, 3.0),
        (Cast(_BYTE, DType.I32) * N, Reducer.SUM, 2, 3.0),
        (Cast(N, DType.F32) * A, Reducer.SUM, 2, 1.0),
        (Cast(N, DType.F32), None, 0, 0.0),
    ],
)
def test_operations(e: Expr, reducer: Reducer | None, flops: int, instructions: float) -> None:
    found = count(e, reducer, {})
    assert (found.flops, found.instructions) == (flops, instructions)


_HALF = Load("H", (Var("i"),), DType.F16)
_DOUBLE = Load("D", (Var("i"),), DType.F64)


@pytest.mark.parametrize(
    ("e", "reducer", "widest"),
    [
        (A, None, 0),
        (A * B, None, 4),
        (A, Reducer.SUM, 4),
        (Cast(A, DType.U8), None, 4),
        (Cast(Cast(N, DType.F32) * A, DType.U8), None, 4),
        (Cast(_DOUBLE, DType.F32) * A, None, 8),
        (_HALF * _HALF, None, 4),
        (_HALF, Reducer.MAX, 4),
        (Select(Binary(BinOp.LT, Var("i"), Const(8)), _HALF, lift(0.0, _HALF)), None, 2),
        (Cast(Var("i") * 2, DType.F32) * A, None, 4),
        (Binary(BinOp.MAX, _BYTE, Cast(Const(0.0, DType.F32), DType.U8)), Reducer.MAX, 1),
    ],
)
def test_the_widest_type_is_what_data_are_computed_in(e: Expr, reducer: Reducer | None, widest: int) -> None:
    """Of storage floats the one of their arithmetic; indices and constants are no data, and what is moved is not
    computed.
    """
    assert count(e, reducer, {}).widest == widest


@pytest.mark.parametrize("stored", ["u8", "i16", "f16"])
def test_arithmetic_takes_the_vectors_of_what_it_is_computed_in(stored: str) -> None:
    text = """
program square(X: {0}[4096]) -> Y: {0}[4096]:
    Y[i] = {0}((f32(X[i]) * 0.5 + 1.0) * f32(X[i]))
"""

    def operations(dtype: str, lanes: int) -> float:
        sch = Schedule(parse_program(text.format(dtype)))
        sch.vectorize(sch.get_loops(sch.get_block("Y"))[0], lanes=lanes)
        features = FeatureProgram(sch.func, (), AVX512)(np.empty((1, 0), np.int64))[0]
        return float(np.exp2(features[NAMES.index("s0.operation_cycles")]) - 1)

    assert operations(stored, 64) == pytest.approx(operations(stored, 16))
    assert operations(stored, 16) == pytest.approx(operations(stored, 8) / 2)
    assert operations(stored, 64) >= operations("f32", 64)


def test_what_a_tile_reads_is_converted_once() -> None:
    """Eight rows of four vectors multiply twelve operands, where each product had two conversions of its own."""
    text = """
program product[N=64](A: {0}[N, N], B: {0}[N, N]) -> C: f32[N, N]:
    dot: C[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
"""

    def operations(dtype: str, rows: int) -> float:
        sch = Schedule(parse_program(text.format(dtype)))
        i, j, k = sch.get_loops(sch.get_block("dot"))
        i0, i1 = sch.split(i, [None, rows])
        sch.reorder(i0, k, i1, j)
        sch.unroll(i1)
        sch.vectorize(j, lanes=16)
        sch.annotate(sch.get_block("dot"), "unroll_limit", 64)
        features = FeatureProgram(sch.func, (), AVX512)(np.empty((1, 0), np.int64))[0]
        return float(np.exp2(features[NAMES.index("s0.operation_cycles")]) - 1)

    whole = operations("f32", 4)
    assert operations("bf16", 4) == pytest.approx(whole * (1 + 2 * (8 / (16 * 2))), rel=1e-3)
    assert operations("bf16", 1) == pytest.approx(whole * (1 + 2 * (5 / (4 * 2))), rel=1e-3)


def test_index_arithmetic_is_no_work() -> None:
    assert count(Load("A", (Var("i") * 4 + 1,), DType.F32), None, {}).flops == 0


def test_a_selection_by_an_index_is_a_choice_where_it_is_open() -> None:
    i, n = Var("i"), Const(8)
    inside = Binary(BinOp.AND, Binary(BinOp.GE, i - 1, Const(0)), Binary(BinOp.LT, i - 1, n))
    padded = Select(inside, A, lift(0.0, A))
    assert count(padded, None, {"i": Const(10)}).choices == 1
    always = Select(Binary(BinOp.LT, i, n), A * B, A / B)
    assert count(always, None, {"i": n}) == count(A * B, None, {})
    never = Select(Binary(BinOp.LT, n, i), A * B, A / B)
    assert count(never, None, {"i": n}) == count(A / B, None, {})


def test_cases_of_a_tile_leave_no_condition_in_a_reduction() -> None:
    whole, parts = dense_relu(512, 512, 512), dense_relu(500, 510, 512)
    row = [4, 8, 4, 32, 4, 64]
    assert value(parts, row, "s0.unrolled_guards") == pytest.approx(1)
    assert value(parts, row, "s0.overhead_cycles") < 1.1 * value(whole, row, "s0.overhead_cycles")


def test_what_guards_leave_out_costs_no_cycles() -> None:
    """A tile of 4 * 128 rows for 128: three of its four quarters are left out."""
    cut, whole = dense_relu(128, 512, 512), dense_relu(512, 512, 512)
    row = [64, 8, 4, 32, 4, 64]
    assert value(cut, row, "s0.iterations") == pytest.approx(value(whole, row, "s0.iterations"))
    assert value(cut, row, "s0.operation_cycles") == pytest.approx(
        value(whole, row, "s0.operation_cycles") / 4, rel=1e-3
    )


def test_guards_of_one_axis_that_is_split_twice_leave_out_the_same() -> None:
    """Of 32 tiles of 8 rows there are 4: both guards leave out seven eighths, of the same rows."""

    def operations(*splits: int) -> float:
        sch = Schedule(parse_program("program f[M=32](A: f32[M]) -> B: f32[M]:\n    B[i] = A[i] + 1\n"))
        (loop,) = sch.get_loops(sch.get_block("B"))
        for size in splits:
            loop = sch.split(loop, [None, size])[0]
        features = FeatureProgram(sch.func, (), AVX512)(np.empty((1, 0), np.int64))[0]
        return float(np.exp2(features[NAMES.index("s0.operation_cycles")]) - 1)

    assert operations(8, 32) == pytest.approx(operations(8), rel=1e-3)


def test_guards_of_different_axes_are_independent() -> None:
    half, third, whole = (np.full(1, x, np.float32) for x in (0.5, 0.3, 1.0))
    i, j = frozenset({0, 2}), frozenset({1})
    assert joint_share({i: half, j: third}, whole) == pytest.approx(0.15)
    assert joint_share({i: half, frozenset({0}): third}, whole) == pytest.approx(0.3)
    assert joint_share({frozenset({0}): third, i: half, j: half}, whole) == pytest.approx(0.15)
    assert joint_share({}, whole) == 1


def test_a_loop_over_single_elements_counts_beside_its_work() -> None:
    """A copy of bytes, one at a time, takes a cycle for each: loads, stores and the loop run at once."""
    sch = Schedule(parse_program("program f[N=4096](A: u8[N]) -> B: u8[N]:\n    B[i] = A[i]\n"))
    features = FeatureProgram(sch.func, (), AVX512)(np.empty((1, 0), np.int64))[0]
    cycles = float(np.exp2(features[NAMES.index("all.core_cycles")]) - 1)
    assert cycles == pytest.approx(4096 * 1.2, rel=1e-3)


def memory_cycles(text: str, *notes: str, l3: int = 32 << 20) -> float:
    program = parse_program(text)
    schedule = Schedule(program)
    block = schedule.get_block(schedule.block_names()[-1])
    schedule.vectorize(schedule.get_loops(block)[-1], lanes=16)
    for note in notes:
        schedule.annotate(block, note, True)
    features = FeatureProgram(schedule.func, (), replace(AVX512, l3=l3))(np.empty((1, 0), np.int64))[0]
    return float(np.exp2(features[NAMES.index("all.memory_cycles")]) - 1)


COPY = "program f[N={}](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] + 1\n"


def test_what_a_cache_holds_is_there_already() -> None:
    assert cycles(SUM.replace("K=4096", "K=64"), 16, "all.l2_cycles") == 0
    assert cycles(SUM, 16, "all.l2_cycles") > 0
    assert cycles(SUM.replace("K=4096", "K=1024"), 16, "all.l3_cycles") == 0
    assert memory_cycles(COPY.format(1 << 20)) == 0
    assert memory_cycles(COPY.format(1 << 24)) > 0
    assert memory_cycles(COPY.format(1 << 20), l3=1 << 20) > 0


def test_a_store_past_the_caches_moves_once() -> None:
    large = COPY.format(1 << 24)
    assert memory_cycles(large, "non_temporal") == pytest.approx(memory_cycles(large) * 2 / 3, rel=1e-3)
    small = COPY.format(1 << 16)
    assert memory_cycles(small, "non_temporal") > memory_cycles(small)


def test_of_a_huge_last_cache_a_kernel_has_a_part() -> None:
    """Half a gigabyte that belongs to many: what takes twice a kernel's part of it comes from memory."""
    assert memory_cycles(COPY.format(1 << 22), l3=480 << 20) == 0
    assert memory_cycles(COPY.format(1 << 24), l3=480 << 20) == memory_cycles(COPY.format(1 << 24))
    assert memory_cycles(COPY.format(1 << 26), l3=480 << 20) > 3 * memory_cycles(COPY.format(1 << 24), l3=480 << 20)


def test_what_is_missing_from_a_cache_grows_with_what_is_touched() -> None:
    inside, half, twice = (memory_cycles(COPY.format(count)) for count in (3 << 20, 9 << 19, 1 << 23))
    assert inside == 0
    assert 0.3 * twice * 9 / 16 < half < 0.7 * twice * 9 / 16


def test_a_core_has_its_part_of_what_threads_divide() -> None:
    text = "program f[N=64, M={}](A: f32[N, M]) -> B: f32[N, M]:\n    B[i, j] = A[i, j] + 1\n"

    def l3_cycles(threads: int) -> float:
        schedule = Schedule(parse_program(text.format(2048)))
        i, j = schedule.get_loops(schedule.get_block("B"))
        schedule.parallel(i)
        schedule.vectorize(j, lanes=16)
        return feature(schedule, "all.l3_cycles", AVX512.with_threads(threads))

    assert l3_cycles(1) > 0
    assert l3_cycles(2) == 0


SUM = "program f[N=64, K=4096](A: f32[N, K]) -> B: f32[N]:\n    B[i] = sum[k](A[i, k])\n"
WHOLE = "program f[N=64, K=4096](A: f32[N, K]) -> B: f32[1]:\n    B[o < 1] = sum[i, k](A[i, k])\n"


def cycles(text: str, lanes: int, name: str) -> float:
    schedule = Schedule(parse_program(text))
    schedule.vectorize(schedule.get_loops(schedule.get_block("B"))[-1], lanes=lanes)
    features = FeatureProgram(schedule.func, (), AVX512)(np.empty((1, 0), np.int64))[0]
    return float(np.exp2(features[NAMES.index(name)]) - 1)


def test_lanes_of_a_reduction_are_chains_of_their_own() -> None:
    one, four = (cycles(SUM, lanes, "s0.latency_cycles") for lanes in (16, 64))
    assert 3 * four < one < 4 * four  # of one chain, more of the next row is begun beside it
    assert cycles(SUM, 64, "s0.overhead_cycles") < cycles(SUM, 16, "s0.overhead_cycles")


def test_all_loops_of_a_reduction_wait_for_one_sum() -> None:
    short = WHOLE.replace("K=4096", "K=64").replace("N=64", "N=4096")
    assert cycles(short, 16, "s0.latency_cycles") == pytest.approx(cycles(WHOLE, 16, "s0.latency_cycles"), rel=1e-3)


def feature(schedule: Schedule, name: str, target: Target | None = None) -> float:
    features = FeatureProgram(schedule.func, (), target or AVX512)(np.empty((1, 0), np.int64))[0]
    return float(np.exp2(features[NAMES.index(name)]) - 1)


def test_lanes_of_a_reduction_that_are_apart_are_loaded_one_by_one() -> None:
    """A fused loop over rows of 256: its lanes are a row's neighbours, or 32 elements apart."""
    text = "program f[N=256](A: f32[N, N]) -> B: f32[1]:\n    B[o < 1] = sum[i, j](A[i, j])\n"

    def port_cycles(outer: bool) -> float:
        schedule = Schedule(parse_program(text))
        _, i, j = schedule.get_loops(schedule.get_block("B"))
        k0, k1 = schedule.split(schedule.fuse(i, j), [None, 32])
        if outer:
            schedule.reorder(k1, k0)
        schedule.vectorize(k0 if outer else k1, lanes=16)
        return feature(schedule, "s0.port_cycles")

    assert port_cycles(outer=True) == pytest.approx(16 * port_cycles(outer=False), rel=0.01)


def test_a_condition_on_terms_is_one_for_a_tile() -> None:
    text = "program f[N=64, K={}](A: f32[K], B: f32[N, K]) -> C: f32[N]:\n    C[i] = sum[k](A[k] * B[i, k])\n"

    def guards(terms: int, rows: int) -> float:
        schedule = Schedule(parse_program(text.format(terms)))
        i, k = schedule.get_loops(schedule.get_block("C"))
        i0, i1 = schedule.split(i, [None, rows])
        k0, k1 = schedule.split(k, [None, 2])
        schedule.reorder(i0, k0, k1, i1)
        schedule.unroll(k1)
        schedule.unroll(i1)
        return feature(schedule, "s0.unrolled_guards")

    assert guards(128, 8) == 0
    assert guards(127, 8) == pytest.approx(1 / 8)
    assert guards(127, 4) == pytest.approx(1 / 4)


def test_a_condition_of_copies_that_hold_loops_is_asked_outside_of_these() -> None:
    text = "program f[N=63, K=64](A: f32[K], B: f32[N, K]) -> C: f32[N]:\n    C[i] = sum[k](A[k] * B[i, k])\n"

    def guards(outside: bool) -> float:
        schedule = Schedule(parse_program(text))
        i, k = schedule.get_loops(schedule.get_block("C"))
        i0, i1 = schedule.split(i, [None, 2])
        schedule.reorder(*((i1, i0, k) if outside else (i0, k, i1)))
        schedule.unroll(i1)
        return feature(schedule, "s0.unrolled_guards")

    assert guards(outside=False) == pytest.approx(1)
    assert guards(outside=True) == 0


def test_short_runs_are_slow_from_the_last_cache_only() -> None:
    """A block of columns, read again for every part of a row: from a copy of its own it is one run."""
    text = "program f[N=64, M={0}, K={1}](B: f32[K, M]) -> C: f32[N, M]:\n    C[i, j] = sum[k](B[k, j])\n"

    def far(k: int, name: str, columns: int) -> float:
        schedule = Schedule(parse_program(text.format(1024, k)))
        i, j, terms = schedule.get_loops(schedule.get_block("C"))
        j0, j1 = schedule.split(j, [None, columns])
        schedule.reorder(j0, i, terms, j1)
        schedule.vectorize(j1, lanes=16)
        return feature(schedule, name)

    # Either way a panel leaves the first cache between two rows: as many bytes come from the second.
    assert far(4096, "all.l2_cycles", 16) == pytest.approx(far(4096, "all.l2_cycles", 64), rel=0.05)
    assert far(16384, "all.l3_cycles", 16) > 1.3 * far(16384, "all.l3_cycles", 64)


def test_what_one_thread_wrote_comes_slowly_to_others() -> None:
    text = """
program f[N=256, K=128](A: f32[N, K], B: f32[K, K]) -> C: f32[N, K]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""

    def total(place: str, threads: int) -> float:
        schedule = Schedule(parse_program(text))
        block = schedule.get_block("C")
        i, j, k = schedule.get_loops(block)
        i0, i1 = schedule.split(i, [None, 8])
        schedule.reorder(i0, k, i1, j)
        copy = schedule.cache_read(block, "B")
        if place == "own":
            schedule.compute_at(copy, i0)
        schedule.parallel(i0)
        return feature(schedule, "s0.cycles", AVX512.with_threads(threads)) * threads

    # Of the 8 iterations of a thread, others may wait for a half.
    assert total("own", 4) == pytest.approx(total("own", 1) * (1 + 1 / 16), rel=0.05)
    assert total("one's", 4) > total("own", 4) + 4 * 128 * 128 * 4 * 0.7 / 2


GROUPED = """program grouped[N=8, M=64, G=4, A=1](X: f32[N, (M // G) * A], K: f32[M]) -> Y: f32[N, M]:
    Y[n, o] = X[n, o // G * A] * K[o]
"""


@pytest.mark.parametrize(
    ("group", "apart", "lanes", "loads"),
    [
        (4, 1, 4, 1),
        (16, 1, 16, 1),
        (32, 1, 16, 1),
        (8, 1, 16, 2),
        (16, 1, 32, 1),
        (4, 12, 16, 6),
        (8, 100, 16, 2),
        (2, 100, 16, 16),
    ],
)
def test_lanes_of_several_quotients(group: int, apart: int, lanes: int, loads: int) -> None:
    """What emission makes of it is what is counted: a load for all lanes, loads and shuffles, or one for each lane."""
    schedule = Schedule(parse_program(GROUPED, G=group, A=apart), seed=0)
    _, o = schedule.get_loops(schedule.get_block("Y"))
    _, o1 = schedule.split(o, [None, lanes])
    schedule.vectorize(o1, lanes=lanes)
    analyses = Analyses()
    (statement,) = analyse(schedule.func, analyses).statements
    sizes = [np.asarray(size, np.float32) for size in Evaluator(analyses.table.exprs)({})]
    assert StatementView(statement, sizes, 1, AVX512, DEFAULT_CORE).loads_of_one[1] == loads
    assert ("llvm.masked.gather" in emit(lower(schedule.func, AVX512), AVX512).text) == (loads == lanes)


@pytest.mark.parametrize(("rows", "loads"), [(16, 1), (4, 1), (15, 15), (3, 3)])
def test_rows_of_a_tile_that_may_be_of_two_groups_load_each_its_own(rows: int, loads: int) -> None:
    """Where tiles of rows divide a group, all rows of one read the same, and the compiler sees it."""
    text = """
    program grouped(X: f32[240, 64, 2], K: f32[240, 64]) -> Y: f32[240, 240]:
        Y[m, n] = sum[r < 64](X[n, r, m // 128] * K[m, r])
    """
    schedule = Schedule(parse_program(text), seed=0)
    m, n, r = schedule.get_loops(schedule.get_block("Y"))
    m0, m1 = schedule.split(m, [None, rows])
    n0, n1 = schedule.split(n, [None, 16])
    schedule.reorder(m0, n0, r, m1, n1)
    schedule.unroll(m1)
    schedule.vectorize(n1, lanes=16)
    analyses = Analyses()
    (statement,) = analyse(schedule.func, analyses).statements
    sizes = [np.asarray(size, np.float32) for size in Evaluator(analyses.table.exprs)({})]
    view = StatementView(statement, sizes, 1, AVX512, DEFAULT_CORE)
    assert view.tile.vectors[1] / view.loads_of_one[1] == loads
    text = assembly(schedule.func, AVX512, "x86_64-unknown-linux-gnu", "skylake-avx512", "")
    assert len(re.findall(r"\tvgather[dq]ps\t.*%zmm", text)) == loads


def test_quotients_by_powers_of_two_are_shifts() -> None:
    word = Load("A", (Var("i"),), DType.I32)
    by = {n: count(word // n + word % n, None, {}) for n in (16, 10)}
    assert (by[16].divisions, by[10].divisions) == (0, 2)
    assert by[16].instructions == 3


SIDE_BY_SIDE = """
program side_by_side[N=64](A: f32[N, 16], B: f32[N, 16]) -> Y: f32[N, 32]:
    Y[i, j] = A[i, j] if j < 16 else exp(B[i, j - 16])
"""


@pytest.mark.parametrize(("lanes", "share"), [(16, 0.5), (32, 1.0)])
def test_a_value_that_no_lane_of_a_vector_takes_is_not_computed(lanes: int, share: float) -> None:
    def operation_cycles(text: str) -> float:
        schedule = Schedule(parse_program(text))
        block = schedule.get_block("Y")
        schedule.vectorize(schedule.get_loops(block)[-1], lanes=lanes)
        schedule.annotate(block, "unroll_limit", 4)
        return feature(schedule, "s0.operation_cycles")

    whole = "program whole[N=64](A: f32[N, 32]) -> Y: f32[N, 32]:\n    Y[i, j] = exp(A[i, j])\n"
    assert operation_cycles(SIDE_BY_SIDE) == pytest.approx(share * operation_cycles(whole), rel=0.2)


def test_vectors_in_two_lines_come_slowly_from_the_second_cache() -> None:
    text = "program f[N=4096, M={}](A: f32[N, M], X: f32[N]) -> Y: f32[M]:\n    Y[j] = sum[i](X[i] * A[i, j])\n"

    def cycles_of_an_element(columns: int) -> float:
        schedule = Schedule(parse_program(text.format(columns)))
        j, i = schedule.get_loops(schedule.get_block("Y"))
        schedule.reorder(i, j)
        schedule.vectorize(j, lanes=16)
        return feature(schedule, "s0.l2_cycles") / columns

    # Rows of 50 begin anywhere in a line, rows of 48 and 64 at a quarter of one or at its begin.
    assert cycles_of_an_element(50) > 1.2 * cycles_of_an_element(64)

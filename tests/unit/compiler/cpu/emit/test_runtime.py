"""Parallel regions that several nests share: results with any number of threads, and where intermediates live."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.compiler import lir
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower import lower
from metasched.dtypes import DType
from metasched.ir.integers.affine import as_int
from metasched.ir.validate import validate
from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target

HERE = Target.detect(threads=3)

# Every stage reads what other iterations of the one before have written; one thread sums between.
SIX = """
program six[N=10, M=5](A: f32[N, M]) -> (Y: f32[N, M], Z: f32[M]):
    B[i, j] = A[i, j] * 2
    S[i < N] = sum[j](B[N - 1 - i, j])
    T[] = sum[i](S[i])
    C[i, j] = B[N - 1 - i, j] + S[i]
    Y[i < N, j] = C[N - 1 - i, j] * T[]
    Z[j] = sum[i](Y[i, j])
"""
SPREAD = ("B", "S", "C", "Y", "Z")


def merged(text: str, *blocks: str, **params: int) -> Schedule:
    """The outermost loops of the blocks in one region."""
    sch = Schedule(parse_program(text, **params))
    loops = [sch.get_loops(sch.get_block(name))[0] for name in blocks]
    for loop in loops:
        sch.parallel(loop)
    sch.merge_parallel(*loops)
    return sch


def agrees(sch: Schedule, *threads: int) -> None:
    """Compiled for each number of threads, the schedule gives the program's results, again and again."""
    validate(sch.func)
    rng = np.random.default_rng(0)
    func = sch.program.func
    arguments = []
    for buffer in func.inputs:
        low, high = (-4, 5) if buffer.below is None else (0, as_int(buffer.below))
        shape = [as_int(n) for n in buffer.shape]
        arguments.append(rng.integers(low, high, shape).astype(buffer.dtype.numpy))
    expected = reference(func)(*arguments)
    for count in threads or (1, 2, 7):
        kernel = Kernel(build(sch.func, Target.detect(threads=count)))
        for _ in range(3):
            got = kernel(*arguments)
            for x, y in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, expected)), strict=True):
                np.testing.assert_array_equal(x, y)


def lowered(sch: Schedule, threads: int = 3) -> lir.LoopProgram:
    return lower(sch.func, Target.detect(threads=threads))


def kinds(kernel: lir.LoopProgram) -> dict[str, ArrayKind]:
    return {a.name: a.kind for a in kernel.arrays}


def regions(kernel: lir.LoopProgram) -> list[lir.Region]:
    return [stmt for stmt in kernel.body.walk() if isinstance(stmt, lir.Region)]


@pytest.mark.parametrize(("rows", "columns"), [(10, 5), (1, 1), (2, 1), (1, 3), (64, 33)])
def test_six_nests(rows: int, columns: int) -> None:
    agrees(merged(SIX, *SPREAD, N=rows, M=columns))


def test_what_phases_share_is_in_memory_that_all_threads_see() -> None:
    """Of one iteration, every loop vanishes and each intermediate would be a register."""
    for sizes in ({}, {"N": 1, "M": 1}):
        found = kinds(lowered(merged(SIX, *SPREAD, **sizes)))
        assert {name: found[name] for name in ("B", "S", "T", "C")} == dict.fromkeys("BSTC", ArrayKind.SHARED)


def test_one_region_of_as_many_phases_as_statements() -> None:
    (region,) = regions(lowered(merged(SIX, *SPREAD)))
    assert [as_int(phase.extent) for phase in region.phases] == [10, 10, 1, 10, 10, 5]
    assert {phase.mode for phase in region.phases} == {lir.LoopMode.PARALLEL}


def test_registers_of_a_phase_that_one_thread_runs() -> None:
    """What only that phase uses may be in registers, of its function."""
    text = """
    program f[N=9](A: f32[N]) -> D: f32[N]:
        B[i] = A[i] + 1
        T[] = sum[i](B[i])
        U[] = T[] * 2
        V[] = U[] + T[]
        D[i] = B[N - 1 - i] * V[]
    """
    sch = merged(text, "B", "D")
    found = kinds(lowered(sch))
    # Each statement between is a phase, and what one leaves for the next is in memory.
    assert (found["T"], found["U"], found["V"]) == (ArrayKind.SHARED,) * 3
    agrees(sch)


def test_intermediates_of_one_phase_have_a_slice_each_chunk() -> None:
    text = """
    program f[N=11, M=6, K=5](A: f32[N, K], W: f32[K, M]) -> (D: f32[N, M], E: f32[N, M]):
        P[i, j] = sum[k](A[i, k] * W[k, j])
        D[i, j] = P[i, j] + P[i, M - 1 - j]
        Q[i < N, j] = D[N - 1 - i, j] * 2
        E[i, j] = Q[i, j] - Q[i, M - 1 - j]
    """
    sch = Schedule(parse_program(text))
    found = []
    for producer, consumer in (("P", "D"), ("Q", "E")):
        rows = sch.get_loops(sch.get_block(consumer))[0]
        sch.compute_at(sch.get_block(producer), rows)
        sch.parallel(rows)
        found.append(rows)
    sch.merge_parallel(*found)
    assert {name: kinds(lowered(sch))[name] for name in "PQ"} == dict.fromkeys("PQ", ArrayKind.THREAD)
    agrees(sch)


COLUMNS = """
program columns[N=9, M=13](A: f32[N, M]) -> C: f32[N, M]:
    twice: B[i, j] = A[i, j] * 2
    turn:  C[i, j] = B[N - 1 - i, j] + 1
"""


@pytest.mark.parametrize("tile", [1, 4, 16])
def test_a_region_inside_a_serial_loop_of_imperfect_tiles(tile: int) -> None:
    """The region starts once for each tile; conditions about the tile are around or inside its phases."""
    sch = Schedule(parse_program(COLUMNS))
    i, j = sch.get_loops(sch.get_block("turn"))
    outer, inner = sch.split(j, [None, tile])
    sch.reorder(outer, i, inner)
    sch.compute_at(sch.get_block("twice"), outer)
    twice = sch.get_loops(sch.get_block("twice"))[1]
    sch.vectorize(inner, lanes=4)
    sch.parallel(twice)
    sch.parallel(i)
    sch.merge_parallel(twice, i)
    assert len(regions(lowered(sch))) == 1
    agrees(sch)


def test_a_tile_unrolled_around_the_region_and_in_cases() -> None:
    """Where lowering makes cases of an imperfect tile, a phase stays one loop."""
    text = """
    program two[N=11, M=13, K=3](A: f32[N, K], W: f32[K, M]) -> (C: f32[N, M], D: f32[N, M]):
        first:  C[i, j] = sum[k](A[i, k] * W[k, j])
        second: D[i, j] = sum[k](C[i, j] * W[k, j])
    """
    sch = Schedule(parse_program(text))
    found = []
    for name in ("first", "second"):
        i, j, k = sch.get_loops(sch.get_block(name))
        i0, i1 = sch.split(i, [None, 4])
        j0, j1 = sch.split(j, [None, 8])
        sch.reorder(i0, j0, k, i1, j1)
        sch.unroll(i1)
        sch.vectorize(j1, lanes=8)
        both = sch.fuse(i0, j0)
        sch.parallel(both)
        found.append(both)
    sch.merge_parallel(*found)
    agrees(sch)


def test_an_arg_reduction_and_a_lookup() -> None:
    text = """
    program lookup[N=7, M=9](A: f32[N, M], table: f32[M]) -> (P: i64[N], D: f32[N]):
        best: V[i], P[i] = argmax[j](A[i, j])
        take: D[i] = table[P[N - 1 - i]] + V[i]
    """
    sch = merged(text, "best", "take")
    agrees(sch)


def _vectors(sch: Schedule) -> None:
    for name in ("B", "C", "Y"):
        sch.vectorize(sch.get_loops(sch.get_block(name))[1], lanes=4)


def _prefetches(sch: Schedule) -> None:
    sch.annotate(sch.get_loops(sch.get_block("Z"))[0], "prefetch", 2)
    sch.annotate(sch.get_loops(sch.get_block("T"))[0], "prefetch", 3)


def _lanes(sch: Schedule) -> None:
    sch.vectorize(sch.get_loops(sch.get_block("S"))[1], lanes=4)
    sch.vectorize(sch.get_loops(sch.get_block("T"))[0], lanes=4)


def _partial_sums(sch: Schedule) -> None:
    sch.annotate(sch.get_block("T"), "blocked_sum", 4)
    sch.annotate(sch.get_block("Z"), "blocked_sum", 3)


def _start_apart(sch: Schedule) -> None:
    sch.decompose_reduction(sch.get_block("Z"), sch.get_loops(sch.get_block("Z"))[0])
    sch.decompose_reduction(sch.get_block("T"), sch.get_loops(sch.get_block("T"))[0])


def _copies(sch: Schedule) -> None:
    sch.cache_read(sch.get_block("C"), "B", scope="local")
    sch.storage_align(sch.get_block("B"), 0, 8, 1)
    sch.transform_layout(sch.get_block("C"), "i, j -> j, i")


@pytest.mark.parametrize("change", [_vectors, _prefetches, _lanes, _partial_sums, _start_apart, _copies])
def test_with_what_else_schedules_say(change: Callable[[Schedule], None]) -> None:
    sch = merged(SIX, *SPREAD, N=21, M=18)
    change(sch)
    agrees(sch)


def test_stores_past_the_caches() -> None:
    text = """
    program f[N=9, M=32](A: f32[N, M]) -> (D: f32[N, M], E: f32[N, M]):
        B[i, j] = A[i, j] * 2
        D[i < N, j] = B[N - 1 - i, j]
        E[i, j] = B[i, M - 1 - j]
    """
    sch = merged(text, "B", "D", "E")
    for name in "DE":
        sch.vectorize(sch.get_loops(sch.get_block(name))[1], lanes=16)
        sch.annotate(sch.get_block(name), "non_temporal", True)
    agrees(sch)


def test_rows_of_a_window_that_rolls_in_a_phase() -> None:
    text = """
    program blur[H=13, W=8](A: f32[H + 2, W]) -> (C: f32[H, W], D: f32[H, W]):
        B[y, x] = A[y, x] * 2
        C[y, x] = B[y, x] + B[y + 1, x] + B[y + 2, x]
        D[y, x] = C[H - 1 - y, x]
    """
    sch = Schedule(parse_program(text))
    y, _ = sch.get_loops(sch.get_block("C"))
    outer, inner = sch.split(y, [None, 4])
    sch.compute_at(sch.get_block("B"), inner)
    sch.store_at(sch.get_block("B"), outer)
    last = sch.get_loops(sch.get_block("D"))[0]
    sch.parallel(outer)
    sch.parallel(last)
    sch.merge_parallel(outer, last)
    agrees(sch)


@pytest.mark.parametrize("dtype", [DType.F64, DType.BF16, DType.I32])
def test_other_types(dtype: DType) -> None:
    text = f"""
    program f[N=9, M=4](A: {dtype}[N, M]) -> D: {dtype}[N, M]:
        B[i, j] = A[i, j] + A[i, j]
        C[i, j] = B[N - 1 - i, j] - A[i, j]
        D[i, j] = C[i, M - 1 - j] + B[i, j]
    """
    agrees(merged(text, "B", "C", "D"))


def test_scalars_and_a_condition_that_leaves_a_phase_out() -> None:
    text = """
    program f[N=9](A: f32[N], s: f32) -> D: f32[N]:
        B[i] = A[i] * s if s > 0 else A[i]
        D[i] = B[N - 1 - i] + s
    """
    sch = merged(text, "B", "D")
    a = np.arange(9, dtype=np.float32)
    for threads in (1, 2, 7):
        kernel = Kernel(build(sch.func, HERE.with_threads(threads)))
        np.testing.assert_array_equal(kernel(a, 3.0), a[::-1] * 3 + 3)
        np.testing.assert_array_equal(kernel(a, -1.0), a[::-1] - 1)


def test_two_regions_one_after_the_other() -> None:
    sch = Schedule(parse_program(SIX))
    loops = {name: sch.get_loops(sch.get_block(name))[0] for name in SPREAD}
    for loop in loops.values():
        sch.parallel(loop)
    sch.merge_parallel(loops["B"], loops["S"])
    sch.merge_parallel(loops["C"], loops["Y"], loops["Z"])
    assert [len(region.phases) for region in regions(lowered(sch))] == [2, 3]
    agrees(sch)


def test_a_region_of_a_single_loop_that_is_left_is_a_plain_one() -> None:
    sch = merged(COLUMNS, "twice", "turn")
    sch.compute_inline(sch.get_block("twice"))
    assert not regions(lowered(sch))
    agrees(sch)


@pytest.mark.parametrize("threads", [2, 5])
def test_one_start_for_all_phases(threads: int) -> None:
    """The code that is emitted calls the pool once, and says how many phases there are."""
    text = emit(lowered(merged(SIX, *SPREAD), threads), HERE.with_threads(threads)).text
    (start,) = [line for line in text.splitlines() if "ptr @task." in line and "call" in line]
    assert ", i64 6, i64 " in start
    assert "@phase.0.5" in text


WEIGHTS = """
program weights[N=9, M=8](A: f32[N, M], const W: f32[M, M]) -> D: f32[N, M]:
    V: f32[M, M]
    turn: V[k, j] = W[j, k] * 2
    plus: U[k, j] = V[k, j] + 1
    dot:  B[i, j] = sum[k](A[i, k] * U[k, j])
    back: D[i < N, j] = B[N - 1 - i, j] + B[i, j]
"""


def test_phases_of_weights_alone_run_ahead() -> None:
    """A region is divided between what packs and what is called; each part shares one still."""
    sch = merged(WEIGHTS, "turn", "plus", "dot", "back")
    a, w = np.arange(72, dtype=np.float32).reshape(9, 8), np.eye(8, k=1, dtype=np.float32)
    kernel = ms.compile(sch.program, trace=sch.trace, target=HERE)
    packed = kernel.pack(w)
    np.testing.assert_array_equal(packed(a), kernel(a, w))
    np.testing.assert_array_equal(packed(a), reference(sch.program.func)(a, w))


def test_as_a_file(tmp_path: Path) -> None:
    sch = merged(WEIGHTS, "turn", "plus", "dot", "back")
    a, w = np.arange(72, dtype=np.float32).reshape(9, 8), np.eye(8, k=1, dtype=np.float32)
    path = Kernel(build(sch.func, HERE)).export(tmp_path / "merged_weights.py")
    function = runpy.run_path(str(path))["weights"]
    for _ in range(20):
        np.testing.assert_array_equal(function(a, w), reference(sch.program.func)(a, w))


def test_calls_from_several_threads_at_once() -> None:
    """The pool runs one region at a time: others run all of their phases on their own thread, in order."""
    sch = merged(SIX, *SPREAD, N=33, M=17)
    a = np.random.default_rng(0).integers(-4, 5, (33, 17)).astype(np.float32)
    kernel = Kernel(build(sch.func, HERE))
    expected = reference(sch.program.func)(a)

    def calls(_: int) -> bool:
        return all(np.array_equal(x, y) for _ in range(100) for x, y in zip(kernel(a), expected, strict=True))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(calls, range(4)))

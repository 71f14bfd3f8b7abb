"""Arg-reductions and gathers in compiled code, what is checked at a call, and sums in registers over partial rows."""

from __future__ import annotations

import re

import numba
import numpy as np
import pytest

import metasched as ms
from metasched.compiler.cpu.emit.module import emit
from metasched.compiler.cpu.spills import inner_loops
from metasched.compiler.lower import lower
from metasched.errors import KernelError
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.target import Target
from tests.support.cross import AVX2, WIDE, assembly, plain

EMBEDDING = """
program embedding[N=37, V=50, D=19](T: f32[V, D], I: i32[N]) -> Y: f32[N, D]:
    Y[i, j] = T[I[i], j] * 2
"""
TABLE = np.arange(50 * 19, dtype=np.float32).reshape(50, 19)
FAR = (-1, 50, -(2**31), 2**31 - 1)


def embedding(lanes: str) -> Kernel:
    schedule = ms.Schedule(ms.parse_program(EMBEDDING))
    i, j = schedule.get_loops(schedule.get_block("Y"))
    if lanes == "rows":
        schedule.reorder(j, i)
        schedule.vectorize(i, lanes=8)
    if lanes == "columns":
        schedule.vectorize(j, lanes=8)
    return Kernel(build(schedule.func, Target.detect()))


@pytest.mark.parametrize("lanes", ["none", "rows", "columns"])
def test_a_gather_and_what_is_out_of_range(lanes: str) -> None:
    kernel = embedding(lanes)
    rng = np.random.default_rng(0)
    at = rng.integers(0, 50, 37).astype(np.int32)
    assert np.array_equal(kernel(TABLE, at), TABLE[at] * 2)
    for wrong in FAR:
        at[5] = wrong
        with pytest.raises(KernelError, match=rf"`I\[5\]` is {wrong}, and another argument is indexed by it, of 50"):
            kernel(TABLE, at)
        # The unchecked form reads the nearest row.
        out = np.empty((37, 19), np.float32)
        kernel.compiled(TABLE, at, out)
        assert np.array_equal(out, TABLE[np.clip(at, 0, 49)] * 2)
        with pytest.raises(KernelError, match=f"`I` holds the index {wrong}; valid are 0 to 49"):
            reference(ms.parse_program(EMBEDDING))(TABLE, at)


def test_in_compiled_callers_a_gather_is_safe() -> None:
    kernel = embedding("columns")
    at = np.full(37, -7, np.int32)

    @numba.njit
    def caller(table, at):  # type: ignore[no-untyped-def]
        return kernel.numba(table, at)

    assert np.array_equal(caller(TABLE, at), np.broadcast_to(TABLE[0] * 2, (37, 19)))


def test_several_outputs() -> None:
    text = """
    program best[N=9, K=21](X: f32[N, K]) -> (V: f32[N], P: i32[N]):
        V[i], P[i] = argmax[k](X[i, k])
    """
    kernel = ms.compile(ms.parse_program(text))
    x = np.random.default_rng(1).integers(-3, 3, (9, 21)).astype(np.float32)
    x[4, 3:] = np.nan
    x[7] = -np.inf
    expected = (x.max(axis=1), x.argmax(axis=1))
    given = (np.empty(9, np.float32), np.empty(9, np.int32))
    assert kernel(x, out=given) is not None

    @numba.njit
    def caller(x):  # type: ignore[no-untyped-def]
        return kernel.numba(x)

    for found in (given, kernel(x), caller(x)):
        assert np.array_equal(found[0], expected[0], equal_nan=True)
        assert np.array_equal(found[1], expected[1])


@pytest.mark.parametrize("t", ["f64", "f16", "bf16", "i8", "u8", "i64"])
def test_every_type_of_value(t: str) -> None:
    program = ms.parse_program(
        f"program p[N=7, K=30](X: {t}[N, K]) -> (V: {t}[N], P: i64[N]):\n    V[i], P[i] = argmin[k](X[i, k])"
    )
    x = np.random.default_rng(2).integers(0, 9, (7, 30)).astype(program.inputs[0].dtype.numpy)
    for run in (reference(program), ms.compile(program)):
        values, positions = run(x)
        assert np.array_equal(positions, x.astype(np.float64).argmin(axis=1))
        assert np.array_equal(values.astype(np.float64), x.astype(np.float64).min(axis=1))


def test_indices_as_values() -> None:
    program = ms.parse_program(
        "program scan[R=3, N=17](X: f64[R, N]) -> (C: f64[R, N], Z: f32[N]):\n"
        "    C[r, i] = sum[k < N](X[r, k] if k <= i else 0)\n"
        "    Z[i] = f32(i) * 2"
    )
    x = np.random.default_rng(3).integers(-9, 9, (3, 17)).astype(np.float64)
    schedule = ms.Schedule(program)
    _, i, k = schedule.get_loops(schedule.get_block("C"))
    schedule.reorder(k, i)
    schedule.vectorize(i, lanes=8)
    for run in (reference(program), reference(schedule.func), Kernel(build(schedule.func, Target.detect()))):
        sums, twice = run(x)
        assert np.array_equal(sums, np.cumsum(x, axis=1))
        assert np.array_equal(twice, 2 * np.arange(17))


# --- sums in registers over rows that are not whole vectors

MATMUL = """
program mm[M=6, N={columns}, K=5](A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""
MOST = """
program most[N=3, K=21](X: f32[N, K]) -> Y: f32[N]:
    Y[i] = max[k](X[i, k])
"""


def tiled(columns: int) -> ms.Schedule:
    schedule = ms.Schedule(ms.parse_program(MATMUL.format(columns=columns)))
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    i0, i1 = schedule.split(i, [None, 3])
    schedule.reorder(i0, k, i1, j)
    schedule.vectorize(j, lanes=32)
    schedule.annotate(block, "unroll_limit", 64)
    return schedule


@pytest.mark.parametrize("columns", [26, 58, 33, 17, 5])
def test_no_vector_has_a_number_of_elements_that_no_register_has(columns: int) -> None:
    schedule, target = tiled(columns), Target.detect()
    text = emit(lower(schedule.func, target), target).text
    widths = {int(width) for width in re.findall(r"<(\d+) x float>", text)}
    assert widths
    assert all(width & (width - 1) == 0 for width in widths), widths
    A, B = (np.random.default_rng(0).random(shape, np.float32) for shape in ((6, 5), (5, columns)))
    assert np.allclose(Kernel(build(schedule.func, target))(A, B), A @ B, atol=1e-5)


def test_lanes_that_a_tail_has_not_keep_what_the_strips_before_it_found() -> None:
    """Lanes of a reduction: those behind the last element of a row have maxima of their own."""
    program = ms.parse_program(MOST)
    schedule = ms.Schedule(program)
    block = schedule.get_block("Y")
    schedule.vectorize(schedule.get_loops(block)[1], lanes=16)
    X = np.full((3, 21), -5, np.float32)
    X[:, 7] = 9  # beside the five lanes of the tail, in the vector of eight that holds them
    found = Kernel(build(schedule.func, Target.detect()))(X)
    assert np.array_equal(found, reference(program)(X))


@pytest.mark.parametrize("short", [True, False], ids=["within 32 bits", "beyond them"])
def test_lanes_are_gathered_by_offsets_of_32_bits_where_these_hold_them(short: bool) -> None:
    text = EMBEDDING if short else EMBEDDING.replace("V=50, D=19", f"V={2**20}, D={2**13}")
    schedule = ms.Schedule(ms.parse_program(text))
    i, j = schedule.get_loops(schedule.get_block("Y"))
    schedule.reorder(j, i)
    schedule.vectorize(i, lanes=8)
    target = Target.detect()
    code = emit(lower(schedule.func, target), target).text
    assert "masked.gather" in code
    assert ("mul nsw <8 x i64>" in code) != short


@pytest.mark.parametrize("features", [AVX2, (*AVX2, *WIDE)], ids=["AVX2", "AVX-512"])
def test_lanes_at_known_places_are_gathered_where_the_cpu_does_that_well(features: tuple[str, ...]) -> None:
    program = ms.parse_program("program p(A: f32[64, 80]) -> B: f32[80, 64]:\n    B[j, i] = A[i, j]")
    schedule = ms.Schedule(program)
    schedule.vectorize(schedule.get_loops(schedule.get_block("B"))[-1], lanes=8)
    target = Target("any", frozenset(features), 2, 32 << 10, 1 << 20, 32 << 20)
    code = emit(lower(schedule.func, target), target).text
    assert ("masked.gather" in code) is target.gathers
    assert ("insertelement <8 x float>" in code) is not target.gathers


SHIFTED_ROWS = """
program shifted[H=4, W=16](X: f32[H, W]) -> Y: f32[H, W]:
    Y[i, j] = X[i - 1, j] * 2 if i >= 1 else 3
"""


@pytest.mark.parametrize(("features", "condition"), [(WIDE, "<16 x i1>"), (AVX2, "i1")])
def test_one_condition_picks_a_vector_by_a_mask_where_there_are_registers_for_masks(
    features: tuple[str, ...], condition: str
) -> None:
    schedule = ms.Schedule(ms.parse_program(SHIFTED_ROWS))
    schedule.vectorize(schedule.get_loops(schedule.get_block("Y"))[1], lanes=16)
    target = Target("any", frozenset(features), 2, 32 << 10, 1 << 20, 32 << 20)
    text = emit(lower(schedule.func, target), target).text
    conditions = re.findall(r"select (i1|<16 x i1>) \S+, <16 x float>", text)
    assert set(conditions) == {condition}


PADDED_ROWS = """
program padded[H=4, W=32](X: f32[H, W]) -> Y: f32[H, W]:
    Y[i, j] = (X[i - 1, j] if i >= 1 else 0) + (X[i - 2, j] if i >= 2 else 0)
"""


def test_a_vector_that_no_lane_wants_is_of_memory_that_is_there() -> None:
    """Before the first row there may be no page, which takes a CPU hundreds of cycles to find under a mask."""
    schedule = ms.Schedule(ms.parse_program(PADDED_ROWS))
    _, j = schedule.get_loops(schedule.get_block("Y"))
    schedule.vectorize(j, lanes=16)
    target = Target("sapphirerapids", frozenset((*AVX2, *WIDE)), 1, 1 << 15, 1 << 21, 1 << 25)
    text = emit(lower(schedule.func, target), target).text
    loads = re.findall(r"call <16 x float> @llvm.masked.load.*?\(ptr (%\S+),", text)
    assert len(loads) == 2
    defined = dict(re.findall(r"(%\S+) = (.*)", text))
    for address in loads:
        found = defined[address]
        if found.startswith("getelementptr"):
            found = defined[re.findall(r"ptr (%\S+),", found)[0]]
        assert found.startswith("select i1 ")
    x = np.random.default_rng(0).random((4, 32), np.float32)
    np.testing.assert_array_equal(build_here(schedule)(x), reference(schedule.program)(x))


def build_here(schedule: ms.Schedule) -> Kernel:
    return Kernel(build(schedule.func, Target.detect()))


WINDOWS = """
program windows[L=1205, M=96](X: f32[L], K: f32[10, M]) -> Y: f32[240, M]:
    Y[i, j] = sum[r](X[i*5 + r] * K[r, j])
"""


@pytest.mark.parametrize("cpu", ["haswell", "sapphirerapids"])
def test_taps_of_windows_are_read_again_where_keeping_them_takes_more_registers_than_there_are(cpu: str) -> None:
    """Neighbours share half of their taps, all of which LLVM would keep until the last window has read them."""
    features, tile = (AVX2, (6, 16)) if cpu == "haswell" else ((*AVX2, *WIDE), (12, 32))
    schedule = ms.Schedule(ms.parse_program(WINDOWS))
    block = schedule.get_block("Y")
    i, j, r = schedule.get_loops(block)
    i0, i1 = schedule.split(i, [None, tile[0]])
    j0, j1 = schedule.split(j, [None, tile[1]])
    schedule.reorder(j0, i0, r, i1, j1)
    schedule.vectorize(j1, lanes=8 if cpu == "haswell" else 16)
    schedule.annotate(block, "unroll_limit", 256)
    text = assembly(schedule.func, plain(cpu, frozenset(features)), "x86_64-unknown-linux-gnu", cpu, "", comments=True)
    loops = list(inner_loops(text))
    assert loops
    assert sum(loop.stores for loop in loops) == 0
    X, K = (np.random.default_rng(0).random(shape, np.float32) for shape in ((1205,), (10, 96)))
    np.testing.assert_allclose(build_here(schedule)(X, K), reference(schedule.program)(X, K), rtol=1e-5)


PICKED = """
program picked[N=64, M=9](A: f32[N], U: f32[M], P: i32[N]) -> Y: f32[N]:
    Y[i] = U[P[i]] if P[i] >= 0 and P[i] < M else A[i]
"""


def test_what_no_lane_wants_is_not_gathered() -> None:
    """A gather takes its time for none as well: it is behind a branch, where each lane has a condition."""
    schedule, target = ms.Schedule(ms.parse_program(PICKED)), Target.detect(threads=1)
    schedule.vectorize(schedule.get_loops(schedule.get_block("Y"))[0], lanes=8)
    text = emit(lower(schedule.func, target), target).text
    assert re.search(r"br i1 [^\n]*\n\s*wanted[^\n]*:\n[^\n]*masked.gather", text)


@pytest.mark.parametrize("density", [0, 0.1, 1])
def test_what_some_lanes_want_is_gathered(density: float) -> None:
    schedule = ms.Schedule(ms.parse_program(PICKED, N=67))
    schedule.vectorize(schedule.get_loops(schedule.get_block("Y"))[0], lanes=8)
    rng = np.random.default_rng(0)
    kept, updates = rng.standard_normal(67).astype(np.float32), rng.standard_normal(9).astype(np.float32)
    places = np.where(rng.random(67) < density, rng.integers(0, 9, 67), rng.choice([-1, 9, -(2**31)], 67)).astype(
        np.int32
    )
    made = Kernel(build(schedule.func, Target.detect(threads=1)))(kept, updates, places)
    np.testing.assert_array_equal(made, reference(schedule.program)(kept, updates, places))

"""Arg-reductions in registers and in lanes: the first of equal values under any schedule, and NaN before all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.ir.validate import validate
from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.lir_interpreter import run_lir

HERE = Target.detect(threads=1)
TWO = Target.detect(threads=2)
WIDE = Target.parse("name=x threads=1 l1=32768 l2=1048576 l3=33554432 cacheline=64 features=avx,avx2,avx512f,sse")
needs_avx512 = pytest.mark.skipif("avx512f" not in HERE.features, reason="counts registers of 512 bits")
ROWS = """
program rows[M=5, N=150, T=f32, I=i64](X: T[M, N]) -> (V: T[M], P: I[M]):
    V[i], P[i] = {reduce}[j](X[i, j])
"""
COLUMNS = """
program columns[M=70, N=13, T=f32](X: T[N, M]) -> (V: T[M], P: i64[M]):
    V[i], P[i] = {reduce}[j](X[j, i])
"""
PLANES = """
program planes[N=6, H=9, W=21, T=f32](X: T[N, H, W]) -> (V: T[N], P: i32[N]):
    V[n], P[n] = {reduce}[h, w](X[n, h, w])
"""


def schedule(text: str, reduce: str = "argmax", **sizes: object) -> Schedule:
    return Schedule(parse_program(text.format(reduce=reduce), **sizes))  # type: ignore[arg-type]


def rows(reduce: str = "argmax", **sizes: object) -> Schedule:
    return schedule(ROWS, reduce, **sizes)


def in_lanes(sch: Schedule, lanes: int) -> Schedule:
    sch.vectorize(sch.get_loops(sch.get_block("V"))[-1], lanes=lanes)
    return sch


def few_values(sch: Schedule, seed: int) -> np.ndarray:
    """So few different values that most tie; of floats NaN, infinities and both zeros. Some rows are all alike."""
    buffer = sch.program.func.inputs[0]
    dtype = buffer.dtype.numpy
    if buffer.dtype.is_float:
        choice = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]).astype(dtype)
    else:
        choice = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, 1], dtype)
    rng = np.random.default_rng(seed)
    # The rarest are what makes a position: a NaN or a largest value among hundreds, or none at all.
    weights = rng.permutation(10.0 ** -np.arange(len(choice)))
    shape = tuple(int(e.value) for e in buffer.shape)  # type: ignore[attr-defined]
    return rng.choice(choice, shape, p=weights / weights.sum())


def agrees(sch: Schedule, target: Target = HERE, seeds: int = 3) -> None:
    validate(sch.func)
    kernel, oracle = build(sch.func, target), reference(sch.program)
    for seed in range(seeds):
        x = few_values(sch, seed)
        expected = oracle(x)
        found = tuple(np.full_like(e, 77) for e in expected)
        kernel(x, *found)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(
                *(each.astype(np.float64) if each.itemsize < 8 else each for each in (got, wanted))
            )
        np.testing.assert_array_equal(np.signbit(found[0]), np.signbit(expected[0]))


def test_the_reference_is_as_numpy_has_it() -> None:
    for reduce in ("argmax", "argmin"):
        sch = rows(reduce)
        for seed in range(8):
            x = few_values(sch, seed)
            np.testing.assert_array_equal(reference(sch.program)(x)[1], getattr(np, reduce)(x, axis=1))


@pytest.mark.parametrize(
    ("extent", "lanes"),
    [(1, 16), (2, 1), (2, 64), (15, 2), (15, 16), (64, 3), (64, 64), (67, 7), (67, 16), (67, 64), (150, 16), (150, 64)],
)
def test_any_number_of_terms_and_lanes(extent: int, lanes: int) -> None:
    agrees(in_lanes(rows(N=extent), lanes))


@pytest.mark.parametrize(
    ("dtype", "reduce"),
    [
        *((dtype, "argmax") for dtype in ("f16", "f32", "f64", "i8", "u8", "i32")),
        *((dtype, "argmin") for dtype in ("bf16", "f32", "f64", "i8", "i16", "i64")),
    ],
)
def test_every_type(dtype: str, reduce: str) -> None:
    agrees(in_lanes(rows(reduce, T=dtype, N=77), 16))
    sch = schedule(COLUMNS, reduce, T=dtype)
    i, j = sch.get_loops(sch.get_block("V"))
    sch.reorder(j, i)
    sch.vectorize(i, lanes=16)
    agrees(sch)


@pytest.mark.parametrize("extent", [127, 128, 129, 300])
def test_positions_of_few_bits(extent: int) -> None:
    """Accumulators as narrow as the values, where they hold every position; the kernel's type is as declared."""
    agrees(in_lanes(rows(N=extent, T="i8", I="i32" if extent % 2 else "i64"), 32))


def tiled(sch: Schedule, rows: int, columns: int, *, order: str = "ijIJ") -> dict[str, object]:
    i, j = sch.get_loops(sch.get_block("V"))
    loops = dict(zip("iIjJ", (*sch.split(i, [None, rows]), *sch.split(j, [None, columns])), strict=True))
    sch.reorder(*(loops[name] for name in order))
    return loops


def tile_of_lanes(sch: Schedule, rows: int = 2, columns: int = 32) -> dict[str, object]:
    loops = tiled(sch, rows, columns)
    sch.unroll(loops["I"])
    sch.vectorize(loops["J"], lanes=16)
    return loops


def two_phases(sch: Schedule) -> None:
    _, j = sch.get_loops(sch.get_block("V"))
    _, inner = sch.split(j, [None, 16])
    partial = sch.rfactor(inner)
    i, j, inner = sch.get_loops(partial)
    sch.reorder(i, j, inner)
    sch.vectorize(inner, lanes=16)
    sch.vectorize(sch.get_loops(sch.get_block("V"))[-1], lanes=16)


def decomposed(sch: Schedule) -> None:
    loops = tile_of_lanes(sch)
    sch.decompose_reduction(sch.get_block("V"), loops["j"])


def limited(sch: Schedule) -> None:
    tiled(sch, 3, 4, order="ijIJ")
    sch.annotate(sch.get_block("V"), "unroll_limit", 16)


@pytest.mark.parametrize("reduce", ["argmax", "argmin"])
@pytest.mark.parametrize(
    "steps",
    [
        tile_of_lanes,
        lambda s: tile_of_lanes(s, 3, 11),
        lambda s: (in_lanes(s, 8), s.parallel(s.get_loops(s.get_block("V"))[0])),
        lambda s: s.reorder(*reversed(s.get_loops(s.get_block("V")))),
        lambda s: tiled(s, 2, 7, order="JijI"),
        lambda s: (tiled(s, 2, 7, order="iJIj"), in_lanes(s, 4)),
        lambda s: (s.split(s.get_loops(s.get_block("V"))[1], [None, 5, 3]), in_lanes(s, 2)),
        lambda s: s.unroll(s.get_loops(s.get_block("V"))[1]),
        two_phases,
        decomposed,
        limited,
    ],
    ids=[
        "tile", "imperfect", "threads", "columns first", "positions jump", "jumps in lanes", "split twice", "unrolled",
        "rfactor", "decomposed", "unroll limit",
    ],
)  # fmt: skip
def test_schedules(steps: Callable[[Schedule], object], reduce: str) -> None:
    sch = rows(reduce, N=75)
    steps(sch)
    agrees(sch, TWO)


@pytest.mark.parametrize("lanes", [None, 8])
@pytest.mark.parametrize("order", ["hw", "wh", "fused"])
def test_positions_of_two_axes(order: str, lanes: int | None) -> None:
    sch = schedule(PLANES)
    _, h, w = sch.get_loops(sch.get_block("V"))
    if order == "wh":
        sch.reorder(w, h)
    if order == "fused":
        sch.fuse(h, w)
    if lanes is not None:
        in_lanes(sch, lanes)
    agrees(sch)


@pytest.mark.parametrize(
    ("order", "rising"), [("hHwW", True), ("hwHW", False), ("hHWw", False), ("HhwW", False), ("HwWh", False)]
)
@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (3, 7), (2, 16)])
def test_positions_that_rise_are_not_compared(order: str, rising: bool, rows: int, columns: int) -> None:
    """Tiles of 9 by 21 that may reach over its borders: guards say how far positions go."""
    sch = schedule(PLANES)
    _, h, w = sch.get_loops(sch.get_block("V"))
    loops = dict(zip("hHwW", (*sch.split(h, [None, rows]), *sch.split(w, [None, columns])), strict=True))
    sch.reorder(*(loops[name] for name in order))
    assert ("@rising" in print_kernel(lower(sch.func, HERE))) is rising
    x = few_values(sch, 0)
    found = run_lir(lower(sch.func, HERE), [x]).data
    np.testing.assert_array_equal(found["P"], x.reshape(6, -1).argmax(axis=1))


@pytest.mark.parametrize("cut", [1, 2])
def test_parts_of_a_loop_that_take_turns(cut: int) -> None:
    """Each part's positions rise, but in between the other part finds higher ones."""
    sch = rows(N=64)
    loops = tiled(sch, 1, 16, order="iIJj")
    sch.loop_partition(loops["j"], [cut])
    agrees(sch, seeds=6)


def test_terms_that_are_left_out() -> None:
    """An element without a term has no position, and none before another's first."""
    text = """
    program before[N=40](X: f32[N]) -> (V: f32[N], P: i64[N]):
        V[i], P[i] = argmax[j < N](X[j] if j > i else -inf)
    """
    for lanes in (None, 16):
        sch = schedule(text)
        if lanes:
            in_lanes(sch, lanes)
        agrees(sch)


def test_in_what_needs_it() -> None:
    text = """
    program use[M=6, N=50](X: f32[M, N]) -> Y: f32[M]:
        V[i], P[i] = argmax[j](X[i, j])
        Y[i] = X[i, P[i]] + f32(P[i])
    """
    sch = schedule(text)
    sch.compute_at(sch.get_block("V"), sch.get_loops(sch.get_block("Y"))[0])
    in_lanes(sch, 16)
    validate(sch.func)
    x = np.random.default_rng(0).standard_normal((6, 50)).astype(np.float32)
    out = np.empty(6, np.float32)
    build(sch.func, HERE)(x, out)
    np.testing.assert_array_equal(out, reference(sch.program)(x))


def test_values_and_positions_in_layouts_of_their_own() -> None:
    text = """
    program use[M=6, N=50](X: f32[M, N]) -> Y: f32[M]:
        V[i], P[i] = argmax[j](X[i, j])
        Y[i] = V[i] + f32(P[i])
    """
    sch = schedule(text)
    sch.transform_layout(sch.get_block("V"), "i -> i % 2, i // 2")
    in_lanes(sch, 16)
    validate(sch.func)
    x = np.random.default_rng(0).standard_normal((6, 50)).astype(np.float32)
    out = np.empty(6, np.float32)
    build(sch.func, HERE)(x, out)
    np.testing.assert_array_equal(out, x.max(axis=1) + x.argmax(axis=1).astype(np.float32))


# --- code ------------------------------------------------------------------------------------------------


def program(sch: Schedule) -> str:
    text = print_kernel(lower(sch.func, WIDE))
    return text[text.index("    register") :]


def test_the_low_level_program() -> None:
    assert (
        program(in_lanes(rows(), 16))
        == """\
    register V.lanes: f32[16]
    register P.lanes: i32[16]
    for i in range(5):
        V[i] = -inf
        P[i] = 0
        vector(16) j_lanes in range(16):
            V.lanes[j_lanes] = -inf
            P.lanes[j_lanes] = 0
        vector(16) j in range(150):
            V.lanes[j % 16], P.lanes[j % 16] argmax= X[i*150 + j], i32(j)  @rising
        vector(16) j_lanes_1 in range(16):
            V[i], P[i] argmax= V.lanes[j_lanes_1], i64(P.lanes[j_lanes_1])
"""
    )


def test_accumulators_of_both() -> None:
    sch = schedule(COLUMNS, "argmin", M=32, N=8)
    i, j = sch.get_loops(sch.get_block("V"))
    sch.reorder(j, i)
    sch.vectorize(i, lanes=16)
    sch.annotate(sch.get_block("V"), "unroll_limit", 4)
    assert (
        program(sch)
        == """\
    register V.acc: f32[32]
    register P.acc: i32[32]
    vector(16, unrolled) i_tile in range(32):
        V.acc[i_tile] = inf
        P.acc[i_tile] = 0
    for j in range(8):
        vector(16, unrolled) i in range(32):
            V.acc[i], P.acc[i] argmin= X[j*32 + i], i32(j)  @rising
    vector(16, unrolled) i_tile_1 in range(32):
        V[i_tile_1] = V.acc[i_tile_1]
        P[i_tile_1] = i64(P.acc[i_tile_1])
"""
    )


def test_both_in_registers_or_neither() -> None:
    sch = schedule(COLUMNS, M=16 * 16)
    i, j = sch.get_loops(sch.get_block("V"))
    sch.reorder(j, i)
    sch.vectorize(i, lanes=16)
    sch.annotate(sch.get_block("V"), "unroll_limit", 16)
    kernel = lower(sch.func, WIDE)
    assert ".acc" not in print_kernel(kernel)
    assert kernel.warnings[0].startswith("the accumulators of `V` stay in memory: they take 32 vector registers")
    agrees(sch)


def innermost(sch: Schedule, instruction: str) -> str:
    asm = build(sch.func, HERE).asm
    body = asm[asm.index("body:") : asm.index("metasched_python:")]
    assert "rsp" not in body
    return next(part for part in body.split("\t.p2align") if instruction in part).partition("\tjb")[0]


@needs_avx512
def test_two_comparisons_and_two_selections_a_vector() -> None:
    loop = innermost(in_lanes(rows(N=1024), 64), "vcmpnleps")
    assert loop.count("vcmp") == 8
    assert loop.count("{%k") == 4 + 8  # what comes with a mask: the second comparison, and both selections
    assert loop.count("vmovups") == 4
    assert "vgather" not in loop


@needs_avx512
def test_one_comparison_where_nan_does_not_count() -> None:
    sch = in_lanes(rows(N=1024), 64)
    sch.annotate(sch.get_block("V"), "fastmath", True)
    assert innermost(sch, "vcmp").count("vcmp") == 4
    x = np.random.default_rng(0).integers(-3, 3, (5, 1024)).astype(np.float32)
    x[1], x[2, 700] = -np.inf, np.inf
    values, positions = np.empty(5, np.float32), np.empty(5, np.int64)
    build(sch.func, HERE)(x, values, positions)
    np.testing.assert_array_equal(positions, x.argmax(axis=1))
    np.testing.assert_array_equal(values, x.max(axis=1))


@needs_avx512
def test_columns_in_lanes_stay_in_registers() -> None:
    sch = schedule(COLUMNS, M=256, N=1000)
    i, j = sch.get_loops(sch.get_block("V"))
    i0, i1 = sch.split(i, [None, 64])
    sch.reorder(i0, j, i1)
    sch.vectorize(i1, lanes=16)
    sch.annotate(sch.get_block("V"), "unroll_limit", 4)
    loop = innermost(sch, "vcmpnleps")
    assert loop.count("vcmp") == 8
    assert loop.count("(%r") == 4  # of memory only what is read of X


@pytest.mark.parametrize(("extent", "lanes"), [(150, 16), (7, 16), (150, 64), (150, None)])
def test_accesses_are_in_bounds_and_positions_rise(extent: int, lanes: int | None) -> None:
    sch = rows(N=extent) if lanes is None else in_lanes(rows(N=extent), lanes)
    x = few_values(sch, 0)
    found = run_lir(lower(sch.func, HERE), [x]).data
    np.testing.assert_array_equal(found["V"], x.max(axis=1))
    np.testing.assert_array_equal(found["P"], x.argmax(axis=1))


def test_tiles_of_lanes_in_the_low_level_program() -> None:
    for steps in (tile_of_lanes, lambda s: (tiled(s, 2, 7, order="iJIj"), in_lanes(s, 4)), two_phases):
        sch = rows(N=75)
        steps(sch)
        x = few_values(sch, 1)
        found = run_lir(lower(sch.func, HERE), [x]).data
        np.testing.assert_array_equal(found["P"], x.argmax(axis=1))

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from metasched.compiler import lir
from metasched.compiler.lir import ArrayKind
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.dtypes import DType
from metasched.errors import BuildError
from metasched.ir.nodes import (
    Annotation,
    Const,
    For,
    Func,
    LoopKind,
    Reducer,
    Scalar,
    Scope,
    Store,
    Var,
    seq,
)
from metasched.operators import TWELVE
from metasched.reference.execution import reference
from metasched.reference.interpreter import interpret
from metasched.reference.state import new_state, outputs
from metasched.target import Target
from tests.support.lir_interpreter import LirInterpreter, run_lir
from tests.support.nests import (
    F32,
    ZERO,
    block,
    both,
    buf,
    c,
    conv,
    dense,
    func,
    ld,
    loops,
    matmul_store,
    random_inputs,
    relu,
    select,
    serial,
    v,
)
from tests.support.targets import AVX512, SSE


def agrees(f: Func, target: Target = AVX512) -> tuple[lir.LoopProgram, LirInterpreter]:
    """Lower `f`, run it, and compare every output with the reference exactly."""
    kernel = lower(f, target)
    inputs = random_inputs(f)
    state = new_state(f, dict(zip((b.name for b in f.inputs), inputs, strict=True)), {})
    interpret(f, state)
    ran = run_lir(kernel, inputs)
    for b, e in zip(f.outputs, outputs(f, state), strict=True):
        np.testing.assert_array_equal(ran.data[b.name].reshape(e.shape), e, err_msg=print_kernel(kernel))
    return kernel, ran


def array(kernel: lir.LoopProgram, name: str) -> lir.Array:
    (found,) = [a for a in kernel.arrays if a.name == name]
    return found


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (4, 1, 9)])
def test_unscheduled_programs(shape: tuple[int, int, int]) -> None:
    agrees(dense(*shape))


def test_unscheduled_convolution() -> None:
    agrees(conv(5, 4, 3, 2))


def tiled(
    n: int, m: int, k: int, ti: int, tj: int, tk: int, lanes: int = 4, limit: int = 64, *, fuse: bool = True
) -> Func:
    """The tiling of a matrix product everybody writes, any extents, with relu on the finished tile."""

    def outer(extent: int, tile: int) -> int:
        return -(-extent // tile)

    i, j, kk = v("i0") * ti + v("i1"), v("j0") * tj + v("j1"), v("k0") * tk + v("k1")
    mm = block(
        "mm", {"vi": (n, i), "vj": (m, j), "vk": (k, kk)}, matmul_store(), guards=(i < n, j < m, kk < k), reduce=("vk",)
    )
    i2, j2 = v("i0") * ti + v("i2"), v("j0") * tj + v("j2")
    act = block(
        "act",
        {"vi": (n, i2), "vj": (m, j2)},
        Store("D", (v("vi"), v("vj")), relu(ld("C", v("vi"), v("vj")))),
        guards=(i2 < n, j2 < m),
    )
    inner = loops([("k0", outer(k, tk)), ("k1", tk), ("i1", ti), ("j1", tj, lanes)], mm)
    after = loops([("i2", ti), ("j2", tj, lanes)], act)
    spec: list = [("i0", outer(n, ti), LoopKind.PARALLEL), ("j0", outer(m, tj))]
    if fuse:
        body = loops(spec, seq([inner, after]), limit=limit)
        return func("tiled", [buf("A", n, k), buf("B", k, m)], [buf("D", n, m)], [buf("C", n, m)], body)
    alone = loops(spec, inner, limit=limit)
    return func("tiled", [buf("A", n, k), buf("B", k, m)], [buf("C", n, m)], [], alone)


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("limit", [0, 4, 64])
@pytest.mark.parametrize("shape", [(8, 8, 8), (7, 11, 5), (1, 3, 2), (9, 16, 7)])
def test_tiled_products(shape: tuple[int, int, int], limit: int, fuse: bool) -> None:
    agrees(tiled(*shape, ti=4, tj=8, tk=4, limit=limit, fuse=fuse))


def test_a_tile_of_the_intermediate_is_all_that_is_kept() -> None:
    kernel, _ = agrees(tiled(16, 16, 8, 4, 8, 4, limit=0))
    assert array(kernel, "C") == lir.Array("C", F32, 32, ArrayKind.THREAD)


def test_an_intermediate_between_parallel_loops_is_shared() -> None:
    f = dense(6, 5, 4)
    first, second = f.body.stmts  # type: ignore[attr-defined]
    f = replace(f, body=seq([replace(first, kind=LoopKind.PARALLEL), replace(second, kind=LoopKind.PARALLEL)]))
    kernel, _ = agrees(f)
    assert array(kernel, "C") == lir.Array("C", F32, 30, ArrayKind.SHARED)


def test_guards_clip_serial_loops() -> None:
    kernel, _ = agrees(tiled(7, 11, 5, 4, 8, 4, limit=0))
    text = print_kernel(kernel)
    assert "if " not in text
    assert "min(" in text


# --- register tiles --------------------------------------------------------------------------------------


def writes(kernel: lir.LoopProgram, name: str) -> int:
    return sum(isinstance(n, lir.Write) and n.array == name for n in kernel.body.walk())


def test_the_finished_tile_of_a_fused_product_stays_in_registers() -> None:
    kernel, _ = agrees(tiled(8, 16, 8, 4, 8, 4))
    assert array(kernel, "C") == lir.Array("C", F32, 32, ArrayKind.REGISTER, spare_lanes=True)


def test_accumulators_start_from_init_and_are_stored_once() -> None:
    kernel, ran = agrees(tiled(8, 16, 8, 4, 8, 4, fuse=False))
    assert array(kernel, "C.acc").kind is ArrayKind.REGISTER
    assert writes(kernel, "C") == 1
    # 4 tiles of 4 rows of 2 vectors, once each.
    assert ran.statements["C"] == 4 * 4 * 2


def test_a_tile_that_does_not_fit_stays_in_memory() -> None:
    kernel, _ = agrees(tiled(16, 16, 8, 8, 8, 4), SSE)
    assert array(kernel, "C").kind is ArrayKind.THREAD
    assert not [a for a in kernel.arrays if a.kind is ArrayKind.REGISTER]


def test_wide_lanes_take_several_registers() -> None:
    fits, _ = agrees(tiled(8, 16, 8, 4, 8, 4, lanes=8), SSE)
    assert array(fits, "C").kind is ArrayKind.REGISTER
    spills, _ = agrees(tiled(16, 16, 8, 8, 8, 4, lanes=8), SSE)
    assert array(spills, "C").kind is ArrayKind.THREAD


def test_accumulators_survive_serial_loops_between_the_reduction_loops() -> None:
    """k0 is outside a serial loop of tiles: the accumulators live over k1, and are loaded and stored around it."""
    i, k = v("i0") * 4 + v("i1"), v("k0") * 3 + v("k1")
    mm = block("mm", {"vi": (8, i), "vj": (8, v("j"))} | {"vk": (9, k)}, matmul_store(), reduce=("vk",))
    body = loops([("k0", 3), ("i0", 2), ("k1", 3), ("i1", 4), ("j", 8, 8)], mm, limit=16)
    kernel, ran = agrees(func("mm", [buf("A", 8, 9), buf("B", 9, 8)], [buf("C", 8, 8)], [], body))
    assert array(kernel, "C.acc").size == 32
    # The start of all 8 rows, and the tile after each of 3 * 2 runs of k1.
    assert ran.statements["C"] == 8 + 6 * 4


def test_scalar_reduction_accumulates_in_a_register() -> None:
    kernel, ran = agrees(dense(3, 4, 5))
    assert array(kernel, "C.acc").size == 1
    assert ran.statements["C"] == 12


def test_decomposed_reduction_loads_its_tile() -> None:
    update = replace(
        block("mm", {"vi": (4, v("i")), "vj": (8, v("j")), "vk": (3, v("k"))}, matmul_store(), reduce=("vk",)),
        init=None,
    )
    start = block("mm.init", {"vi": (4, v("i2")), "vj": (8, v("j2"))}, Store("C", (v("vi"), v("vj")), ZERO))
    f = func(
        "mm",
        [buf("A", 4, 3), buf("B", 3, 8)],
        [buf("C", 4, 8)],
        [],
        loops([("i2", 4), ("j2", 8, 4)], start),
        loops([("k", 3), ("i", 4), ("j", 8, 4)], update, limit=8),
    )
    kernel, _ = agrees(f)
    assert array(kernel, "C.acc").size == 32


def test_an_update_that_reads_its_buffer_elsewhere_is_not_promoted() -> None:
    """Nothing the language builds does this; lowering must not rely on it."""
    store = Store("C", (v("vi"),), ld("C", c(0)) * 0.0 + ld("A", v("vi"), v("vk")))
    b = replace(block("odd", {"vi": (4, v("i")), "vk": (3, v("k"))}, store, reduce=("vk",)), init=None)
    start = block("start", {"vi": (4, v("i2"))}, Store("C", (v("vi"),), ZERO))
    kernel, _ = agrees(
        func("odd", [buf("A", 4, 3)], [buf("C", 4)], [], loops([("i2", 4)], start), loops([("i", 4), ("k", 3)], b))
    )
    assert all(a.name != "C.acc" for a in kernel.arrays)


def register_tile(scope: Scope, size: int = 8) -> Func:
    square = block("sq", {"a": (size, v("x"))}, Store("T", (v("a"),), ld("X", v("a")) * ld("X", v("a"))))
    use = block("use", {"a": (size, v("y"))}, Store("Y", (v("a"),), ld("T", v("a")) + 1.0))
    return func(
        "f",
        [buf("X", size)],
        [buf("Y", size)],
        [buf("T", size, scope=scope)],
        loops([("x", size, 4)], square),
        loops([("y", size, 4)], use),
    )


def test_register_scope_unrolls_the_loops_that_index_it() -> None:
    kernel, _ = agrees(register_tile(Scope.REGISTER))
    assert array(kernel, "T").kind is ArrayKind.REGISTER
    assert all(x.unroll_strips for x in kernel.body.walk() if isinstance(x, lir.VectorLoop))
    kernel, _ = agrees(register_tile(Scope.GLOBAL))
    assert array(kernel, "T").kind is ArrayKind.SHARED


def test_register_scope_that_cannot_be_is_an_error() -> None:
    with pytest.raises(BuildError, match="register tile does not fit") as caught:
        lower(register_tile(Scope.REGISTER, 256), SSE)
    assert caught.value.reason == "register tile does not fit"


# --- loops -----------------------------------------------------------------------------------------------


def elementwise(n: int, spec: list, binding=None, guards=(), limit: int | None = None) -> Func:
    i = binding if binding is not None else v("i")
    b = block("b", {"a": (n, i)}, Store("Y", (v("a"),), ld("X", v("a")) * 2.0), guards=guards)
    return func("f", [buf("X", n)], [buf("Y", n)], [], loops(spec, b, limit=limit))


@pytest.mark.parametrize("n", [1, 3, 8, 13, 16, 37])
@pytest.mark.parametrize("limit", [None, 64])
def test_vectorised_loop_of_any_extent(n: int, limit: int | None) -> None:
    agrees(elementwise(n, [("i", n, 8)], limit=limit))


def test_fused_loops_divide_and_take_remainders() -> None:
    i, j = v("f") // 5, v("f") % 5
    b = block("b", {"a": (7, i), "b": (5, j)}, Store("Y", (v("a"), v("b")), ld("X", v("b"), v("a")) + 1.0))
    agrees(func("f", [buf("X", 5, 7)], [buf("Y", 7, 5)], [], loops([("f", 35, LoopKind.PARALLEL)], b)))


def test_split_of_a_fused_loop_with_both_reduction_and_space() -> None:
    f = v("f0") * 4 + v("f1")
    b = block(
        "s",
        {"a": (3, f // 5), "k": (5, f % 5)},
        Store("Y", (v("a"),), ld("X", v("a"), v("k"))),
        guards=(f < 15,),
        reduce=("k",),
    )
    agrees(func("f", [buf("X", 3, 5)], [buf("Y", 3)], [], loops([("f0", 4), ("f1", 4)], b)))
    agrees(func("f", [buf("X", 3, 5)], [buf("Y", 3)], [], loops([("f0", 4), ("f1", 4, LoopKind.UNROLLED)], b)))


def test_two_levels_of_imperfect_tiles() -> None:
    """The inner tiles of the last outer tile may have nothing left: their clipped extents are negative."""
    mid = v("i1") * 3 + v("i2")
    i = v("i0") * 8 + mid
    agrees(elementwise(19, [("i0", 3), ("i1", 3), ("i2", 3)], i, (mid < 8, i < 19)))
    agrees(elementwise(19, [("i0", 3), ("i1", 3), ("i2", 3, 4)], i, (mid < 8, i < 19)))
    agrees(elementwise(19, [("i1", 3), ("i0", 3), ("i2", 3, LoopKind.UNROLLED)], i, (mid < 8, i < 19)))
    agrees(elementwise(19, [("i2", 3, 2), ("i1", 3), ("i0", 3)], i, (mid < 8, i < 19)))


def test_vectorised_loop_around_a_reduction_works_on_one_vector() -> None:
    mm = block("mm", {"vi": (3, v("i")), "vj": (13, v("j")), "vk": (5, v("k"))}, matmul_store(), reduce=("vk",))
    act = block(
        "act", {"vi": (3, v("i")), "vj": (13, v("j"))}, Store("D", (v("vi"), v("vj")), relu(ld("C", v("vi"), v("vj"))))
    )
    body = loops([("i", 3, LoopKind.PARALLEL), ("j", 13, 4)], seq([For("k", c(5), mm), act]))
    kernel, _ = agrees(func("f", [buf("A", 3, 5), buf("B", 5, 13)], [buf("D", 3, 13)], [buf("C", 3, 13)], body))
    assert array(kernel, "C") == lir.Array("C", F32, 4, ArrayKind.REGISTER, spare_lanes=True)


def test_unrolling_a_reduction_keeps_its_accumulator() -> None:
    total = block("t", {"k": (12, v("k0") * 4 + v("k1"))}, Store("Y", (), ld("X", v("k"))), reduce=("k",))
    kernel, _ = agrees(func("f", [buf("X", 12)], [buf("Y")], [], loops([("k0", 3), ("k1", 4)], total, limit=4)))
    assert any(isinstance(x, lir.Loop) and x.mode is lir.LoopMode.UNROLLED for x in kernel.body.walk())
    assert array(kernel, "Y.acc").size == 1


def test_unroll_limit_takes_the_innermost_run_that_fits() -> None:
    f = elementwise(64, [("i0", 4), ("i1", 4), ("i2", 4)], (v("i0") * 4 + v("i1")) * 4 + v("i2"), limit=16)
    kernel, _ = agrees(f)
    modes = {x.var: x.mode for x in kernel.body.walk() if isinstance(x, lir.Loop)}
    assert modes == {"i0": lir.LoopMode.SERIAL, "i1": lir.LoopMode.UNROLLED, "i2": lir.LoopMode.UNROLLED}


def test_unroll_limit_on_a_block() -> None:
    b = block(
        "b", {"a": (6, v("i"))}, Store("Y", (v("a"),), ld("X", v("a"))), annotations=(Annotation("unroll_limit", c(6)),)
    )
    kernel, _ = agrees(func("f", [buf("X", 6)], [buf("Y", 6)], [], loops([("i", 6)], b)))
    assert kernel.body.mode is lir.LoopMode.UNROLLED  # type: ignore[attr-defined]


def test_parallel_inside_parallel_is_serial_and_unit_loops_vanish() -> None:
    f = elementwise(
        6,
        [("u", 1, LoopKind.PARALLEL), ("i0", 2, LoopKind.PARALLEL), ("i1", 3, LoopKind.PARALLEL)],
        v("u") * 6 + v("i0") * 3 + v("i1"),
    )
    kernel, _ = agrees(f)
    modes = {x.var: x.mode for x in kernel.body.walk() if isinstance(x, lir.Loop)}
    assert modes == {"i0": lir.LoopMode.PARALLEL, "i1": lir.LoopMode.SERIAL}


# --- several stages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("h", [6, 7])
@pytest.mark.parametrize("limit", [0, 16])
def test_convolution_with_its_padding_computed_in_overlapping_tiles(h: int, limit: int) -> None:
    w, ci, co, tile = 3, 2, 4, 2
    f = conv(h, w, ci, co)
    pad, mac = (b for b in f.body.walk() if hasattr(b, "store") and hasattr(b, "iters"))
    row = v("t") * tile + v("x")
    pad = replace(pad, bindings=(row, v("pw"), v("pc")), guards=(row < h + 2,))
    out = v("t") * tile + v("y")
    mac = replace(mac, bindings=(out, v("w"), v("o"), v("r"), v("s"), v("q")), guards=(out < h,))
    body = loops(
        [("t", -(-h // tile), LoopKind.PARALLEL)],
        seq(
            [
                loops([("x", tile + 2), ("pw", w + 2), ("pc", ci, 4)], pad),
                loops([("r", 3), ("s", 3), ("q", ci), ("y", tile), ("w", w), ("o", co, 4)], mac),
            ]
        ),
        limit=limit,
    )
    kernel, _ = agrees(replace(f, body=body))
    assert array(kernel, "Xp") == lir.Array("Xp", F32, (tile + 2) * (w + 2) * ci, ArrayKind.THREAD)


@pytest.mark.parametrize("n", [12, 10])
def test_partial_sums_reduced_afterwards(n: int) -> None:
    k = v("k0") * 4 + v("k1")
    partial = block(
        "s.rf",
        {"p": (4, v("k1")), "q": (3, v("k0"))},
        Store("R", (v("p"),), ld("X", v("q") * 4 + v("p"))),
        guards=(k < n,),
        reduce=("q",),
    )
    final = block("s", {"p": (4, v("p2"))}, Store("Y", (), ld("R", v("p"))), reduce=("p",))
    f = func(
        "f",
        [buf("X", n)],
        [buf("Y")],
        [buf("R", 4)],
        loops([("k0", 3), ("k1", 4, 4)], partial),
        loops([("p2", 4)], final),
    )
    agrees(f)


def test_softmax_stages_under_one_row_loop() -> None:
    n, m = 3, 5
    row = {"i": (n, v("r"))}
    peak = block(
        "peak",
        row | {"k": (m, v("k1"))},
        Store("M", (v("i"),), ld("X", v("i"), v("k"))),
        reduce=("k",),
        reducer=Reducer.MAX,
        init=Const(-math.inf, F32),
    )
    shift = block(
        "shift", row | {"j": (m, v("j1"))}, Store("S", (v("i"), v("j")), ld("X", v("i"), v("j")) - ld("M", v("i")))
    )
    total = block("total", row | {"k": (m, v("k2"))}, Store("T", (v("i"),), ld("S", v("i"), v("k"))), reduce=("k",))
    last = block(
        "last", row | {"j": (m, v("j2"))}, Store("Y", (v("i"), v("j")), ld("S", v("i"), v("j")) + ld("T", v("i")))
    )
    body = loops(
        [("r", n, LoopKind.PARALLEL)],
        seq(
            [
                loops([("k1", m)], peak),
                loops([("j1", m, 4)], shift),
                loops([("k2", m)], total),
                loops([("j2", m, 4)], last),
            ]
        ),
    )
    kernel, _ = agrees(
        func("softmax", [buf("X", n, m)], [buf("Y", n, m)], [buf("M", n), buf("S", n, m), buf("T", n)], body)
    )
    assert array(kernel, "S").size == m
    assert array(kernel, "M") == lir.Array("M", F32, 1, ArrayKind.REGISTER)


def test_an_intermediate_outside_a_parallel_loop_is_not_one_per_thread() -> None:
    fill = block(
        "fill", {"a": (4, v("o")), "b": (6, v("p"))}, Store("T", (v("a"), v("b")), ld("X", v("a"), v("b")) + 1.0)
    )
    use = block(
        "use", {"a": (4, v("o")), "b": (6, v("q"))}, Store("Y", (v("a"), v("b")), ld("T", v("a"), 5 - v("b")) * 2.0)
    )
    body = loops(
        [("o", 4)], seq([loops([("p", 6, LoopKind.PARALLEL)], fill), loops([("q", 6, LoopKind.PARALLEL)], use)])
    )
    kernel, _ = agrees(func("f", [buf("X", 4, 6)], [buf("Y", 4, 6)], [buf("T", 4, 6)], body))
    assert array(kernel, "T") == lir.Array("T", F32, 6, ArrayKind.SHARED)


def test_select_reads_what_was_not_produced_only_when_taken() -> None:
    fill = block("fill", {"a": (5, v("x"))}, Store("T", (v("a"),), ld("X", v("a")) + 1.0))
    inside = both(v("a") >= 2, v("a") < 7)
    use = block("use", {"a": (9, v("y"))}, Store("Y", (v("a"),), select(inside, ld("T", v("a") - 2))))
    agrees(func("f", [buf("X", 5)], [buf("Y", 9)], [buf("T", 5)], loops([("x", 5)], fill), loops([("y", 9, 4)], use)))


@pytest.mark.parametrize("dtype", [DType.I8, DType.I32, DType.I64, DType.F64])
def test_other_dtypes(dtype: DType) -> None:
    x, w = ld("A", v("vi"), v("vk"), dtype=dtype), ld("B", v("vk"), v("vj"), dtype=dtype)
    mm = block(
        "mm",
        {"vi": (3, v("i")), "vj": (9, v("j")), "vk": (5, v("k"))},
        Store("C", (v("vi"), v("vj")), x * w),
        reduce=("vk",),
    )
    body = loops([("i", 3), ("k", 5), ("j", 9, 4)], mm, limit=8)
    agrees(
        func("f", [buf("A", 3, 5, dtype=dtype), buf("B", 5, 9, dtype=dtype)], [buf("C", 3, 9, dtype=dtype)], [], body)
    )


def test_booleans() -> None:
    flag = block("flag", {"a": (5, v("x"))}, Store("F", (v("a"),), ld("X", v("a")) > 0.0))
    use = block(
        "use", {"a": (5, v("y"))}, Store("Y", (v("a"),), select(ld("F", v("a"), dtype=DType.BOOL), ld("X", v("a"))))
    )
    agrees(
        func(
            "f",
            [buf("X", 5)],
            [buf("Y", 5)],
            [buf("F", 5, dtype=DType.BOOL)],
            loops([("x", 5)], flag),
            loops([("y", 5)], use),
        )
    )


# --- errors ----------------------------------------------------------------------------------------------


def test_a_reduction_that_runs_at_once_is_an_error() -> None:
    two = block("t", {"k": (8, v("k")), "l": (2, v("l"))}, Store("Y", (), ld("X", v("k"))), reduce=("k", "l"))
    with pytest.raises(BuildError, match="vectorized loop carries a reduction"):
        lower(func("f", [buf("X", 8)], [buf("Y")], [], loops([("k", 8, 4), ("l", 2)], two)), AVX512)
    total = block("t", {"k": (8, v("k"))}, Store("Y", (), ld("X", v("k"))), reduce=("k",))
    with pytest.raises(BuildError, match="parallel loop carries a reduction"):
        lower(func("f", [buf("X", 8)], [buf("Y")], [], loops([("k", 8, LoopKind.PARALLEL)], total)), AVX512)


def test_too_much_unrolling_is_an_error() -> None:
    with pytest.raises(BuildError, match="8192 statements"):
        lower(elementwise(8192, [("i", 8192, LoopKind.UNROLLED)]), AVX512)


def test_vectors_in_vectors_are_an_error() -> None:
    f = elementwise(64, [("i0", 8, 4), ("i1", 8, 4)], v("i0") * 8 + v("i1"))
    with pytest.raises(BuildError, match="inside a vectorized loop"):
        lower(f, AVX512)


def test_free_variables_are_an_error() -> None:
    f = replace(
        elementwise(4, [("i", 4)]),
        body=For("i", v("t0"), serial(block("b", {"a": (4, c(0))}, Store("Y", (v("a"),), ld("X", v("a")))))),
    )
    with pytest.raises(BuildError, match="extent not constant"):
        lower(f, AVX512)


def test_a_huge_workspace_is_an_error() -> None:
    n = 1 << 15
    first = block(
        "a", {"i": (n, c(0)), "j": (n, c(0))}, Store("T", (v("i"), v("j")), ld("X", v("i")) * ld("X", v("j")))
    )
    second = block("b", {"i": (n, c(0)), "j": (n, c(0))}, Store("Y", (v("i"), v("j")), ld("T", v("j"), v("i"))))
    f = func("f", [buf("X", n)], [buf("Y", n, n)], [buf("T", n, n)], serial(first), serial(second))
    with pytest.raises(BuildError, match="workspace too large"):
        lower(f, AVX512)


def test_lanes_that_write_one_element_are_an_error() -> None:
    once = block("once", {"a": (3, v("i"))}, Store("T", (v("a"),), ld("X", v("a")) + 1.0))
    use = block("use", {"a": (3, v("i")), "b": (8, v("j"))}, Store("Y", (v("a"), v("b")), ld("T", v("a")) * 2.0))
    f = func("f", [buf("X", 3)], [buf("Y", 3, 8)], [buf("T", 3)], loops([("i", 3), ("j", 8, 4)], seq([once, use])))
    with pytest.raises(BuildError, match="vectorized loop writes one element"):
        lower(f, AVX512)


def test_a_scalar_argument_may_be_negative() -> None:
    limit = Var("limit", DType.I64)
    value = select(both(v("a") < limit, limit >= 0), ld("X", v("a")), Const(7.0, F32))
    b = block("b", {"a": (6, v("i"))}, Store("Y", (v("a"),), value))
    f = func("f", [buf("X", 6)], [buf("Y", 6)], [], loops([("i", 6, 4)], b))
    f = replace(f, scalars=(Scalar("limit", DType.I64),), order=("X", "limit"))
    kernel = lower(f, AVX512)
    assert kernel.order == ("X", "limit", "Y")
    x = np.arange(6, dtype=np.float32)
    for n in (-1, 0, 4):
        ran = run_lir(kernel, [x], {"limit": n})
        np.testing.assert_array_equal(ran.data["Y"], np.where(np.arange(6) < n, x, 7))
        np.testing.assert_array_equal(ran.data["Y"], reference(f)(x, n))


@pytest.mark.parametrize("outer", [1, 2], ids=["one loop", "two loops"])
def test_the_start_of_an_element_all_of_whose_terms_are_left_out(outer: int) -> None:
    """Partial sums of three terms over eight: five of them are empty, also where the loops over terms vanish."""
    names = [f"k{n}" for n in range(outer)]
    at = v("p")
    for name in names:
        at = v(name) * 8 + at
    terms = {"p": (8, v("p")), **{name: (1, v(name)) for name in names}}
    store = Store("T", (v("p"),), ld("A", at))
    partial = block("rf", terms, store, guards=(at < 3,), reduce=tuple(names))
    copy = block("copy", {"p": (8, v("p"))}, Store("S", (v("p"),), ld("T", v("p"))))
    nest = loops([*((name, 1) for name in names), ("p", 8)], partial)
    agrees(func("f", [buf("A", 3)], [buf("S", 8)], [buf("T", 8)], nest, serial(copy)))


def test_what_was_lowered_lately_is_not_lowered_again() -> None:
    first, again = (TWELVE["GMM"].program().func for _ in range(2))
    kept = lower(first, Target.detect(threads=2))
    assert lower(again, Target.detect(threads=2)) is kept
    assert lower(replace(again, name="other"), Target.detect(threads=2)) is not kept

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from lir_interpreter import LirInterpreter, run_lir
from nests import (
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

from metasched.backend import lir
from metasched.backend.lir import ArrayKind
from metasched.backend.lir_printer import print_kernel
from metasched.backend.lower import lower
from metasched.backend.reference import reference
from metasched.errors import BuildError
from metasched.ir.dtypes import DType
from metasched.ir.nodes import (
    Annotation,
    Const,
    For,
    Func,
    LoopKind,
    Reducer,
    Scope,
    Stmt,
    Store,
    seq,
)


@dataclass(frozen=True)
class Machine:
    registers: int = 32
    vector_bits: int = 512


def agrees(f: Func, machine: Machine | None = None) -> tuple[lir.Kernel, LirInterpreter]:
    """Lower `f`, run it, and compare every output with the reference exactly."""
    kernel = lower(f, machine or Machine())
    inputs = random_inputs(f)
    expected = reference(f)(*inputs)
    ran = run_lir(kernel, inputs)
    for b, e in zip(f.outputs, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_array_equal(ran.data[b.name].reshape(e.shape), e, err_msg=print_kernel(kernel))
    return kernel, ran


def array(kernel: lir.Kernel, name: str) -> lir.Array:
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

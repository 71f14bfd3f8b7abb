"""A tiled dense + relu, built by hand: symbolic over its tile sizes, or concrete."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.ir.integers.affine import substitute
from metasched.ir.node_base import Node
from metasched.ir.nodes import (
    Annotation,
    Binary,
    BinOp,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Func,
    IterKind,
    IterVar,
    Load,
    LoopKind,
    Reducer,
    Scope,
    Stmt,
    Store,
    Var,
    seq,
)
from metasched.target import Target
from tests.support.targets import AVX512

COLUMNS = ("a1", "a2", "b1", "b2", "c1", "limit")
F32 = DType.F32


def ceildiv(a: Expr, b: Expr) -> Expr:
    return Binary(BinOp.CEILDIV, a, b)


def put(node: Node, values: Mapping[str, Expr]) -> Node:
    """`node` with variables replaced everywhere."""
    if isinstance(node, Expr):
        return substitute(node, values)
    return node.map(lambda child: put(child, values))


def dense_relu(n: int = 512, m: int = 512, k: int = 512, columns: tuple[str, ...] = COLUMNS) -> Func:
    """dense accumulates in a register tile under (f, i1, j1); relu reads it there."""
    N, M, K = Const(n), Const(m), Const(k)
    a1, a2, b1, b2, c1, limit = (Var(name) for name in columns)
    f, i1, j1, k0, k1 = (Var(name) for name in ("f", "i1", "j1", "k0", "k1"))
    i_tiles, j_tiles = ceildiv(N, a1 * a2), ceildiv(M, b1 * b2)

    def tile(suffix: str) -> tuple[Expr, Expr]:
        i = (f // j_tiles) * (a1 * a2) + i1 * a2 + Var("i2" + suffix)
        j = (f % j_tiles) * (b1 * b2) + j1 * b2 + Var("j2" + suffix)
        return i, j

    def nest(suffix: str, block: Stmt) -> Stmt:
        inner = For("j2" + suffix, b2, block, LoopKind.VECTORIZED, Const(16))
        return For("i2" + suffix, a2, inner)

    def block(name: str, suffix: str, store: Store, reducer: Reducer | None = None) -> Block:
        i, j = tile(suffix)
        iters = [IterVar("i", N, IterKind.SPATIAL), IterVar("j", M, IterKind.SPATIAL)]
        bindings: list[Expr] = [i, j]
        guards = [i < N, j < M]
        if reducer is not None:
            iters.append(IterVar("k", K, IterKind.REDUCE))
            bindings.append(k0 * c1 + k1)
            guards.append(k0 * c1 + k1 < K)
        return Block(name, tuple(iters), tuple(bindings), tuple(guards), store, reducer)

    ij = (Var("i"), Var("j"))
    init = block("dense_init", "_a", Store("C", ij, Const(0.0, F32)))
    product = Load("A", (Var("i"), Var("k")), F32) * Load("B", (Var("k"), Var("j")), F32)
    dense = block("dense", "_b", Store("C", ij, product), Reducer.SUM)
    relu = block("relu", "_c", Store("D", ij, Binary(BinOp.MAX, Load("C", ij, F32), Const(0.0, F32))))
    reduction = For("k0", ceildiv(K, c1), For("k1", c1, nest("_b", dense)))
    body = seq([nest("_a", init), reduction, nest("_c", relu)])
    tiles = For("i1", a1, For("j1", b1, body), annotations=(Annotation("unroll_limit", limit),))
    return Func(
        "dense_relu",
        (Buffer("A", (N, K), F32), Buffer("B", (K, M), F32)),
        (),
        ("A", "B"),
        (Buffer("D", (N, M), F32),),
        (Buffer("C", (N, M), F32, Scope.REGISTER),),
        For("f", i_tiles * j_tiles, tiles, LoopKind.PARALLEL),
    )


def draw_rows(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    choices = ([1, 2, 4, 7, 16], [1, 2, 4, 6, 8], [1, 2, 4, 8], [8, 16, 32, 48], [1, 8, 60, 64, 512], [1, 16, 64])
    return np.stack([rng.choice(values, count) for values in choices], axis=1).astype(np.int64)


@pytest.fixture
def target() -> Target:
    return AVX512

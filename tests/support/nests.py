"""Small ways to write programs by hand in tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metasched.dtypes import DType
from metasched.ir.integers.affine import substitute
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
    Select,
    Stmt,
    Store,
    Var,
    seq,
)

F32 = DType.F32
ZERO = Const(0.0, F32)


def v(name: str) -> Var:
    return Var(name)


def c(value: int) -> Const:
    return Const(value)


def buf(name: str, *shape: int, dtype: DType = F32, scope: Scope = Scope.GLOBAL) -> Buffer:
    return Buffer(name, tuple(Const(n) for n in shape), dtype, scope)


def ld(name: str, *indices: Expr, dtype: DType = F32) -> Load:
    return Load(name, indices, dtype)


def relu(e: Expr) -> Expr:
    return Binary(BinOp.MAX, e, Const(0.0, e.dtype))


def select(cond: Expr, then: Expr, otherwise: Expr = ZERO) -> Expr:
    return Select(cond, then, otherwise)


def both(*conds: Expr) -> Expr:
    out = conds[0]
    for cond in conds[1:]:
        out = Binary(BinOp.AND, out, cond)
    return out


def block(
    name: str,
    iters: dict[str, tuple[int, Expr]],
    store: Store,
    *,
    guards: tuple[Expr, ...] = (),
    reduce: tuple[str, ...] = (),
    reducer: Reducer | None = None,
    init: Expr | None = None,
    annotations: tuple[Annotation, ...] = (),
) -> Block:
    """`iters` gives each variable's extent and binding."""
    ivs = tuple(
        IterVar(n, c(extent), IterKind.REDUCE if n in reduce else IterKind.SPATIAL) for n, (extent, _) in iters.items()
    )
    bindings = tuple(b for _, b in iters.values())
    if reduce and reducer is None:
        reducer = Reducer.SUM
    if reducer is Reducer.SUM and init is None:
        init = Const(0.0 if store.value.dtype.is_float else 0, store.value.dtype)
    return Block(name, ivs, bindings, guards, store, reducer, init, annotations)


def loops(
    spec: Sequence[tuple[str, int] | tuple[str, int, LoopKind | int]], body: Stmt, limit: int | None = None
) -> Stmt:
    """Nested loops, outermost first; the third item is a kind, or the lanes of a vectorised loop.

    `limit` is an unroll limit on the outermost.
    """
    for n, (var, extent, *kind) in reversed(list(enumerate(spec))):
        notes = (Annotation("unroll_limit", c(limit)),) if limit is not None and n == 0 else ()
        said = kind[0] if kind else LoopKind.SERIAL
        if isinstance(said, int):
            body = For(var, c(extent), body, LoopKind.VECTORIZED, c(said), notes)
        else:
            body = For(var, c(extent), body, said, None, notes)
    return body


def func(name: str, inputs: list[Buffer], outputs: list[Buffer], temps: list[Buffer], *body: Stmt) -> Func:
    return Func(name, tuple(inputs), (), tuple(b.name for b in inputs), tuple(outputs), tuple(temps), seq(list(body)))


def serial(b: Block) -> Stmt:
    """A block in a perfect nest of serial loops, one for each iteration variable."""
    names = {iv.name: f"{iv.name}_{b.name}" for iv in b.iters}
    bound = replace(b, bindings=tuple(Var(names[iv.name]) for iv in b.iters))
    out: Stmt = bound
    for iv in reversed(b.iters):
        out = For(names[iv.name], iv.extent, out)
    return out


def matmul_store(c_name: str = "C") -> Store:
    return Store(c_name, (v("vi"), v("vj")), ld("A", v("vi"), v("vk")) * ld("B", v("vk"), v("vj")))


def dense(n: int, m: int, k: int) -> Func:
    """Unscheduled D = relu(A @ B)."""
    mm = block("dense", {"vi": (n, c(0)), "vj": (m, c(0)), "vk": (k, c(0))}, matmul_store(), reduce=("vk",))
    act = block(
        "relu", {"vi": (n, c(0)), "vj": (m, c(0))}, Store("D", (v("vi"), v("vj")), relu(ld("C", v("vi"), v("vj"))))
    )
    return func("dense", [buf("A", n, k), buf("B", k, m)], [buf("D", n, m)], [buf("C", n, m)], serial(mm), serial(act))


def conv(h: int, w: int, ci: int, co: int, r: int = 3) -> Func:
    """Unscheduled padded convolution, stride 1."""
    p = r // 2
    hp, wp = h + 2 * p, w + 2 * p
    inside = both(v("h") >= p, v("h") < h + p, v("w") >= p, v("w") < w + p)
    pad = block(
        "pad",
        {"h": (hp, c(0)), "w": (wp, c(0)), "ch": (ci, c(0))},
        Store("Xp", (v("h"), v("w"), v("ch")), select(inside, ld("X", v("h") - p, v("w") - p, v("ch")))),
    )
    mac = block(
        "conv",
        {"h": (h, c(0)), "w": (w, c(0)), "o": (co, c(0)), "r": (r, c(0)), "s": (r, c(0)), "ch": (ci, c(0))},
        Store(
            "Y",
            (v("h"), v("w"), v("o")),
            ld("Xp", v("h") + v("r"), v("w") + v("s"), v("ch")) * ld("K", v("r"), v("s"), v("ch"), v("o")),
        ),
        reduce=("r", "s", "ch"),
    )
    return func(
        "conv",
        [buf("X", h, w, ci), buf("K", r, r, ci, co)],
        [buf("Y", h, w, co)],
        [buf("Xp", hp, wp, ci)],
        serial(pad),
        serial(mac),
    )


def bind(expr: Expr, **values: Expr) -> Expr:
    return substitute(expr, values)


def random_inputs(f: Func, seed: int = 0) -> list[np.ndarray]:
    """Small integer values, on which sums and products of floats are exact."""
    rng = np.random.default_rng(seed)
    out = []
    for b in f.inputs:
        shape = tuple(int(e.value) for e in b.shape)  # type: ignore[attr-defined]
        low = 0 if b.dtype in (DType.U8, DType.BOOL) else -4
        high = 2 if b.dtype.is_bool else 5
        out.append(rng.integers(low, high, shape).astype(b.dtype.numpy))
    return out

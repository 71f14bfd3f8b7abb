"""Rewrites of a program that the reference runs to check another's results.

`in_double` computes every float in float64. `with_bounds` adds, for every float buffer `X`, a buffer `X.bound`
that holds the *sum of the absolute values of the terms* `X` is made of, carried through stages: a result computed
in precision `eps` by any order of summation may differ from the exact one by a small multiple of `eps` times it.

The bound of an expression, `B`, with `|dx| <= eps * B(x)`:

* constants and inputs: `|x|` (0 when not finite); integers made floats: `|x|`;
* `a + b`, `a - b`: `B(a) + B(b)`; `a * b`: `B(a) * B(b)`; `a / b`: `B(a)/|b| + |a| B(b)/b^2`;
* `max`, `min`: the larger bound; sums over an axis: the sum of the terms' bounds; products of `n` terms: `n` times the
  product of them;
* `f(x)`: `|f(x)| + |f'(x)| B(x)`, a term for each argument, where the function's file bounds `|f'|`;
* `a if c else b`: that of the side taken, plus the bounds of floats compared in `c`: right where both sides meet, as in
  `x if x > 0 else 0`. At a jump (`floor`, `1 if x > y else 0`) rounding may change the side taken, and no bound helps.

For the position of an arg-reduction over floats there is `X.rival`, the best value at any other position: where the two
are nearer to one another than rounding can tell, either position is right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from metasched.dtypes import DType
from metasched.functions.declaration import size
from metasched.functions.registry import functions
from metasched.ir import query
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Func,
    IterKind,
    Load,
    Node,
    Reducer,
    Select,
    Seq,
    Stmt,
    Store,
    Unary,
    Var,
    seq,
)

_ZERO = Const(0.0, DType.F64)


def in_double(func: Func) -> Func:
    """`func` with every float buffer, scalar, constant and operation in f64. Constants keep their rounded values."""
    return _double(func)  # type: ignore[return-value]


def _double(node: Node) -> Node:
    if isinstance(node, Const):
        return Const(float(node.type.numpy.type(node.value)), DType.F64) if node.type.is_float else node
    node = node.map(_double)
    for name in ("type", "dtype"):
        if name in getattr(node, "__dataclass_fields__", {}) and getattr(node, name).is_float:
            return replace(node, **{name: DType.F64})  # type: ignore[type-var]
    return node


def bound_name(buffer: str) -> str:
    return f"{buffer}.bound"


def rival_name(buffer: str) -> str:
    return f"{buffer}.rival"


def contests(func: Func) -> dict[str, str]:
    """The arg-reductions over floats, each in a nest of its own: the buffer of values, by that of positions."""
    out = {}
    for nest in _nests(func):
        block, *others = query.blocks_under(nest)
        if not others and block.index is not None and block.init is not None and block.store.value.dtype.is_float:
            out[block.index.buffer] = block.store.buffer
    return out


def _nests(func: Func) -> tuple[Stmt, ...]:
    return func.body.stmts if isinstance(func.body, Seq) else (func.body,)


def _rival(block: Block) -> Block:
    """The best value at any position but that of the best."""
    assert block.index is not None
    assert block.init is not None
    assert block.reducer is not None
    best = Load(block.index.buffer, block.index.indices, block.index.value.dtype)
    value = Select(Binary(BinOp.EQ, block.index.value, best), block.init, block.store.value)
    name = rival_name(block.store.buffer)
    store = Store(name, block.store.indices, value)
    return replace(block, name=name, store=store, reducer=block.reducer.of_values, index=None)


def with_bounds(func: Func) -> Func:
    """An f64 program that also computes `X.bound` for every float buffer; those of inputs are further inputs.

    Its outputs are those of `func`, their bounds, and then, for each of `contests`, the values, bounds and rivals.
    """

    def extended(buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        return buffers + tuple(replace(b, name=bound_name(b.name)) for b in buffers if b.dtype.is_float)

    added = tuple(bound_name(b.name) for b in func.inputs if b.dtype.is_float)
    values = set(contests(func).values())
    rivals = tuple(replace(b, name=rival_name(b.name)) for b in func.buffers() if b.name in values)
    inner = [b for b in func.temps if b.name not in values]
    shown = tuple(b for b in func.temps if b.name in values)
    body: list[Stmt] = []
    for nest in _nests(func):
        body.append(_statement(nest))
        if query.blocks_under(nest)[0].store.buffer in values:
            body.append(query.map_blocks(nest, _rival))
    return replace(
        func,
        inputs=extended(func.inputs),
        outputs=extended(func.outputs) + extended(shown) + rivals,
        temps=extended(tuple(inner)),
        order=func.order + added,
        body=seq(body),
    )


def _statement(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Block):
        return seq([_bound_block(stmt), stmt]) if stmt.store.value.dtype.is_float else stmt
    if isinstance(stmt, For):
        return replace(stmt, body=_statement(stmt.body))
    assert isinstance(stmt, Seq)
    return seq([_statement(child) for child in stmt.stmts])


def _bound_block(block: Block) -> Block:
    reducer, init = block.reducer, block.init
    if reducer is not None and reducer.of_values in (Reducer.MAX, Reducer.MIN):
        reducer, init = Reducer.MAX, _ZERO if init is not None else None
    elif init is not None:
        init = bound(init)
        if reducer is Reducer.PROD:
            # Each factor's error is multiplied by the others.
            init = init * _terms(block)
    store = Store(bound_name(block.store.buffer), block.store.indices, bound(block.store.value))
    return replace(block, name=bound_name(block.name), store=store, reducer=reducer, init=init, index=None)


def _terms(block: Block) -> Expr:
    """How many terms the block reduces."""
    extents = [it.extent for it in block.iters if it.kind is IterKind.REDUCE]
    assert all(isinstance(extent, Const) for extent in extents)
    return Const(math.prod((float(e.value) for e in extents if isinstance(e, Const)), start=1.0), DType.F64)


def bound(e: Expr) -> Expr:
    """`B(e)` of a float64 expression."""
    if isinstance(e, Const):
        return Const(abs(float(e.value)) if math.isfinite(e.value) else 0.0, DType.F64)
    if isinstance(e, Var):
        return size(e)
    if isinstance(e, Load):
        return Load(bound_name(e.buffer), e.indices, DType.F64)
    if isinstance(e, Unary):
        return bound(e.a)
    if isinstance(e, Cast):
        return bound(e.value) if e.value.dtype.is_float else size(e)
    if isinstance(e, Select):
        chosen: Expr = Select(e.cond, bound(e.then), bound(e.otherwise))
        for compared in _floats_compared(e.cond):
            chosen = chosen + bound(compared)
        return chosen
    if isinstance(e, Binary):
        return _BINARY[e.op](e.a, e.b)
    assert isinstance(e, Call)
    out = size(e)
    for slope, argument in zip(functions()[e.func].slopes(*e.args), e.args, strict=True):
        out = out + slope * bound(argument)
    return out


def _floats_compared(cond: Expr) -> list[Expr]:
    if isinstance(cond, Binary) and cond.op.is_comparison:
        return [x for x in (cond.a, cond.b) if x.dtype.is_float]
    if isinstance(cond, Binary | Unary):
        return [x for child in cond.children() if isinstance(child, Expr) for x in _floats_compared(child)]
    return []


def _sum(a: Expr, b: Expr) -> Expr:
    return bound(a) + bound(b)


def _largest(a: Expr, b: Expr) -> Expr:
    return Binary(BinOp.MAX, bound(a), bound(b))


def _quotient(a: Expr, b: Expr) -> Expr:
    return bound(a) / size(b) + size(a) * bound(b) / (b * b)


_BINARY: Mapping[BinOp, Callable[[Expr, Expr], Expr]] = MappingProxyType(
    {
        BinOp.ADD: _sum,
        BinOp.SUB: _sum,
        BinOp.MUL: lambda a, b: bound(a) * bound(b),
        BinOp.DIV: _quotient,
        BinOp.MIN: _largest,
        BinOp.MAX: _largest,
    }
)

"""Rewrites of a program that the reference runs to check another's results.

`convert_to_f64` computes every float in float64. `add_bounds` adds, for every float buffer `X`, a buffer `X.bound`
that holds the *sum of the absolute values of the terms* `X` is made of, carried through stages: a result computed
in precision `eps` by any order of summation may differ from the exact one by a small multiple of `eps` times it.

`metasched.reference.bounds` says what the bound of an expression is. In stages it is, of maxima and minima, the larger
one, of sums over an axis the sum of the terms', and of products of `n` terms `n` times the product of them.

For the position of an arg-reduction over floats there is `X.rival`, the best value at any other position: where the two
are nearer to one another than rounding can tell, either position is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from metasched.dtypes import DType
from metasched.ir import query
from metasched.ir.node_base import Node
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Func,
    IterKind,
    Load,
    Reducer,
    Select,
    Seq,
    Stmt,
    Store,
    seq,
)
from metasched.reference.bounds import ZERO, Bounds, bound_name, rounded_buffers
from metasched.reference.memory import outer_nests
from metasched.reference.rounding import rounding_in

# Operations that come before an integer one after another, and terms of a sum among them: no more in what is checked.
_MOST_OPERATIONS = 1 << 7
_MOST_TERMS = 1 << 15


def convert_to_f64(func: Func) -> Func:
    """`func` with every float buffer, scalar, constant and operation in f64. Constants keep their rounded values."""
    return _convert_node(func)  # type: ignore[return-value]


def _convert_node(node: Node) -> Node:
    if isinstance(node, Const):
        return Const(float(node.type.numpy.type(node.value)), DType.F64) if node.type.is_float else node
    node = node.map(_convert_node)
    for name in ("type", "dtype"):
        if name in getattr(node, "__dataclass_fields__", {}) and getattr(node, name).is_float:
            return replace(node, **{name: DType.F64})  # type: ignore[type-var]
    return node


def rival_name(buffer: str) -> str:
    return f"{buffer}.rival"


def contests(func: Func) -> dict[str, str]:
    """The arg-reductions over floats, each in a nest of its own: the buffer of values, by that of positions."""
    out = {}
    for nest in outer_nests(func):
        block, *others = query.blocks_under(nest)
        if not others and block.index is not None and block.init is not None and block.store.value.dtype.is_float:
            out[block.index.buffer] = block.store.buffer
    return out


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


def add_bounds(typed: Func) -> Func:
    """The program in f64 that also computes `X.bound` for every float buffer; those of inputs are further inputs.

    Its outputs are those of `typed`, their bounds, and then, for each of `contests`, the values, bounds and rivals.
    """
    func = convert_to_f64(typed)
    types = {b.name: b.dtype for b in (*typed.temps, *typed.outputs) if b.dtype.is_float}
    blocks = query.blocks(typed)
    sums = frozenset(block.store.buffer for block in blocks if block.reducer in (Reducer.SUM, Reducer.PROD))
    known = Bounds(rounded_buffers(func), rounding_in(func), types, sums)
    certain = _certain_bounds(blocks, types)
    of_blocks = {
        block.name: replace(known, type=_shortest_type(block), certain=certain[block.name]) for block in blocks
    }

    def extend(buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        bounded = [b for b in buffers if b.dtype.is_float or b.name in known.rounded]
        return buffers + tuple(replace(b, name=bound_name(b.name), dtype=DType.F64) for b in bounded)

    added = tuple(bound_name(b.name) for b in func.inputs if b.dtype.is_float)
    values = set(contests(func).values())
    rivals = tuple(replace(b, name=rival_name(b.name)) for b in func.buffers() if b.name in values)
    inner = [b for b in func.temps if b.name not in values]
    shown = tuple(b for b in func.temps if b.name in values)
    body: list[Stmt] = []
    for nest in outer_nests(func):
        body.append(_statement(nest, of_blocks))
        if query.blocks_under(nest)[0].store.buffer in values:
            body.append(query.map_blocks(nest, _rival))
    return replace(
        func,
        inputs=extend(func.inputs),
        outputs=extend(func.outputs) + extend(shown) + rivals,
        temps=extend(tuple(inner)),
        order=func.order + added,
        body=seq(body),
    )


def _certain_bounds(blocks: Sequence[Block], types: Mapping[str, DType]) -> dict[str, float]:
    """For each block, what the bound of an integer is below where no rounding has changed it.

    Roundings are as many as operations that come before, or as terms of sums among them.
    """
    roundoff = max((kind.unit_roundoff for kind in types.values()), default=0.0)
    long: set[str] = set()
    found = {}
    for block in blocks:
        if block.reducer in (Reducer.SUM, Reducer.PROD) or not long.isdisjoint(query.reads(block)):
            long.add(block.store.buffer)
        most = _MOST_TERMS if block.store.buffer in long else _MOST_OPERATIONS
        found[block.name] = 1 / (2 * most * roundoff) if roundoff else 0.0
    return found


def _shortest_type(block: Block) -> DType:
    """The type of the floats that a block computes in that has the least range; f64 where it has none."""
    types = {node.dtype.compute for node in block.store.value.walk() if isinstance(node, Expr) and node.dtype.is_float}
    return min(types, key=lambda kind: kind.largest, default=DType.F64)


def _statement(stmt: Stmt, of_blocks: Mapping[str, Bounds]) -> Stmt:
    """A statement with the bounds of what it computes."""
    if isinstance(stmt, Block):
        bounds = of_blocks[stmt.name]
        has_bound = stmt.store.value.dtype.is_float or stmt.store.buffer in bounds.rounded
        return seq([_bound_block(stmt, bounds), stmt]) if has_bound else stmt
    if isinstance(stmt, For):
        return replace(stmt, body=_statement(stmt.body, of_blocks))
    assert isinstance(stmt, Seq)
    return seq([_statement(child, of_blocks) for child in stmt.stmts])


def _bound_block(block: Block, bounds: Bounds) -> Block:
    reducer, init = block.reducer, block.init
    if reducer is not None and reducer.of_values in (Reducer.MAX, Reducer.MIN):
        reducer, init = Reducer.MAX, ZERO if init is not None else None
    elif init is not None:
        init = bounds(init)
        if reducer is Reducer.PROD:
            # Each factor's error is multiplied by the others.
            init = init * _terms(block)
    store = Store(bound_name(block.store.buffer), block.store.indices, bounds.of_stored(block.store.value))
    return replace(block, name=bound_name(block.name), store=store, reducer=reducer, init=init, index=None)


def _terms(block: Block) -> Expr:
    """How many terms the block reduces."""
    extents = [it.extent for it in block.iters if it.kind is IterKind.REDUCE]
    assert all(isinstance(extent, Const) for extent in extents)
    return Const(math.prod((float(e.value) for e in extents if isinstance(e, Const)), start=1.0), DType.F64)

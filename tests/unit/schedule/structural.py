"""Programs, loop steps and checks for the tests of primitives that move and rewrite blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from metasched.backend.reference import reference
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.affine import simplify, substitute
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, Func, LoopKind, Node, Stmt, Var, lift
from metasched.ir.printer import print_func
from metasched.ir.validate import validate
from metasched.lang import parse_program
from metasched.schedule.context import Context
from metasched.schedule.rewrite.parts import tidy


def start(text: str, **params: int) -> Context:
    """A context on the program of that text."""
    return Context(parse_program(text, **params).func)


def split(ctx: Context, var: str, *inner: int | str, always: bool = False) -> list[str]:
    """Split a loop by inner factors, with a guard unless they divide (or `always`); a name is a free tile variable."""
    loop = query.find_loop(ctx.func, var)
    factors: list[Expr] = []
    for f in inner:
        if isinstance(f, str):
            ctx.free.add(f)
        factors.append(Var(f) if isinstance(f, str) else lift(f))
    product = factors[0]
    for f in factors[1:]:
        product = product * f
    names = [ctx.fresh(f"{var}_{n}") for n in range(len(factors) + 1)]
    extents = [simplify(Binary(BinOp.CEILDIV, loop.extent, product)), *factors]
    value: Expr = Var(names[0])
    for name, extent in zip(names[1:], extents[1:], strict=True):
        value = value * extent + Var(name)
    value = simplify(value)
    guard = Binary(BinOp.LT, value, loop.extent)
    perfect = simplify(extents[0] * product) == simplify(loop.extent)

    def rebind(b: Block) -> Block:
        b = query.substitute_block(b, {var: value}, lambda e: e.map(simplify) if e.dtype.is_bool else simplify(e))
        return b if perfect and not always else replace(b, guards=(*b.guards, guard))

    body = query.map_blocks(loop.body, rebind)
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        body = For(name, extent, body)
    ctx.func = query.replace_stmt(ctx.func, loop, body)
    return names


def fuse(ctx: Context, a: str, b: str) -> str:
    """Fuse two directly nested loops."""
    outer, inner = query.find_loop(ctx.func, a), query.find_loop(ctx.func, b)
    assert outer.body is inner
    name = ctx.fresh(f"{a}_{b}")
    values = {a: Var(name) // inner.extent, b: Var(name) % inner.extent}

    def rebind(block: Block) -> Block:
        return query.substitute_block(block, values, lambda e: e.map(simplify) if e.dtype.is_bool else simplify(e))

    extent = simplify(outer.extent * inner.extent)
    ctx.func = query.replace_stmt(ctx.func, outer, For(name, extent, query.map_blocks(inner.body, rebind)))
    return name


def reorder(ctx: Context, *order: str) -> None:
    """Put the loops of one perfect nest into this order."""
    loops = [x for x in query.loops(ctx.func) if x.var in order]
    body: Stmt = loops[-1].body
    top = loops[0]
    assert [x.var for x in loops] == [x.var for x in loops if x.var in order]
    rest = {x.var: x for x in loops}
    for var in reversed(order):
        body = replace(rest[var], body=body)
    ctx.func = query.replace_stmt(ctx.func, top, body)


def kind(ctx: Context, var: str, what: LoopKind, lanes: int | None = None) -> None:
    """Set the kind of a loop."""
    loop = query.find_loop(ctx.func, var)
    new = replace(loop, kind=what, lanes=None if lanes is None else lift(lanes))
    ctx.func = query.replace_stmt(ctx.func, loop, new)


def at_values(func: Func, values: dict[str, int]) -> Func:
    """A program with its free tile variables given."""
    mapping = {n: lift(v) for n, v in values.items()}

    def index(e: Expr) -> Expr:
        new = substitute(e, mapping)
        return new.map(simplify) if new.dtype.is_bool else simplify(new)

    def block(b: Block) -> Block:
        value = tidy(substitute(b.store.value, mapping))
        b = replace(b, store=replace(b.store, value=value), iters=tuple(i.map(index) for i in b.iters))
        return replace(b, bindings=tuple(map(index, b.bindings)), guards=tuple(map(index, b.guards)))

    def go(x: Node) -> Node:
        return block(x) if isinstance(x, Block) else index(x) if isinstance(x, Expr) else x.map(go)

    return func.map(go)


def same(before: Func, after: Func, seed: int = 0) -> None:
    """Both are well-formed, and give the same on integer-valued inputs, where every order of sums does."""
    validate(before)
    validate(after)
    rng = np.random.default_rng(seed)
    args = []
    for name in before.order:
        buffer = before.buffer(name)
        shape = tuple(int(simplify(n).value) for n in buffer.shape)
        args.append(rng.integers(-4, 5, shape).astype(buffer.dtype.numpy))
    expected, got = reference(before)(*args), reference(after)(*args)
    for x, y in zip(*(r if isinstance(r, tuple) else (r,) for r in (expected, got)), strict=True):
        np.testing.assert_array_equal(x, y)


def body(func: Func) -> str:
    """The printed program from its intermediate buffers on, with a blank line before."""
    return "\n" + "\n".join(line[4:] for line in print_func(func).splitlines()[1:]) + "\n"


@contextmanager
def refused(message: str) -> Iterator[None]:
    """Expect a ScheduleError with exactly this message, and some hint."""
    with pytest.raises(ScheduleError) as info:
        yield
    assert info.value.message == message
    assert info.value.hint

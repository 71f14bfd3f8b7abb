"""Programs, loop steps and checks for the tests of primitives that move and rewrite blocks."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from metasched.backend.reference import reference
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.affine import simplify, substitute
from metasched.ir.nodes import Binary, BinOp, Expr, For, Func, LoopKind, Stmt, Var, lift, seq
from metasched.ir.printer import print_func
from metasched.ir.validate import validate
from metasched.lang import parse_program
from metasched.schedule.context import Context


def start(text: str, **params: int) -> Context:
    """A context on the program of that text."""
    return Context(parse_program(text, **params).func)


def split(ctx: Context, var: str, *inner: int | str) -> list[str]:
    """Split a loop by inner factors, guarded; a factor that is a name is a free tile variable."""
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

    def rebind(b: query.Block) -> query.Block:
        b = query.substitute_block(b, {var: value}, lambda e: e.map(simplify) if e.dtype.is_bool else simplify(e))
        return b if perfect else replace(b, guards=(*b.guards, guard))

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

    def rebind(block: query.Block) -> query.Block:
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

    def go(x: object) -> object:
        if isinstance(x, Expr):
            new = substitute(x, mapping)
            return new.map(simplify) if new.dtype.is_bool else simplify(new) if not query.loads(new) else new
        return x.map(go) if hasattr(x, "map") else x

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


def refused(message: str, hint: str = "") -> pytest.RaisesContext[ScheduleError]:  # type: ignore[name-defined]
    """Expect a ScheduleError with exactly this message, and this hint."""
    return _Refused(message, hint)


class _Refused:
    def __init__(self, message: str, hint: str) -> None:
        self.message, self.hint = message, hint
        self.raises = pytest.raises(ScheduleError, match=re.escape(message))

    def __enter__(self) -> None:
        self.info = self.raises.__enter__()

    def __exit__(self, *args: object) -> bool:
        swallowed = bool(self.raises.__exit__(*args))  # type: ignore[arg-type]
        error = self.info.value
        assert error.message == self.message
        assert error.hint
        if self.hint:
            assert error.hint == self.hint
        return swallowed


__all__ = ["at_values", "body", "fuse", "kind", "refused", "reorder", "same", "seq", "split", "start"]

"""Programs, loop steps and checks for the tests of primitives that move and rewrite blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import const, simplify, substitute
from metasched.ir.integers.evaluate import evaluate
from metasched.ir.node_base import Node
from metasched.ir.nodes import Block, Expr, Func, IterKind, IterVar, Var, lift
from metasched.ir.printer import print_func
from metasched.ir.validate import validate
from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.schedule.context import Context
from metasched.schedule.primitives.split import split as split_primitive
from metasched.schedule.primitives.vectorize import vectorize
from metasched.schedule.rewrite.parts import tidy


def start(text: str, **params: int) -> Context:
    """A context on the program of that text."""
    func = parse_program(text, **params).func
    return Context(func, query.names(func))


def split(ctx: Context, var: str, *inner: int | str) -> tuple[str, ...]:
    """Split a loop by inner factors; one that is a name is a free tile variable."""
    ctx.free |= {f for f in inner if isinstance(f, str)}
    factors = [Var(f) if isinstance(f, str) else const(f) for f in inner]
    return split_primitive(ctx, var, (None, *factors))


def vector(ctx: Context, var: str) -> None:
    """Make a loop a vector loop."""
    vectorize(ctx, var, lanes=const(4))


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


def by_place(func: Func) -> Func:
    """A program with the iterations of blocks named by their place, and those over terms without their extents.

    In `rfactor`, an iteration over terms that is bound to a plain loop stays what it is, and one that is bound to a sum
    of loops becomes their own, of their extents under its guard: with numbers, what was a sum may be a plain loop.
    """

    def block(b: Block) -> Block:
        names: dict[str, Expr] = {it.name: Var(f"i{n}") for n, it in enumerate(b.iters)}
        iters = tuple(
            IterVar(f"i{n}", it.extent if it.kind is IterKind.SPATIAL else const(1), it.kind)
            for n, it in enumerate(b.iters)
        )
        indices = tuple(simplify(substitute(i, names)) for i in b.store.indices)
        return replace(
            b, iters=iters, store=replace(b.store, value=tidy(substitute(b.store.value, names)), indices=indices)
        )

    return replace(func, body=query.map_blocks(func.body, block))


def same(before: Func, after: Func, seed: int = 0) -> None:
    """Both are well-formed, and give the same on integer-valued inputs, where every order of sums does."""
    validate(after)
    args, expected = _case(before, seed)
    got = reference(after)(*args)
    for x, y in zip(expected, got if isinstance(got, tuple) else (got,), strict=True):
        np.testing.assert_array_equal(x, y)


@lru_cache(maxsize=4)
def _case(func: Func, seed: int) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Arguments of small integers and what the reference gives: many schedules are compared with one program."""
    validate(func)
    rng = np.random.default_rng(seed)
    args = []
    for name in func.order:
        buffer = func.buffer(name)
        shape = tuple(int(evaluate(n, {})) for n in buffer.shape)
        args.append(rng.integers(-4, 5, shape).astype(buffer.dtype.numpy))
    results = reference(func)(*args)
    case = tuple(args), results if isinstance(results, tuple) else (results,)
    for array in (*case[0], *case[1]):
        array.flags.writeable = False
    return case


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


def with_position(ctx: Context, block: str) -> None:
    """Make a block one that writes a position beside its value, for preconditions that are about that alone."""
    old = query.find_block(ctx.func, block)
    ctx.func = query.replace_stmt(ctx.func, old, replace(old, index=replace(old.store, buffer="position")))

"""split: split a loop into a nest of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ONE, simplify
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, Stmt, Var
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.kinds import Factor, LoopName
from metasched.schedule.primitive import primitive
from metasched.schedule.rewrite.guards import normal_form
from metasched.schedule.rewrite.loops import require_serial, require_shallow

OP = "split"


def _varying_loops(given: Mapping[str, Any]) -> list[bool]:
    """Each loop as its factor; where that is None, as the others and the loop that is split."""
    rest = given["loop"] or any(given["factors"])
    return [rest if factor is None else factor for factor in given["factors"]]


@primitive(in_batches=unchanged, varying_loops=_varying_loops)
def split(ctx: Context, loop: LoopName, factors: tuple[Factor, ...]) -> tuple[LoopName, ...]:
    """Split a loop into a nest of several, outermost first.

    Where the factors' product exceeds the extent, a guard skips the iterations past the end.

    Args:
        loop: a serial loop.
        factors: their extents; one may be None, and is then the extent divided by the others, rounded up.

    Requires:
        At least two factors, each at least 1; their product covers the extent. No block is in more than 64 loops
        afterwards.

    Rewrite:
        for i in 127:                  for i_0, i_1 in grid(16, 8):
            C[i] = A[i]          ->        C[i] = A[i]    with i = i_0*8 + i_1  if i_0*8 + i_1 < 127
    """
    target = ctx.loop(OP, loop)
    require_serial(OP, target)
    if len(factors) < 2:
        raise ScheduleError(OP, "fewer than two factors", (loop,), "give at least two, such as [None, 8]")
    require_shallow(ctx, OP, target, len(factors) - 1)
    extents = _extents(ctx, target, factors)
    names = [ctx.fresh(f"{loop}_{n}") for n in range(len(extents))]
    index = _index(names, extents)
    guard = simplify_guard(index, target.extent)
    body: Stmt = query.map_blocks(target.body, lambda b: _rebind(b, loop, index, guard))
    for name, extent in reversed(list(zip(names, extents, strict=True))):
        body = For(name, extent, body)
    assert isinstance(body, For)
    ctx.func = query.replace_stmt(ctx.func, target, replace(body, annotations=target.annotations))
    return tuple(names)


def simplify_guard(index: Expr, extent: Expr) -> Expr:
    """`index < extent`, both sides in normal form; kept even if it always holds, as it may not for other tile sizes."""
    return Binary(BinOp.LT, simplify(index), simplify(extent))


def _extents(ctx: Context, loop: For, factors: tuple[Expr | None, ...]) -> list[Expr]:
    given: Expr = ONE
    outermost, *inner = factors
    _require_positive(ctx, loop, inner)
    covers = _is_covering(factors, loop.extent)
    if not covers:  # the outermost part of an empty loop is empty
        _require_positive(ctx, loop, [outermost])
    for factor in factors:
        if factor is not None:
            given = simplify(given * factor)
    if sum(factor is None for factor in factors) > 1:
        raise ScheduleError(OP, "more than one factor is None", (loop.var,), "leave only one open")
    outer = simplify(Binary(BinOp.CEILDIV, loop.extent, given))
    out = [outer if factor is None else simplify(factor) for factor in factors]
    if None not in factors and not covers:
        ctx.require(
            Binary(BinOp.GE, given, loop.extent),
            ScheduleError(
                OP, f"the factors cover less than the extent of `{loop.var}`", (loop.var,), "leave one factor None"
            ),
        )
    return out


def _require_positive(ctx: Context, loop: For, factors: Sequence[Expr | None]) -> None:
    """Require positive factors. A rounded-up quotient is one by construction: its operands were checked before."""
    error = ScheduleError(OP, "a factor is less than 1", (loop.var,), "every factor is at least 1")
    for factor in factors:
        if factor is not None and not (isinstance(factor, Binary) and factor.op is BinOp.CEILDIV):
            ctx.require(factor >= 1, error)


def _is_covering(factors: tuple[Expr | None, ...], whole: Expr) -> bool:
    """Whether the outermost factor is, by construction, the loop's extent divided by the others, rounded up."""
    rest: Expr = ONE
    for factor in factors[1:]:
        if factor is None:
            return False
        rest = rest * simplify(factor)
    outermost = factors[0]
    return outermost is not None and simplify(outermost) == simplify(Binary(BinOp.CEILDIV, whole, rest))


def _index(names: list[str], extents: list[Expr]) -> Expr:
    index: Expr = Var(names[0])
    for name, extent in zip(names[1:], extents[1:], strict=True):
        index = index * extent + Var(name)
    return simplify(index)


def _rebind(block: Block, loop: str, index: Expr, guard: Expr) -> Block:
    moved = query.substitute_block(block, {loop: index}, normal_form)
    return replace(moved, guards=(*moved.guards, guard))

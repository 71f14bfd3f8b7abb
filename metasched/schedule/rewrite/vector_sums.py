"""Sums that several lanes of a vectorised loop compute: none may add terms to what another one has begun.

After compute_at, iterations of a loop compute elements that their neighbours need, too, each for itself. One after
another they begin anew. Lanes run at once and have one array, so an element is right only where all terms that one lane
adds come before another one begins it:

    vectorized y in 64:                              vectorized y in 64:
        for r, k in grid(3, 4):                          for k, r in grid(4, 3):
            B[y + r] += A[y + r, k]                          B[y + r] += A[y + r, k]

On the left lanes compute different elements in each iteration of `r`, whole. On the right element 5 gets each term from
lane 5, and in the same sum once more from lane 4 and from lane 3. A term that comes again leaves a maximum as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ONE, ZERO, NotAffine, as_int, const, free_vars, free_vars_of, linear, simplify
from metasched.ir.integers.ranges import prove, region
from metasched.ir.nodes import FALSE, Binary, BinOp, Block, Expr, For, LoopKind, Var
from metasched.schedule.context import Context
from metasched.schedule.rewrite.parts import spatial
from metasched.support.data_classes import dataclass

Terms = dict[Expr, Expr]  # coefficients by digit


@dataclass(frozen=True)
class _Sums:
    """A block that adds terms to sums in lanes of `loop`; of the loops around it, its sums take turns in those
    `inside`."""

    block: Block
    loop: For
    above: tuple[For, ...]
    inside: tuple[For, ...]


@dataclass(frozen=True)
class _Index:
    """What sums are written at along one dimension: digits of the vectorised loop, plus something in [lo, lo +
    extent)."""

    lanes: Terms
    lo: Expr
    extent: Expr


def require_sums_apart(ctx: Context, op: str) -> None:
    """Raise ScheduleError where lanes of a vectorised loop would add terms to one another's sums.

    What free tile variables decide becomes a constraint. Cost: a walk over the loops where none is vectorised.
    """
    for loop in query.loops(ctx.func):
        if loop.kind is LoopKind.VECTORIZED and len(query.blocks_under(loop)) > 1:
            for first, second in _sums_that_mix(ctx, loop):
                _require_apart(ctx, op, first, second)


def _sums_that_mix(ctx: Context, loop: For) -> Iterator[tuple[_Sums, _Sums]]:
    """Blocks that add terms to one buffer, each with itself as well, and the loops in which their sums take turns."""
    inside = query.blocks_under(loop)
    read = {name for block in inside for name in query.reads(block)}
    for buffer in sorted(read & {query.writes(block) for block in inside}):
        writers = [block for block in inside if query.writes(block) == buffer]
        adding = [block for block in writers if block.reducer is not None and not block.reducer.allows_repeats]
        if all(block.reducer is not None and block.init is None for block in writers):
            continue  # They begin outside of the loop, which only sums that are computed once do.
        for pair in combinations_with_replacement(adding, 2):
            each_begins = all(block.init is not None for block in pair)
            shared = query.common_loops(*(_loops_inside(ctx, loop, b) for b in (pair if each_begins else writers)))
            goes_on = frozenset[str]().union(*(_reduction_loops(ctx, block) for block in pair))
            around = next((n for n, x in enumerate(shared) if x.var in goes_on), len(shared))
            if pair[0] is pair[1] or not each_begins or around < len(shared):
                first, second = (_sums(ctx, loop, block, around) for block in pair)
                yield first, second


def _loops_inside(ctx: Context, loop: For, block: Block) -> tuple[For, ...]:
    above = query.loops_above(ctx.func, block.name)
    return above[above.index(loop) + 1 :]


def _sums(ctx: Context, loop: For, block: Block, around: int) -> _Sums:
    inside = _loops_inside(ctx, loop, block)[around:]
    return _Sums(block, loop, query.loops_above(ctx.func, block.name), inside)


def _reduction_loops(ctx: Context, block: Block) -> frozenset[str]:
    """The loops outside of which sums begin: one of a single iteration does if a guard says by it which terms there
    are."""
    reduced, guarded = query.reduced_loops(block), free_vars_of(block.guards)
    above = query.loops_above(ctx.func, block.name)
    return frozenset(x.var for x in above if x.var in reduced and (as_int(x.extent) != 1 or x.var in guarded))


def _require_apart(ctx: Context, op: str, first: _Sums, second: _Sums) -> None:
    """Raise unless lanes that compute the same element do it in the same iterations of the loops inside."""
    if first is second and not _elements_inside(first):
        return
    block, loop = first.block, first.loop
    error = ScheduleError(
        op,
        f"lanes of loop `{loop.var}` compute the same elements of `{block.store.buffer}`, and would go on from one "
        f"another's sums in block `{block.name}`",
        (loop.var, block.name),
        "keep the loops of its reduction, and what it starts from, inside its loops over elements, or choose another "
        "loop",
    )
    conditions: list[Expr] = []
    for (_, one), (_, other) in zip(spatial(first.block), spatial(second.block), strict=True):
        if loop.var not in free_vars(one) | free_vars(other):
            continue
        index = _joined(_index(first, one), _index(second, other))
        if index is not None and simplify(index.extent) == ONE:
            if _tells_lanes_apart(index, loop):
                return
        else:
            conditions.append(_keeps_apart(index))
    for condition in conditions:
        ctx.require(simplify(Binary(BinOp.OR, condition, _has_one_lane(loop))), error)


def _has_one_lane(loop: For) -> Expr:
    assert loop.lanes is not None
    return Binary(BinOp.OR, Binary(BinOp.LE, loop.extent, ONE), Binary(BinOp.LE, loop.lanes, ONE))


def _elements_inside(sums: _Sums) -> bool:
    """Whether loops in which sums go on are over elements."""
    over = query.spatial_loops(sums.block)
    return any(x.var in over and as_int(x.extent) != 1 for x in sums.inside)


def _index(sums: _Sums, binding: Expr) -> _Index | None:
    """An index by what lanes and the loops inside add to it; None where these are not apart."""
    inside = query.ranges(sums.inside)
    try:
        base, terms = linear(simplify(binding), frozenset({sums.loop.var, *inside}))
        lanes = {digit: step for digit, step in terms.items() if sums.loop.var in free_vars(digit)}
        rest = {digit: step for digit, step in terms.items() if digit not in lanes}
        if any(free_vars(digit) & inside.keys() for digit in lanes):
            return None
        lo, extent = region(_sum(base, rest), inside)
    except NotAffine:
        return None
    if simplify(lo - base) == ZERO:
        for limit in _limits(sums, rest):
            extent = Binary(BinOp.MIN, extent, limit)
    return _Index(lanes, lo, simplify(extent))


def _sum(base: Expr, terms: Terms) -> Expr:
    for digit, step in terms.items():
        base = base + digit * step
    return base


def _limits(sums: _Sums, terms: Terms) -> Iterator[Expr]:
    """What guards limit a sum of digits to: the sizes of imperfect tiles."""
    names = frozenset(x.var for x in sums.inside)
    for guard in sums.block.guards:
        if isinstance(guard, Binary) and guard.op is BinOp.LT:
            try:
                rest, limited = linear(guard.a - guard.b, names)
            except NotAffine:
                continue
            if limited == terms and free_vars(rest).isdisjoint(x.var for x in sums.above):
                yield simplify(-rest)


def _joined(first: _Index | None, second: _Index | None) -> _Index | None:
    """What two blocks write together; None where lanes do not move both alike."""
    if first is None or second is None or first.lanes != second.lanes:
        return None
    if first == second:
        return first
    ahead = simplify(second.lo - first.lo)
    end = Binary(BinOp.MAX, first.extent, ahead + second.extent)
    return _Index(first.lanes, first.lo, simplify(end - Binary(BinOp.MIN, ahead, ZERO)))


def _tells_lanes_apart(index: _Index, loop: For) -> bool:
    """Whether an index is another one in each lane; those of a vector follow each other."""
    if len(index.lanes) != 1:
        return False
    (digit,) = index.lanes
    if digit == Var(loop.var):
        return True
    if not (isinstance(digit, Binary) and digit.op is BinOp.MOD):
        return False
    try:
        _, terms = linear(digit.a, frozenset({loop.var}))
    except NotAffine:
        return False
    assert loop.lanes is not None
    in_a_row = any(prove(Binary(BinOp.LE, count, digit.b), {}) for count in (loop.extent, loop.lanes))
    return terms == {Var(loop.var): ONE} and in_a_row


def _keeps_apart(index: _Index | None) -> Expr:
    """The condition under which lanes with the same index have what the loops inside add to it in common."""
    if index is None or len(index.lanes) != 1:
        return FALSE
    (step,) = index.lanes.values()
    size = as_int(step)
    return Binary(BinOp.LE, index.extent, step if size is None else const(abs(size)))

"""The region of a buffer that its writer has completed when one iteration of a loop ends.

The region must be exact: every element is completed in exactly one iteration. So a write index must be a mixed-radix
number `i_0*T + i_1*t + i_2`, whose low digits are the loops inside: each coefficient is the combined extent of the
lower digits. For an imperfect tile, a guard limits the lower digits (`i_1*t + i_2 < T`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ONE, ZERO, NotAffine, free_vars, linear, simplify
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, Var
from metasched.schedule.context import Context
from metasched.schedule.rewrite.nest import OFFSET, Span
from metasched.schedule.rewrite.parts import spatial, writers
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing

Terms = dict[Expr, Expr]  # coefficients by digit


@dataclass(frozen=True)
class _Guard:
    """`sum of terms + rest < 0`, the terms over spatial loops."""

    terms: Terms
    rest: Expr


@dataclass(frozen=True)
class _Question:
    """The query: which part of `block`'s buffer do the loops `inner` complete per iteration of the loops `outer`?"""

    ctx: Context
    op: str
    block: Block
    outer: tuple[For, ...]
    inner: tuple[For, ...]

    @property
    def inner_names(self) -> frozenset[str]:
        return frozenset(x.var for x in self.inner)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(x.var for x in (*self.outer, *self.inner))

    @property
    def extents(self) -> Mapping[str, Expr]:
        return query.ranges((*self.outer, *self.inner))

    def refuse(self, why: str, hint: str = "choose a loop further out, or one around all of it") -> ScheduleError:
        loop = self.outer[-1].var
        return ScheduleError(
            self.op,
            f"what `{self.block.name}` completes in an iteration of loop `{loop}` is not a block of consecutive "
            f"elements: {why}",
            (self.block.name, loop),
            hint,
        )


def completed_spans(ctx: Context, op: str, block: Block, outer: tuple[For, ...]) -> list[Span | None]:
    """For each dimension of the buffer that `block` writes, the indices that are complete at the end of one iteration
    of the loops `outer` around it, and of no other; None for all of them.

    Raises ScheduleError when that is not a box of consecutive elements, or a reduction is not complete there.
    """
    above = query.loops_above(ctx.func, block.name)
    q = _Question(ctx, op, block, outer, above[len(outer) :])
    _require_reduced(q)
    _require_whole(q)
    # A variable with a single value need not index the buffer: a loop over it computes no other elements.
    shown = {e.name for e in block.store.indices if isinstance(e, Var)}
    try:
        written = {name: linear(simplify(b), q.names) for name, b in spatial(block) if name in shown}
    except NotAffine:
        raise q.refuse("a write index is not linear in the loops") from None
    _require_outer_loops_count(q, [terms for _, terms in written.values()])
    _require_independent(q, [terms for _, terms in written.values() if _is_partial(q, terms)])
    guards = _guards(q)
    spans: dict[str, Span | None] = {}
    for it in block.iters:
        if it.name in written:
            base, terms = written[it.name]
            spans[it.name] = _span(q, base, terms, it.extent, guards)
    # A dimension of extent 1 is written at constant 0.
    return [spans[e.name] if isinstance(e, Var) else None for e in block.store.indices]


def _require_reduced(q: _Question) -> None:
    used = query.reduced_loops(q.block)
    for loop in q.outer:
        if loop.var in used:
            raise ScheduleError(
                q.op,
                f"the reduction of `{q.block.name}` is not complete in loop `{q.outer[-1].var}`: it goes on in loop "
                f"`{loop.var}`",
                (q.block.name, loop.var),
                f"choose a loop outside `{loop.var}`, or reorder `{loop.var}` inside first",
            )


def _require_whole(q: _Question) -> None:
    """Raise where this block does not overwrite all elements that a fill has written."""
    if q.block.reducer is not None:
        return
    others = [b.name for b in writers(q.ctx.func, q.block.store.buffer) if b.name != q.block.name]
    if others:
        raise q.refuse(f"`{others[0]}` has written some of them", f"{q.op} before decompose_padding")


# --- digits ----------------------------------------------------------------------------------------------


def _is_partial(q: _Question, terms: Terms) -> bool:
    """Whether an index depends on the loops outside."""
    return any(free_vars(digit) & q.names - q.inner_names for digit in terms)


def _require_outer_loops_count(q: _Question, terms: Iterable[Terms]) -> None:
    """Raise unless every outer loop changes which elements are written."""
    seen = {name for t in terms for digit in t for name in free_vars(digit)}
    for loop in q.outer:
        if loop.var not in seen:
            error = q.refuse(f"every iteration of loop `{loop.var}` computes the same elements")
            q.ctx.require(Binary(BinOp.EQ, loop.extent, ONE), error)


def _require_independent(q: _Question, terms: Iterable[Terms]) -> None:
    """Raise unless every loop appears in a single digit, or in independent quotients and remainders."""
    inner = set(q.inner_names)
    for names, members in _connected_digits(q, [digit for t in terms for digit in t]):
        together = listing(sorted(names))
        if names & inner and names - inner:
            raise q.refuse(f"the loops {together} are mixed by a fusion")
        if members == [Var(next(iter(names)))]:
            continue
        values = _product(_extent(q, digit) for digit in members)
        loops = _product(q.extents[n] for n in sorted(names))
        error = q.refuse(f"the values of {together} are not independent")
        q.ctx.require(Binary(BinOp.EQ, simplify(values), simplify(loops)), error)


def _connected_digits(q: _Question, digits: list[Expr]) -> list[tuple[set[str], list[Expr]]]:
    """Digits grouped by the loops that they share."""
    groups: list[tuple[set[str], list[Expr]]] = []
    for digit in digits:
        names, members, apart = set(free_vars(digit) & q.names), [digit], []
        for other_names, other in groups:
            if names & other_names:
                names |= other_names
                members += other
            else:
                apart.append((other_names, other))
        groups = [*apart, (names, members)]
    return groups


def _product(factors: Iterable[Expr]) -> Expr:
    out: Expr = ONE
    for factor in factors:
        out = out * factor
    return out


def _extent(q: _Question, digit: Expr) -> Expr:
    """How many values a digit takes, from 0 on."""
    if isinstance(digit, Var):
        return q.extents[digit.name]
    if isinstance(digit, Binary) and digit.op in (BinOp.FLOORDIV, BinOp.MOD) and not free_vars(digit.b) & q.names:
        whole = _range(q, digit.a)
        if digit.op is BinOp.FLOORDIV:
            return simplify(Binary(BinOp.CEILDIV, whole, digit.b))
        divides = simplify(whole % digit.b) == ZERO
        return digit.b if divides else simplify(Binary(BinOp.MIN, whole, digit.b))
    raise q.refuse("a write index is not linear in the loops")


def _range(q: _Question, e: Expr) -> Expr:
    """An exclusive upper bound of a sum of digits."""
    base, terms = linear(e, q.names)
    if base != ZERO:
        raise q.refuse("a write index has a shifted quotient")
    total: Expr = ONE
    for digit, coefficient in terms.items():
        total = total + coefficient * (_extent(q, digit) - 1)
    return simplify(total)


# --- guards ----------------------------------------------------------------------------------------------


def _guards(q: _Question) -> list[_Guard]:
    """The upper bounds on sums of digits in the block's guards."""
    reduced = query.reduced_loops(q.block)
    out = []
    for guard in q.block.guards:
        if free_vars(guard) & reduced:
            continue  # It skips terms of a sum; the element is complete nevertheless.
        if not (isinstance(guard, Binary) and guard.op in (BinOp.LT, BinOp.GE)):
            raise q.refuse("a guard is not an upper bound")
        try:
            rest, terms = linear(Binary(BinOp.SUB, guard.a, guard.b), q.names)
        except NotAffine:
            raise q.refuse("a guard is not linear in the loops") from None
        if guard.op is BinOp.LT:
            out.append(_Guard(terms, rest))
    return out


def _span(q: _Question, base: Expr, terms: Terms, domain: Expr, guards: list[_Guard]) -> Span | None:
    """The values of one write index in one iteration of the outer loops."""
    inner = {d: c for d, c in terms.items() if free_vars(d) & q.inner_names}
    outer = {d: c for d, c in terms.items() if d not in inner}
    if not outer:
        return None  # The block covers its domain, so all of this dimension.
    whole = _Guard(terms, simplify(base - domain))  # the reader's own domain limits it as well
    mine = [g for g in guards if _is_part(g.terms, terms) and not _is_same_limit(g, whole)]
    mine = [g for g in mine if not any(_limits_tiles_of_one(q, g, other) for other in (whole, *guards))]
    extent = _stack(q, ONE, {}, inner, mine)
    _stack(q, extent, inner, outer, mine)
    lo = base
    for digit, coefficient in outer.items():
        lo = lo + digit * coefficient
    return Span(simplify(lo), extent, False, tuple(_follow(q, inner, mine)))


def _is_part(part: Terms, whole: Terms) -> bool:
    return bool(part) and all(whole.get(digit) == coefficient for digit, coefficient in part.items())


def _is_same_limit(guard: _Guard, other: _Guard) -> bool:
    return guard.terms == other.terms and simplify(guard.rest - other.rest) == ZERO


def _limits_tiles_of_one(q: _Question, guard: _Guard, elements: _Guard) -> bool:
    """Whether a guard limits whole tiles of size 1 as another one limits their elements, and so says nothing more.

    Of tiles of any other size, its coefficients are not the index's.
    """
    inside = elements.terms.keys() - guard.terms
    is_part = bool(inside) and _is_part(guard.terms, elements.terms)
    return is_part and simplify(guard.rest - elements.rest) == ZERO and _are_inside(q, inside, guard)


def _are_inside(q: _Question, digits: Iterable[Expr], guard: _Guard) -> bool:
    """Whether digits have a single value each, and their loops are inside all of a guard's."""
    order = [loop.var for loop in (*q.outer, *q.inner)]
    innermost = max(order.index(name) for digit in guard.terms for name in free_vars(digit) & q.names)
    return all(
        simplify(_extent(q, digit)) == ONE and min(map(order.index, free_vars(digit) & q.names)) > innermost
        for digit in digits
    )


def _stack(q: _Question, extent: Expr, under: Terms, digits: Terms, guards: list[_Guard]) -> Expr:
    """The extent of `under` and `digits` together; each digit's coefficient must be the extent of the digits below
    it."""
    stacked, left = dict(under), dict(digits)
    while left:
        digit = next((d for d, c in left.items() if simplify(c) == extent), None)
        if digit is None:
            # A digit with a single value may have any coefficient.
            digit = next((d for d in left if simplify(_extent(q, d)) == ONE), None)
        if digit is None:
            raise q.refuse(f"loops {listing(_loops(q, left))} stride over it")
        below = extent
        if simplify(left[digit]) == extent:
            extent = simplify(extent * _extent(q, digit))
        stacked[digit] = left.pop(digit)
        extent = _limit_extent(q, stacked, extent, below, guards)
    return extent


def _limit_extent(q: _Question, stacked: Terms, extent: Expr, below: Expr, guards: list[_Guard]) -> Expr:
    """The extent of the digits so far, given a guard on just their sum: the size of the imperfect tile they make."""
    for guard in guards:
        if guard.terms == stacked and not free_vars(guard.rest) & q.names:
            size = simplify(-guard.rest)
            if simplify(Binary(BinOp.CEILDIV, size, below) * below) != extent:
                q.ctx.require(Binary(BinOp.LE, size, extent), q.refuse("a tile is larger than its parts"))
            return size
    return extent


def _loops(q: _Question, terms: Terms) -> list[str]:
    return sorted(set().union(*(free_vars(d) & q.names for d in terms)))


def _follow(q: _Question, inner: Terms, guards: list[_Guard]) -> list[Expr]:
    """The guards that mix outer digits with all the inner ones, over the offset in the region."""
    out: list[Expr] = []
    for guard in guards:
        inside = {d: c for d, c in guard.terms.items() if d in inner}
        outside = {d: c for d, c in guard.terms.items() if d not in inner}
        if not outside:
            continue
        if inside != inner and inside:
            raise q.refuse("an imperfect tile crosses it")
        parts = [d if simplify(c) == ONE else d * c for d, c in outside.items()] + ([OFFSET] if inside else [])
        value = parts[0]
        for part in parts[1:]:
            value = value + part
        out.append(Binary(BinOp.LT, value, simplify(-guard.rest)))
    return out

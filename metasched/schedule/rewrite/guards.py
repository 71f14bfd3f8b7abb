"""Guards in terms of iteration variables: those that remain when a block gets new loops."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import ONE, ZERO, NotAffine, as_int, const, free_vars, linear, simplify
from metasched.ir.integers.ranges import region
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, IterVar
from metasched.schedule.rewrite.nest import iter_value, simplify_sides
from metasched.schedule.rewrite.parts import spatial


def iteration_guards(op: str, block: Block, own: tuple[For, ...]) -> list[Expr]:
    """The guards that a block keeps when it leaves its loops `own`, over `iter_value`s and the loops outside these.

    Most guards only concern its loops: they keep an imperfect tile inside the iteration domain, or inside the enclosing
    tile, and are dropped with the loops. Guards over several iteration variables (from rfactor and
    transform_block_layout) and over outer loops are kept, even if fusing has disguised them. Raises ScheduleError for
    any other guard.
    """
    names = frozenset(loop.var for loop in own)
    kept = []
    for guard in block.guards:
        over_iters = _lift_guard(block, guard, names)
        if over_iters is None:
            if not _is_tile(block, guard, names):
                raise ScheduleError(
                    op,
                    f"block `{block.name}` has a guard that mixes several of its loops",
                    (block.name,),
                    f"{op} before splitting or fusing the loops of `{block.name}`",
                )
        elif not _is_domain(block, over_iters):
            kept.append(over_iters)
    return kept


def region_guards(op: str, block: Block, own: tuple[For, ...], outside: tuple[For, ...]) -> list[Expr]:
    """Conditions that keep a block that leaves its loops `own` from computing more per iteration of the loops
    `outside`.

    Its producers may be under the loops outside too, and compute only the region that the block needed before.
    """
    around = frozenset(loop.var for loop in outside)
    out: list[Expr] = []
    for name, binding in spatial(block):
        try:
            lo, extent = region(binding, query.ranges(own))
        except NotAffine as error:
            raise ScheduleError(
                op,
                f"what `{block.name}` computes is not known: {error}",
                (block.name,),
                "move it before fusing its loops",
            ) from None
        if free_vars(lo) & around:
            value = iter_value(name)
            out += [Binary(BinOp.GE, value - lo, ZERO), Binary(BinOp.LT, value - lo, extent)]
    return out


Terms = dict[Expr, Expr]  # coefficients by digit


def _lift_guard(block: Block, guard: Expr, loops: frozenset[str]) -> Expr | None:
    """Rewrite a comparison over loops to iteration variables; None if that is impossible."""
    if not free_vars(guard) & loops:
        return guard
    if not (isinstance(guard, Binary) and guard.op.is_comparison):
        return None
    try:
        rest, terms = linear(Binary(BinOp.SUB, guard.a, guard.b), loops)
        bindings = {it.name: linear(b, loops) for it, b in zip(block.iters, block.bindings, strict=True)}
        lifted = _over_iters(rest, terms, bindings)
        if lifted is None:
            digits = _digits(block, guard, loops)
            apart = {name: _split_digits(*binding, digits, loops) for name, binding in bindings.items()}
            lifted = _over_iters(*_split_digits(rest, terms, digits, loops), apart)
    except NotAffine:
        return None
    return None if lifted is None else simplify_sides(Binary(guard.op, lifted, ZERO))


def _over_iters(rest: Expr, terms: Terms, bindings: Mapping[str, tuple[Expr, Terms]]) -> Expr | None:
    """`rest` and `terms` with bindings replaced by their iteration variables; None if some terms remain."""
    out = rest
    for name, (base, own) in bindings.items():
        if not own or not own.keys() <= terms.keys():
            continue
        factor = _ratio(own, terms)
        if factor is not None:
            out = out + factor * (iter_value(name) - base)
            terms = {atom: c for atom, c in terms.items() if atom not in own}
    return None if terms else out


def _ratio(own: Terms, terms: Terms) -> Expr | None:
    """`f` such that `terms[a] == f * own[a]` for every atom."""
    ratios = {_quotient(terms[atom], c) for atom, c in own.items()}
    if len(ratios) != 1:
        return None
    (factor,) = ratios
    return factor if all(simplify(factor * c) == terms[atom] for atom, c in own.items()) else None


def _quotient(e: Expr, divisor: Expr) -> Expr:
    """`e // divisor`, where a constant divisor may be negative."""
    value = as_int(divisor)
    return simplify(e // divisor) if value is None or value > 0 else simplify((ZERO - e) // const(-value))


def _digits(block: Block, guard: Expr, loops: frozenset[str]) -> list[Binary]:
    """The remainders of loops in the bindings and the guard: fused loops appear as digits of one loop."""
    found = [e for whole in (*block.bindings, guard) for e in whole.walk() if isinstance(e, Binary)]
    return [e for e in dict.fromkeys(found) if e.op is BinOp.MOD and free_vars(e) & loops]


def _split_digits(rest: Expr, terms: Terms, digits: list[Binary], loops: frozenset[str]) -> tuple[Expr, Terms]:
    """The sum with `e` replaced by `n*(e//n) + e%n`, for the given remainders."""
    left = list(digits)
    while True:
        for digit in left:
            base, whole = linear(digit.a, loops)
            factor = _ratio(whole, terms) if whole and whole.keys() <= terms.keys() else None
            if factor is not None:
                break
        else:
            return rest, terms
        left.remove(digit)
        lower, quotient = linear(Binary(BinOp.FLOORDIV, digit.a, digit.b), loops)
        terms = {atom: c for atom, c in terms.items() if atom not in whole}
        for atom, c in {**quotient, digit: ONE}.items():
            scale = factor if atom is digit else factor * digit.b * c
            terms[atom] = simplify(terms.get(atom, ZERO) + scale)
        rest = simplify(rest + factor * (digit.b * lower - base))


def _is_tile(block: Block, guard: Expr, loops: frozenset[str]) -> bool:
    """Whether a guard is over some of the digits of one iteration variable alone.

    What it skips is computed in another iteration, as every value of the variable is computed.
    """
    if not (isinstance(guard, Binary) and guard.op.is_comparison):
        return False
    digits = _digits(block, guard, loops)
    try:
        _, part = _split_digits(*linear(Binary(BinOp.SUB, guard.a, guard.b), loops), digits, loops)
        bindings = [_split_digits(*linear(b, loops), digits, loops)[1] for b in block.bindings]
    except NotAffine:
        return False
    return any(
        part.keys() <= whole.keys() and _ratio({atom: whole[atom] for atom in part}, part) is not None
        for whole in bindings
    )


def _is_domain(block: Block, guard: Expr) -> bool:
    """Whether a guard over iteration variables only keeps one of them in its domain."""
    return any(
        guard in (_extent_guard(it), simplify_sides(Binary(BinOp.GE, iter_value(it.name), ZERO))) for it in block.iters
    )


def _extent_guard(it: IterVar) -> Expr:
    return simplify_sides(Binary(BinOp.LT, iter_value(it.name) - it.extent, ZERO))


def normal_form(e: Expr) -> Expr:
    """An index or guard simplified; a comparison keeps its form, so that even a guard that always holds is kept."""
    return simplify_sides(e) if isinstance(e, Binary) and e.op.is_comparison else simplify(e)

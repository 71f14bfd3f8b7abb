"""Guards in terms of iteration variables: what survives when a block gets new loops."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir.affine import ZERO, NotAffine, free_vars, linear, simplify
from metasched.ir.nodes import Binary, BinOp, Block, Expr, For, IterVar, Var
from metasched.schedule.rewrite.nest import simplify_sides


def iteration_guards(op: str, block: Block, loops: tuple[For, ...]) -> list[Expr]:
    """The block's guards that are about its meaning, over its iteration variables.

    Most guards are about its loops: they keep an imperfect tile inside its iteration domain, or inside the tile
    around it, and go with the loops. Those over several iteration variables (rfactor makes them) stay.
    Raises ScheduleError for one that is neither.
    """
    names = frozenset(loop.var for loop in loops)
    kept = []
    for guard in block.guards:
        over_iters = _lifted(block, guard, names)
        if over_iters is None:
            if not _within_one_binding(block, guard, names):
                raise ScheduleError(
                    op,
                    f"block `{block.name}` has a guard that mixes several of its loops",
                    (block.name,),
                    f"{op} before splitting or fusing the loops of `{block.name}`",
                )
        elif not _is_domain(block, over_iters):
            kept.append(over_iters)
    return kept


def _lifted(block: Block, guard: Expr, loops: frozenset[str]) -> Expr | None:
    """A comparison over loops as one over iteration variables; None when there is none."""
    if not (isinstance(guard, Binary) and guard.op.is_comparison):
        return None
    try:
        rest, terms = linear(Binary(BinOp.SUB, guard.a, guard.b), loops)
        out: Expr = rest
        for it, binding in zip(block.iters, block.bindings, strict=True):
            base, own = linear(binding, loops)
            if not own or not own.keys() <= terms.keys():
                continue
            factor = _ratio(own, terms)
            if factor is not None:
                out = out + factor * (Var(it.name) - base)
                terms = {atom: c for atom, c in terms.items() if atom not in own}
    except NotAffine:
        return None
    return None if terms else simplify_sides(Binary(guard.op, out, ZERO))


def _ratio(own: dict[Expr, Expr], terms: dict[Expr, Expr]) -> Expr | None:
    """`f` such that `terms[a] == f * own[a]` for every atom."""
    ratios = {simplify(terms[atom] // c) for atom, c in own.items()}
    if len(ratios) != 1:
        return None
    (factor,) = ratios
    return factor if all(simplify(factor * c) == terms[atom] for atom, c in own.items()) else None


def _within_one_binding(block: Block, guard: Expr, loops: frozenset[str]) -> bool:
    used = free_vars(guard) & loops
    return any(used <= free_vars(b) for b in block.bindings)


def _is_domain(block: Block, guard: Expr) -> bool:
    """Whether a guard over iteration variables only says that one of them is in its domain."""
    names = {it.name for it in block.iters} & free_vars(guard)
    if len(names) != 1:
        return False
    it = next(v for v in block.iters if v.name in names)
    return guard in (_below(it), simplify_sides(Binary(BinOp.GE, Var(it.name), ZERO)))


def _below(it: IterVar) -> Expr:
    return simplify_sides(Binary(BinOp.LT, Var(it.name) - it.extent, ZERO))


def normal_form(e: Expr) -> Expr:
    """An index or guard simplified; a comparison keeps its form, so that a guard that always holds stays written."""
    return simplify_sides(e) if isinstance(e, Binary) and e.op.is_comparison else simplify(e)

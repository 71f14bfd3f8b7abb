"""Running reductions: each element is a reduction of the terms up to it, or from it on.

`Y[j] = sum[k < N if k <= j](X[k])` is one: a comparison of its reduction variable with a variable of its elements says
which terms an element has, and what a term is depends on that in no other way.
"""

from __future__ import annotations

from collections.abc import Mapping

from metasched.ir.integers.affine import free_vars, simplify
from metasched.ir.integers.conjunctions import conjunction, conjuncts
from metasched.ir.nodes import Binary, BinOp, Block, Expr, IterKind, IterVar, Reducer, Select, Var
from metasched.support.data_classes import dataclass

# How a term is to lie to an element whose result it is part of, as (after it, other than it).
_RELATIONS: Mapping[BinOp, tuple[bool, bool]] = {
    BinOp.LE: (False, False),
    BinOp.LT: (False, True),
    BinOp.GE: (True, False),
    BinOp.GT: (True, True),
}
_FLIPPED_COMPARISONS = {BinOp.LE: BinOp.GE, BinOp.LT: BinOp.GT, BinOp.GE: BinOp.LE, BinOp.GT: BinOp.LT}


class NotRunning(Exception):
    """A block is no running reduction; the message says why."""


@dataclass(frozen=True)
class RunningReduction:
    """A reduction of `term` over `over` as far as it lies to the variable `along` as `relation` says.

    `relation` has `over` on the left; both variables have as many values.
    """

    along: IterVar
    over: IterVar
    relation: BinOp
    term: Expr
    reducer: Reducer

    @property
    def is_reverse(self) -> bool:
        return _RELATIONS[self.relation][0]

    @property
    def leaves_out_itself(self) -> bool:
        return _RELATIONS[self.relation][1]


def running_reduction(block: Block) -> RunningReduction:
    """What a block is as a running reduction. Raises NotRunning."""
    over = [it for it in block.iters if it.kind is IterKind.REDUCE]
    if block.reducer is None or block.init is None or block.index is not None or len(over) != 1:
        raise NotRunning("it is no reduction over one variable that has its init")
    nothing = block.reducer.identity(block.store.value.dtype)
    if block.init != nothing:
        raise NotRunning("it starts from something")
    conds, term = [], block.store.value
    while isinstance(term, Select) and term.otherwise == nothing:
        conds += conjuncts(term.cond)
        term = term.then
    for cond in conds:
        found = _find_relation(block, cond, over[0])
        if found is None:
            continue
        along, relation = found
        if simplify(along.extent) != simplify(over[0].extent):
            raise NotRunning(f"`{along.name}` and `{over[0].name}` have not as many values, or depend on sizes")
        rest = [other for other in conds if other is not cond]
        kept = Select(conjunction(rest), term, nothing) if rest else term
        if along.name in free_vars(kept):
            raise NotRunning(f"its terms depend on `{along.name}`")
        return RunningReduction(along, over[0], relation, kept, block.reducer)
    raise NotRunning(f"no condition of its terms is `{over[0].name} <= ` a variable of its elements")


def _find_relation(block: Block, cond: Expr, over: IterVar) -> tuple[IterVar, BinOp] | None:
    """The spatial variable that a condition compares the reduction variable with, and how."""
    if not isinstance(cond, Binary) or cond.op not in _RELATIONS:
        return None
    if not isinstance(cond.a, Var) or not isinstance(cond.b, Var):
        return None
    spatial = {it.name: it for it in block.iters if it.kind is IterKind.SPATIAL}
    if cond.a.name == over.name and cond.b.name in spatial:
        return spatial[cond.b.name], cond.op
    if cond.b.name == over.name and cond.a.name in spatial:
        return spatial[cond.a.name], _FLIPPED_COMPARISONS[cond.op]
    return None

"""How many of a reduction's terms are there, by the bounds that its condition has."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from metasched.ir import query
from metasched.ir.integers.affine import as_int, free_vars, free_vars_of
from metasched.ir.integers.conjunctions import conjuncts
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Expr, IterVar, Reducer, Select, Store

# So many combinations of variables are counted at most.
_MOST_COMBINATIONS = 1 << 20


def share_of_terms(iters: Sequence[IterVar], store: Store, reducer: Reducer | None) -> float:
    """The share of a reduction's iterations that have a term; 1 where that depends on data or on tile sizes.

    What its condition asks of different variables is counted apart.
    """
    value = store.value
    if reducer is None or not isinstance(value, Select):
        return 1.0
    if value.otherwise != reducer.identity(value.dtype):
        return 1.0
    extents = {it.name: as_int(it.extent) for it in iters}
    return prod((_share(together, extents) for together in _group_conditions(conjuncts(value.cond))), start=1.0)


def _group_conditions(conditions: list[Expr]) -> list[list[Expr]]:
    """Conditions in groups that have no variable in common."""
    groups: list[tuple[frozenset[str], list[Expr]]] = []
    for condition in conditions:
        names, together = free_vars(condition), [condition]
        apart = []
        for used, group in groups:
            if used & names:
                names, together = names | used, [*group, *together]
            else:
                apart.append((used, group))
        groups = [*apart, (names, together)]
    return [group for _, group in groups]


def _share(conditions: list[Expr], extents: dict[str, int | None]) -> float:
    """The share of combinations of their variables that meet all of some conditions."""
    names = sorted(free_vars_of(conditions))
    counts = [extents.get(name) for name in names]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts) or not 0 < prod(known) <= _MOST_COMBINATIONS or any(query.loads(c) for c in conditions):
        return 1.0
    places = np.indices(known, dtype=np.int64).reshape(len(known), prod(known))
    met = np.ones(places.shape[1], np.bool_)
    for holds in Evaluator(conditions)(dict(zip(names, places, strict=True))):
        met = met & np.asarray(holds, np.bool_)
    return float(met.mean())

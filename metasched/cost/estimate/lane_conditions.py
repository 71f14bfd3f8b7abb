"""Conditions that depend on nothing but the lane, over a population: the compiler knows which lanes run, so that reads
under them need no masks, and may be shuffled as others are.
"""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.statement_loops import Flags, StatementLoops
from metasched.cost.program.conditions import Condition, DataCondition, IsNegative, IsZero, Negation, loops_in
from metasched.cost.program.index import Index, LoopAtom, RemainderAtom, loops_of


def lanes_decide(loops: StatementLoops, condition: Condition) -> Flags:
    """Where a condition is decided by the lane and the copy of unrolled code, and some lanes differ."""
    vector = loops.statement.vector
    nowhere = np.zeros(loops.rows, np.bool_)
    if vector is None or vector not in loops_in(condition):
        return nowhere
    found: Flags = _is_alike_in_strips(loops, condition, vector)
    for loop in loops_in(condition) - {vector}:
        found = found & ((loops.unrolled[loop] > 0) | ~loops.shares.moves(condition, loop))
    return found


def _is_alike_in_strips(loops: StatementLoops, condition: Condition, vector: int) -> Flags:
    """Where a condition says the same in every strip of the vectorised loop."""
    if isinstance(condition, DataCondition):
        return np.zeros(loops.rows, np.bool_)
    if isinstance(condition, Negation):
        return _is_alike_in_strips(loops, condition.of, vector)
    if isinstance(condition, IsNegative | IsZero):
        one: Flags = (loops.vector.steps == 1) | (loops.unrolled[vector] > 0)
        return one | _is_alike_in_lanes(loops, condition.value, vector)
    every = np.ones(loops.rows, np.bool_)
    for each in condition.of:
        every = every & _is_alike_in_strips(loops, each, vector)
    return every


def _is_alike_in_lanes(loops: StatementLoops, index: Index, vector: int) -> Flags:
    """Where an index depends on a loop by remainders alone, and all lanes move each by a multiple of its divisor."""
    sizes, found = loops.ranges.sizes, np.ones(loops.rows, np.bool_)
    for term in index.terms:
        if vector not in loops_of(term.atom):
            continue
        if not isinstance(term.atom, RemainderAtom):
            return np.zeros(loops.rows, np.bool_)
        for inner in term.atom.value.terms:
            if vector in loops_of(inner.atom):
                moved = sizes[inner.coefficient] * loops.vector.lanes / sizes[term.atom.divisor]
                found = found & (moved == np.floor(moved)) & isinstance(inner.atom, LoopAtom)
    return found

"""Reads transposed in registers (`metasched.compiler.cpu.emit.accesses.transposed_loads`), over a population."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.compiler.policy import MOST_SPREAD
from metasched.cost.estimate.footprint import Array, Footprint, Mask, Ranges, flat_step
from metasched.cost.program.index import QuotientAtom, RemainderAtom, loops_of
from metasched.cost.program.nest import Statement, StatementAccess
from metasched.support.data_classes import dataclass
from metasched.target import TRANSPOSED_BYTES


@dataclass(frozen=True)
class Units:
    """Lanes in units of `size`: elements from a unit to the next, and from a lane to the next in one; each (rows,)."""

    size: Array
    apart: Array
    within: Array

    @property
    def are_joined(self) -> Mask:
        """Whether units lie one after another: together they are what was divided. (rows,)"""
        joined: Mask = self.apart == self.size * self.within
        return joined


def units_of(access: StatementAccess, footprint: Footprint, ranges: Ranges, loop: int) -> Units | None:
    """The units of lanes along a loop that an access uses as a quotient and a remainder by the same; None where it uses
    it in another way."""
    pairs = zip(access.dims, footprint.strides, strict=True)
    used = [(term, stride) for dim, stride in pairs for term in dim.terms if loop in loops_of(term.atom)]
    found = {type(term.atom): (term.atom, ranges.sizes[term.coefficient] * stride) for term, stride in used}
    if len(used) != 2 or found.keys() != {QuotientAtom, RemainderAtom}:
        return None
    (quotient, apart), (remainder, within) = found[QuotientAtom], found[RemainderAtom]
    assert isinstance(quotient, QuotientAtom)
    assert isinstance(remainder, RemainderAtom)
    if quotient.divisor != remainder.divisor:
        return None
    full = np.ones(ranges.rows, np.float32)
    return Units(full * ranges.sizes[quotient.divisor], full * np.abs(apart), full * np.abs(within))


def transposed_runs(
    statement: Statement, footprints: Sequence[Footprint], ranges: Ranges, unrolled: Array
) -> list[Array]:
    """For each access, the neighbours that iterations of an unrolled loop read side by side and lanes far apart, which
    are loaded at once; 0 where there are none: (rows,)."""
    if statement.tensor is not None or statement.reduces:
        return [np.zeros(ranges.rows, np.float32) for _ in footprints]
    return [_transposed_run(statement, n, footprint, ranges, unrolled) for n, footprint in enumerate(footprints)]


def _transposed_run(statement: Statement, n: int, footprint: Footprint, ranges: Ranges, unrolled: Array) -> Array:
    access, vector, rows = statement.accesses[n], statement.vector, ranges.rows
    if n == 0 or vector is None or any(n in gate.reads for gate in statement.gates):
        return np.zeros(rows, np.float32)
    run = TRANSPOSED_BYTES // access.element_bytes
    units = units_of(access, footprint, ranges, vector)
    size = np.ones(rows, np.float32) if units is None else units.size
    between = np.abs(flat_step(access, footprint, ranges, vector)) if units is None else units.apart
    beside, straight = np.zeros(rows, np.bool_), np.ones(rows, np.bool_)
    lanes = statement.loops[vector].lanes
    width = np.ones(rows, np.float32) if lanes is None else ranges.sizes[lanes] + np.zeros(rows, np.float32)
    for loop in reversed(range(statement.depth)):
        straight &= (unrolled[loop] > 0) | ((loop == vector) & (ranges.extents[loop] < 2 * width))
        if loop != vector:
            step = flat_step(access, footprint, ranges, loop)
            beside |= straight & (step == size) & (ranges.extents[loop] * size >= run) & (size < run)
    whole = width % run == 0 if lanes is not None else np.ones(rows, np.bool_)
    apart = between > MOST_SPREAD * size
    return np.where(beside & whole & apart, np.float32(run), np.float32(0.0))

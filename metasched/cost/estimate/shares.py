"""For which share of a statement's instances a condition holds, and of its unrolled copies where that is known.

Arrays have a value for each row of a population. An index is taken to have each value between its least and its largest
equally often, or, where loops over elements and over terms of a reduction are added (`h + 2*r >= 2`), to be the sum of
two numbers for which that is so, of which that of terms is a multiple of their step.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from metasched.cost.estimate.footprint import Array, Ranges, ones
from metasched.cost.program.conditions import Condition, DataCondition, IsNegative, IsZero, Negation
from metasched.cost.program.index import Atom, ClampAtom, Index, LoopAtom, QuotientAtom, RemainderAtom, loops_of
from metasched.support.data_classes import dataclass

Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class CopyShares:
    """The shares of a statement's unrolled copies in which a condition is known to hold, and known not to."""

    known: Array
    excluded: Array

    @property
    def evaluated(self) -> Array:
        """The share of the copies that evaluate the condition when they run."""
        left: Array = np.maximum(1.0 - self.known - self.excluded, 0.0)
        return left


class _Part(NamedTuple):
    """What some loops add to an index: a number in `low` .. `low + span`, `number` of them at most."""

    low: Array
    span: Array
    number: Array

    def add(self, low: Array, span: Array, number: Array) -> _Part:
        return _Part(self.low + low, self.span + span, self.number * number)


class _IndexParts(NamedTuple):
    """An index as a constant and what loops add: in copies those that are unrolled, in each copy the others."""

    constant: Array
    copies: _Part
    inside: _Part

    @property
    def low(self) -> Array:
        low: Array = self.constant + self.copies.low + self.inside.low
        return low

    @property
    def span(self) -> Array:
        span: Array = self.copies.span + self.inside.span
        return span


class _Steps(NamedTuple):
    """What loops over terms add to an index: multiples of `step` from 0 to `span`."""

    span: Array
    step: Array


class Shares:
    """Shares of the conditions of one statement.

    Args:
        ranges: of the statement's loops.
        copied: (loops, rows) how many copies of the statement's code each loop makes; 1 where it is not unrolled.
        reducing: whether each loop is over terms of a reduction.
    """

    def __init__(self, ranges: Ranges, copied: Array, reducing: tuple[bool, ...]) -> None:
        self._ranges = ranges
        self._copied = copied
        self._reducing = reducing
        self._none = np.zeros(ranges.rows, np.float32)
        self._one = ones(ranges.rows)
        # By identity: conditions live as long as their statement.
        self._holds: dict[int, Array] = {}
        self._in_copies: dict[int, CopyShares] = {}
        self._of_atoms: dict[Atom, tuple[_Part, _Part]] = {}

    def with_ranges(self, ranges: Ranges) -> Shares:
        """The shares of the same conditions over other ranges of the loops."""
        return Shares(ranges, self._copied, self._reducing)

    def holding_share(self, condition: Condition) -> Array:
        """The share of all instances for which a condition holds; one on data is taken to hold everywhere."""
        found = self._holds.get(id(condition))
        if found is None:
            found = self._holds[id(condition)] = self._share(condition)
        return found

    def copy_shares(self, condition: Condition) -> CopyShares:
        """The unrolled copies in which a condition is known."""
        found = self._in_copies.get(id(condition))
        if found is None:
            found = self._in_copies[id(condition)] = self._known_copies(condition)
        return found

    def moves(self, condition: Condition, loop: int) -> Flags:
        """Whether a loop has a part in what a condition says: in `(2*i + j) % 2 == 0`, `i` has none."""
        if isinstance(condition, Negation):
            return self.moves(condition.of, loop)
        if isinstance(condition, DataCondition):
            known: Flags = (self._ranges.extents[loop] > 1) & (loop in condition.loops)
            return known
        if isinstance(condition, IsNegative | IsZero):
            return self._moves(condition.value, loop)
        any_moves: Flags = np.zeros(self._ranges.rows, np.bool_)
        for each in condition.of:
            any_moves = any_moves | self.moves(each, loop)
        return any_moves

    def _moves(self, index: Index, loop: int, modulo: Array | None = None) -> Flags:
        """Whether a loop changes an index, or its remainder."""
        moves: Flags = np.zeros(self._ranges.rows, np.bool_)
        for term in index.terms:
            if loop not in loops_of(term.atom):
                continue
            seen: Flags = self._ranges.extents[loop] > 1
            if modulo is not None:
                times = self._ranges.sizes[term.coefficient] / modulo
                seen = seen & (times != np.floor(times))
            if isinstance(term.atom, RemainderAtom):
                seen = seen & self._moves(term.atom.value, loop, self._ranges.sizes[term.atom.divisor])
            elif isinstance(term.atom, QuotientAtom):
                seen = seen & (self._extent_of_atom(term.atom)[1] > 0)
            moves |= seen
        return moves

    # --- of all instances

    def _share(self, condition: Condition) -> Array:
        if isinstance(condition, DataCondition):
            return self._one
        if isinstance(condition, Negation):
            opposite: Array = 1.0 - self.holding_share(condition.of)
            return opposite
        if isinstance(condition, IsNegative | IsZero):
            low, elements, terms = self._extent(condition.value)
            if isinstance(condition, IsNegative):
                return _share_below(-low, elements, terms)
            span = elements if terms is None else elements + terms.span
            share: Array = np.where((low <= 0) & (low + span >= 0), 1.0 / (span + 1.0), 0.0)
            return share
        every: Array = self._one
        for each in condition.of:
            every = every * self.holding_share(each)
        return every

    def _extent(self, index: Index) -> tuple[Array, Array, _Steps | None]:
        """The least value of an index, and how far loops over elements and over terms move it: None without terms."""
        low = self._ranges.sizes[index.constant] + self._none
        elements, terms = self._none, None
        for term in index.terms:
            coefficient = self._ranges.sizes[term.coefficient]
            least, span = self._extent_of_atom(term.atom)
            span = coefficient * span
            low = low + np.minimum(span, 0.0) if least is None else low + coefficient * least + np.minimum(span, 0.0)
            if all(self._reducing[loop] for loop in loops_of(term.atom)):
                own = _Steps(np.abs(span), np.where(span != 0, np.abs(coefficient), np.inf))
                terms = own if terms is None else _Steps(terms.span + own.span, np.minimum(terms.step, own.step))
            else:
                elements = elements + np.abs(span)
        return low, elements, terms

    def _extent_of_atom(self, atom: Atom) -> tuple[Array | None, Array]:
        """The least value of an atom, None for zero, and how far it moves."""
        if isinstance(atom, LoopAtom):
            return None, self._ranges.steps[atom.loop]
        copies, inside = self._atom_parts(atom)
        return copies.low + inside.low, copies.span + inside.span

    # --- in unrolled copies

    def _known_copies(self, condition: Condition) -> CopyShares:
        if isinstance(condition, IsNegative):
            return _negative_copies(self._index_parts(condition.value))
        if isinstance(condition, IsZero):
            return _zero_copies(self._index_parts(condition.value))
        if isinstance(condition, Negation):
            inner = self.copy_shares(condition.of)
            return CopyShares(inner.excluded, inner.known)
        if isinstance(condition, DataCondition):
            return CopyShares(self._none, self._none)
        known: Array = self._one
        allowed: Array = self._one
        for each in condition.of:
            share = self.copy_shares(each)
            known, allowed = known * share.known, allowed * (1.0 - share.excluded)
        return CopyShares(known, 1.0 - allowed)

    # --- what an index reaches

    def _index_parts(self, index: Index) -> _IndexParts:
        copies = inside = _Part(self._none, self._none, self._one)
        for term in index.terms:
            coefficient = self._ranges.sizes[term.coefficient]
            of_copies, of_inside = self._atom_parts(term.atom)
            copies, inside = _add_scaled(copies, of_copies, coefficient), _add_scaled(inside, of_inside, coefficient)
        return _IndexParts(self._ranges.sizes[index.constant] + self._none, copies, inside)

    def _loop_parts(self, loop: int) -> tuple[_Part, _Part]:
        """The parts a loop adds from copy to copy, and in each: an unrolled vectorised loop has its lanes there."""
        extent, copied = self._ranges.extents[loop], self._copied[loop]
        width = np.ceil(extent / copied)
        return _Part(self._none, width * (copied - 1.0), copied), _Part(self._none, width - 1.0, width)

    def _atom_parts(self, atom: Atom) -> tuple[_Part, _Part]:
        found = self._of_atoms.get(atom)
        if found is None:
            found = self._of_atoms[atom] = self._new_atom_parts(atom)
        return found

    def _new_atom_parts(self, atom: Atom) -> tuple[_Part, _Part]:
        if isinstance(atom, LoopAtom):
            return self._loop_parts(atom.loop)
        if isinstance(atom, QuotientAtom):
            return self._quotient_parts(self._index_parts(atom.value), self._ranges.sizes[atom.divisor])
        if isinstance(atom, RemainderAtom):
            return self._remainder_parts(atom)
        if isinstance(atom, ClampAtom):
            reached = self._index_parts(atom.value)
            return reached.copies, reached.inside.add(reached.constant, self._none, self._one)
        far = self._ranges.reach_of_atom(atom)[0]
        nothing = _Part(self._none, self._none, self._one)
        return nothing, _Part(-far, 2.0 * far, 2.0 * far + 1.0)

    def _quotient_parts(self, reached: _IndexParts, divisor: Array) -> tuple[_Part, _Part]:
        low = np.floor(reached.low / divisor)
        span = np.floor((reached.low + reached.span) / divisor) - low
        apart = np.where(reached.inside.span > 0, np.minimum(np.floor(reached.copies.span / divisor), span), span)
        rest = span - apart
        return _Part(low, apart, np.minimum(reached.copies.number, apart + 1.0)), _Part(self._none, rest, rest + 1.0)

    def _remainder_parts(self, atom: RemainderAtom) -> tuple[_Part, _Part]:
        """Terms whose coefficient the divisor divides add nothing: in `(2*i + j) % 2`, `j` decides."""
        divisor = self._ranges.sizes[atom.divisor]
        span: Array = self._none
        outside: Array = self._none
        start = self._ranges.sizes[atom.value.constant] + self._none
        for term in atom.value.terms:
            coefficient = self._ranges.sizes[term.coefficient]
            of_copies, of_inside = self._atom_parts(term.atom)
            times = coefficient / divisor
            seen = np.abs(coefficient) * (times != np.floor(times))
            both = of_copies.span + of_inside.span
            lowest = of_copies.low + of_inside.low
            start = start + seen * np.where(coefficient < 0, -(lowest + both), lowest)
            span = span + seen * both
            outside = outside + seen * of_inside.span
        start = start - np.floor(start / divisor) * divisor
        whole = start + span >= divisor
        low, span = np.where(whole, 0.0, start), np.where(whole, divisor - 1.0, span)
        copied = outside == 0  # the remainder is one number in each copy
        apart, rest = np.where(copied, span, 0.0), np.where(copied, 0.0, span)
        return _Part(low, apart, apart + 1.0), _Part(self._none, rest, rest + 1.0)


def _add_scaled(part: _Part, added: _Part, coefficient: Array) -> _Part:
    low = np.where(coefficient < 0, added.low + added.span, added.low) * coefficient
    return part.add(low, added.span * np.abs(coefficient), added.number)


def _negative_copies(reached: _IndexParts) -> CopyShares:
    copies, inside = reached.copies, reached.inside
    step = np.maximum(copies.span / np.maximum(copies.number - 1.0, 1.0), 1.0)
    number = copies.span / step + 1.0
    # What the loops of a copy add is below zero at any place inside, at some, or nowhere.
    least = reached.low
    sure = np.ceil(np.maximum(-(least + inside.span), 0.0) / step)
    possible = np.ceil(np.maximum(-least, 0.0) / step)
    return CopyShares(np.minimum(sure / number, 1.0), 1.0 - np.minimum(possible / number, 1.0))


def _zero_copies(reached: _IndexParts) -> CopyShares:
    low, span, inside = reached.low, reached.span, reached.inside
    reaches = (low <= 0) & (low + span >= 0)
    # Where a copy's index has a single value, it is zero or not; else it may be where it is near zero.
    fixed = inside.span == 0
    near = np.minimum((inside.span + 1.0) / (reached.copies.span + 1.0), 1.0)
    possible = np.where(reaches, np.where(fixed, 1.0 / (span + 1.0), near), 0.0)
    return CopyShares(np.where(fixed, possible, 0.0), 1.0 - possible)


def _share_below(limit: Array, elements: Array, terms: _Steps | None) -> Array:
    """How often a number in 0 .. elements is below a limit, or the sum of it and another of steps from 0 on."""
    first = elements + 1.0
    share: Array
    if terms is None:
        share = np.minimum(np.maximum(limit / first, 0.0), 1.0)
        return share
    step = np.where(np.isfinite(terms.step), terms.step, 1.0)
    number = np.floor(terms.span / step) + 1.0
    beyond = step * number
    pairs = (
        _count_pairs(limit, step)
        - _count_pairs(limit - first, step)
        - _count_pairs(limit - beyond, step)
        + _count_pairs(limit - first - beyond, step)
    )
    share = np.minimum(np.maximum(pairs / (first * number), 0.0), 1.0)
    return share


def _count_pairs(limit: Array, step: Array) -> Array:
    """Pairs of a number from 0 on, and a multiple of a step from 0 on, whose sum is below a limit."""
    positive = np.maximum(limit, 0.0).astype(np.float64)
    multiples = np.ceil(positive / step)
    pairs: Array = multiples * positive - step * multiples * (multiples - 1.0) / 2.0
    return pairs

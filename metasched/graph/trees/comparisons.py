"""Tests of any mode as tests of one: whether an element is at most a threshold.

`x >= v` is `-x <= -v`, and `x < v` is `x <= w` for the number w that comes before v. NaN is at most nothing, so it goes
to the branch `no`; where it is to go to the other, the test is turned round: not `x <= v`, but not `x > v`. Equality is
two such tests, and membership a search in order.
"""

from __future__ import annotations

import numpy as np

from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.trees.ensemble import Ensemble, Mode
from metasched.support.data_classes import dataclass

_ORDERED = (Mode.LEQ, Mode.LT, Mode.GTE, Mode.GT)


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Tests, each of which holds where an element is at most a threshold; the first are those of the ensemble.

    Attributes:
        feature: the column that each looks at.
        negated: whether it looks at the element with the other sign.
        threshold: what it compares with; NaN where it never holds.
        yes: the branch where it holds: the number of a test, or `~leaf`.
        no: the other one.
        steps: for each test of the ensemble, how many of these come one after another at most.

    """

    feature: Array
    negated: Array
    threshold: Array
    yes: Array
    no: Array
    steps: Array


def compare_at_most(ensemble: Ensemble, dtype: np.dtype[np.floating]) -> Comparisons:
    """The tests of an ensemble, with thresholds of a type."""
    made = _Made(ensemble, dtype)
    made.add_ordered()
    made.add_equalities()
    for test, members in ensemble.members.items():
        made.add_members(test, np.unique(members.astype(dtype)))
    return made.comparisons()


class _Made:
    def __init__(self, ensemble: Ensemble, dtype: np.dtype[np.floating]) -> None:
        self._tests = tests = ensemble.tests
        self._threshold = tests.threshold.astype(dtype)
        bad = np.flatnonzero(np.isnan(self._threshold) & (tests.mode != Mode.MEMBER.number))
        if bad.size:
            raise Unsupported(f"a test of the column {tests.feature[bad[0]]} compares with NaN")
        count = len(tests)
        self._rows = [
            tests.feature.copy(),
            np.zeros(count, bool),
            self._threshold.copy(),
            tests.yes.copy(),
            tests.no.copy(),
        ]
        self._more: list[tuple[int, bool, float, int, int]] = []
        self._steps = np.ones(count, np.int64)

    def comparisons(self) -> Comparisons:
        """What was made."""
        more = zip(*self._more, strict=True) if self._more else [()] * len(self._rows)
        parts = [np.concatenate([rows, np.array(own, rows.dtype)]) for rows, own in zip(self._rows, more, strict=True)]
        feature, negated, threshold, yes, no = parts
        return Comparisons(feature, negated, threshold, yes, no, self._steps)

    def add_ordered(self) -> None:
        """Write the tests of smaller and larger."""
        tests, own = self._tests, np.isin(self._tests.mode, [mode.number for mode in _ORDERED])
        upper = np.isin(tests.mode, [Mode.GTE.number, Mode.GT.number])
        strict = np.isin(tests.mode, [Mode.LT.number, Mode.GT.number])
        turned = tests.missing & own
        self._rows[1] = own & (upper != turned)
        self._rows[2] = _threshold(self._threshold, self._rows[1], own & (strict != turned))
        self._swap(turned)

    def _swap(self, which: Array) -> None:
        _, _, _, yes, no = self._rows
        yes[which], no[which] = no[which], yes[which]

    def add_equalities(self) -> None:
        """Write the tests of equality, whose second halves come behind all others."""
        tests = self._tests
        for test in np.flatnonzero(np.isin(tests.mode, [Mode.EQ.number, Mode.NEQ.number])).tolist():
            equal = tests.mode[test] == Mode.EQ.number
            one, other = int(tests.yes[test]), int(tests.no[test])
            yes, no = (one, other) if equal else (other, one)
            self._equal(test, float(self._threshold[test]), yes, no, nan_is_equal=bool(tests.missing[test]) and equal)

    def add_members(self, test: int, members: Array) -> None:
        """Write a test of whether an element is one of some numbers, which are in order."""
        yes, no = int(self._tests.yes[test]), int(self._tests.no[test])
        missing = bool(self._tests.missing[test])
        if not members.size:
            self._set(test, (False, np.inf, no, yes if missing else no))
            return
        self._steps[test] = self._search(test, members, yes, no, missing)

    def _search(self, test: int, members: Array, yes: int, no: int, missing: bool) -> int:
        """Write a search at the place of a test, of which NaN takes the right half. Gives how many steps it takes."""
        if len(members) == 1:
            return self._equal(test, float(members[0]), yes, no, nan_is_equal=missing)
        half = len(members) // 2
        left, right = self._new(test), self._new(test)
        self._set(test, (False, float(members[half - 1]), left, right))
        steps = self._search(left, members[:half], yes, no, missing=False)
        return 1 + max(steps, self._search(right, members[half:], yes, no, missing))

    def _equal(self, test: int, value: float, yes: int, no: int, *, nan_is_equal: bool) -> int:
        """Write a test of equality at the place of a test. Gives how many steps it takes."""
        second = self._new(test)
        halves = [(False, value, second, no), (True, -value, yes, no)]
        if nan_is_equal:  # neither smaller nor larger
            below, above = (self._before(value), self._before(-value))
            halves = [(False, below, no, second), (True, above, no, yes)]
        self._set(test, halves[0])
        self._set(second, halves[1])
        if test < len(self._steps):
            self._steps[test] = 2
        return 2

    def _before(self, value: float) -> float:
        one, holds = np.array([value], self._threshold.dtype), np.ones(1, bool)
        return float(_threshold(one, ~holds, holds)[0])

    def _new(self, like: int) -> int:
        """The number of another test of the same column, which is written later."""
        count = len(self._steps)
        feature = int(self._rows[0][like] if like < count else self._more[like - count][0])
        self._more.append((feature, False, np.nan, 0, 0))
        return count + len(self._more) - 1

    def _set(self, test: int, row: tuple[bool, float, int, int]) -> None:
        count = len(self._steps)
        if test >= count:
            self._more[test - count] = (self._more[test - count][0], *row)
            return
        for rows, value in zip(self._rows[1:], row, strict=True):
            rows[test] = value


def _threshold(values: Array, negated: Array, strict: Array) -> Array:
    """What is to be compared with: the values, with the other sign, or the number before; NaN where there is none."""
    signed = np.where(negated, -values, values)
    lowest = np.array(-np.inf, values.dtype)
    before = np.where(signed == lowest, np.nan, np.nextafter(signed, lowest))
    return np.where(strict, before, signed).astype(values.dtype)

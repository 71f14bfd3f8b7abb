"""Tile sizes of a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isqrt

import numpy as np
import numpy.typing as npt

from metasched.ir.integers.affine import ONE, ZERO, simplify
from metasched.ir.nodes import Binary, BinOp, Expr
from metasched.ir.printer import print_expr
from metasched.lang.instructions import Decision
from metasched.schedule.distributions.base import Rows
from metasched.schedule.distributions.factors import Factors
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

# Share of draws that divide the extent exactly; the rest are arbitrary, so that primes have tiles too.
EXACT_SHARE = 0.8
# Share of draws of the innermost factor among the multiples of a step, where there is one.
STEP_SHARE = 0.5
# What is moved from one factor to another, as often as it is here.
_MOVED_PRIMES = np.array([2, 2, 2, 3, 5, 7])
# The largest prime of an extent that is looked for.
_LARGEST_PRIME = 1 << 20


@dataclass(frozen=True)
class Tile(Factors):
    """Inner factors `f1 .. f(parts-1)` of an extent; the outer one is `ceildiv(extent, f1 * .. * f(parts-1))`.

    Support: from the innermost outwards, each factor is between 1 and what is left of the extent, where what is
    left is divided, rounding up, by the factors inside; the innermost is at most `innermost`. With `perfect`
    every factor divides what is left.

    Prior: factors are drawn from the innermost outwards; with probability 0.8 uniformly among the divisors of what
    is left, otherwise log-uniformly among all admissible integers. (MetaSchedule's prior draws exact divisors
    only: Shao et al. 2022, appendix; there 127 has no tile.) With a `step`, half of the draws of the innermost factor
    are its multiples, log-uniformly, or the largest factor if all multiples are larger.
    """

    innermost: int = 64
    perfect: bool = False
    step: int = 0

    def contains(self, decision: Decision) -> bool:
        if not self.well_formed(decision):
            return False
        row = np.array([self.encode(decision)], dtype=np.int64)
        return bool((self.repair_rows(row, np.array([self.concrete_extent()])) == row).all())

    def conditions(self, decision: Decision) -> Sequence[Expr | bool]:
        if not self.well_formed(decision):
            return (False,)
        out: list[Expr | bool] = []
        inside: Expr = ONE
        for position, factor in reversed(list(enumerate(self.encode(decision)))):
            left = simplify(Binary(BinOp.MAX, Binary(BinOp.CEILDIV, self.extent, inside), ONE))
            out += [factor <= self._cap(position), left >= factor]
            inside = simplify(inside * factor)
            if self.perfect:
                out.append(Binary(BinOp.EQ, simplify(Binary(BinOp.MOD, self.extent, inside)), ZERO))
        return tuple(out)

    def support(self) -> str:
        kind = "inner dividing factor" if self.perfect else "inner factor"
        return f"{counted(self.width, kind)} of {print_expr(self.extent)}, the innermost at most {self.innermost}"

    # --- populations; columns are outermost first, and are filled innermost first -----------------------------

    def _cap(self, position: int) -> int:
        return self.innermost if position == self.width - 1 else np.iinfo(np.int64).max

    def sample_rows(self, rng: np.random.Generator, extents: Rows) -> Rows:
        rows = np.empty((len(extents), self.width), dtype=np.int64)
        left = _fill_empty_extents(extents)
        for position in reversed(range(self.width)):
            rows[:, position] = self._draw_at(rng, position, left)
            left = -(-left // rows[:, position])
        return rows

    def _draw_at(self, rng: np.random.Generator, position: int, left: Rows) -> Rows:
        drawn = self._draw(rng, left, self._cap(position))
        if not self.step or position < self.width - 1:
            return drawn
        return np.where(rng.random(len(left)) < STEP_SHARE, self._draw_multiple(rng, left), drawn)

    def _draw_multiple(self, rng: np.random.Generator, left: Rows) -> Rows:
        """A multiple of the step."""
        largest = np.minimum(left, self.innermost)
        return np.minimum(_spread(rng, np.maximum(largest // self.step, 1)) * self.step, largest)

    def _draw(self, rng: np.random.Generator, left: Rows, cap: int) -> Rows:
        exact = _random_divisor(rng, left, cap)
        if self.perfect:
            return exact
        largest = np.minimum(left, cap)
        return np.where(rng.random(len(left)) < EXACT_SHARE, exact, _spread(rng, largest))

    def repair_rows(self, rows: Rows, extents: Rows) -> Rows:
        out = np.maximum(rows, 1)
        left = _fill_empty_extents(extents)
        for position in reversed(range(self.width)):
            factor = np.minimum(np.minimum(out[:, position], left), self._cap(position))
            out[:, position] = _divisor_at_most(left, factor) if self.perfect else factor
            left = -(-left // out[:, position])
        return out

    def mutate_rows(self, rng: np.random.Generator, rows: Rows, extents: Rows) -> Rows:
        """Half of the rows redraw one factor, the others move a prime from one factor to another."""
        n = len(rows)
        out = rows.copy()
        index = np.arange(n)
        position = rng.integers(self.width, size=n)
        inside = np.where(np.arange(self.width) > position[:, None], rows, 1).prod(axis=1)
        left = np.maximum(-(-extents // inside), 1)
        redrawn = self._draw(rng, left, self.innermost if self.width == 1 else np.iinfo(np.int64).max)
        if self.step:
            whole = (position == self.width - 1) & (rng.random(n) < STEP_SHARE)
            redrawn = np.where(whole, self._draw_multiple(rng, left), redrawn)
        moved = rng.random(n) < 0.5
        out[index, position] = np.where(moved, rows[index, position], redrawn)
        prime = _MOVED_PRIMES[rng.integers(len(_MOVED_PRIMES), size=n)]
        target = rng.integers(-1, self.width, size=n)  # -1 is the outer factor, which follows
        takes = moved & (rows[index, position] % prime == 0) & (target != position)
        out[index, position] = np.where(takes, rows[index, position] // prime, out[index, position])
        gives = moved & ~takes
        out[index, position] = np.where(gives, rows[index, position] * prime, out[index, position])
        receives = takes & (target >= 0)
        out[index[receives], target[receives]] *= prime[receives]
        return self.repair_rows(out, extents)


def _fill_empty_extents(extents: Rows) -> Rows:
    """Extents, where an empty part of a loop counts as one iteration: its tiles are of one element."""
    return np.maximum(extents.astype(np.int64), 1)


@lru_cache(maxsize=4096)
def divisors(value: int) -> npt.NDArray[np.int64]:
    """All divisors of a positive integer, ascending; what primes up to 2**20 leave counts as one."""
    found = [1]
    for prime, times in _primes(value):
        found = [divisor * prime**n for n in range(times + 1) for divisor in found]
    return np.array(sorted(found), dtype=np.int64)


def _primes(value: int) -> Iterator[tuple[int, int]]:
    """The primes of a positive integer, and how often each divides it.

    Cost: 3 to 8 microseconds for extents of arrays, 6 ms from 2**40 on.
    """
    odd = np.arange(3, min(isqrt(value), _LARGEST_PRIME) + 1, 2)
    for number in (2, *odd[value % odd == 0].tolist()):
        times = 0  # of a number that is no prime, since its primes came before
        while value % number == 0:
            value, times = value // number, times + 1
        if times:
            yield number, times
    if value > 1:
        yield value, 1


def _spread(rng: np.random.Generator, largest: Rows) -> Rows:
    """Integers from 1 to each of `largest`, log-uniformly."""
    drawn = np.exp(rng.random(len(largest)) * np.log(largest + 0.999)).astype(np.int64)
    return np.asarray(np.clip(drawn, 1, largest), dtype=np.int64)


def _random_divisor(rng: np.random.Generator, values: Rows, cap: int) -> Rows:
    """A divisor of each value, at most `cap`, uniformly. Cost: one Python step per distinct value, and a look-up per
    value, which for some tens of values takes a fifth of the time of `np.unique`.
    """
    if not len(values):
        return values
    places: dict[int, int] = {}
    place = np.array([places.setdefault(value, len(places)) for value in values.tolist()])
    tables = [_divisors_at_most(value, cap) for value in places]
    counts = np.array([len(table) for table in tables])
    starts = counts.cumsum() - counts
    pick = (rng.random(len(values)) * counts[place]).astype(np.int64)
    return np.asarray(np.concatenate(tables)[starts[place] + pick], dtype=np.int64)


@lru_cache(maxsize=4096)
def _divisors_at_most(value: int, cap: int) -> Rows:
    found = divisors(value)
    return found[found <= cap]


def _divisor_at_most(values: Rows, bound: Rows) -> Rows:
    """The largest divisor of each value that is at most its bound."""
    pairs = zip(values.tolist(), bound.tolist(), strict=True)
    return np.array([_largest_divisor(value, most) for value, most in pairs], dtype=np.int64)


@lru_cache(maxsize=1 << 14)
def _largest_divisor(value: int, most: int) -> int:
    return int(_divisors_at_most(value, most)[-1])

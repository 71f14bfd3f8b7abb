"""Tile sizes whose inner part is a multiple of a number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.ir.integers.affine import const, simplify
from metasched.ir.nodes import Binary, BinOp, Expr
from metasched.ir.printer import print_expr
from metasched.lang.instructions import Decision
from metasched.schedule.distributions.base import Rows
from metasched.schedule.distributions.factors import Factors
from metasched.schedule.distributions.tile import Tile
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

_ANY = np.iinfo(np.int64).max


@dataclass(frozen=True)
class PartitionedTile(Factors):
    """Inner factors of an extent, as of `Tile`, in two partitions: the product of those from `partition` on (the
    outermost factor has number 0) is a multiple of `multiple`.

    Support: divided by their shares of `multiple`, the factors are a tile of `ceildiv(extent, multiple)`. A factor's
    share is its greatest common divisor with the part of `multiple` not in the shares of the factors inside it.

    Prior: that tile from the prior of `Tile`, and each prime factor of `multiple` in one of the inner partition's
    factors, uniformly. (TVM's `SamplePartitionedTile`, where all factors divide the extent.)
    """

    partition: int
    multiple: int

    @property
    def _rest(self) -> Tile:
        """The distribution of the tile of factors without their shares."""
        return Tile(simplify(Binary(BinOp.CEILDIV, self.extent, const(self.multiple))), self.parts, _ANY)

    @property
    def _inner(self) -> range:
        """The columns of the inner partition, innermost first."""
        return range(self.width - 1, self.partition - 2, -1)

    def contains(self, decision: Decision) -> bool:
        rest = self._without_shares(decision)
        return rest is not None and self._rest.contains(rest)

    def conditions(self, decision: Decision) -> Sequence[Expr | bool]:
        rest = self._without_shares(decision)
        return (False,) if rest is None else self._rest.conditions(rest)

    def _without_shares(self, decision: Decision) -> Decision | None:
        """The factors without their shares of `multiple`; None for an invalid decision."""
        if not self.well_formed(decision):
            return None
        row = np.array([self.encode(decision)], dtype=np.int64)
        shares, missing = self._shares(row)
        return None if missing[0] != 1 else self.decode((row // shares)[0])

    def _shares(self, rows: Rows) -> tuple[Rows, Rows]:
        """Each factor's share of `multiple`, and the part of `multiple` in no share."""
        shares = np.ones_like(rows)
        left = np.full(len(rows), self.multiple, dtype=np.int64)
        for column in self._inner:
            shares[:, column] = np.gcd(rows[:, column], left)
            left //= shares[:, column]
        return shares, left

    def _repair_shares(self, rows: Rows) -> tuple[Rows, Rows]:
        """The factors without their shares, and shares repaired so that their product is `multiple`."""
        rows = np.maximum(rows, 1)
        shares, left = self._shares(rows)
        rest = rows // shares
        shares[:, self._inner[-1]] *= left
        return rest, shares

    def support(self) -> str:
        inner = self.parts - self.partition
        what = "the innermost" if inner == 1 else f"the product of the innermost {inner}"
        return (
            f"{counted(self.width, 'inner factor')} of {print_expr(self.extent)}, {what} a multiple of {self.multiple}"
        )

    # --- populations -----------------------------------------------------------------------------------------

    def _extents(self, extents: Rows) -> Rows:
        return np.asarray(-(-extents.astype(np.int64) // self.multiple), dtype=np.int64)

    def _draw_shares(self, rng: np.random.Generator, count: int) -> Rows:
        shares = np.ones((count, self.width), dtype=np.int64)
        columns = np.array(self._inner)
        for prime in _primes(self.multiple):
            shares[np.arange(count), columns[rng.integers(len(columns), size=count)]] *= prime
        return shares

    def sample_rows(self, rng: np.random.Generator, extents: Rows) -> Rows:
        rest = self._rest.sample_rows(rng, self._extents(extents))
        return self.repair_rows(rest * self._draw_shares(rng, len(extents)), extents)

    def repair_rows(self, rows: Rows, extents: Rows) -> Rows:
        """Shares are computed from the products, so clamped factors may have other shares: these are repaired once
        more."""
        left = self._extents(extents)
        while True:
            rest, shares = self._repair_shares(rows)
            repaired = np.asarray(self._rest.repair_rows(rest, left) * shares, dtype=np.int64)
            if (repaired == rows).all():
                return repaired
            rows = repaired

    def mutate_rows(self, rng: np.random.Generator, rows: Rows, extents: Rows) -> Rows:
        """Half of the rows mutate the tile without the shares as `Tile` does, the others redraw the shares of
        `multiple`."""
        rest, shares = self._repair_shares(rows)
        moved = rng.random(len(rows)) < 0.5
        changed = self._rest.mutate_rows(rng, rest, self._extents(extents))
        rest = np.where(moved[:, None], rest, changed)
        shares = np.where(moved[:, None], self._draw_shares(rng, len(rows)), shares)
        return self.repair_rows(rest * shares, extents)


def _primes(value: int) -> tuple[int, ...]:
    """Prime factors of a positive integer, ascending."""
    out, divisor = [], 2
    while value > 1:
        while value % divisor == 0:
            out.append(divisor)
            value //= divisor
        divisor += 1
    return tuple(out)

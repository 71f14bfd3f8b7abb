"""What a round begins with that was looked at before the times of the last batch were known.

So most of the work for a batch is done while the one before it is built. The rows are scored anew once those times are
there, and what is bred from then on goes by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from metasched.search.rounds.population import Keys, Positions, keys
from metasched.search.rounds.round import Described, Round
from metasched.search.space_protocol import Candidate
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class RowsAhead:
    """Rows of a round with `length` observations, and their features, by arm.

    `opened` are the arms whose rows were bred, `drawn` picks among the draws.
    """

    length: int
    described: Mapping[int, Described]
    opened: frozenset[int]
    drawn: tuple[Candidate, ...]


def rows_ahead_of(now: Round, opened: Sequence[int], drawn: Sequence[Candidate], size: int) -> RowsAhead:
    """What is worth keeping of a round: of the `opened` arms the `size` best rows and what was `drawn`, of others all.

    There are few rows of the others.
    """
    arm_of, row_of, _ = now.pool.population(opened, size)
    kept = {n: _positions(now, n, row_of[arm_of == n], drawn) for n in opened if now.pool.has_rows(n)}
    described = {n: now.described_rows(n, kept.get(n)) for n in now.pool.arms if now.pool.has_rows(n)}
    return RowsAhead(len(now.history), described, frozenset(opened), tuple(drawn))


def _positions(now: Round, arm: int, best: Positions, drawn: Sequence[Candidate]) -> Positions:
    rows = now.pool.rows(arm)
    own = [c.row for c in drawn if c.arm == arm]
    picked = np.array(own, np.int64).reshape(len(own), rows.shape[1])
    wanted: Keys = np.concatenate([keys(rows[best]), keys(picked)])
    return np.flatnonzero(np.isin(now.pool.known_keys(arm), wanted))

"""Candidates with tensor instructions: those that scores like, some that they like less, and random ones.

Among random candidates few are as good as what a search proposes, and a model has to rank those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from metasched.cost.features import NAMES
from metasched.cost.learning.trained import read_shipped_model
from metasched.schedule.tensor import intrinsics
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.rounds.population import draw, draw_arms
from metasched.search.space_protocol import Candidate

T = TypeVar("T")

# Structures, and rows of each that are scored; of each random ones.
_STRUCTURES, _ROWS, _RANDOM = 14, 160, 4
# The best by a score, and one of every so many down to a rank.
_BEST, _EVERY, _DEEPEST = 8, 16, 200


def liked_candidates(space: SpaceArms, rng: np.random.Generator) -> list[Candidate]:
    """Candidates of a space that use tensor instructions, those of the installed model, of the roofline and random ones
    in turns; none where the space has none."""
    arms = [n for n in draw_arms(rng, space, _STRUCTURES) if _uses_tensors(space, n)]
    rows = {n: draw(rng, space[n], _ROWS) for n in arms}
    drawn = [Candidate(n, tuple(row)) for n in arms for row in rows[n].tolist()]
    if not drawn:
        return []
    features = np.concatenate([space[n].features(rows[n]) for n in arms])
    scores = (read_shipped_model().log_seconds(features), features[:, NAMES.index("all.total_cycles")])
    by_chance = [Candidate(n, tuple(rows[n][k].tolist())) for k in range(_RANDOM) for n in arms if k < len(rows[n])]
    pools = [[drawn[n] for n in _spread_picks(np.argsort(score, kind="stable").tolist())] for score in scores]
    return list(dict.fromkeys(in_turns([*pools, by_chance])))


def _uses_tensors(space: SpaceArms, arm: int) -> bool:
    trace = str(space[arm].sketch.trace)
    return any(f'"{name}")' in trace for name in intrinsics())


def _spread_picks(order: Sequence[int]) -> list[int]:
    return [int(n) for n in (*order[:_BEST], *order[_BEST:_DEEPEST:_EVERY])]


def in_turns(pools: Sequence[Sequence[T]]) -> list[T]:
    """The first of each pool, then the second of each that has one, and so on."""
    turns = max((len(pool) for pool in pools), default=0)
    return [pool[n] for n in range(turns) for pool in pools if n < len(pool)]

"""A diverse batch by submodular choice, as in AutoTVM (Chen et al. 2018, section 5.2).

Of the best candidates a batch S is taken that maximises the sum of its scores plus a weight times the number of
different components that occur in it: decisions of random variables. The gain of a component falls to nothing once it
is in the batch, so the function is submodular, and choosing greedily is within 1 - 1/e of the best.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from metasched.search.rounds.round import Round
from metasched.search.rounds.selection import SHORTLIST
from metasched.search.space_protocol import Arms, Candidate

# A batch is taken from so many times as many of the best.
CANDIDATES = 2
# What a candidate gains whose components are all new, in units of the spread of scores.
WEIGHT = 0.5


def diverse(now: Round, count: int, taken: Sequence[Candidate]) -> list[Candidate]:
    """Up to `count` more of the round's candidates; twins come last."""
    found, scores = now.pool.shortlist(SHORTLIST) if count > 0 else ([], np.empty(0))
    known = set(taken)
    open_ = [(c, float(score)) for c, score in zip(found, scores, strict=True) if c not in known]
    twins = now.twins([c for c, _ in open_], taken)
    chosen: list[Candidate] = []
    for wanted in (False, True):
        some = [entry for entry, is_twin in zip(open_, twins, strict=True) if is_twin is wanted]
        left = count - len(chosen)
        chosen += _greedy(now.arms, some[: CANDIDATES * left], left, [*taken, *chosen])
    return chosen


def _greedy(
    arms: Arms, candidates: Sequence[tuple[Candidate, float]], count: int, taken: Sequence[Candidate]
) -> list[Candidate]:
    seen = {part for candidate in taken for part in components(arms, candidate)}
    left = {candidate: (score, components(arms, candidate)) for candidate, score in candidates}
    weight = WEIGHT * float(np.std([score for score, _ in left.values()])) if left else 0.0
    chosen: list[Candidate] = []
    while left and len(chosen) < count:
        gains = {c: score + weight * len(parts - seen) / len(parts) for c, (score, parts) in left.items()}
        best = max(gains, key=lambda c: gains[c])
        seen |= left.pop(best)[1]
        chosen.append(best)
    return chosen


def components(arms: Arms, candidate: Candidate) -> frozenset[Hashable]:
    """The structure of a candidate, and what each of its variables is there."""
    groups = arms[candidate.arm].groups
    values = {(candidate.arm, n, tuple(candidate.row[column] for column in group)) for n, group in enumerate(groups)}
    return frozenset([candidate.arm, *values])

"""Markov chains over the rows of some arms, which walk together under a model's score.

A step proposes a change of each chain's row, and every few steps some chains are offered their row in another arm, with
what both have in common kept. A proposal is accepted if it is better, and else with probability exp(difference of
scores / temperature): scores are -log2 of seconds, so at temperature 1 what takes twice as long is accepted in a third
of cases. Whatever is scored is put into the round's pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.search.rounds.population import draw_parents
from metasched.search.rounds.round import Round
from metasched.search.space_protocol import Mask, Rows

# The rows at which chains are, by arm.
Chains = Mapping[int, Rows]
# Their scores.
Scores = Mapping[int, Array]
# Steps after which some chains are offered another arm, and the share of them.
_BETWEEN_JUMPS = 8
_JUMP_SHARE = 0.25


def gather_chains(now: Round, arms: Sequence[int], count: int) -> Chains:
    """Chains at `count` rows of some arms that are in the round's pool, the better rows more often."""
    arm_of, row_of, scores = now.pool.population(arms)
    if not len(scores):
        return {}
    picks = draw_parents(now.rng, scores, count)
    found = {n: now.pool.rows(n)[row_of[picks[arm_of[picks] == n]]] for n in arms}
    return {n: rows for n, rows in found.items() if len(rows)}


def join_chains(some: Chains, others: Chains) -> Chains:
    """All chains of two."""
    both = dict.fromkeys([*some, *others])
    return {n: np.concatenate([chains[n] for chains in (some, others) if n in chains]) for n in both}


def count_chains(chains: Chains) -> int:
    """The number of chains."""
    return sum(len(rows) for rows in chains.values())


def walk_chains(
    now: Round, chains: Chains, temperatures: Iterable[float], is_over: Callable[[int], bool] = lambda step: False
) -> Chains:
    """Chains after a step at each temperature, or after the first step at which `is_over` holds."""
    scores: Scores = now.score(chains)
    for step, temperature in enumerate(temperatures, start=1):
        chains, scores = _step_chains(now, chains, scores, temperature)
        if step % _BETWEEN_JUMPS == 0:
            chains, scores = _jump_chains(now, chains, scores, temperature)
        if is_over(step):
            break
    return chains


def _step_chains(now: Round, chains: Chains, scores: Scores, temperature: float) -> tuple[Chains, Scores]:
    proposed = {n: _change_rows(now, n, rows) for n, rows in chains.items()}
    offered = now.score(proposed)
    moved, reached = {}, {}
    for n, rows in chains.items():
        takes = _accept_moves(now, scores[n], offered[n], temperature)
        moved[n] = np.where(takes[:, None], proposed[n], rows)
        reached[n] = np.where(takes, offered[n], scores[n])
    return moved, reached


def _change_rows(now: Round, arm: int, rows: Rows) -> Rows:
    """Each row with a variable or so changed, or as it is where that is not legal."""
    of_arm = now.arms[arm]
    changed = of_arm.repair(of_arm.mutate(now.rng, rows))
    found: Rows = np.where(of_arm.mask(changed)[:, None], changed, rows)
    return found


def _jump_chains(now: Round, chains: Chains, scores: Scores, temperature: float) -> tuple[Chains, Scores]:
    """Some chains of each arm are offered another arm."""
    arms = list(chains)
    if len(arms) < 2:
        return chains, scores
    shift = int(now.rng.integers(1, len(arms)))
    rows = {n: [chains[n]] for n in arms}
    reached = {n: [scores[n]] for n in arms}
    for n, target in zip(arms, [*arms[shift:], *arms[:shift]], strict=True):
        asked = np.flatnonzero(now.rng.random(len(chains[n])) < _JUMP_SHARE)
        there = now.arms[target].repair(now.arms[target].adopt(now.rng, now.arms[n], chains[n][asked]))
        fits = now.arms[target].mask(there)
        asked, there = asked[fits], there[fits]
        offered = now.score({target: there})[target]
        takes = _accept_moves(now, scores[n][asked], offered, temperature)
        rows[target].append(there[takes])
        reached[target].append(offered[takes])
        rows[n][0] = np.delete(chains[n], asked[takes], axis=0)
        reached[n][0] = np.delete(scores[n], asked[takes])
    left = [n for n in arms if sum(map(len, rows[n]))]
    return {n: np.concatenate(rows[n]) for n in left}, {n: np.concatenate(reached[n]) for n in left}


def _accept_moves(now: Round, before: Array, after: Array, temperature: float) -> Mask:
    takes: Mask = now.rng.random(len(before)) < np.exp(np.minimum((after - before) / max(temperature, 1e-9), 0.0))
    return takes

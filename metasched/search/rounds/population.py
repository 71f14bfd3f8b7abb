"""Array operations on populations: rows of integers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.search.space_protocol import Arm, Arms, Rows

Keys = np.ndarray[Any, np.dtype[np.uint64]]
Positions = np.ndarray[Any, np.dtype[np.int64]]


def keys(rows: Rows) -> Keys:
    """A 64-bit hash of each row; equal rows have equal keys.

    The sum of its numbers times random ones, modulo 2**64: two given rows meet in 1 of some 2**64 draws of these
    (multilinear hashing, Carter and Wegman 1979).
    """
    key: Keys = rows.astype(np.uint64) @ _factors(rows.shape[1])
    return key


@lru_cache(maxsize=64)
def _factors(count: int) -> Keys:
    """Random odd numbers, the same in every process."""
    return np.random.default_rng(0).integers(0, 1 << 64, count, dtype=np.uint64) | np.uint64(1)


def positions_unlike(rows: Rows, known: Keys) -> Positions:
    """The positions of the rows whose keys are not in `known`, each once, in order of first appearance."""
    row_keys = keys(rows)
    _, first = np.unique(row_keys, return_index=True)
    first = np.sort(first)
    if len(known):
        first = first[~np.isin(row_keys[first], known)]
    return first


def distinct(rows: Rows, known: Keys) -> Rows:
    """The rows whose keys are not in `known`, each once, in order of first appearance."""
    fresh: Rows = rows[positions_unlike(rows, known)]
    return fresh


def crossover(rng: np.random.Generator, arm: Arm, a: Rows, b: Rows) -> Rows:
    """Each row of `a` with about half of its random variables taken from the same row of `b`; may need repair."""
    from_b = rng.random((len(a), len(arm.groups))) < 0.5
    child = a.copy()
    for n, group in enumerate(arm.groups):
        for column in group:
            np.copyto(child[:, column], b[:, column], where=from_b[:, n])
    return child


def draw_parents(rng: np.random.Generator, scores: Array, count: int) -> Positions:
    """`count` positions, the better ones more often: by rank, so that the scores' scale does not matter."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    weights = np.exp(-ranks / max(len(scores) / 8, 1.0))
    edges = np.cumsum(weights)
    drawn: Positions = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
    return np.asarray(np.minimum(drawn, len(scores) - 1), dtype=np.int64)


def legal(arm: Arm, rows: Rows) -> Rows:
    """Repaired rows that meet the arm's constraints."""
    rows = arm.repair(rows)
    kept: Rows = rows[arm.mask(rows)]
    return kept


# How often a first population is drawn again while constraints leave too little of it.
REDRAWS = 16


def draw(rng: np.random.Generator, arm: Arm, count: int) -> Rows:
    """Distinct legal rows from the prior: up to `count`, fewer where most of the prior is illegal or it is small."""
    found = np.empty((0, len(arm.columns)), dtype=np.int64)
    for _ in range(REDRAWS):
        found = distinct(np.concatenate([found, legal(arm, arm.sample(rng, count))]), np.empty(0, np.uint64))
        if len(found) >= count // 2:
            break
    return found[:count]


# How many draws of structures are made for each that is wanted, while most of them are known.
STRUCTURE_DRAWS = 4


def draw_arms(rng: np.random.Generator, arms: Arms, count: int) -> list[int]:
    """What is known beforehand, the first structure, and others from the prior: up to `count`, each once."""
    first = arms.first()
    found = dict.fromkeys([*arms.known()[: count - 1], *([] if first is None else [first])])
    for _ in range(STRUCTURE_DRAWS * count):
        if len(found) >= count:
            break
        drawn = arms.draw(rng)
        if drawn is not None:
            found[drawn] = None
    return list(found)

"""Which candidates a model learns from, and on which it is judged then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.yardstick.samples import Samples, join_samples

# Records of its own that a model is given of a task, in the second protocol.
OWN_RECORDS = 64
# The same of a task that has some 80 candidates in all, most of which are to be judged.
FEW_OWN = 32
# On so few candidates nobody is judged: a task whose space holds little else than one code is decided by few pairs.
LEAST_JUDGED = 16


@dataclass(frozen=True)
class Fold:
    """A model learns from `others`, and is judged on all of `judged`: not a task of its family is among the others."""

    family: str
    others: tuple[Samples, ...]
    judged: tuple[Samples, ...]


def folds_by_family(samples: Sequence[Samples], beside: Sequence[Samples] = ()) -> Iterator[Fold]:
    """A fold for each family of operators, in the order that they first come in. Tasks of few candidates only teach,
    and so do those `beside`."""
    for family in dict.fromkeys(one.family for one in samples):
        yield Fold(
            family,
            tuple(one for one in (*beside, *samples) if one.family != family),
            tuple(one for one in judgeable_samples(samples) if one.family == family),
        )


def judgeable_samples(samples: Sequence[Samples]) -> list[Samples]:
    """Tasks that have enough candidates to judge by."""
    return [one for one in samples if len(one) >= LEAST_JUDGED]


def by_task(samples: Sequence[Samples]) -> list[list[Samples]]:
    """The pools of each task, in the order that tasks first come in."""
    found: dict[str, list[Samples]] = {}
    for one in samples:
        found.setdefault(one.task, []).append(one)
    return list(found.values())


def with_own(pools: Sequence[Samples], seed: int, count: int = OWN_RECORDS) -> tuple[Samples, list[Samples]] | None:
    """A task's candidates in two: `count` drawn by the seed from all of its pools, as its own records, and what is left
    of each pool, to be judged.

    None where too few would be left.
    """
    if sum(map(len, pools)) < count + 2 * LEAST_JUDGED:
        return None
    of_pool = np.repeat(np.arange(len(pools)), [len(pool) for pool in pools])
    position = np.concatenate([np.arange(len(pool)) for pool in pools])
    drawn = np.random.default_rng(seed).permutation(len(of_pool))
    own, rest = np.sort(drawn[:count]), np.sort(drawn[count:])
    parts = [pool.take(position[own[of_pool[own] == n]]) for n, pool in enumerate(pools)]
    left = [pool.take(position[rest[of_pool[rest] == n]]) for n, pool in enumerate(pools)]
    return join_samples(parts), judgeable_samples(left)

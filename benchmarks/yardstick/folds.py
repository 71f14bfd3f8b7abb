"""Which candidates a model learns from, and on which it is judged then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.yardstick.samples import Samples

# Records of its own that a model is given of a task, in the second protocol; tasks of fewer others are left out.
OWN = 64
# On so few candidates nobody is judged: a task whose space holds little else than one code is decided by few pairs.
LEAST_JUDGED = 16


@dataclass(frozen=True)
class Fold:
    """A model learns from `others`, and is judged on all of `judged`: not a task of its family is among the others."""

    family: str
    others: tuple[Samples, ...]
    judged: tuple[Samples, ...]


def by_family(samples: Sequence[Samples]) -> Iterator[Fold]:
    """A fold for each family of operators, in the order that they first come in. Tasks of few candidates only teach."""
    for family in dict.fromkeys(one.family for one in samples):
        yield Fold(
            family,
            tuple(one for one in samples if one.family != family),
            tuple(one for one in judgeable(samples) if one.family == family),
        )


def judgeable(samples: Sequence[Samples]) -> list[Samples]:
    """Tasks that have enough candidates to judge by."""
    return [one for one in samples if len(one) >= LEAST_JUDGED]


def with_own(samples: Samples, seed: int, count: int = OWN) -> tuple[Samples, Samples] | None:
    """A task's candidates in two: `count` drawn by the seed, as its own records, and the rest, to be judged.

    None where too few would be left.
    """
    if len(samples) < count + 2 * LEAST_JUDGED:
        return None
    order = np.random.default_rng(seed).permutation(len(samples))
    return samples.at(np.sort(order[:count])), samples.at(np.sort(order[count:]))

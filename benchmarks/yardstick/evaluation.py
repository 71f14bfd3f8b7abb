"""Judging contestants: on families of operators never seen, and with some records of the task itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np

from benchmarks.yardstick.contestants import Contestant, Predict
from benchmarks.yardstick.data import NEAR_BEST, SPACE
from benchmarks.yardstick.folds import FEW_OWN, OWN_RECORDS, Fold, by_task, folds_by_family, judgeable_samples, with_own
from benchmarks.yardstick.samples import Samples
from metasched.cost.learning.ranking import Judgement, judge

POOLS = (SPACE, NEAR_BEST)
CEILING = "second measurement"


class Protocol(Enum):
    """What a contestant may learn from."""

    UNSEEN = "families never seen"
    OWN = "64 own records as well"
    FEW_OWN = "32 own records as well"


# By which tasks are judged of which there are pools of some hundred candidates.
USUAL = (Protocol.UNSEEN, Protocol.OWN)


@dataclass(frozen=True)
class Verdict:
    """A contestant's judgements on the tasks of a pool, the means over seeds, in the order of the tasks.

    `runs` has them for each seed.
    """

    contestant: str
    protocol: Protocol
    pool: str
    seeds: int
    runs: tuple[tuple[Judgement, ...], ...]

    @property
    def tasks(self) -> list[Judgement]:
        return [mean_judgement(of_task) for of_task in zip(*self.runs, strict=True)]


def mean_judgement(found: Sequence[Judgement]) -> Judgement:
    """The mean over seeds of one task; of times, the geometric one."""
    first = found[0]

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values))

    def geometric(values: Sequence[float]) -> float:
        return float(np.exp(np.mean(np.log(values))))

    return Judgement(
        first.task,
        first.suite,
        mean([one.pairs for one in found]),
        mean([one.fast_pairs for one in found]),
        mean([one.recall for one in found]),
        {k: geometric([one.best_of_top[k] for one in found]) for k in first.best_of_top},
        geometric([one.best for one in found]),
        geometric([one.known for one in found]),
        mean([one.bias for one in found]),
        mean([one.spread for one in found]),
    )


def verdicts(
    samples: Sequence[Samples],
    contestant: Contestant,
    seeds: Sequence[int],
    protocols: Sequence[Protocol] = USUAL,
    beside: Sequence[Samples] = (),
) -> Iterator[Verdict]:
    """A verdict for each protocol and pool in which there are tasks.

    Args:
        samples: candidates of all tasks, those of one family to be left out in turns.
        contestant: who is judged.
        seeds: one or more, of which the first is enough where there is no chance.
        protocols: what it may learn from.
        beside: candidates of tasks that teach where the family is another, and are not judged.
    """
    numbers = seeds if contestant.chance else seeds[:1]
    folds = list(folds_by_family(samples, beside))
    for protocol in protocols:
        run = _RUNS[protocol]
        # Which records are its own is chance for everyone.
        runs = [run(folds, contestant, seed) for seed in (numbers if protocol is Protocol.UNSEEN else seeds)]
        for pool in POOLS:
            of_pool = [tuple(judged for place, judged in one if place == pool) for one in runs]
            if of_pool[0]:
                yield Verdict(contestant.name, protocol, pool, len(runs), tuple(of_pool))


def agreement(samples: Sequence[Samples]) -> Iterator[Verdict]:
    """The ceiling: the second measurement, judged by the first."""
    for pool in POOLS:
        of_pool = [one for one in judgeable_samples(samples) if one.pool == pool]
        if of_pool:
            found = tuple(judge(one.task, -one.second, one.second, one.first, suite=one.suite) for one in of_pool)
            yield Verdict(CEILING, Protocol.UNSEEN, pool, 1, (found,))


_Run = list[tuple[str, Judgement]]


def _run_unseen(folds: Sequence[Fold], contestant: Contestant, seed: int) -> _Run:
    found: _Run = []
    for fold in folds:
        predict = contestant.train(fold.others, None, seed)
        found += [(one.pool, judge_samples(one, predict, seed)) for one in fold.judged]
    return found


def _with_own(folds: Sequence[Fold], contestant: Contestant, seed: int, count: int) -> _Run:
    found: _Run = []
    for fold in folds:
        for pools in by_task(fold.judged):
            parts = with_own(pools, seed, count)
            if parts is not None:
                own, rest = parts
                predict = contestant.train(fold.others, own, seed)
                found += [(one.pool, judge_samples(one, predict, seed)) for one in rest]
    return found


_RUNS: dict[Protocol, Callable[[Sequence[Fold], Contestant, int], _Run]] = {
    Protocol.UNSEEN: _run_unseen,
    Protocol.OWN: partial(_with_own, count=OWN_RECORDS),
    Protocol.FEW_OWN: partial(_with_own, count=FEW_OWN),
}


def judge_samples(samples: Samples, predict: Predict, seed: int) -> Judgement:
    """A prediction for some candidates, judged by their times."""
    prediction = predict(samples)
    score, expected = prediction.score, prediction.seconds
    return judge(samples.task, score, expected, samples.seconds, samples.known, seed, samples.suite)

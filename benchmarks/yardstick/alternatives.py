"""Models that were weighed against the package's: they learn from the same times, by the same features, in other ways.

All start from the roofline, and are centred per task, so that what is compared is how they learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.yardstick.contestants import Contestant, Predict, Prediction, times_of, train_model
from benchmarks.yardstick.learning import GROWING, TREES, Read, by_roofline, features_of_package, join_samples
from benchmarks.yardstick.network import Network
from benchmarks.yardstick.samples import Samples
from benchmarks.yardstick.statement_sums import StatementSums, ThroughputSums
from metasched.cost.baseline import analytic_score
from metasched.cost.features import Features
from metasched.cost.learning.lightgbm_package import lightgbm
from metasched.cost.learning.ranking import Array
from metasched.cost.learning.trained import UNTRAINED_MODEL, TrainedModel
from metasched.cost.model import CostModel

# Grades of relevance: the fastest candidates of a task have the highest.
_GRADES = 16


@dataclass(frozen=True)
class JointTrees:
    """One forest on the candidates of all tasks, grown anew for each task, whose own records weigh more."""

    name: str = "joint trees"
    chance: bool = True
    read: Read = features_of_package

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        data = join_samples(others, own)
        if data is None:
            return by_roofline
        given = {**GROWING, "objective": "regression", "seed": seed}
        package = lightgbm()
        rows = package.Dataset(data.rows(self.read), data.left, weight=data.weights, params=given)
        grown = package.train(given, rows, TREES)
        return lambda judged: Prediction(analytic_score(judged.features) - np.asarray(grown.predict(self.read(judged))))


def relation_curves(samples: Samples) -> Features:
    """AutoTVM's relation features alone."""
    return samples.details.curves


def curves_and_features(samples: Samples) -> Features:
    """AutoTVM's relation features beside the package's features."""
    return np.concatenate([samples.features, samples.details.curves], axis=1)


@dataclass(frozen=True)
class RankingTrees:
    """The same trees under a ranking loss: LambdaRank (Burges 2010), a query a task, from the roofline's scores on."""

    name: str = "ranking loss"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        data = join_samples(others, own)
        if data is None:
            return by_roofline
        gains = list(range(_GRADES))
        given = {**GROWING, "objective": "lambdarank", "label_gain": gains, "seed": seed}
        package = lightgbm()
        features = data.rows(features_of_package)
        rows = package.Dataset(
            features,
            np.concatenate([_grades(one.seconds) for one in data.tasks]),
            weight=data.weights,
            group=data.counts,
            init_score=analytic_score(features),
            params=given,
        )
        grown = package.train(given, rows, TREES)
        return lambda judged: Prediction(analytic_score(judged.features) + np.asarray(grown.predict(judged.features)))


def _grades(seconds: Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Grades by rank, the fastest the highest."""
    ranks = np.argsort(np.argsort(-seconds, kind="stable"), kind="stable")
    return ranks * _GRADES // len(seconds)


@dataclass(frozen=True)
class Unadapted:
    """The model of the package without a step for the task's own records: trees of its own alone, on what is left."""

    name: str = "trees with leaves kept"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        general = train_model(tuple(others), seed)

        if own is None:
            return lambda judged: Prediction(-general.log_seconds(judged.features))
        # A roofline that knows what was taught: its residual is what is left.
        own_model, shifted = CostModel(seed), times_of(own)
        own_model.fit(type(shifted)(shifted.features, shifted.seconds / np.exp2(_taught_by(general, shifted.features))))
        return lambda judged: Prediction(own_model.predict(judged.features) - _taught_by(general, judged.features))


def _taught_by(model: TrainedModel, features: Features) -> Array:
    """What a model's forests say beside the roofline, in log2 of a time; shape (n,)."""
    found: Array = model.log_seconds(features) - UNTRAINED_MODEL.log_seconds(features)
    return found


def alternatives() -> list[Contestant]:
    """Everyone."""
    return [
        JointTrees(),
        RankingTrees(),
        Unadapted(),
        JointTrees("relation curves", read=relation_curves),
        JointTrees("joint trees with curves", read=curves_and_features),
        StatementSums(),
        ThroughputSums(),
        Network(),
    ]

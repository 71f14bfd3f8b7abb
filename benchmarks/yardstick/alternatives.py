"""Models that were weighed against the package's: they learn from the same times in other ways.

All start from the roofline, and are centred per task, so that what is compared is how they learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.yardstick.contestants import Contestant, Predict, Prediction, taught, times_of
from benchmarks.yardstick.metrics import Array
from benchmarks.yardstick.samples import Samples
from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, SECOND, Features
from metasched.cost.model import CostModel
from metasched.cost.training import residual
from metasched.cost.trees import lightgbm

# A record of the task's own counts as so many of others.
_OWN_WEIGHT = 10.0
_TREES = 150
_GROWING: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 8,
    "min_data_in_leaf": 20,
    "lambda_l2": 1.0,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "max_bin": 63,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbose": -1,
}
# Grades of relevance: the fastest candidates of a task have the highest.
_GRADES = 16


@dataclass(frozen=True)
class Data:
    """Candidates of several tasks in one array, of `counts` each: features (n, F), what the roofline gets wrong in
    log2, centred per task, and weights, of shape (n,)."""

    features: Features
    left: Array
    weights: Array
    counts: tuple[int, ...]


def together(others: Sequence[Samples], own: Samples | None) -> Data | None:
    """Candidates of the other tasks and of the own one, which weigh more; None where there are none."""
    tasks = [*others, *([] if own is None else [own])]
    if not tasks:
        return None
    left = [residual(times_of(one)) for one in tasks]
    weights = [np.full(len(one), _OWN_WEIGHT if one is own else 1.0) for one in tasks]
    return Data(
        np.concatenate([one.features for one in tasks]),
        np.concatenate([one - one.mean() for one in left]),
        np.concatenate(weights),
        tuple(map(len, tasks)),
    )


@dataclass(frozen=True)
class JointTrees:
    """One forest on the candidates of all tasks, grown anew for each task, whose own records weigh more."""

    name: str = "joint trees"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        data = together(others, own)
        if data is None:
            return _by_roofline
        given = {**_GROWING, "objective": "regression", "seed": seed}
        package = lightgbm()
        rows = package.Dataset(data.features, data.left, weight=data.weights, params=given)
        grown = package.train(given, rows, _TREES)
        return lambda features: Prediction(analytic_score(features) - np.asarray(grown.predict(features)))


@dataclass(frozen=True)
class RankingTrees:
    """The same trees under a ranking loss: LambdaRank (Burges 2010), a query a task, from the roofline's scores on."""

    name: str = "ranking loss"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        data = together(others, own)
        if data is None:
            return _by_roofline
        tasks = [*others, *([] if own is None else [own])]
        gains = list(range(_GRADES))
        given = {**_GROWING, "objective": "lambdarank", "label_gain": gains, "seed": seed}
        package = lightgbm()
        rows = package.Dataset(
            data.features,
            np.concatenate([_grades(one.seconds) for one in tasks]),
            weight=data.weights,
            group=list(data.counts),
            init_score=analytic_score(data.features),
            params=given,
        )
        grown = package.train(given, rows, _TREES)
        return lambda features: Prediction(analytic_score(features) + np.asarray(grown.predict(features)))


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
        general = taught(tuple(others), seed)

        def known(features: Features) -> Array:
            return -general.log_seconds(features)

        if own is None:
            return lambda features: Prediction(known(features))
        # A roofline that knows what was taught: its residual is what is left.
        own_model = CostModel(seed)
        shifted = times_of(own)
        expected = general.forest.predict(shifted.features)
        own_model.fit(type(shifted)(shifted.features, shifted.seconds / np.exp2(expected)))
        return lambda features: Prediction(own_model.predict(features) - general.forest.predict(features))


_SHARED = tuple(feature.name for feature in SECOND)
_STATEMENTS = tuple(tuple(NAMES.index(f"{of}.{name}") for name in _SHARED) for of in ("s0", "s1"))
_ALL_CYCLES = NAMES.index("all.total_cycles")
_OWN_CYCLES = _SHARED.index("cycles")
# A statement takes at most so many times what the roofline says, or that part of it: a factor of two to this power.
_MOST_LOG = 6.0


@dataclass(frozen=True)
class StatementSums:
    """A time that is a sum over statements, of each of which one forest says by how much the roofline is wrong.

    As Ansor's model (Zheng et al., OSDI 2020, section 5.2), for the two heaviest statements, by the features that both
    have; what other statements and starting threads take is as the roofline says.
    """

    name: str = "statement sums"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        data = together(others, own)
        if data is None:
            return _by_roofline
        given = {**_GROWING, "objective": "none", "seed": seed}
        package = lightgbm()
        rows = package.Dataset(_of_statements(data.features), np.zeros(2 * len(data.left)), params=given)
        grown = package.Booster(given, rows)
        for _ in range(_TREES):
            grown.update(fobj=lambda logs, _: _slopes(logs, data))
        return lambda features: Prediction(-np.log2(_seconds(grown.predict(_of_statements(features)), features).sum(0)))


def _of_statements(features: Features) -> Features:
    """Rows of the first statements, then rows of the second ones: (2 * n, shared features)."""
    return np.concatenate([features[:, list(columns)] for columns in _STATEMENTS])


def _seconds(logs: Array, features: Features) -> Array:
    """Cycles of the first statement, the second one and the rest, (3, n)."""
    rough = np.exp2(_of_statements(features)[:, _OWN_CYCLES].astype(np.float64)).reshape(2, -1) - 1.0
    rest = np.maximum(np.exp2(features[:, _ALL_CYCLES].astype(np.float64)) - rough.sum(axis=0), 1.0)
    found: Array = np.concatenate([rough * np.exp2(np.clip(logs, -_MOST_LOG, _MOST_LOG)).reshape(2, -1), rest[None]])
    return found


def _slopes(logs: Array, data: Data) -> tuple[Array, Array]:
    """First and second derivatives of the squared error of log2 of the sums, centred per task, by each statement's."""
    parts = _seconds(logs, data.features)
    total = parts.sum(axis=0)
    error = np.log2(total) + analytic_score(data.features) - data.left
    tasks = np.repeat(np.arange(len(data.counts)), data.counts)
    error = error - (np.bincount(tasks, error) / np.array(data.counts))[tasks]
    shares = parts[:2] / total
    first, second = shares * error * data.weights, np.maximum(shares, 0.01) * data.weights
    return first.reshape(-1), second.reshape(-1)


_HIDDEN = 64
_BATCH = 256
_RATE = 2e-3
_DECAY = 1e-4


@dataclass(frozen=True)
class Network:
    """A network of two hidden layers on standardised features, by Adam (Kingma and Ba 2015)."""

    name: str = "small network"
    chance: bool = True
    steps: int = 1500

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        data = together(others, own)
        if data is None:
            return _by_roofline
        middle, scale = data.features.mean(axis=0), data.features.std(axis=0) + 0.1
        layers = _fitted((data.features - middle) / scale, data.left, data.weights, seed, self.steps)

        def predict(features: Features) -> Prediction:
            inputs = np.clip((features - middle) / scale, -4, 4)
            return Prediction(analytic_score(features) - _forward(layers, inputs)[-1][:, 0])

        return predict


_Layers = list[np.ndarray[Any, np.dtype[np.float32]]]


def _forward(layers: _Layers, inputs: Array) -> list[Array]:
    """The values of every layer; weights and biases alternate in `layers`."""
    values = [np.asarray(inputs, np.float32)]
    for n in range(0, len(layers), 2):
        out = values[-1] @ layers[n] + layers[n + 1]
        values.append(np.maximum(out, 0) if n + 2 < len(layers) else out)
    return values


def _fitted(inputs: Array, target: Array, weights: Array, seed: int, steps: int) -> _Layers:
    rng = np.random.default_rng(seed)
    sizes = (inputs.shape[1], _HIDDEN, _HIDDEN, 1)
    layers: _Layers = []
    for a, b in pairwise(sizes):
        layers += [rng.normal(0, np.sqrt(2 / a), (a, b)).astype(np.float32), np.zeros(b, np.float32)]
    layers[-2] *= 0.1
    first, second = [np.zeros_like(layer) for layer in layers], [np.zeros_like(layer) for layer in layers]
    chances = weights / weights.sum()
    for step in range(1, steps + 1):
        rows = rng.choice(len(inputs), _BATCH, p=chances)
        gradients = _gradients(layers, np.clip(inputs[rows], -4, 4), target[rows])
        rate = _RATE * (1 - step / steps)
        for n, gradient in enumerate(gradients):
            first[n] = 0.9 * first[n] + 0.1 * gradient
            second[n] = 0.999 * second[n] + 0.001 * gradient**2
            move = first[n] / (1 - 0.9**step) / (np.sqrt(second[n] / (1 - 0.999**step)) + 1e-8)
            layers[n] = (layers[n] - rate * (move + _DECAY * layers[n])).astype(np.float32)
    return layers


def _gradients(layers: _Layers, inputs: Array, target: Array) -> _Layers:
    """Of half the mean squared error."""
    values = _forward(layers, inputs)
    error = (values[-1] - target[:, None]) / len(target)
    found: list[Array] = []
    for n in range(len(layers) - 2, -1, -2):
        before = values[n // 2]
        found = [before.T @ error, error.sum(axis=0), *found]
        error = (error @ layers[n].T) * (before > 0)
    return [np.asarray(gradient, np.float32) for gradient in found]


def _by_roofline(features: Features) -> Prediction:
    return Prediction(analytic_score(features))


def alternatives() -> list[Contestant]:
    """Everyone."""
    return [JointTrees(), RankingTrees(), Unadapted(), StatementSums(), Network()]

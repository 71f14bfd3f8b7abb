"""A small network that was weighed against the package's model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.yardstick.contestants import Predict, Prediction
from benchmarks.yardstick.learning import by_roofline, features_of_package, join_samples
from benchmarks.yardstick.samples import Samples
from metasched.cost.baseline import analytic_score
from metasched.cost.learning.ranking import Array

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
        data = join_samples(others, own)
        if data is None:
            return by_roofline
        features = data.rows(features_of_package)
        middle, scale = features.mean(axis=0), features.std(axis=0) + 0.1
        layers = _fit_layers((features - middle) / scale, data.left, data.weights, seed, self.steps)

        def predict(judged: Samples) -> Prediction:
            inputs = np.clip((judged.features - middle) / scale, -4, 4)
            return Prediction(analytic_score(judged.features) - _forward(layers, inputs)[-1][:, 0])

        return predict


_Layers = list[np.ndarray[Any, np.dtype[np.float32]]]


def _forward(layers: _Layers, inputs: Array) -> list[Array]:
    """The values of every layer; weights and biases alternate in `layers`."""
    values = [np.asarray(inputs, np.float32)]
    for n in range(0, len(layers), 2):
        out = values[-1] @ layers[n] + layers[n + 1]
        values.append(np.maximum(out, 0) if n + 2 < len(layers) else out)
    return values


def _fit_layers(inputs: Array, target: Array, weights: Array, seed: int, steps: int) -> _Layers:
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

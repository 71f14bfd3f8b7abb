"""Models whose prediction is a sum over all statements of a program, that were weighed against the package's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.yardstick.contestants import Predict, Prediction
from benchmarks.yardstick.details import CYCLES
from benchmarks.yardstick.learning import GROWING, TREES, Data, by_roofline, join_samples
from benchmarks.yardstick.samples import Samples
from metasched.cost.features import NAMES, Features
from metasched.cost.learning.lightgbm_package import lightgbm
from metasched.cost.learning.ranking import Array

_LAUNCHES = NAMES.index("all.launch_cycles")
# A statement takes at most so many times what the roofline says, or that part of it: a factor of two to this power.
_MOST_LOG = 6.0
# The least second derivative by one statement: trees move those that hardly count, but not far.
_LEAST_CURVATURE = 0.01


@dataclass(frozen=True)
class _Statements:
    """The statements of n candidates, m in all: features (m, F), whose they are (m,), and launches in cycles (n,)."""

    features: Features
    owners: np.ndarray[Any, np.dtype[np.int64]]
    launches: Array

    def sums(self, values: Array) -> Array:
        """The sum of a value of each statement, for every candidate, (n,)."""
        out: Array = np.bincount(self.owners, values, len(self.launches)).astype(np.float64)
        return out

    def cycles(self, logs: Array) -> Array:
        """What the roofline says of every statement, times two to the power of `logs`, (m,)."""
        rough = np.exp2(self.features[:, CYCLES].astype(np.float64)) - 1.0
        out: Array = rough * np.exp2(np.clip(logs, -_MOST_LOG, _MOST_LOG))
        return out


def _statements(tasks: Sequence[Samples]) -> _Statements:
    """Those that run, of all candidates in order."""
    parts, owners, before = [], [], 0
    for one in tasks:
        runs = one.details.statements[:, :, CYCLES] > 0
        parts.append(one.details.statements[runs])
        owners.append(before + np.nonzero(runs)[0])
        before += len(one)
    launches = np.exp2(np.concatenate([one.features[:, _LAUNCHES] for one in tasks]).astype(np.float64))
    return _Statements(np.concatenate(parts), np.concatenate(owners), launches)


@dataclass(frozen=True)
class StatementSums:
    """A time that is a sum over all statements, of each of which one forest says by how much the roofline is wrong.

    What starting threads takes is as the roofline says.
    """

    name: str = "statement sums"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        data = join_samples(others, own)
        if data is None:
            return by_roofline
        statements = _statements(data.tasks)
        measured = np.log2(data.seconds)
        grown = _grow_trees(statements, seed, lambda logs: _slopes_of_logs(logs, statements, data, measured))

        def predict(judged: Samples) -> Prediction:
            found = _statements([judged])
            return Prediction(-np.log2(found.sums(found.cycles(grown(found.features))) + found.launches))

        return predict


@dataclass(frozen=True)
class ThroughputSums:
    """Ansor's model (Zheng et al., OSDI 2020, section 5.2): a program's throughput is a sum of what one forest says of
    each statement.

    Throughput is told over the best of the task, and fast candidates weigh more. The roofline's terms are features.
    """

    name: str = "sums as Ansor's"
    chance: bool = True

    def train(self, others: Sequence[Samples], own: Samples | None, seed: int) -> Predict:
        data = join_samples(others, own)
        if data is None:
            return by_roofline
        statements = _statements(data.tasks)
        throughput = np.concatenate([one.seconds.min() / one.seconds for one in data.tasks])
        weights = data.weights * throughput

        def slopes(scores: Array) -> tuple[Array, Array]:
            error = (statements.sums(scores) - throughput) * weights
            return error[statements.owners], weights[statements.owners]

        grown = _grow_trees(statements, seed, slopes)

        def predict(judged: Samples) -> Prediction:
            found = _statements([judged])
            return Prediction(found.sums(grown(found.features)))

        return predict


Slopes = Callable[[Array], tuple[Array, Array]]


def _grow_trees(statements: _Statements, seed: int, slopes: Slopes) -> Callable[[Features], Array]:
    """Trees for statements, by the first and second derivatives of a loss by what they say of each, (m,)."""
    given = {**GROWING, "objective": "none", "seed": seed}
    package = lightgbm()
    rows = package.Dataset(statements.features, np.zeros(len(statements.owners)), params=given)
    grown = package.Booster(given, rows)
    for _ in range(TREES):
        grown.update(fobj=lambda said, _: slopes(said))
    return lambda features: np.asarray(grown.predict(features))


def _slopes_of_logs(logs: Array, statements: _Statements, data: Data, measured: Array) -> tuple[Array, Array]:
    """Of the squared error of log2 of the sums, centred per task."""
    parts = statements.cycles(logs)
    total = statements.sums(parts) + statements.launches
    error = data.centre(np.log2(total) - measured)
    shares = parts / total[statements.owners]
    weights = data.weights[statements.owners]
    return shares * error[statements.owners] * weights, np.maximum(shares, _LEAST_CURVATURE) * weights

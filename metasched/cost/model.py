"""The learned cost model: LightGBM on top of a hand-made roofline.

Throughput is normalised per task: the best time over a candidate's time, so that 1 is the fastest seen and a failure
is 0. Training minimises the squared error weighted by throughput, as Ansor does (Zheng et al., OSDI 2020): what
is fast has to be ranked right, how slow the slow ones are matters little.

With few measurements trees alone know nothing, so they start from the roofline's efficiency, calibrated to the data
(`Calibration`), and learn what it gets wrong.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from metasched.cost.baseline import analytic_efficiency
from metasched.cost.features import NAMES, Features
from metasched.cost.footprint import Array
from metasched.cost.trees import lightgbm
from metasched.errors import MetaschedError

if TYPE_CHECKING:
    from lightgbm import Booster

TREES = 80
# Of more measurements the model is trained on the fastest half of so many, and on others of all kinds: training on a
# hundred thousand takes ten seconds, for each batch.
MOST_ROWS = 16_384
FORMAT = 1


class ModelError(MetaschedError):
    """A saved model that cannot be used here; the message says why."""


class Model(Protocol):
    """Scores candidates; higher is faster."""

    def fit(self, features: Features, throughput: Array) -> None: ...
    def predict(self, features: Features) -> Array: ...


@dataclass(frozen=True)
class Calibration:
    """Expected throughput = 2 ** (offset + slope * log2(efficiency)).

    It may exceed 1: a search looks for what is better than anything seen, and trees cannot extrapolate.
    Fitted by least squares on the valid measurements, with a prior of slope 1 worth `PRIOR` of them, so that two
    noisy points do not turn the roofline upside down.
    """

    offset: float = 0.0
    slope: float = 1.0

    def __call__(self, features: Features) -> Array:
        expected: Array = np.exp2(self.offset + self.slope * _log_efficiency(features))
        return expected


PRIOR = 4.0


def _log_efficiency(features: Features) -> Array:
    logs: Array = np.log2(np.maximum(analytic_efficiency(features), 1e-6))
    return logs


def calibrate(features: Features, throughput: Array) -> Calibration:
    """The calibration of the roofline to measurements; the prior alone where none is valid."""
    valid = throughput > 0
    if not valid.any():
        return Calibration()
    x, y = _log_efficiency(features[valid]), np.log2(throughput[valid])
    weight = throughput[valid]
    total = weight.sum()
    x_mean, y_mean = (weight * x).sum() / total, (weight * y).sum() / total
    covariance = (weight * (x - x_mean) * (y - y_mean)).sum() + PRIOR
    variance = (weight * (x - x_mean) ** 2).sum() + PRIOR
    slope = float(np.clip(covariance / variance, 0.0, 2.0))
    return Calibration(float(y_mean - slope * x_mean), slope)


def spread_rows(throughput: Array, count: int) -> npt.NDArray[np.int64]:
    """Positions of `count` measurements: the fastest, as half of them, and every so many of the others by rank."""
    ranked = np.argsort(-throughput, kind="stable")
    fastest = count // 2
    others = np.linspace(fastest, len(ranked) - 1, count - fastest).astype(np.int64)
    return np.sort(np.concatenate([ranked[:fastest], ranked[others]]))


class CostModel:
    """Predicts normalised throughput from features.

    Args:
        seed: of LightGBM's feature sampling. Equal seeds and data give equal models, whatever `threads` is.
        threads: that LightGBM may use. None of them runs between calls.
    """

    def __init__(self, seed: int = 0, threads: int = 1) -> None:
        self.seed = seed
        self.threads = threads
        self._calibration = Calibration()
        self._trees: Booster | None = None

    @property
    def trained(self) -> bool:
        return self._trees is not None

    def fit(self, features: Features, throughput: Array) -> None:
        """Train from scratch.

        Args:
            features: float32 of shape (n, F).
            throughput: shape (n,), in [0, 1]: best time of the task over this time, 0 for a failure.
        """
        if features.shape != (len(throughput), len(NAMES)):
            raise ValueError(f"features of shape {features.shape} do not go with {len(throughput)} throughputs")
        if len(throughput) == 0:
            self._calibration, self._trees = Calibration(), None
            return
        target = np.ascontiguousarray(throughput, dtype=np.float64)
        if len(target) > MOST_ROWS:
            rows = spread_rows(target, MOST_ROWS)
            features, target = features[rows], target[rows]
        self._calibration = calibrate(features, target)
        package = lightgbm()
        data = package.Dataset(
            np.ascontiguousarray(features),
            target,
            weight=np.maximum(target, 0.1),
            init_score=self._calibration(features),
            params=self._parameters(len(target)),
        )
        self._trees = package.train(self._parameters(len(target)), data, TREES)

    def _parameters(self, samples: int) -> dict[str, Any]:
        return {
            "objective": "regression",
            "boost_from_average": False,
            "learning_rate": 0.1,
            "num_leaves": int(np.clip(samples // 4, 2, 15)),
            "min_data_in_leaf": 1 if samples < 32 else 3,
            "min_sum_hessian_in_leaf": 1e-3,
            "lambda_l2": 0.1,
            "feature_fraction": 0.5,
            "max_bin": 63,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": self.threads,
            "seed": self.seed,
            "verbose": -1,
        }

    def predict(self, features: Features) -> Array:
        """Expected normalised throughput, shape (n,). Untrained: the roofline's efficiency."""
        expected = self._calibration(features)
        if self._trees is None or len(features) == 0:
            return expected
        learned: Array = np.asarray(self._trees.predict(features, num_threads=self.threads))
        return expected + learned

    def save(self, path: Path) -> None:
        """Write the model as text."""
        path.write_text(self.dumps(), encoding="utf-8")

    def dumps(self) -> str:
        state = {
            "format": FORMAT,
            "features": list(NAMES),
            "seed": self.seed,
            "calibration": asdict(self._calibration),
            "trees": None if self._trees is None else self._trees.model_to_string(),
        }
        return json.dumps(state, indent=1)

    @classmethod
    def load(cls, path: Path, threads: int = 1) -> CostModel:
        """Read a model that `save` wrote. Raises `ModelError` when it is for other features."""
        return cls.loads(path.read_text(encoding="utf-8"), threads)

    @classmethod
    def loads(cls, text: str, threads: int = 1) -> CostModel:
        try:
            state = json.loads(text)
            known = state["format"] == FORMAT and state["features"] == list(NAMES)
        except (ValueError, KeyError, TypeError) as error:
            raise ModelError(f"not a saved cost model: {error}. Hint: train it again from the database") from error
        if not known:
            raise ModelError("this model was trained on other features. Hint: train it again from the database")
        model = cls(int(state["seed"]), threads)
        model._calibration = Calibration(**state["calibration"])
        if state["trees"] is not None:
            model._trees = lightgbm().Booster(model_str=state["trees"])
        return model

"""A trained model: how much longer candidates take than the hand-made roofline says, learned from many tasks.

It is kept as text, which names the features that it was trained on, and predicts without LightGBM.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from metasched.cost.baseline import analytic_score
from metasched.cost.features import NAMES, Features
from metasched.cost.footprint import Array
from metasched.cost.forest import Forest, Tree
from metasched.errors import MetaschedError

FORMAT = 2
SHIPPED = Path(__file__).parent / "trained.json"
HINT = "Hint: train it again, with `python -m benchmarks.yardstick.train`"


class ModelError(MetaschedError):
    """A saved model that cannot be used here; the message says why."""


@dataclass(frozen=True)
class TrainedModel:
    """A forest for log2 of the time over the roofline's, up to a constant of each task.

    `offset` is log2 of the seconds that a cycle of the roofline takes, the median over tasks.
    """

    forest: Forest
    offset: float = 0.0

    def log_seconds(self, features: Features, values: Array | None = None) -> Array:
        """log2 of the seconds expected, shape (n,), of float32 (n, F); `values` may stand for those of the leaves."""
        return self.offset - analytic_score(features) + self.forest.predict(features, values)

    def dumps(self) -> str:
        """The model as text: JSON, a tree a line, features by their names."""
        used = sorted({feature for tree in self.forest.trees for feature, _, _ in tree.nodes})
        place = {feature: n for n, feature in enumerate(used)}
        head = {"format": FORMAT, "offset": self.offset, "features": [NAMES[feature] for feature in used]}
        trees = [
            json.dumps([[[place[f], float(str(above)), left] for f, above, left in tree.nodes], list(tree.values)])
            for tree in self.forest.trees
        ]
        return json.dumps(head)[:-1] + ', "trees": [\n' + ",\n".join(trees) + "\n]}\n"

    @classmethod
    def loads(cls, text: str) -> TrainedModel:
        """A model from text. Raises ModelError for a text that is no model, and for features that no longer are."""
        try:
            state: dict[str, Any] = json.loads(text)
            if state["format"] != FORMAT:
                raise ModelError(f"this model has format {state['format']}, and {FORMAT} is read. {HINT}")
            missing = [name for name in state["features"] if name not in NAMES]
            if missing:
                raise ModelError(f"this model was trained on a feature `{missing[0]}`, which is not there. {HINT}")
            places = [NAMES.index(name) for name in state["features"]]
            trees = tuple(
                Tree(
                    tuple((places[f], np.float32(above), int(left)) for f, above, left in nodes),
                    tuple(map(float, values)),
                )
                for nodes, values in state["trees"]
            )
            return cls(Forest(trees), float(state["offset"]))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise ModelError(f"not a saved cost model: {error!r}. {HINT}") from error


UNTRAINED = TrainedModel(Forest(()), -float(np.log2(3e9)))


@cache
def shipped() -> TrainedModel:
    """The model that is installed with the package."""
    return TrainedModel.loads(SHIPPED.read_text(encoding="utf-8"))

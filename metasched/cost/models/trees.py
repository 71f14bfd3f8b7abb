"""The model `trees`: what the installed trees have learned from many tasks, adapted to the task's own times."""

from __future__ import annotations

from metasched.cost.learning.trained import read_shipped_model
from metasched.cost.model import CostModel, Model


def model(seed: int) -> Model:
    """A model `trees` that knows nothing of the task yet, and uses one thread.

    Raises ModelError where what is installed does not go with the features.
    """
    return CostModel(seed, read_shipped_model(), threads=1)

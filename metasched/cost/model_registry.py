"""Cost models by name, a file each in `models/`, and those that users have trained, by the path of their text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from metasched.cost.learning.trained import read_model
from metasched.cost.model import CostModel, Model
from metasched.errors import MetaschedError
from metasched.support.registry import Product, Registry, checked_function

DEFAULT_MODEL = "trees"

# Makes a model, untrained, from a seed.
MakeModel = Callable[[int], Model]


def _require_model(value: object) -> MakeModel:
    return checked_function(value, "a seed", "a seed")


MODELS = Registry(
    None,
    "model",
    _require_model,
    MetaschedError,
    package="metasched.cost.models",
    attribute="model",
    product=Product("a seed", ("fit", "predict"), "return an object with `fit(own)` and `predict(features)`"),
)


def model_of(given: str | MakeModel) -> MakeModel:
    """What makes the model of a name, that which starts from a file of `metasched model train`, or what is given.

    Raises MetaschedError for a name that is not there and for what is no function, ModelError for a file that is no
    model.
    """
    if not isinstance(given, str):
        return MODELS.resolve(given, "a file is named by a text, its path")
    if given in MODELS.names():
        return MODELS.get(given)
    path = Path(given)
    if path.is_file():
        trained = read_model(path)
        return lambda seed: CostModel(seed, trained)
    if path.suffix or len(path.parts) > 1:
        raise MetaschedError(f"there is no file `{given}`", hint=f"`metasched model train --out {given}` writes one")
    return MODELS.get(given)

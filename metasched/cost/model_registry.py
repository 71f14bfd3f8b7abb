"""Cost models by name: a file each in `models/`."""

from __future__ import annotations

from collections.abc import Callable

from metasched.cost.model import Model
from metasched.errors import MetaschedError
from metasched.support.registry import Registry, UnfitError

DEFAULT_MODEL = "trees"

# Makes a model, untrained, from a seed.
MakeModel = Callable[[int], Model]


def _checked(value: object) -> MakeModel:
    if not callable(value):
        raise UnfitError(f"it is {value!r}, and not a function of a seed")
    make: MakeModel = value
    return make


MODELS = Registry(None, "model", _checked, MetaschedError, "metasched.cost.models", "model")


def model_of(given: str | MakeModel) -> MakeModel:
    """What makes the model of a name, or what is given. Raises MetaschedError for a name that is not there."""
    return MODELS.get(given) if isinstance(given, str) else given

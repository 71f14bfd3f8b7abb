"""A feature is declared in one place, with the function that computes it, and the declaration is checked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from metasched.cost import features as all_features
from metasched.cost.feature import Feature, features
from metasched.cost.features import NAMES
from metasched.cost.groups import GROUPS, STATEMENT_FEATURES

SNAPSHOT = Path(__file__).parent / "feature_names.json"


def test_names_and_their_order_are_those_of_models_that_were_saved() -> None:
    """A model takes features by their places: adding one makes models anew, moving one must not happen by chance."""
    assert list(NAMES) == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


def test_what_is_given_as_it_is() -> None:
    raw = {name for name, log in zip(NAMES, all_features._HAS_LOG, strict=True) if not log}
    assert raw == {
        *(f"s0.{f.name}" for f in STATEMENT_FEATURES if f.raw),
        *(f"s1.{f.name}" for f in STATEMENT_FEATURES if f.raw and f.second),
        *("all.efficiency", "all.serial_share"),
    }
    assert {"s0.waste", "s1.waste", "s0.imbalance"} <= raw


def test_a_feature_is_its_group_s_declaration() -> None:
    @features("size", Feature("share", raw=True, second=True))
    def made(view: float) -> dict[str, np.ndarray]:
        return {"size": np.array([view]), "share": np.array([1 / view])}

    assert made.names == ("size", "share")
    assert made.features[1].second
    assert made(2.0)["share"] == [0.5]


def test_what_is_computed_is_what_is_declared() -> None:
    @features("size", "share")
    def lacking(view: float) -> dict[str, np.ndarray]:
        return {"size": np.array([view]), "sahre": np.array([view])}

    with pytest.raises(TypeError, match="features of `lacking`: sahre, share differs from what is declared"):
        lacking(1.0)

    @features("size", "share")
    def swapped(view: float) -> dict[str, np.ndarray]:
        return {"share": np.array([view]), "size": np.array([view])}

    with pytest.raises(TypeError, match="features of `swapped`: the order differs from what is declared"):
        swapped(1.0)


def test_a_feature_is_declared_once() -> None:
    with pytest.raises(TypeError, match="feature `size` is declared twice"):
        features("size", "size")(lambda view: {})
    names = [feature.name for group in GROUPS for feature in group.features]
    assert len(set(names)) == len(names) == len(STATEMENT_FEATURES)

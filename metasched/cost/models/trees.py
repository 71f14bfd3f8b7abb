"""The model `trees`: LightGBM, which learns what the roofline gets wrong."""

from __future__ import annotations

from metasched.cost.model import CostModel, Model


def model(seed: int) -> Model:
    """An untrained one, that uses one thread."""
    return CostModel(seed, threads=1)

"""Scores that need no measurement."""

from __future__ import annotations

import numpy as np

from metasched.cost.estimate.footprint import Array
from metasched.cost.features import NAMES, Features

_CYCLES_COLUMN = NAMES.index("all.total_cycles")
_STATEMENTS, _MAIN = NAMES.index("all.cycles"), NAMES.index("s0.cycles")


def analytic_score(features: Features) -> Array:
    """Higher is faster: minus log2 of the cycles that the hand-made roofline expects, float64 of shape (n,)."""
    return -features[:, _CYCLES_COLUMN].astype(np.float64)


def share_beside(features: Features) -> Array:
    """The share of the cycles of all statements that are not those of the one with most work, float64 of shape (n,)."""
    main, statements = (features[:, n].astype(np.float64) for n in (_MAIN, _STATEMENTS))
    share: Array = 1.0 - np.exp2(main - statements)
    return share

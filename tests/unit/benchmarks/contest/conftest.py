"""A small table that was made up: two structures of the same decisions but one, and one that is farther away."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from benchmarks.contest.described import Structure, Table
from metasched.cost.features import NAMES
from metasched.lang import parse_program

PROGRAM = """program product(A: f32[24, 40], B: f32[40, 64]) -> C: f32[24, 64]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""
TILES = (1, 2, 3, 4, 6, 8, 12, 24)


def structure(decisions: Mapping[str, str], slower: float, variables: tuple[str, ...] = ("i", "j")) -> Structure:
    """A row for each pair of tiles, of which the last columns came from the prior; wide tiles are fast."""
    rows = np.array([(i, j) for i in TILES for j in TILES])
    features = np.zeros((len(rows), len(NAMES)), np.float32)
    # Cycles as the roofline tells them, by which an untrained model ranks; it errs a little.
    features[:, :2] = rows
    features[:, NAMES.index("all.total_cycles")] = np.log2(1e6 * slower / (rows[:, 0] ** 0.5 * rows[:, 1]))
    return Structure(
        dict(decisions),
        tuple(variables),
        {name: (n,) for n, name in enumerate(variables)},
        rows,
        slower * 1e-3 / (rows[:, 0] * rows[:, 1]),
        features,
        rows[:, 1] <= 4,
    )


@pytest.fixture
def table() -> Table:
    made = (
        structure({"fusion": "none", "order": "rows"}, 1.0),
        structure({"fusion": "cache", "order": "rows"}, 2.0, ("i", "k")),
        structure({"fusion": "late", "order": "columns", "pack": "all"}, 3.0),
    )
    return Table("made up", parse_program(PROGRAM), made)

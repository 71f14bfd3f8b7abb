"""The statements of a program over a population, each with what those before it have left in the caches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.cost.core import Core
from metasched.cost.estimate.caches import capacities
from metasched.cost.estimate.footprint import Sizes
from metasched.cost.estimate.statement import StatementView
from metasched.cost.program.earlier_uses import EarlierUse
from metasched.cost.program.nest import Nest
from metasched.target import CACHE_LINE, Target


def views_of(nest: Nest, sizes: Sizes, rows: int, target: Target, core: Core) -> list[StatementView]:
    """One view of each statement, in order. `sizes` are float32 of shape (rows,), or numbers, by slot."""
    views: list[StatementView] = []
    for statement, uses in zip(nest.statements, nest.earlier_uses, strict=True):
        view = StatementView(statement, sizes, rows, target, core)
        views.append(view)
        for use in uses:
            _subtract_reuse(use, views, capacities(target, core))
            if views[use.earlier].statement.accesses[use.used].is_store:
                view.handed_on.append((use.read, use.levels[-1][1]))
    return views


def _subtract_reuse(use: EarlierUse, views: Sequence[StatementView], sizes: Sequence[float]) -> None:
    """Bring a read into a cache of some size less often: once less for each iteration of the loops around both, where
    what the statements touch in one fits.

    Of what is read there is as much as the earlier statement touched, if that was less.
    """
    (_, theirs), (_, own) = use.levels[0], use.levels[-1]
    view, footprint = views[-1], views[-1].footprints[use.read]
    touched = footprint.lines[own]
    shared = np.minimum(views[use.earlier].footprints[use.used].lines[theirs], touched)
    between = sum((views[n].working_set[level] for n, level in use.levels), -CACHE_LINE * shared)
    for cache, size in enumerate(sizes):
        moved = view.traffic[cache][use.read]
        view.traffic[cache][use.read] = np.where(
            between <= size, moved * (1.0 - shared / np.maximum(touched, 1.0)), moved
        )

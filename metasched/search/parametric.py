"""A parametric program as an arm: its random variables give rows, its constraints a mask, its features scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasched.cost.features import FeatureProgram, Features
from metasched.cost.machine import Machine
from metasched.ir.evaluate import Evaluator
from metasched.ir.nodes import Expr, Func
from metasched.schedule.distributions.base import NumericDistribution
from metasched.search.space_protocol import Mask, Rows


@dataclass(frozen=True)
class Variable:
    """A numeric random variable left free: its columns, by name, in the order its distribution has them."""

    dist: NumericDistribution
    columns: tuple[str, ...]


class ParametricArm:
    """An `Arm` over a symbolic program.

    Args:
        func: the program; its free variables are the columns of `variables`.
        variables: in the order they are drawn; the support of one may depend on the columns of those before it.
        constraints: conditions over the columns that a legal row meets.
        target: what features judge by.
    """

    def __init__(self, func: Func, variables: Sequence[Variable], constraints: Sequence[Expr], target: Machine) -> None:
        self.variables = tuple(variables)
        self._columns = tuple(name for variable in self.variables for name in variable.columns)
        at = {name: n for n, name in enumerate(self._columns)}
        self._groups = tuple(tuple(at[name] for name in variable.columns) for variable in self.variables)
        self._at = [np.array(group, dtype=np.int64) for group in self._groups]
        self._extents = [Evaluator([variable.dist.extent]) for variable in self.variables]
        self._constraints = Evaluator(constraints)
        self._features = FeatureProgram(func, self._columns, target)

    @property
    def columns(self) -> tuple[str, ...]:
        return self._columns

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return self._groups

    @property
    def fallbacks(self) -> int:
        """See `FeatureProgram.fallbacks`."""
        return self._features.fallbacks

    def sample(self, rng: np.random.Generator, count: int) -> Rows:
        rows = np.ones((count, len(self._columns)), dtype=np.int64)
        for n, group in enumerate(self._at):
            rows[:, group] = self.variables[n].dist.sample_rows(rng, self._extent(n, rows))
        return rows

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        """One variable of each row takes another value of its support."""
        out = rows.copy()
        if not self.variables:
            return out
        chosen = rng.integers(len(self.variables), size=len(rows))
        for n, group in enumerate(self._at):
            here = np.flatnonzero(chosen == n)
            if len(here):
                part = rows[here]
                changed = self.variables[n].dist.mutate_rows(rng, part[:, group], self._extent(n, part))
                out[np.ix_(here, group)] = changed
        return out

    def repair(self, rows: Rows) -> Rows:
        out = rows.copy()
        for n, group in enumerate(self._at):
            out[:, group] = self.variables[n].dist.repair_rows(out[:, group], self._extent(n, out))
        return out

    def mask(self, rows: Rows) -> Mask:
        legal = np.ones(len(rows), dtype=np.bool_)
        for holds in self._constraints(self._env(rows)):
            legal &= np.asarray(holds, dtype=np.bool_)
        return legal

    def features(self, rows: Rows) -> Features:
        return self._features(rows)

    def _env(self, rows: Rows) -> dict[str, Any]:
        return {name: np.ascontiguousarray(rows[:, n]) for n, name in enumerate(self._columns)}

    def _extent(self, variable: int, rows: Rows) -> Rows:
        """What a variable's support depends on, for each row; columns drawn later do not enter it."""
        (extent,) = self._extents[variable](self._env(rows))
        return np.ascontiguousarray(np.broadcast_to(np.asarray(extent, dtype=np.int64), (len(rows),)))

"""A sketch in the form that searches use: rows and their features."""

from __future__ import annotations

import numpy as np

from metasched.cost.core import Core
from metasched.cost.features import FeatureProgram, Features
from metasched.cost.program.nest import Analyses
from metasched.lang.decisions import decision_text
from metasched.search.arms.recent_features import RecentFeatures
from metasched.search.space_protocol import Mask, Rows
from metasched.space.sketch import Sketch
from metasched.support.cached import cached_property
from metasched.target import Target


class SketchArm:
    """A sketch with its features on a target, whose analysis is made at first use, with what is known from `analyses`
    of other sketches. Those of rows that were asked for lately are `recent`."""

    def __init__(
        self,
        sketch: Sketch,
        target: Target,
        core: Core,
        analyses: Analyses | None = None,
        recent: RecentFeatures | None = None,
    ) -> None:
        self.sketch = sketch
        self._analyses = analyses
        self._recent = RecentFeatures() if recent is None else recent
        self._target = target
        self._core = core
        self._is_met = False
        self._refused: Rows | None = None

    @cached_property
    def name(self) -> str:
        taken = self.sketch.structure.items()
        return ", ".join(f"{address} := {decision_text(decision)}" for address, decision in taken)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.sketch.columns

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return self.sketch.groups

    @cached_property
    def feature_program(self) -> FeatureProgram:
        return FeatureProgram(self.sketch.func, self.sketch.columns, self._target, self._core, self._analyses)

    def sample(self, rng: np.random.Generator, count: int) -> Rows:
        return self.sketch.sample(rng, count)

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        return self.sketch.mutate(rng, rows)

    def repair(self, rows: Rows) -> Rows:
        return self.sketch.repair(rows)

    def mask(self, rows: Rows) -> Mask:
        found = self.sketch.mask(rows)
        if not self._is_met and len(rows):
            self._is_met = bool(found.any())
            self._refused = None if self._is_met else rows
        return found

    @property
    def unmet_constraints(self) -> tuple[str, ...]:
        """The constraints that none of the rows asked for so far meets, where no row is in the space."""
        return () if self._refused is None else self.sketch.unmet(self._refused)

    def features(self, rows: Rows) -> Features:
        """Float32 of shape (n, F), which is not to be changed."""
        return self._recent.get_or_compute(self, rows, self.feature_program)

    def adopt(self, rng: np.random.Generator, other: SketchArm, rows: Rows) -> Rows:
        """Numbers are kept by address."""
        return self.sketch.adopt(rng, other.sketch, rows)

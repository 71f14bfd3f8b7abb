"""A `Space` in the form that searches use: an arm for each variant of each sketch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.features import FeatureProgram, Features
from metasched.schedule.trace_outline import Outline, outline_of
from metasched.search.locator import Locator
from metasched.search.space_protocol import Candidate, Mask, Rows
from metasched.space.sketch import Sketch
from metasched.space.space import Space
from metasched.target import Target

# The most arms in all, and the arms of each sketch, if it has so many variants. An arm takes about 0.1 s to make, so
# only a sample of the sketches of a larger space is searched.
MAX_ARMS = 24
MAX_VARIANTS = 6


class SketchArm:
    """A sketch with its features on a target, whose analysis is made at first use."""

    def __init__(self, sketch: Sketch, target: Target, core: Core) -> None:
        self.sketch = sketch
        self._target = target
        self._core = core

    @property
    def columns(self) -> tuple[str, ...]:
        return self.sketch.columns

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return self.sketch.groups

    @cached_property
    def feature_program(self) -> FeatureProgram:
        return FeatureProgram(self.sketch.func, self.sketch.columns, self._target, self._core)

    def sample(self, rng: np.random.Generator, count: int) -> Rows:
        return self.sketch.sample(rng, count)

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        return self.sketch.mutate(rng, rows)

    def repair(self, rows: Rows) -> Rows:
        return self.sketch.repair(rows)

    def mask(self, rows: Rows) -> Mask:
        return self.sketch.mask(rows)

    def features(self, rows: Rows) -> Features:
        return self.feature_program(rows)


class SpaceArms:
    """The `SearchSpace` of a `Space`, which should have been made with `max_sketches=MAX_ARMS`.

    Features are those of the `target`, by the constants of its `core`.
    """

    def __init__(self, space: Space, target: Target, core: Core = DEFAULT_CORE) -> None:
        share = min(MAX_VARIANTS, max(1, MAX_ARMS // len(space)))
        self._arms = [SketchArm(sketch, target, core) for n in range(len(space)) for sketch in space.variants(n, share)]

    @property
    def arms(self) -> Sequence[SketchArm]:
        return self._arms

    def trace(self, candidate: Candidate) -> str:
        return str(self._arms[candidate.arm].sketch.trace_of(candidate.row))

    def locate(self, trace: str) -> Candidate | None:
        return self.locate_all([outline_of(trace)])[0]

    def locate_all(self, outlines: Sequence[Outline]) -> list[Candidate | None]:
        return self._locator.candidates(outlines)

    @cached_property
    def _locator(self) -> Locator:
        return Locator([arm.sketch for arm in self._arms])

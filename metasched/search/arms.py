"""A `Space` in the form that searches use: an arm for each variant of each sketch, and for what is known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from metasched.cost.core import DEFAULT_CORE, Core
from metasched.knowledge.library import NO_KNOWLEDGE, Knowledge
from metasched.schedule.trace_outline import Outline, outline_of
from metasched.search.carried import Carried, carried_into
from metasched.search.locator import Locator
from metasched.search.sketch_arm import SketchArm
from metasched.search.space_protocol import Candidate
from metasched.space.space import Space
from metasched.target import Target

# The most arms in all, and the arms of each sketch, if it has so many variants. An arm takes about 0.1 s to make, so
# only a sample of the sketches of a larger space is searched.
MAX_ARMS = 24
MAX_VARIANTS = 6


class SpaceArms:
    """The `SearchSpace` of a `Space`, which should have been made with `max_sketches=MAX_ARMS`.

    Features are those of the `target`, by the constants of its `core`.
    """

    def __init__(
        self, space: Space, target: Target, core: Core = DEFAULT_CORE, knowledge: Knowledge = NO_KNOWLEDGE
    ) -> None:
        self._space = space
        self._target = target
        self._core = core
        self._knowledge = knowledge

    @cached_property
    def carried(self) -> Sequence[Carried]:
        """What is known of similar programs, carried over to this space, the most promising first."""
        return carried_into(self._space, self._knowledge, self._target, self._core)

    @cached_property
    def _arms(self) -> list[SketchArm]:
        """Those of the sketches, and those of what is known of similar programs where the sketches are a sample."""
        space = self._space
        share = min(MAX_VARIANTS, max(1, MAX_ARMS // len(space)))
        sketches = [sketch for n in range(len(space)) for sketch in space.variants(n, share)]
        for found in self.carried:
            if all(found.sketch.trace != sketch.trace for sketch in sketches):
                sketches.append(found.sketch)
        return [SketchArm(sketch, self._target, self._core) for sketch in sketches]

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

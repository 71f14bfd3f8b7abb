"""A `Space` in the form that searches use: its structures are arms, made on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.program.nest import Analyses
from metasched.errors import ScheduleError
from metasched.ir.program import Program
from metasched.knowledge.library import NO_KNOWLEDGE, Knowledge
from metasched.lang.instructions import Decision
from metasched.schedule.trace import Trace
from metasched.schedule.trace_outline import Outline, outline_of
from metasched.search.arms.locator import Locator
from metasched.search.arms.recent_features import RecentFeatures
from metasched.search.arms.sketch_arm import SketchArm
from metasched.search.arms.transferred import ENOUGH_STRUCTURES, TransferResult, transferred_into
from metasched.search.space_protocol import Candidate, StructuralChoice, TextOf
from metasched.space.sketch import Sketch
from metasched.space.source_runs import SourceRun
from metasched.space.space import Space
from metasched.space.structures import SEEDS, Decisions, Structures
from metasched.support.cached import cached_property
from metasched.target import Target


class SpaceArms:
    """The `SearchSpace` of a `Space`, and its `Arms`.

    Features are those of the `target`, by the constants of its `core`.
    """

    def __init__(
        self, space: Space, target: Target, core: Core = DEFAULT_CORE, knowledge: Knowledge = NO_KNOWLEDGE
    ) -> None:
        self._space = space
        self._structures = Structures(space)
        self._target = target
        self._core = core
        self._knowledge = knowledge
        self._analyses = Analyses()
        self._recent = RecentFeatures()
        self._runs: list[SourceRun] = []
        self._made: list[SketchArm] = []
        self._numbers: dict[SourceRun, int] = {}
        self._locator = Locator(self._arm_with_decisions)
        self._refused: Counter[str] = Counter()

    @property
    def program(self) -> Program:
        """What the space has schedules of."""
        return self._space.program

    @cached_property
    def transfer_result(self) -> TransferResult:
        """The candidates that similar programs' decisions give in this space, the most promising first.

        What is not legal is counted by its reason, as are structures that are made later.
        """
        found = transferred_into(self._space, self._knowledge, self._target, self._core, self._analyses)
        self._refused.update({reason: times for reason, times in found.reasons.items() if reason != ENOUGH_STRUCTURES})
        return found

    @property
    def refused(self) -> Counter[str]:
        """How many structures are in the space by no numbers that were drawn, or were not legal, by the reason."""
        return self._refused + Counter(reason for arm in self._made for reason in arm.unmet_constraints)

    # --- structures

    @property
    def arms(self) -> SpaceArms:
        return self

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, number: int) -> SketchArm:
        return self._made[number]

    def first(self) -> int | None:
        """The first structure; None for an empty space.

        Raises ScheduleError where a rule takes a step that is not legal: that shows at once.
        """
        return self._number_of_run(self._structures.first())

    def known(self) -> list[int]:
        """The arms of what is carried over from similar programs."""
        found = (self._arm_with_decisions(one.sketch.structure) for one in self.transfer_result)
        return list(dict.fromkeys(at[0] for at in found if at is not None))

    def draw(self, rng: np.random.Generator) -> int | None:
        return self._attempt(lambda: self._structures.draw(rng))

    def mutate(self, rng: np.random.Generator, arm: int) -> int | None:
        return self._attempt(lambda: self._structures.mutate(rng, self._runs[arm]))

    def cross(self, rng: np.random.Generator, mother: int, father: int) -> int | None:
        return self._attempt(lambda: self._structures.cross(rng, self._runs[mother], self._runs[father]))

    def choices(self, arm: int) -> tuple[StructuralChoice, ...]:
        sites = ((site.address, tuple(site.dist.options()), taken) for site, taken in self._runs[arm].met)
        return tuple(
            StructuralChoice(at, options, _position(options, taken)) for at, options, taken in sites if len(options) > 1
        )

    def of(self, rng: np.random.Generator, decisions: Decisions) -> int | None:
        return self._attempt(lambda: self._structures.of(decisions, int(rng.integers(SEEDS))))

    def _arm_with_decisions(self, decisions: Decisions) -> tuple[int, Sketch] | None:
        """The arm with these decisions, as far as they are possible."""
        number = self._attempt(lambda: self._structures.of(decisions))
        return None if number is None else (number, self._made[number].sketch)

    def _attempt(self, make: Callable[[], SourceRun | None]) -> int | None:
        """The number of what `make` returns; one that is not legal is counted by its reason."""
        try:
            return self._number_of_run(make())
        except ScheduleError as error:
            self._refused[error.reason] += 1
            return None

    def _number_of_run(self, run: SourceRun | None) -> int | None:
        if run is None:
            return None
        if run not in self._numbers:
            self._numbers[run] = len(self._made)
            self._runs.append(run)
            self._made.append(SketchArm(run.sketch, self._target, self._core, self._analyses, self._recent))
        return self._numbers[run]

    # --- candidates

    def trace_of(self, candidate: Candidate) -> Trace:
        return self._made[candidate.arm].sketch.trace_of(candidate.row)

    def trace(self, candidate: Candidate) -> str:
        return str(self.trace_of(candidate))

    def locate(self, trace: str) -> Candidate | None:
        return self.locate_all([outline_of(trace)], lambda _: trace)[0]

    def locate_all(self, outlines: Sequence[Outline], text_of: TextOf) -> list[Candidate | None]:
        return self._locator.candidates(outlines, text_of)


def _position(options: Sequence[Decision], taken: Decision) -> int:
    """Where a decision is among the options; True is not 1."""
    return next(n for n, option in enumerate(options) if type(option) is type(taken) and option == taken)

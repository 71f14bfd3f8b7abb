"""The best guess for a program: a schedule chosen without measuring.

The operator library has expert traces, each for a kind of shape and of CPU, which also apply to an operator that is
computed for each element of a batch. Those that can be replayed on this program are compared by the roofline. It takes
about 0.1 s for matmul's seven float traces (twice that for a batch), and 0.2 s more for the first program of a process
that was not loaded from the library. Any other program gets the candidate that the installed cost model scores highest
in the space of the rules, which takes 0.2 to 3 s.

A trace may have been written for quite different shapes. So if the estimate leaves room for it, and a call takes long
enough for that to matter, the model chooses from the space as well. Its choice is taken if the model expects it to take
less than 0.9 of the time (`BETTER_RATIO`). That costs another 0.2 to 3 s. A trace whose sums do not fit into this CPU's
registers is always compared so, and gives way to whatever is expected to be faster.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from math import log2
from typing import NamedTuple

import numpy as np

from metasched.compiler.lower import lower
from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.expectation import Expectation, expectation_of, least_cycles, least_transfer_cycles
from metasched.cost.features import features_of
from metasched.cost.learning.trained import read_shipped_model
from metasched.errors import NoRecord, ScheduleError
from metasched.ir.nodes import Func
from metasched.ir.notebook import TextReport
from metasched.ir.program import Program
from metasched.knowledge.library import Knowledge, KnowledgeLike
from metasched.permissions import BY_DEFAULT, Allowed
from metasched.schedule.handlers import Repairs
from metasched.schedule.trace import Trace
from metasched.search.arms.space_arms import SpaceArms
from metasched.search.arms.transferred import TransferredDecisions
from metasched.search.guesses.expert_guess import ExpertCandidate, ExpertChoice, best_expert, obstacle_to
from metasched.search.guesses.favourite import favourites
from metasched.space.conditions import space_of
from metasched.space.registry import RuleSpec
from metasched.space.space import DEFAULT_MAX_SKETCHES
from metasched.support.collection import pause_gc
from metasched.support.data_classes import dataclass
from metasched.target import Target

LOGGER = logging.getLogger(__name__)

# The model's choice is taken where it is expected to take less than this share of the time of what is known. It is the
# best of ten thousand by an inexact estimate: expected to be as fast, it is mostly slower. So it has to promise a gain,
# of a tenth only, as larger shares gave better guesses as far as tried. 89 tasks of the yardstick with expert
# traces, by models of the other families, took 1.20 times as long as the best (geometric mean) with traces alone, 1.17
# with a third, and 1.16 to 1.10 with 0.5 to 0.85. From 0.7 to 0.8, three of 449 layers of 21 networks change, and take
# .37 to .72 of the time; from 0.8 to 0.9 none of 295 of them, and five of 144 layers of twelve operators: .73 to 1.07.
BETTER_RATIO = 0.9
# What was carried over from another size was measured there: it is mostly as fast as the model expects. At 49 sizes,
# where the model expected less than this of a trace's time, which were six, it took .82 of it (1.11 at worst).
CARRIED_BETTER_RATIO = 0.85
# The space is looked at where a call at full speed would take less than this share of the estimate of what is known:
# elsewhere there is little to gain. It is less for a neighbour's, which was measured for sizes like these: what is
# between a third and a half is guessed otherwise for four tasks of the yardstick with an expert's trace, which take .73
# to 1.00 of the time (Zen 4; two products of batches of bf16 .57 and .70 by estimate, AMX), and for five that have
# a neighbour's, which take .66 to 1.44.
ROOM_OF_EXPERT = 1 / 2
ROOM_OF_NEIGHBOUR = 1 / 3
# The estimated cycles of a call from which on the model chooses as well: three microseconds.
WORTH_LOOKING_CYCLES = 1e4
_FAVOURITE_NAME = "what the model likes best"


@dataclass(frozen=True, repr=False)
class Guess(TextReport):
    """A schedule that was chosen without measuring, and why: the `report` of a kernel whose origin is a guess.

    Without an `expert` and a `neighbour`, the cost model chose in the space of the rules.

    Attributes:
        trace: the schedule.
        func: the program as the trace schedules it.
        expert: the trace of the operator library that was replayed, `OPERATOR.VARIANT`.
        neighbour: what was found for another size, and carried over.
        carried_over: to what an expert's trace was carried over, if it was: to each element of a batch, to transposed
            operands.
        why: the reason for the choice.
        expected: the roofline's estimate of its time.
        repairs: what the replay changed.
        passed_over: the other expert traces for what the program computes, and the neighbours that could not be carried
            over, each with the reason.
        rivals: the other expert traces that can be replayed.
        others: what else was carried over, the most promising first.
    """

    trace: Trace
    func: Func = field(compare=False)
    expert: str | None = None
    neighbour: TransferredDecisions | None = field(default=None, compare=False)
    carried_over: str = ""
    why: str = ""
    expected: Expectation | None = None
    repairs: Repairs = Repairs()
    passed_over: tuple[tuple[str, str], ...] = ()
    rivals: tuple[ExpertCandidate, ...] = field(default=(), compare=False)
    others: tuple[TransferredDecisions, ...] = field(default=(), compare=False)

    def counts(self) -> dict[str, int]:
        """How many expert traces and neighbours were passed over for each reason."""
        return dict(Counter(reason for _, reason in self.passed_over))

    @property
    def _choice_text(self) -> str:
        if self.neighbour is not None:
            return f"what was {self.neighbour}"
        return "by the cost model" if self.expert is None else f"the expert trace {self.expert}"

    @property
    def summary(self) -> str:
        """Where the schedule comes from."""
        return f"{self._choice_text}{', ' if self.carried_over else ''}{self.carried_over}"

    def __str__(self) -> str:
        lines = [f"a guess: {self.summary}"]
        if self.why:
            lines.append(f"why: {self.why}")
        if self.expected is not None:
            lines.append(f"expected, not measured: {self.expected}")
        if self.repairs:
            lines.append(str(self.repairs))
        lines += [f"not {name}: {reason}" for name, reason in self.passed_over]
        return "\n".join(lines)


# Makes the space of the rules, in the form that searches use, from a seed.
MakeArms = Callable[[RuleSpec, int], SpaceArms]


@pause_gc()
def guess(
    program: Program,
    target: Target,
    rules: RuleSpec = None,
    seed: int = 0,
    make_arms: MakeArms | None = None,
    core: Core = DEFAULT_CORE,
    allowed: Allowed = BY_DEFAULT,
    knowledge: KnowledgeLike = None,
) -> Guess:
    """The best guess: of the space of the rules if some are given. Else an expert's trace, what is carried over from
    neighbours and, where it may gain enough, what the model likes best of the rules' space are compared.

    `make_arms` returns the space, if the caller has made it already. `core` has the constants of the estimates,
    `allowed` is what results may differ by, `knowledge` where to look for neighbours, by default all that is
    installed.

    Raises RuleError for an unknown rule, NoRecord for an empty space.
    """
    arms = make_arms or _arms_of(program, target, core, allowed, knowledge)
    if rules is not None:
        return guess_in(arms(rules, seed), program, target, core, seed, "the rules were given")
    choice = best_expert(program, target, core, allowed)
    found = _Guessing(program, target, core, seed, arms(None, seed), choice).guess(choice.why)
    LOGGER.info("guess for %s: %s", program.key, found.summary)
    return found


@pause_gc()
def guess_in(arms: SpaceArms, program: Program, target: Target, core: Core, seed: int, why: str) -> Guess:
    """The best guess in a space, where expert traces are out of place. Raises NoRecord for an empty space."""
    return _Guessing(program, target, core, seed, arms, ExpertChoice(None, "", {})).guess(why)


@dataclass(frozen=True)
class _Start:
    """The best that was known beforehand: an expert's trace, or what was carried over from a neighbour.

    `sure` is false where nothing that is known decides all of the structure: what was measured had another.
    """

    trace: Trace
    func: Func
    expected: Expectation
    expert: ExpertCandidate | None = None
    neighbour: TransferredDecisions | None = None
    sure: bool = True

    @property
    def name(self) -> str:
        if self.expert is not None:
            return f"the expert trace {self.expert.name}"
        assert self.neighbour is not None
        return f"what was found for {self.neighbour.name}"


class _Favourite(NamedTuple):
    """A trace of the space, what it makes of the program, and the estimate."""

    trace: Trace
    func: Func
    expected: Expectation


@dataclass(frozen=True)
class _Guessing:
    """A guess for a program, in a space; `choice` is the best expert's trace."""

    program: Program
    target: Target
    core: Core
    seed: int
    arms: SpaceArms
    choice: ExpertChoice
    refused: list[tuple[str, str]] = field(default_factory=list)  # of what the model likes best

    def guess(self, why: str) -> Guess:
        """The best that is known beforehand, unless the model clearly prefers something else in the space.

        `why` is the reason for the choice so far. Raises NoRecord for an empty space.
        """
        start, reason = self._start()
        why = reason or why
        if start is None:
            why += "; it has the shortest estimate that a search of the rules' space found"
            return self._by_model(self._favourite(), why)
        # What is known is then of a CPU with more registers, or of tiles that this size does not have.
        sums_in_memory = bool(lower(start.func, self.target).warnings)
        if sums_in_memory or not start.sure or self._leaves_room(start):
            found = self._favourite(-self._log_seconds(start.func))
            if found is not None:
                ratio = self._ratio(found.func, start.func)
                if ratio < (1.0 if sums_in_memory else BETTER_RATIO):
                    faster = f"it is expected to take {ratio:.2f} of the time of {start.name}"
                    return self._by_model(found, faster, start, ratio)
                why += "; the best of the rules' space by the estimate, "
                why += f"of {ratio:.2f} times its length, is no clear gain"
        return self._by_start(start, why)

    def _start(self) -> tuple[_Start | None, str]:
        """The best that is known beforehand, and why, where that is a neighbour's."""
        taken, transferred = self._by_expert(), self._transferred_start(whole=True)
        if taken is None:
            transferred = self._or_in_part(transferred)
        if transferred is None:
            return taken, ""
        if taken is None:
            return transferred, "nothing nearer is known, and the cost model likes it best of what is known of its kind"
        ratio = self._ratio(transferred.func, taken.func)
        if ratio < CARRIED_BETTER_RATIO:
            return transferred, f"it is expected to take {ratio:.2f} of the time of {taken.name}"
        return taken, ""

    def _or_in_part(self, whole: _Start | None) -> _Start | None:
        """What a neighbour decided wholly, or the most promising that one decided in part, where there is no other or
        the model clearly prefers it.
        """
        if whole is not None and not self._is_expected_faster(whole):
            return whole
        in_part = self._transferred_start(whole=False)
        if in_part is None:
            return whole
        if whole is None:
            return replace(in_part, sure=False)
        return in_part if self._ratio(in_part.func, whole.func) < BETTER_RATIO else whole

    def _is_expected_faster(self, whole: _Start) -> bool:
        """Whether what a neighbour decided in part was scored so much higher that it is worth applying."""
        assert whole.neighbour is not None
        least = whole.neighbour.score - log2(BETTER_RATIO)
        return any(one.score > least for one in self.arms.transfer_result if not one.is_whole)

    def _by_expert(self) -> _Start | None:
        taken = self.choice.taken
        if taken is None:
            return None
        return _Start(taken.schedule.trace, taken.schedule.func, taken.expected, expert=taken)

    def _transferred_start(self, whole: bool) -> _Start | None:
        """The most promising neighbour's that the machine can run, of those that decided all of the structure, or not.

        What is not whole was measured in another space: where an expert's trace is known, it is left to a search.
        """
        for one in (transferred for transferred in self.arms.transfer_result if transferred.is_whole is whole):
            func = self._apply_trace(one.trace, one.name)
            if func is not None and obstacle_to(func, self.target) is None:
                estimate = expectation_of(func, self.target, self.core)
                return _Start(one.trace, func, estimate, neighbour=one)
        return None

    def _leaves_room(self, start: _Start) -> bool:
        """Whether choosing from the space may gain enough over what is known to be worth its time."""
        cycles, program = start.expected.cycles, (self.program.func, self.target, self.core)
        if cycles < WORTH_LOOKING_CYCLES or (start.neighbour is not None and self._knows_near_one()):
            return False
        room = ROOM_OF_EXPERT if start.neighbour is None else ROOM_OF_NEIGHBOUR
        return max(least_cycles(*program), least_transfer_cycles(*program)) < room * cycles

    def _knows_near_one(self) -> bool:
        """Whether a neighbour is near: the best of some tens was measured at its size, and estimates err more than what
        they promise beside it.

        Of thirteen depthwise convolutions of bytes whose space was looked at, five were guessed otherwise, expected to
        take .5 to .9 of the time; they took 1.00, 1.10, 1.12, 1.20 and 2.22. Of 350 tasks of eight networks of floats
        no space was.
        """
        return any(one.is_near for one in self.arms.transfer_result)

    def _ratio(self, func: Func, other: Func) -> float:
        """The time that the installed model expects of a program over that of another."""
        return float(np.exp2(self._log_seconds(func) - self._log_seconds(other)))

    def _log_seconds(self, func: Func) -> float:
        """The logarithm to base 2 of the seconds that the installed model expects of a program."""
        features = features_of(func, self.target, self.core)
        return float(read_shipped_model().log_seconds(features[None])[0])

    def _favourite(self, known: float | None = None) -> _Favourite | None:
        """The trace that the installed cost model scores highest of those that the machine can run, if there is one;
        `known` is the score of what is there without it.
        """
        for trace in favourites(self.arms, self.seed, known):
            func = self._apply_trace(trace, _FAVOURITE_NAME)
            if func is None:
                continue
            obstacle = obstacle_to(func, self.target)
            if obstacle is None:
                return _Favourite(trace, func, expectation_of(func, self.target, self.core))
            self.refused.append((_FAVOURITE_NAME, obstacle))
        return None

    def _apply_trace(self, trace: Trace, name: str) -> Func | None:
        """The program after a trace; None where a number of the trace is not legal, which is noted.

        Of regions whose bounds depend on quotients of sampled sizes, a space knows looser bounds than a replay has.
        """
        try:
            return trace.apply_to(self.program).func
        except ScheduleError as error:
            self.refused.append((name, error.reason))
            return None

    def _by_start(self, start: _Start, why: str) -> Guess:
        choice, taken = self.choice, start.expert
        others = tuple(one for one in self.arms.transfer_result if one is not start.neighbour)
        passed_over = self._passed_over(choice.passed_over)
        if taken is None:
            return Guess(
                start.trace,
                start.func,
                neighbour=start.neighbour,
                why=why,
                expected=start.expected,
                passed_over=passed_over,
                rivals=choice.others if choice.taken is None else (choice.taken, *choice.others),
                others=others,
            )
        return Guess(
            start.trace,
            start.func,
            expert=taken.name,
            carried_over=taken.carried_over,
            why=why,
            expected=start.expected,
            repairs=Repairs(taken.schedule.repairs),
            passed_over=passed_over,
            rivals=choice.others,
            others=others,
        )

    def _by_model(self, found: _Favourite | None, why: str, start: _Start | None = None, ratio: float = 1.0) -> Guess:
        """The guess that takes the model's choice, instead of what was known. Raises NoRecord where there is none."""
        if found is None:
            raise NoRecord(_none_of(self.program, self.refused))
        choice, passed_over = self.choice, dict(self.choice.passed_over)
        rivals = choice.others
        if choice.taken is not None:
            rivals = (choice.taken, *rivals)
        if start is not None and start.expert is not None:
            passed_over[start.expert.name] = f"the estimate is {1 / ratio:.1f} times as long"
        return Guess(
            found.trace,
            found.func,
            why=why,
            expected=found.expected,
            passed_over=self._passed_over(passed_over),
            rivals=rivals,
            others=tuple(self.arms.transfer_result),
        )

    def _passed_over(self, experts: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Expert traces and neighbours that were not taken, each with the reason."""
        neighbours = ((near.name, reason) for near, reason in self.arms.transfer_result.left_out)
        return *sorted(experts.items()), *neighbours, *self.refused


def _none_of(program: Program, refused: Sequence[tuple[str, str]]) -> str:
    """Why there is no guess in a space."""
    if not refused:
        return f"the space of {program.key} is empty"
    (reason, times), *_ = Counter(reason for _, reason in refused).most_common(1)
    none = f"of {len(refused)} schedules of {program.key} that the model likes best, none can be run"
    return f"{none}: {times} times {reason}"


def _arms_of(program: Program, target: Target, core: Core, allowed: Allowed, knowledge: KnowledgeLike) -> MakeArms:
    def make_arms(rules: RuleSpec, seed: int) -> SpaceArms:
        limit = DEFAULT_MAX_SKETCHES
        space = space_of(program, rules, target=target, allow=allowed, max_sketches=limit, seed=seed)
        return SpaceArms(space, target, core, Knowledge.of(knowledge))

    return make_arms

"""The best guess for a program: a schedule chosen without measuring.

The operator library has expert traces, each for a kind of shape and of CPU, which also apply to an operator that is
computed for each element of a batch. Those that can be replayed on this program are compared by the roofline. It takes
about 0.1 s for matmul's seven float traces (twice that for a batch), and 0.2 s more for the first program of a process
that was not loaded from the library. Any other program gets the candidate that the installed cost model scores highest
in the space of the rules, which takes 0.2 to 3 s.

A trace may have been written for quite different shapes. So if the estimate leaves room for it, and a call takes long
enough for that to matter, the model chooses from the space as well. Its choice is taken if the model expects it
to take less than 0.7 of the time. That costs another 0.2 to 3 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from metasched.cost.core import DEFAULT_CORE, Core
from metasched.cost.expected import Expectation, expected, least_cycles
from metasched.cost.features import features_of
from metasched.cost.trained import shipped
from metasched.errors import NoRecord
from metasched.ir.nodes import Func
from metasched.ir.notebook import TextReport
from metasched.ir.program import Program
from metasched.permissions import BY_DEFAULT, Allowed
from metasched.schedule.handlers import Repairs
from metasched.schedule.trace import Trace
from metasched.search.arms import MAX_ARMS, SpaceArms
from metasched.search.expert_guess import ExpertCandidate, ExpertChoice, best_expert, obstacle_to
from metasched.search.favourite import favourite
from metasched.search.space_protocol import SearchSpace
from metasched.space.conditions import space_of
from metasched.space.registry import RuleSpec
from metasched.target import Target

# The model's choice is the best of ten thousand by an inexact estimate: if it is expected to be as fast as an expert's
# trace, it is mostly slower. On 89 tasks of the yardstick that have expert traces, by models of the other families,
# what was chosen took 1.20 times as long as the best (geometric mean) with traces alone, 1.17 with a threshold of a
# third, and 1.16 to 1.10 with 0.5 to 0.85.
_BETTER = 0.7
# The share of the estimate that a call at full speed would take at most, for the space to be looked at.
_ROOM = 1 / 3
# The estimated cycles of a call from which on the model chooses as well: that takes as long as 10,000 such calls.
_WORTH_LOOKING = 1e5


@dataclass(frozen=True, repr=False)
class Guess(TextReport):
    """A schedule that was chosen without measuring, and why: the `report` of a kernel whose origin is a guess.

    `expert` is the trace of the operator library that was replayed, `OPERATOR.VARIANT`, or None where the cost model
    chose in the space of the rules. `carried_over` says to what the trace was carried over, if it was: to each element
    of a batch, to transposed operands. `why` is the reason for the choice, `expected` the
    roofline's estimate. `repairs` is what the replay changed. `passed_over` are the other expert traces for what the
    program computes, each with the reason why it was not taken; `rivals` those of them that can be replayed, the most
    promising first.
    """

    trace: Trace
    expert: str | None = None
    carried_over: str = ""
    why: str = ""
    expected: Expectation | None = None
    repairs: Repairs = Repairs()
    passed_over: tuple[tuple[str, str], ...] = ()
    rivals: tuple[ExpertCandidate, ...] = field(default=(), compare=False)

    def counts(self) -> dict[str, int]:
        """How many expert traces were passed over for each reason."""
        return dict(Counter(reason for _, reason in self.passed_over))

    def __str__(self) -> str:
        chosen = "by the cost model" if self.expert is None else f"the expert trace {self.expert}"
        lines = [f"a guess: {chosen}{', ' if self.carried_over else ''}{self.carried_over}"]
        if self.why:
            lines.append(f"why: {self.why}")
        if self.expected is not None:
            lines.append(f"expected, not measured: {self.expected}")
        if self.repairs:
            lines.append(str(self.repairs))
        lines += [f"not {name}: {reason}" for name, reason in self.passed_over]
        return "\n".join(lines)


# Makes the space of the rules, in the form that searches use, from a seed.
MakeArms = Callable[[RuleSpec, int], SearchSpace]


def guess(
    program: Program,
    target: Target,
    rules: RuleSpec = None,
    seed: int = 0,
    make_arms: MakeArms | None = None,
    core: Core = DEFAULT_CORE,
    allowed: Allowed = BY_DEFAULT,
) -> Guess:
    """The best guess: from the space of the rules if some are given, otherwise an expert's trace if one applies.

    `make_arms` returns the space, if the caller has made it already. `core` has the constants of the estimates,
    `allowed` is what results may differ by.

    Raises RuleError for an unknown rule, NoRecord for an empty space.
    """
    arms = make_arms or _arms_of(program, target, core, allowed)
    if rules is not None:
        found = _favourite(program, target, core, arms(rules, seed), seed)
        return _of_space(program, found, "the rules were given", {})
    choice = best_expert(program, target, core, allowed)
    if choice.taken is None:
        found = _favourite(program, target, core, arms(None, seed), seed)
        return _of_space(program, found, choice.why, choice.passed_over)
    why = choice.why
    if _leaves_room(program, choice.taken, target, core):
        found = _favourite(program, target, core, arms(None, seed), seed)
        if found is not None:
            func = found[0].apply_to(program).func
            ratio = _ratio(func, choice.taken.schedule.func, target, core)
            if ratio < _BETTER and obstacle_to(func, target) is None:
                return _instead(found, ratio, choice, choice.taken)
            why += f"; the best of the rules' space by the estimate, of {ratio:.2f} times its length, is no clear gain"
    return _by_expert(choice, choice.taken, why)


def _ratio(func: Func, other: Func, target: Target, core: Core) -> float:
    """The time that the installed model expects of a program over that of another."""
    logs = shipped().log_seconds(np.stack([features_of(each, target, core) for each in (func, other)]))
    return float(np.exp2(logs[0] - logs[1]))


def _by_expert(choice: ExpertChoice, taken: ExpertCandidate, why: str) -> Guess:
    trace, repairs = taken.schedule.trace, Repairs(taken.schedule.repairs)
    passed_over = _sorted(choice.passed_over)
    return Guess(trace, taken.name, taken.carried_over, why, taken.expected, repairs, passed_over, choice.others)


def _sorted(reasons: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(reasons.items()))


# --- by the cost model


# A trace of the space, and its estimate.
_Favourite = tuple[Trace, Expectation]


def _leaves_room(program: Program, taken: ExpertCandidate, target: Target, core: Core) -> bool:
    """Whether choosing from the space may gain enough over an expert's trace to be worth its time."""
    return taken.cycles >= _WORTH_LOOKING and least_cycles(program.func, target, core) < _ROOM * taken.cycles


def _arms_of(program: Program, target: Target, core: Core, allowed: Allowed) -> MakeArms:
    return lambda rules, seed: SpaceArms(
        space_of(program, rules, target=target, allow=allowed, max_sketches=MAX_ARMS, seed=seed), target, core
    )


def _favourite(program: Program, target: Target, core: Core, arms: SearchSpace, seed: int) -> _Favourite | None:
    """The trace of the rules' space that the installed cost model scores highest; None if the space is empty."""
    found = favourite(arms, seed)
    if found is None:
        return None
    trace = Trace.parse(found)
    return trace, expected(trace.apply_to(program).func, target, core)


def _of_space(program: Program, found: _Favourite | None, why: str, passed_over: Mapping[str, str]) -> Guess:
    """The guess that takes the model's choice. Raises NoRecord where the space is empty."""
    if found is None:
        raise NoRecord(f"the space of {program.key} is empty")
    why += "; it has the shortest estimate that a search of the rules' space found"
    return Guess(found[0], None, "", why, found[1], passed_over=_sorted(passed_over))


def _instead(favourite: _Favourite, ratio: float, choice: ExpertChoice, taken: ExpertCandidate) -> Guess:
    """The guess that takes the model's choice instead of the best expert's trace."""
    why = f"it is expected to take {ratio:.2f} of the time of the expert trace {taken.name}"
    reason = f"the estimate is {1 / ratio:.1f} times as long"
    passed_over = {**choice.passed_over, taken.name: reason}
    rivals = (taken, *choice.others)
    return Guess(favourite[0], None, "", why, favourite[1], passed_over=_sorted(passed_over), rivals=rivals)

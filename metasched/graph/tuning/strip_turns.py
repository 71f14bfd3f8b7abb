"""Groups of reductions in a network's own call: each in strips by one kernel, in turns with its kernels apart.

How much a value between two reductions costs depends on what the caches hold when it is read, so that the estimate by
sizes (see the pass `strips`) is wrong near its limits. What is measured is recorded, and decides from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from metasched.graph.ir import Array
from metasched.graph.passes.strips import StripGroup
from metasched.graph.running.executable import Executable
from metasched.graph.tuning.settling import lack_of_memory, step_seconds
from metasched.ir.program import Program
from metasched.report.progress_text import duration
from metasched.support.data_classes import dataclass

# What one group is expected to take: guesses and code of its kernels in both ways, and its part of the turns.
_GROUP_S = 2.0
# What part of a budget all groups may take.
_PART = 0.1

# Makes the executable in which groups are together (True) or apart, by their keys, and all others as they are.
MakeWays = Callable[[Mapping[str, bool]], Executable]


@dataclass(frozen=True)
class TimedGroup:
    """Equal groups of a network: the median seconds of all of them in a run, in both ways.

    Attributes:
        program: their joined program; `runs` is how many of them there are.
        together_s: of the joined kernels.
        apart_s: of the kernels that they are apart.
        was_together: whether they were together before they were timed.

    """

    key: str
    program: Program
    runs: int
    together_s: float
    apart_s: float
    was_together: bool

    @property
    def is_together(self) -> bool:
        """Whether they are faster together."""
        return self.together_s < self.apart_s

    @property
    def is_changed(self) -> bool:
        """Whether they are faster in the other way than before."""
        return self.is_together is not self.was_together


@dataclass(frozen=True)
class StripSettlement:
    """What came of timing groups in both ways. `str()` is for a person to read.

    Attributes:
        groups: those whose times decide from now on.
        before_s: seconds of all kernels in a run of the network as it was; None where nothing was timed.
        after_s: the same as it is now.
        unsettled: why nothing was timed, or why what was faster by itself is not used.

    """

    groups: tuple[TimedGroup, ...] = ()
    before_s: float | None = None
    after_s: float | None = None
    unsettled: str = ""

    @property
    def is_timed(self) -> bool:
        """Whether anything was."""
        return self.before_s is not None

    @property
    def changed(self) -> Mapping[str, bool]:
        """Groups that are another way than before: whether they are together now."""
        return {group.key: group.is_together for group in self.groups if group.is_changed}

    def __str__(self) -> str:
        lines = []
        if self.before_s is not None and self.after_s is not None:
            lines.append(f"strips: all kernels took {duration(self.before_s)} and take {duration(self.after_s)}")
        for group in self.groups:
            both = f"{duration(group.together_s)} together, {duration(group.apart_s)} apart"
            lines.append(f"  {group.program.name}: {both}, {'together' if group.is_together else 'apart'} now")
        if self.unsettled:
            lines.append(f"strips were not settled: {self.unsettled}")
        return "\n".join(lines)


def most_groups(budget: float) -> int:
    """How many groups are timed in their part of a budget in seconds."""
    return max(int(_PART * budget / _GROUP_S), 0)


def open_groups(groups: Sequence[StripGroup], decided: Collection[str], most: int) -> list[StripGroup]:
    """The groups whose ways are to be timed: at most so many different ones, the ones with the most bytes between
    first.

    A group whose nodes share their names with others is none of them, since its steps cannot be told.
    """
    names = Counter(name for group in groups for name in group.nodes)
    found = [g for g in groups if g.key not in decided and all(name and names[name] == 1 for name in g.nodes)]
    nbytes: Counter[str] = Counter()
    for group in found:
        nbytes[group.key] += group.between
    kept = {key for key, _ in nbytes.most_common(most)}
    return [group for group in found if group.key in kept]


def settle_groups(
    before: Executable, make: MakeWays, groups: Sequence[StripGroup], inputs: Sequence[Array]
) -> tuple[StripSettlement, Executable]:
    """Time a network with groups in the other way in turns with `before`. Returns what came of it, and what is to run.

    A group is in the other way from then on where its kernels together are faster so. Where all kernels of a run are
    not, the network stays as it was, and nothing is said of these groups. `inputs` are overwritten where they are
    states.
    """
    lack = lack_of_memory(before)
    if lack:
        return StripSettlement(unsettled=lack), before
    by_key: dict[str, list[StripGroup]] = {}
    for group in groups:
        by_key.setdefault(group.key, []).append(group)
    after = make({key: not equal[0].together for key, equal in by_key.items()})
    seconds = step_seconds(before, after, inputs)
    timed = [_time_group(equal, (before, after), seconds) for equal in by_key.values()]
    found = tuple(group for group in timed if group is not None)
    other = {group.key: group.is_together for group in found if group.is_changed}
    if other and len(other) < len(by_key):
        del after  # its memory goes before the next takes as much
        after = make(other)
        seconds = step_seconds(before, after, inputs)
    first, second = (float(one.sum()) for one in seconds)
    if not other:
        return StripSettlement(found, first, first), before
    if second < first:
        return StripSettlement(found, first, second), after
    kept = tuple(group for group in found if not group.is_changed)
    why = "what was faster by itself made the network no faster"
    return StripSettlement(kept, first, first, why), before


def _time_group(
    equal: Sequence[StripGroup], both: tuple[Executable, Executable], seconds: tuple[Array, Array]
) -> TimedGroup | None:
    """The times of equal groups; None where a later pass has left nothing of their steps."""
    names = {name for group in equal for name in group.nodes}
    numbers = [[n for n, step in enumerate(one.steps) if step.node in names] for one in both]
    if not all(numbers):
        return None
    first, second = (float(np.sum(one[at])) for one, at in zip(seconds, numbers, strict=True))
    group = equal[0]
    together, apart = (first, second) if group.together else (second, first)
    return TimedGroup(group.key, group.program, len(equal), together, apart, group.together)

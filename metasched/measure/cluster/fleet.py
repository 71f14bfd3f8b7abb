"""Which machines of a cluster build, and which of them time candidates of a target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from metasched.measure.cluster.machine import misfit
from metasched.measure.cluster.payloads import Greeting
from metasched.measure.cluster.yardstick import MachinePace, most_agreed_pace
from metasched.support.data_classes import dataclass
from metasched.target import Target


@dataclass
class Member:
    """A machine of the cluster, as the client sees it.

    `building` is how many candidates it builds now, `timing` whether it times; `prepared` are the programs whose
    candidates it has timed; `silent` says that nothing is heard of it, `stuck` that it did not end what it began.
    """

    address: str
    greeting: Greeting
    building: int = 0
    timing: bool = False
    prepared: set[object] = field(default_factory=set)
    silent: bool = False
    stuck: bool = False

    def __post_init__(self) -> None:
        self.target = Target.parse(self.greeting.target)

    @property
    def is_trusted(self) -> bool:
        return not (self.silent or self.stuck)

    @property
    def can_build(self) -> bool:
        """Whether there is room to build: nothing is timed meanwhile."""
        return self.is_trusted and not self.timing and self.building < self.greeting.builders


class Fleet:
    """The machines that have joined, by address.

    The times of a target are taken on machines of one pace: the one that most machines of this target agree with when
    the first candidate of it is to be timed. Others build.
    """

    def __init__(self, code_version: str) -> None:
        self._code_version = code_version
        self._paces: dict[str, MachinePace] = {}
        self.members: dict[str, Member] = {}
        self.refused: dict[str, str] = {}

    def join(self, address: str, greeting: Greeting) -> None:
        """Note a machine, unless its code generator is another one than ours, whose name records have."""
        if greeting.code_version == self._code_version:
            self.members[address] = Member(address, greeting)
        else:
            self.refused[address] = f"it runs {greeting.code_version}, and this is {self._code_version}"

    def leave(self, address: str) -> None:
        """Forget a machine that is gone."""
        self.members.pop(address, None)
        self.refused.pop(address, None)

    def builders(self, target: str) -> list[Member]:
        """The machines with room to build for a target, those that build least first.

        They are of the architecture of those that time: LLVM compiles for other CPUs of its own architecture.
        """
        architectures = {m.greeting.architecture for m in self.timers(target)}
        found = [m for m in self.members.values() if m.can_build and m.greeting.architecture in architectures]
        return sorted(found, key=lambda m: (m.building, m.address))

    def timers(self, target: str) -> list[Member]:
        """The machines that time candidates of a target, busy ones too."""
        wanted = Target.parse(target)
        fitting = [m for m in self.members.values() if m.is_trusted and misfit(m.target, wanted) is None]
        if not fitting:
            return []
        if target not in self._paces:
            self._paces[target] = most_agreed_pace([m.greeting.pace for m in fitting])
        return [m for m in fitting if m.greeting.pace.agrees(self._paces[target])]

    @property
    def timing_machines(self) -> int:
        """How many machines time candidates of the targets seen so far; of any, before there was one."""
        targets = list(self._paces)
        if not targets:
            return sum(m.is_trusted for m in self.members.values())
        return len({m.address for target in targets for m in self.timers(target)})

    def explanation_for(self, target: str) -> str:
        """The reasons why no machine times candidates of a target, a line each."""
        return "\n".join(f"  {line}" for line in self._reasons(target)) or "  there is no machine with our resource"

    def _reasons(self, target: str) -> Iterator[str]:
        wanted = Target.parse(target)
        yield from (f"{address}: {reason}" for address, reason in sorted(self.refused.items()))
        for member in _sort_members(self.members.values()):
            if member.silent:
                yield f"{member.address}: nothing is heard of it"
            elif member.stuck:
                yield f"{member.address}: it did not end what it began"
            else:
                pace = self._paces.get(target)
                of_pace = f"its yardsticks take {member.greeting.pace}, and those of the others {pace}"
                yield f"{member.address}: {misfit(member.target, wanted) or of_pace}"


def _sort_members(members: Iterable[Member]) -> list[Member]:
    return sorted(members, key=lambda m: m.address)

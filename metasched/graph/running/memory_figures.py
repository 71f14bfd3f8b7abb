"""What a network holds in memory, for a person: weights once, states, code, and what lives during a call."""

from __future__ import annotations

from collections.abc import Sequence

from metasched.graph.running.plan import Arena
from metasched.support.data_classes import dataclass

_MB = 1e6


@dataclass(frozen=True)
class MemberMemory:
    """The memory of one of the networks that calls run on.

    Attributes:
        name: which it is; empty where there is no other.
        weight_bytes: of weights that none of those before it has.
        code_bytes: of its machine code.
        arena: the plan of what lives during a call.
    """

    name: str
    weight_bytes: int
    code_bytes: int
    arena: Arena


@dataclass(frozen=True)
class NetworkMemory:
    """What a network holds now: what is not compiled yet holds nothing.

    Attributes:
        members: of each network that is compiled.
        state_bytes: what is held between calls.
        waiting: how many networks are not compiled yet.

    """

    members: Sequence[MemberMemory]
    state_bytes: int
    waiting: int = 0

    @property
    def weight_bytes(self) -> int:
        """Weights of all, each counted once."""
        return sum(member.weight_bytes for member in self.members)

    @property
    def code_bytes(self) -> int:
        """Machine code of all."""
        return sum(member.code_bytes for member in self.members)

    @property
    def arena_bytes(self) -> int:
        """The most that lives during a call; calls at the same time have one each."""
        return max((member.arena.nbytes for member in self.members), default=0)

    def __str__(self) -> str:
        sizes = (("weights", self.weight_bytes), ("states", self.state_bytes), ("code", self.code_bytes))
        lines = [", ".join(f"{what} {nbytes / _MB:.2f} MB" for what, nbytes in sizes)]
        lines += [f"{member.name + ': ' if member.name else ''}{member.arena}" for member in self.members]
        if self.waiting:
            lines.append(f"not compiled yet: {self.waiting}")
        return "\n".join(lines)

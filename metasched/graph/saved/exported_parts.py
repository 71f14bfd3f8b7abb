"""What of a network an export writes: its compiled members with what they take, over weights that are written once."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial

from metasched.graph.buckets.forms import CallForms
from metasched.graph.ir import Array
from metasched.graph.running.executable import Executable
from metasched.graph.running.execution_plan import ExecutionPlan
from metasched.graph.running.memory import MappedMemory
from metasched.graph.running.plan import align_bytes
from metasched.graph.signature import Signature
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class ExportedMember:
    """A network of fixed sizes that an export has: what it takes and returns, compiled."""

    signature: Signature
    executable: Executable


@dataclass(frozen=True)
class ExportedPart:
    """What calls of some sizes run on.

    Attributes:
        members: one for each bucket of lengths of a network that grows, the shortest first; else one.
        sizes: those that each size may be that is a range.
        forms: what a call of these sizes takes, where it has fewer elements than there is room for.

    """

    members: tuple[ExportedMember, ...]
    sizes: Mapping[str, range] = field(default_factory=dict)
    forms: CallForms | None = None


@dataclass(frozen=True)
class NetworkExport:
    """A network as it is exported.

    Attributes:
        signature: what it takes and returns at the largest sizes.
        parts: what calls run on.
        inputs: for each input that has ranges, the names of its sizes, '' for one that is fixed; `outputs` likewise.

    """

    signature: Signature
    parts: tuple[ExportedPart, ...]
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    outputs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def members(self) -> tuple[ExportedMember, ...]:
        """The members of all parts, in order."""
        return tuple(member for part in self.parts for member in part.members)


@dataclass(frozen=True)
class JoinedWeights:
    """Weights of several networks as one piece, in which each is once, and their plans over it."""

    plans: tuple[ExecutionPlan, ...]
    pieces: tuple[Array, ...]


def join_weights(executables: Sequence[Executable]) -> JoinedWeights:
    """The weights that plans read, one after another. What no plan reads, such as copies in the layout of a schedule
    that was replaced since, is left out.
    """
    memories: dict[int, MappedMemory] = {}
    starts: set[int] = set()
    used: set[int] = set()
    for one in executables:
        own = one.weights.memory
        for memory in (own, *one.weights.borrowed):
            memories[memory.address] = memory
        starts.update(own.address + offset for offset in one.weights.offsets.values())
        used.update(own.address + place.offset for place in one.plan.weight_places)
    ordered = sorted({*starts, *memories})
    touched = sorted({ordered[bisect.bisect_right(ordered, address) - 1] for address in used})
    bases: dict[int, int] = {}
    pieces: list[Array] = []
    total = 0
    for start in touched:
        memory = memories[max(address for address in memories if address <= start)]
        following = bisect.bisect_right(ordered, start)
        end = memory.address + len(memory.bytes)
        if following < len(ordered):
            end = min(end, ordered[following])
        bases[start] = total
        pieces.append(memory.bytes[start - memory.address : end - memory.address])
        total += align_bytes(end - start)

    def moved(own: int, offset: int) -> int:
        start = touched[bisect.bisect_right(touched, own + offset) - 1]
        return bases[start] + own + offset - start

    plans = tuple(one.plan.with_weights(partial(moved, one.weights.memory.address), total) for one in executables)
    return JoinedWeights(plans, tuple(pieces))

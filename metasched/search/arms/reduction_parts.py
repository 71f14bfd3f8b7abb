"""The reductions of a program, each with what belongs to it, as programs of their own.

A program with two products has good schedules in common with each: what is known of the second one alone, with the
padding that it reads and what follows it, says how that is tiled and packed, while what is known of the anchor decides
the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from metasched.ir import query
from metasched.ir.excerpt import excerpt
from metasched.ir.nodes import Func, Select
from metasched.ir.program import Program
from metasched.knowledge.anchor import Anchor, further_anchors
from metasched.knowledge.roles import Roles, followers
from metasched.lang.instructions import Decision
from metasched.support.data_classes import dataclass

# The share of the anchor's work from which on a reduction counts: what is less is not worth decisions of its own. A
# depthwise convolution of 3 x 3 before a product to 320 channels has 9/320 of that one's work.
_LEAST_WORK_SHARE = 1 / 64


@dataclass(frozen=True)
class ReductionPart:
    """A reduction of a program, and what belongs to it as a program of its own."""

    whole: Func
    anchor: Anchor
    program: Program

    def decisions(self, made: Mapping[str, Decision]) -> dict[str, Decision]:
        """Decisions for the part as such for the whole program, where the block's loops may have other names."""
        roles = Roles.of(self.whole, self.anchor)
        found: dict[str, Decision] = {}
        for address, decision in made.items():
            found |= dict.fromkeys(roles.own_texts(roles.general_address(address)), decision)
        return {**found, **made}


def further_parts(program: Program, anchor: Anchor) -> Iterator[ReductionPart]:
    """The parts for the other reductions of an unscheduled program that have a share of the anchor's work."""
    for other in further_anchors(program.func, anchor, _LEAST_WORK_SHARE):
        yield ReductionPart(program.func, other, excerpt(program, _blocks_of_part(program.func, other.block)))


def _blocks_of_part(func: Func, block: str) -> Sequence[str]:
    """A block, what follows it element by element, and the copies with a border that only it reads."""
    copies = (made for made in query.producers(func, block) if isinstance(made.store.value, Select))
    alone = (made.name for made in copies if made.reducer is None and len(query.consumers(func, made.name)) == 1)
    return [*alone, block, *followers(func, block)]

"""What is known of reductions that a program has besides its anchor.

A program with two products has good schedules in common with each: what was found for the nearest size of the second
one's kind says how that is tiled and packed, while the first one's neighbours decide the rest. What such an entry says
of blocks around its own is left out: here something else is around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from metasched.ir.nodes import Func
from metasched.knowledge.anchor import Anchor, further_anchors
from metasched.knowledge.library import Knowledge
from metasched.knowledge.roles import ANCHOR, WRITER, Roles, roles_in
from metasched.lang.instructions import Decision, Ref
from metasched.support.data_classes import dataclass
from metasched.target import Target

# The share of the anchor's work from which on a reduction counts: what is less is not worth decisions of its own.
_SHARE = 1 / 16
_OWN = re.compile(rf"{ANCHOR}([#$]\d*)?|{WRITER}")


@dataclass(frozen=True)
class KnownOfOthers:
    """Decisions by a program's own addresses: structural ones, and numbers."""

    structure: dict[str, Decision]
    numbers: dict[str, Decision]

    @classmethod
    def of(cls, func: Func, anchor: Anchor, knowledge: Knowledge, target: Target) -> KnownOfOthers:
        """Those of the nearest entry for each reduction of an unscheduled program besides its anchor."""
        structure: dict[str, Decision] = {}
        numbers: dict[str, Decision] = {}
        for other in further_anchors(func, anchor, _SHARE):
            roles = Roles.of(func, other)
            for near in knowledge.nearest(other, target, 1):
                structure |= _own(roles, near.entry.structure)
                numbers |= _own(roles, near.entry.numbers)
        return cls(structure, numbers)


def _own(roles: Roles, decisions: Sequence[tuple[str, Decision]]) -> dict[str, Decision]:
    """Decisions about a block itself, by the program's addresses."""
    found: dict[str, Decision] = {}
    for address, decision in decisions:
        said = roles.own_decision(decision)
        named = decision.name if isinstance(decision, Ref) else decision
        if said is not None and _is_own(address) and (not isinstance(named, str) or _is_own(named)):
            found |= dict.fromkeys(roles.own_texts(address), said)
    return found


def _is_own(text: str) -> bool:
    """Whether a text in roles names nothing but the block, its operands and loops, and what writes its result."""
    return all(_OWN.fullmatch(role) for role in roles_in(text))

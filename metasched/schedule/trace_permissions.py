"""Which permissions a trace's steps need, without running them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from metasched.errors import LanguageError
from metasched.lang import parse_trace
from metasched.lang.instructions import Instruction
from metasched.permissions import Permission
from metasched.schedule.annotation import known_annotations
from metasched.schedule.primitive import registry
from metasched.schedule.primitives.annotate import OP as ANNOTATE
from metasched.schedule.versions import normal_form


def permission_of(instruction: Instruction) -> Permission | None:
    """What a step needs to be allowed; None for nothing. A switch that a random number sets counts as on."""
    if instruction.op != ANNOTATE:
        declaration = registry().get(instruction.op)
        return None if declaration is None else declaration.permission
    _, key, value = (*normal_form(instruction).args, None, None, None)[:3]
    known = known_annotations().get(key) if isinstance(key, str) else None
    return None if known is None or value in (False, 0) else known.permission


def permissions_of(instructions: Iterable[Instruction]) -> frozenset[Permission]:
    """What some steps need to be allowed."""
    return frozenset(p for p in map(permission_of, instructions) if p is not None)


@lru_cache(maxsize=4096)
def permissions_of_text(trace: str) -> frozenset[Permission]:
    """What the steps of a trace's text need to be allowed; of a text that is no trace, nothing."""
    if not any(permission.value in trace for permission in Permission):
        return frozenset()
    try:
        return permissions_of(parse_trace(trace).instructions)
    except (LanguageError, RecursionError):
        return frozenset()

"""What installed packages add, and whether it is where it is looked for."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from metasched.database.database_registry import DATABASES
from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing
from metasched.knowledge.library import KNOWLEDGE
from metasched.measure.executor_registry import EXECUTORS
from metasched.operators.files import OPERATORS
from metasched.search.scheduler_registry import SCHEDULERS
from metasched.search.strategy_registry import STRATEGIES
from metasched.space.registry import RULES
from metasched.support.messages import counted, listing

_OURS = "metasched"
_READ = (DATABASES, EXECUTORS, KNOWLEDGE, OPERATORS, RULES, SCHEDULERS, STRATEGIES)


def check(examined: Examined) -> Finding:
    """Parts of other packages; those of groups that nothing reads would be without effect, and no error."""
    del examined
    groups = sorted(registry.group for registry in _READ if registry.group)
    given = sorted(group for group in entry_points().groups if group.partition(".")[0] == _OURS)
    parts = [part for group in given for part in entry_points(group=group) if _package(part) != _OURS]
    unread = [part for part in parts if part.group not in groups]
    facts = {"parts": [f"{part.group}: {part.name} ({_package(part)})" for part in parts]}
    if unread:
        named = "; ".join(f"`{part.name}` of {_package(part)} is in the group `{part.group}`" for part in unread)
        remedy = (
            f"the groups are {listing(groups)}. Primitives, samplers, intrinsics and math functions are files of "
            "metasched itself: CONTRIBUTING.md"
        )
        return Finding(Standing.NOTE, f"{named}, which nothing reads", remedy, facts)
    packages = sorted({_package(part) for part in parts})
    text = f"{counted(len(parts), 'part')} of {listing(packages)}" if parts else "none adds anything"
    return Finding(Standing.GOOD, text, facts=facts)


def _package(part: EntryPoint) -> str:
    return part.dist.name if part.dist is not None else "?"

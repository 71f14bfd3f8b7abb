"""Running rules over a program: which applied to which block, and why not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from metasched.schedule.schedule import Schedule
from metasched.space.rule import Rule, Skip


@dataclass(frozen=True)
class Outcome:
    """What a rule did with a block; `reason` is None when it applied."""

    rule: str
    block: str
    reason: str | None


Module = Callable[[Schedule], object]


@dataclass(frozen=True)
class Generator:
    """Rules as one module: each in list order visits the blocks that exist when it starts, consumers first."""

    rules: tuple[Rule, ...]

    def run(self, schedule: Schedule) -> tuple[Outcome, ...]:
        outcomes: list[Outcome] = []
        for rule in self.rules:
            for name in reversed(schedule.block_names()):
                if name not in schedule.block_names():
                    continue
                result = rule.apply(schedule, schedule.get_block(name))
                outcomes.append(Outcome(rule.name, name, result.reason if isinstance(result, Skip) else None))
        return tuple(outcomes)


@dataclass(frozen=True)
class FromModule:
    """A user's module for one program, as a space."""

    module: Module

    def run(self, schedule: Schedule) -> tuple[Outcome, ...]:
        self.module(schedule)
        return ()


SpaceSource = Generator | FromModule


def explain(outcomes: Sequence[tuple[Outcome, ...]]) -> str:
    """Per block, which rule applied, or why not, over several sketches."""
    order: dict[str, dict[str, dict[str | None, int]]] = {}
    for run in outcomes:
        for o in run:
            counts = order.setdefault(o.block, {}).setdefault(o.rule, {})
            counts[o.reason] = counts.get(o.reason, 0) + 1
    lines: list[str] = []
    for block, rules in order.items():
        lines.append(f"block {block}")
        width = max(len(rule) for rule in rules)
        for rule, counts in rules.items():
            lines.extend(_line(rule, reason, n, len(outcomes), width) for reason, n in counts.items())
    fired = {o.rule for run in outcomes for o in run if o.reason is None}
    silent = dict.fromkeys(o.rule for run in outcomes for o in run if o.rule not in fired)
    lines.extend(f"rule {rule} never applied" for rule in silent)
    return "\n".join(lines)


def _line(rule: str, reason: str | None, count: int, total: int, width: int) -> str:
    verdict = "applied" if reason is None else f"not applied: {reason}"
    share = "" if count == total else f"  (in {count} of {total} sketches)"
    return f"    {rule:<{width}}  {verdict}{share}"

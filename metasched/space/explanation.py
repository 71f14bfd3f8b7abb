"""Which rules applied to which blocks of a program, and why not, as text."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from metasched.space.rule import Outcome, Rule, inside


def explain(outcomes: Sequence[tuple[Outcome, ...]], rules: Sequence[Rule] = ()) -> str:
    """Per block, which rule applied, or why not, over several sketches.

    At the end are the rules that never applied (parts of others included) with all their reasons, and the patterns that
    no block's name matches.
    """
    order: dict[str, dict[str, dict[str | None, int]]] = {}
    for run in outcomes:
        for o in run:
            counts = order.setdefault(o.block, {}).setdefault(o.rule, {})
            counts[o.reason] = counts.get(o.reason, 0) + 1
    lines: list[str] = []
    for block, verdicts in order.items():
        lines.append(f"block {block}")
        width = max(len(rule) for rule in verdicts)
        for rule, counts in verdicts.items():
            lines.extend(_line(rule, reason, n, len(outcomes), width) for reason, n in counts.items())
    return "\n".join([*lines, *_unapplied_rules(outcomes, rules), *_unmatched_patterns(rules, tuple(order))])


def _unapplied_rules(outcomes: Sequence[tuple[Outcome, ...]], rules: Sequence[Rule]) -> list[str]:
    """The rules that never applied, those inside others included, each with its reasons."""
    parts = {inside(rule.name, part) for rule in rules for part in rule.inner}
    names = (name for rule in rules for name in (rule.name, *(inside(rule.name, part) for part in rule.inner)))
    reasons: dict[str, dict[str, dict[str, None]]] = {name: {} for name in names}
    fired: set[str] = set()
    for run in outcomes:
        for o in run:
            by_block = reasons.setdefault(o.rule, {})
            if o.reason is None:
                fired.add(o.rule)
            else:
                by_block.setdefault(o.block, {})[o.reason] = None
    lines: list[str] = []
    for rule, blocks in reasons.items():
        if rule in fired:
            continue
        untried = ": no sketch came to it" if rule in parts else ": there was no block to try it on"
        lines.append(f"rule {rule} never applied" + ("" if blocks else untried))
        width = max((len(block) for block in blocks), default=0)
        lines.extend(f"    {block:<{width}}  {'; or '.join(texts)}" for block, texts in blocks.items())
    return lines


def _unmatched_patterns(rules: Sequence[Rule], blocks: Sequence[str]) -> list[str]:
    """The patterns that no block's name matches: a misspelt one leaves a rule out everywhere, or nowhere."""
    return [
        f"rule {rule.name}: no block is named `{pattern}`"
        for rule in rules
        for pattern in (*rule.blocks.only, *rule.blocks.but)
        if not any(fnmatchcase(block, pattern) for block in blocks)
    ]


def _line(rule: str, reason: str | None, count: int, total: int, width: int) -> str:
    verdict = "applied" if reason is None else f"not applied: {reason}"
    share = "" if count == total else f"  (in {count} of {total} sketches)"
    return f"    {rule:<{width}}  {verdict}{share}"

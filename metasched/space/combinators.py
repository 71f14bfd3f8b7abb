"""Rules made of rules. A combination is a rule like any other: configured, listed, explained and traced.

A combination adds to the trace what its parts add, at the addresses that they would have alone. Only `choice` makes a
decision, in a scope of its own name. Keywords given to a combination are passed to every part that has a parameter of
that name. (The vocabulary is that of strategy languages, as in ELEVATE, Hagedorn et al. 2020.)
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import replace

from metasched.errors import ScheduleError
from metasched.schedule.analysis import BlockInfo
from metasched.schedule.handlers import MissingDecision, PickByFunction, Symbolic, first_option
from metasched.schedule.trace import Schedule
from metasched.schedule.values import BlockRV
from metasched.space.rule import NONE, Combined, Listener, Outcome, Rule, RuleError, Skip, undone
from metasched.space.rule_errors import noting_errors_of, place_of
from metasched.support.data_classes import dataclass

Predicate = Callable[[BlockInfo], bool]
_GONE = "the block is gone"


def sequence(*rules: Rule) -> Rule:
    """One rule after another on the same block, as if each were an item of the list of rules.

        >>> from metasched.rules.inline import inline
        >>> from metasched.rules.vectorize import vectorize
        >>> len(ms.space(prog, [ms.sequence(inline, vectorize)]))
        1

    Each applies or skips by itself; one whose block no longer exists (inlined, say) skips. If all skip, so does the
    sequence.
    """
    parts = _rules("sequence", rules)
    doc = "In this order, on the same block:\n\n" + _summary(parts)
    return Rule(f"sequence({_names(parts)})", _Sequence(parts), doc)


def choice(name: str, *rules: Rule | None) -> Rule:
    """A structural decision between several rules, each of which gives another sketch. None leaves the block as it is.

        >>> from metasched.rules.vectorize import vectorize
        >>> len(ms.space(prog, [ms.choice("lanes", vectorize, None)]))  # of two blocks
        4

    The options are the rules that would apply to the block; each is tried on a copy. If none would, the choice skips
    and nothing is decided. `name` is the name of the rule, and the decision's address is `NAME(BLOCK)/rule`.
    """
    given: object = name
    if not isinstance(given, str) or not given:
        raise RuleError(f'choice: the first argument is its name, such as choice("tiling", a, b), not {given!r}')
    parts = _rules("choice", tuple(r for r in rules if r is not None))
    names = [r.name for r in parts]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise RuleError(
            f'choice "{name}": two rules are named `{twice}`, and decisions are recorded by name',
            hint=f'give one another name: {twice}(...).named("...")',
        )
    doc = "One of these, by a structural decision:\n\n" + _summary(parts)
    if None in rules:
        doc += f"\n- {NONE}: leave the block as it is"
    return Rule(name, _Choice(name, parts, None in rules), doc)


def when(predicate: Predicate, rule: Rule, *, otherwise: str | None = None) -> Rule:
    """A rule for the blocks for which `predicate` holds: a function of the block's description (`Schedule.describe`).

        >>> from metasched.rules.vectorize import vectorize
        >>> len(ms.space(prog, [ms.when(lambda info: info.output, vectorize)]))
        1

    `otherwise` is the reason that `explain` shows for other blocks; by default the predicate's name, or its line.
    """
    (part,) = _rules("when", (rule,))
    if not callable(predicate):
        raise RuleError(f"when: the first argument is a function of a block's description, not {predicate!r}")
    reason = otherwise or f"when: {_predicate_text(predicate)} does not hold"
    doc = f"{part.doc}\n\nIt skips some blocks: {reason}."
    return Rule(part.name, _When(predicate, part, reason), doc, blocks=part.blocks)


def attempt(rule: Rule) -> Rule:
    """A rule that may fail: if one of its steps is not legal, all of them are undone, and the rule skips.

        >>> @ms.rule
        ... def inlined(sch, block):
        ...     "Compute it where it is read."
        ...     sch.compute_inline(block)
        >>> ms.space(prog, [ms.attempt(inlined)])[0].show()
        func bias_gelu(X: f32[4, 8], const bias: f32[8]) -> Y: f32[4, 8]:
            ...

    The reason is that of the step's ScheduleError; `explain` shows it and counts the sketches. Other exceptions are
    mistakes in the rule, and are raised.
    """
    (part,) = _rules("attempt", (rule,))
    return Rule(part.name, _Attempt(part), f"{part.doc}\n\nWhere a step is not legal, it skips.", blocks=part.blocks)


def each_consumer(rule: Rule) -> Rule:
    """A rule applied to every block that reads the block's result, of those that exist at the start.

        >>> from metasched.rules.vectorize import vectorize
        >>> print(ms.each_consumer(vectorize).name)
        each_consumer(vectorize)

    It skips if the rule applies to none of them.
    """
    (part,) = _rules("each_consumer", (rule,))
    doc = f"For each block that reads this block's result: {part.name}.\n\n{part.doc}"
    return Rule(f"each_consumer({part.name})", _EachConsumer(part), doc)


# --- what they do


@dataclass(frozen=True)
class _Sequence(Combined):
    rules: tuple[Rule, ...]

    @property
    def parts(self) -> tuple[Rule, ...]:
        return self.rules

    def with_parts(self, parts: tuple[Rule, ...]) -> _Sequence:
        return _Sequence(parts)

    def run(self, schedule: Schedule, block: BlockRV, tell: Listener) -> Skip | None:
        name = schedule.name_of(block)
        reasons: list[str] = []
        for n, part in enumerate(self.rules):
            if name not in schedule.block_names():
                reasons.append(f"{part.name}: {_GONE}")
                tell(Outcome(part.name, name, _GONE))
                continue
            try:
                result = part.apply(schedule, block, tell)
            except ScheduleError:
                for later in self.rules[n + 1 :]:
                    tell(Outcome(later.name, name, f"not come to: a step of {part.name} is not legal"))
                raise
            if result is not None:
                reasons.append(f"{part.name}: {result.reason}")
        return Skip("; ".join(reasons)) if len(reasons) == len(self.rules) else None


@dataclass(frozen=True)
class _Choice(Combined):
    name: str
    rules: tuple[Rule, ...]
    may_leave: bool

    @property
    def parts(self) -> tuple[Rule, ...]:
        return self.rules

    def with_parts(self, parts: tuple[Rule, ...]) -> _Choice:
        return replace(self, rules=parts)

    def ingredients(self) -> tuple[object, ...]:
        return (*super().ingredients(), self.name, self.may_leave)

    def run(self, schedule: Schedule, block: BlockRV, tell: Listener) -> Skip | None:
        refusals = {part.name: _refusal(part, schedule, block) for part in self.rules}
        for outcomes in refusals.values():
            for outcome in outcomes:
                tell(outcome)
        offered = [name for name, outcomes in refusals.items() if not outcomes]
        if not offered:
            return Skip("; ".join(f"{name}: {outcomes[0].reason}" for name, outcomes in refusals.items()))
        with schedule.scope(f"{self.name}({schedule.name_of(block)})"):
            taken = schedule.choose("rule", [*offered, *([NONE] if self.may_leave else [])])
            for part in self.rules:
                if part.name == taken:
                    part.apply(schedule, block, tell)
        return None


@dataclass(frozen=True)
class _When(Combined):
    predicate: Predicate
    rule: Rule
    reason: str

    @property
    def parts(self) -> tuple[Rule, ...]:
        return (self.rule,)

    @property
    def reported_parts(self) -> tuple[Rule, ...]:
        return _reported_parts(self.rule)

    def with_parts(self, parts: tuple[Rule, ...]) -> _When:
        return replace(self, rule=parts[0])

    def ingredients(self) -> tuple[object, ...]:
        return (*super().ingredients(), self.predicate)

    def run(self, schedule: Schedule, block: BlockRV, tell: Listener) -> Skip | None:
        what, name = f"the condition of rule {self.rule.name}", schedule.name_of(block)
        with noting_errors_of(what, self.predicate, schedule, name):
            holds = self.predicate(schedule.describe(block))
        return self.rule.apply_inside(schedule, block, tell) if holds else Skip(self.reason)


@dataclass(frozen=True)
class _Attempt(Combined):
    rule: Rule

    @property
    def parts(self) -> tuple[Rule, ...]:
        return (self.rule,)

    @property
    def reported_parts(self) -> tuple[Rule, ...]:
        return _reported_parts(self.rule)

    def with_parts(self, parts: tuple[Rule, ...]) -> _Attempt:
        return _Attempt(parts[0])

    def run(self, schedule: Schedule, block: BlockRV, tell: Listener) -> Skip | None:
        outcomes: list[Outcome] = []
        try:
            with schedule.all_or_nothing():
                result = self.rule.apply_inside(schedule, block, outcomes.append)
        except MissingDecision:
            raise  # the replayed trace was made by another module
        except ScheduleError as error:
            result = Skip(undone(error))
            outcomes = [replace(o, reason=result.reason) if o.reason is None else o for o in outcomes]
        for outcome in outcomes:
            tell(outcome)
        return result


@dataclass(frozen=True)
class _EachConsumer(Combined):
    rule: Rule

    @property
    def parts(self) -> tuple[Rule, ...]:
        return (self.rule,)

    def with_parts(self, parts: tuple[Rule, ...]) -> _EachConsumer:
        return _EachConsumer(parts[0])

    def run(self, schedule: Schedule, block: BlockRV, tell: Listener) -> Skip | None:
        reasons: list[str] = []
        consumers = schedule.get_consumers(block)
        for consumer in consumers:
            if schedule.name_of(consumer) not in schedule.block_names():
                reasons.append(f"{consumer}: {_GONE}")
                tell(Outcome(self.rule.name, schedule.name_of(consumer), _GONE))
                continue
            result = self.rule.apply(schedule, consumer, tell)
            if result is not None:
                reasons.append(f"{consumer}: {result.reason}")
        if len(reasons) < len(consumers):
            return None
        return Skip("; ".join(reasons) or "nothing reads its result")


def _refusal(part: Rule, schedule: Schedule, block: BlockRV) -> tuple[Outcome, ...]:
    """The outcomes of a rule that skips the block whatever it decides; empty for one that applies, or may."""
    first = PickByFunction(first_option)
    outcomes: list[Outcome] = []
    try:
        result = part.apply(schedule.fork(Symbolic(first)), block, outcomes.append)
    except ScheduleError:
        return ()  # raised again if this option is chosen, where the sketch is known
    return () if result is None or first.met else tuple(outcomes)


# --- helpers


def _reported_parts(rule: Rule) -> tuple[Rule, ...]:
    """The reported parts of a rule whose own outcome is reported under the enclosing rule's name."""
    return rule.fn.reported_parts if isinstance(rule.fn, Combined) else ()


def _rules(combinator: str, given: tuple[object, ...]) -> tuple[Rule, ...]:
    out: list[Rule] = []
    for item in given:
        if not isinstance(item, Rule):
            name = getattr(item, "__name__", repr(item))
            raise RuleError(f"{combinator}: `{name}` is no rule: decorate the function with @metasched.rule")
        out.append(item)
    if not out:
        raise RuleError(f"{combinator}: there are no rules to combine")
    return tuple(out)


def _names(rules: tuple[Rule, ...]) -> str:
    return ", ".join(r.name for r in rules)


def _summary(rules: tuple[Rule, ...]) -> str:
    return "\n".join(f"- {r.name}: {r.doc.splitlines()[0]}" for r in rules)


def _predicate_text(predicate: Predicate) -> str:
    """A predicate in a message: its name, or the line of a lambda."""
    name = getattr(predicate, "__name__", type(predicate).__name__)
    place = place_of(predicate)
    if name != "<lambda>" or place is None:
        return f"`{name}`"
    line = linecache.getline(place.file, place.line).strip()
    return f"`{line}` ({place})" if line else str(place)


__all__ = ["attempt", "choice", "each_consumer", "sequence", "when"]

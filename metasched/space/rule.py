"""Rules: modules that the space generator tries on every block of a program."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from metasched.errors import MetaschedError, ScheduleError
from metasched.ir.nodes import Func
from metasched.ir.printer import print_func
from metasched.lang import print_instruction
from metasched.schedule.trace import Schedule
from metasched.schedule.values import BlockRV
from metasched.space.rule_errors import Place, noting_errors_of, place_of, results_of
from metasched.support.data_classes import dataclass
from metasched.support.documentation import documentation
from metasched.support.messages import listing

# The option of a structural choice by which a rule leaves a block to the others, as if it were not there: what was
# found in a space without the rule is whole in one with it.
LEFT_ALONE = "left alone"
# The option of a structural choice that does without what a rule adds, such as a copy.
NONE = "none"


@dataclass(frozen=True)
class Skip:
    """Why a rule leaves a block alone."""

    reason: str


def skip(reason: str) -> Skip:
    """What a rule returns when it does not apply to a block; `Space.explain` shows the reason.

        return ms.skip("it is no reduction")

    Raises RuleError where it is no text, or says nothing.
    """
    given: object = reason
    if not isinstance(given, str) or not given:
        raise RuleError(f"a rule skips a block for the reason {reason!r}: say in words why it does not apply")
    return Skip(reason)


class RuleError(MetaschedError):
    """A rule that does not keep the rules' contract."""


@dataclass(frozen=True)
class Outcome:
    """What a rule did with a block; `reason` is None when it applied."""

    rule: str
    block: str
    reason: str | None


RuleFunction = Callable[..., Skip | None]
Listener = Callable[[Outcome], object]


class Combined(ABC):
    """How a combination of rules is applied. It opens a scope of its own only if it makes a decision itself."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Rule, ...]: ...

    @property
    def reported_parts(self) -> tuple[Rule, ...]:
        """The parts whose outcomes are reported under their own names, each as a rule inside this one."""
        return self.parts

    @abstractmethod
    def with_parts(self, parts: tuple[Rule, ...]) -> Combined: ...

    @abstractmethod
    def run(self, schedule: Schedule, block: BlockRV, tell: Listener) -> Skip | None:
        """Apply to one block; `tell` is called with the outcome of each part."""

    def ingredients(self) -> tuple[object, ...]:
        """What a fingerprint of it is computed from: its kind and its parts."""
        return (type(self).__name__, self.parts)


@dataclass(frozen=True)
class Blocks:
    """Which blocks a rule may be applied to, by patterns of their names such as `conv*`: those that match `only` (all
    blocks if it is empty), except those that match `but`.
    """

    only: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    def refusal(self, name: str) -> str | None:
        """Why the rule may not be applied to this block; None if it may."""
        if self.only and not _matches(name, self.only):
            return f"it is left out: the rule is only for {listing(self.only)}"
        if _matches(name, self.but):
            return f"it is left out: the rule is for blocks except {listing(self.but)}"
        return None


@dataclass(frozen=True)
class Rule:
    """A rule and its configuration.

    Called with a schedule and a block, it is applied, with keywords as its configuration. Called with keywords alone,
    it returns the rule with that configuration: `multi_level_tiling(levels="SSRS")`. `only` and `except_for` return
    the rule restricted to some blocks.
    """

    name: str
    fn: RuleFunction | Combined
    doc: str
    config: tuple[tuple[str, Any], ...] = ()
    blocks: Blocks = Blocks()

    def __call__(self, /, *args: Any, **config: Any) -> Any:
        if not args:
            return self._set_config(config)
        schedule, block, *more = args if len(args) > 1 else (*args, None)
        if not isinstance(schedule, Schedule) or not isinstance(block, BlockRV) or more:
            raise TypeError(f"rule {self.name}: call it with a Schedule and a block, or with keywords to configure it")
        return self._set_config(config).apply(schedule, block)

    def ingredients(self) -> object:
        """What the fingerprint of a space is computed from: everything but the documentation."""
        return self.name, self.config, self.blocks, self.fn

    def named(self, name: str) -> Rule:
        """This rule under another name: in explanations, in specifications, and in its variables' addresses."""
        return replace(self, name=name)

    def only(self, *patterns: str) -> Rule:
        """This rule, for blocks whose name matches one of these patterns: `tile.only("dense", "conv*")`."""
        self._check_patterns("only", patterns)
        return replace(self, blocks=replace(self.blocks, only=(*self.blocks.only, *patterns)))

    def except_for(self, *patterns: str) -> Rule:
        """This rule, for all blocks but those whose name matches one of these patterns."""
        self._check_patterns("except_for", patterns)
        return replace(self, blocks=replace(self.blocks, but=(*self.blocks.but, *patterns)))

    def _check_patterns(self, method: str, patterns: tuple[object, ...]) -> None:
        wrong = [p for p in patterns if not isinstance(p, str) or not p]
        if wrong or not patterns:
            given = repr(wrong[0]) if wrong else "nothing"
            raise RuleError(f'rule {self.name}.{method} takes names of blocks such as "dense" or "conv*", not {given}')

    def _set_config(self, config: dict[str, Any]) -> Rule:
        known = self.parameters
        unknown = config.keys() - known.keys()
        if unknown:
            raise RuleError(f"rule {self.name} has no parameter `{min(unknown)}`; it has {', '.join(known) or 'none'}")
        if isinstance(self.fn, Combined):
            parts = [p(**{k: v for k, v in config.items() if k in p.parameters}) for p in self.fn.parts]
            return replace(self, fn=self.fn.with_parts(tuple(parts)))
        return replace(self, config=tuple(sorted({**dict(self.config), **config}.items())))

    @property
    def parameters(self) -> dict[str, Any]:
        """Keyword parameters and their values; for a combination those of its parts, the first of each name."""
        if isinstance(self.fn, Combined):
            return {name: value for part in reversed(self.fn.parts) for name, value in part.parameters.items()}
        given = dict(self.config)
        return {
            p.name: given.get(p.name, p.default)
            for p in inspect.signature(self.fn).parameters.values()
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        }

    @property
    def inner(self) -> tuple[str, ...]:
        """The names that outcomes give to the rules inside this one, at any depth."""
        if not isinstance(self.fn, Combined):
            return ()
        parts = self.fn.reported_parts
        names = (name for part in parts for name in (part.name, *(inside(part.name, n) for n in part.inner)))
        return tuple(dict.fromkeys(names))

    @property
    def place(self) -> Place | None:
        """The place where the rule is defined; None for a combination."""
        return None if isinstance(self.fn, Combined) else place_of(self.fn)

    def apply(self, schedule: Schedule, block: BlockRV, tell: Listener = lambda _: None) -> Skip | None:
        """Run on one block, in a scope of the rule's name; `tell` gets its outcome, and then those of its parts.

        Raises RuleError for a wrong result. An exception from the rule's code gets a note with the rule's line. A
        ScheduleError is reported to `tell` as well, because an enclosing rule may catch it.
        """
        name = schedule.name_of(block)
        outcomes: list[Outcome] = []
        try:
            result = self.apply_inside(schedule, block, outcomes.append)
        except ScheduleError as error:
            self._report(name, undone(error), outcomes, tell)
            raise
        self._report(name, None if result is None else result.reason, outcomes, tell)
        return result

    def apply_inside(self, schedule: Schedule, block: BlockRV, tell: Listener) -> Skip | None:
        """As `apply`, for an enclosing rule that reports the outcome itself: `tell` gets the parts' outcomes only."""
        name = schedule.name_of(block)
        refusal = self.blocks.refusal(name)
        return self._run(schedule, block, name, tell) if refusal is None else Skip(refusal)

    def _report(self, block: str, reason: str | None, outcomes: list[Outcome], tell: Listener) -> None:
        tell(Outcome(self.name, block, reason))
        for outcome in outcomes:
            tell(replace(outcome, rule=inside(self.name, outcome.rule)))

    def _run(self, schedule: Schedule, block: BlockRV, name: str, tell: Listener) -> Skip | None:
        if isinstance(self.fn, Combined):
            return self.fn.run(schedule, block, tell)
        before, started = schedule.func, len(schedule.instructions)
        with schedule.scope(f"{self.name}({name})"), noting_errors_of(f"rule {self.name}", self.fn, schedule, name):
            result: object = self.fn(schedule, block, **dict(self.config))
        if result is None:
            return None
        if not isinstance(result, Skip):
            kind = type(result).__name__
            message = f"rule {self.name} returned {result!r} ({kind}); a rule returns None, or skip(reason)"
            raise RuleError(f"{message}{results_of(self.fn)}")
        if schedule.func is not before:
            message = f"rule {self.name} skipped block `{block.label}` after transforming it; decide first"
            steps = "\n".join(f"    {print_instruction(i)}" for i in schedule.instructions[started:])
            raise RuleError(
                f"{message}{results_of(self.fn)}\n  it had run:\n{steps}\n\n{_print_block(schedule.func, name)}"
            )
        return result


def rule(fn: RuleFunction) -> Rule:
    """Make a function `(sch, block, *, parameters...)` a rule. Its docstring is its documentation.

        @ms.rule
        def vectorize_rows(sch, block, *, lanes: int = 16):
            \"\"\"Vectorise the innermost loop.\"\"\"
            if sch.describe(block).reduces:
                return ms.skip("a reduction")
            sch.vectorize(sch.get_loops(block)[-1], lanes=lanes)

    Raises RuleError for a function without a docstring, and for one with other parameters.
    """
    given: object = fn
    if not callable(given):
        raise RuleError(f"a rule is made of a function `(sch, block)`, not of {given!r}")
    doc = documentation(fn)
    if doc is None:
        raise RuleError(
            f"rule {fn.__name__} ({fn.__code__.co_filename}:{fn.__code__.co_firstlineno}) has no docstring, "
            "which is its documentation"
        )
    parameters = list(inspect.signature(fn).parameters.values())
    positional = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(positional) != 2:
        raise RuleError(f"rule {fn.__name__}: the parameters are (schedule, block), and the others keyword-only")
    required = [
        p.name for p in parameters if p not in positional and p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    if required:
        raise RuleError(f"rule {fn.__name__}: its parameter `{required[0]}` has no default, by which it is run")
    return Rule(fn.__name__, fn, doc)


def inside(rule: str, part: str) -> str:
    """The name of a part of a rule in outcomes."""
    return f"{rule} > {part}"


def undone(error: ScheduleError) -> str:
    """The reason in an outcome whose rule was undone because a step is not legal."""
    return f"tried and undone: {error.reason}"


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _print_block(func: Func, block: str) -> str:
    return print_func(func, (block,))

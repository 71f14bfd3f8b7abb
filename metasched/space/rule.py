"""Rules: modules that the space generator tries on every block of a program."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from metasched.errors import MetaschedError
from metasched.schedule.schedule import Schedule
from metasched.schedule.values import BlockRV


@dataclass(frozen=True)
class Skip:
    """Why a rule leaves a block alone."""

    reason: str


def skip(reason: str) -> Skip:
    """What a rule returns when it does not apply to a block; `Space.explain` shows the reason."""
    return Skip(reason)


class RuleError(MetaschedError):
    """A rule that does not keep the rules' contract."""


RuleFunction = Callable[..., Skip | None]


@dataclass(frozen=True)
class Rule:
    """A rule and its configuration.

    Called with a schedule and a block it applies; called with keywords alone it gives the rule so configured:
    `multi_level_tiling(levels="SSRS")`.
    """

    name: str
    fn: RuleFunction
    doc: str
    config: tuple[tuple[str, Any], ...] = ()

    def __call__(self, *args: Any, **config: Any) -> Any:
        if not args:
            return self._configured(config)
        schedule, block = args
        if not isinstance(schedule, Schedule) or not isinstance(block, BlockRV):
            raise TypeError(f"rule {self.name}: call it with a Schedule and a block, or with keywords to configure it")
        return self.apply(schedule, block)

    def _configured(self, config: dict[str, Any]) -> Rule:
        known = self.parameters
        unknown = config.keys() - known.keys()
        if unknown:
            raise RuleError(f"rule {self.name} has no parameter `{min(unknown)}`; it has {', '.join(known) or 'none'}")
        return replace(self, config=tuple(sorted({**dict(self.config), **config}.items())))

    @property
    def parameters(self) -> dict[str, Any]:
        """Keyword parameters and their values here."""
        given = dict(self.config)
        return {
            p.name: given.get(p.name, p.default)
            for p in inspect.signature(self.fn).parameters.values()
            if p.kind is inspect.Parameter.KEYWORD_ONLY
        }

    def apply(self, schedule: Schedule, block: BlockRV) -> Skip | None:
        """Run on one block, in a scope of the rule's name. Raises RuleError for a wrong result."""
        before = schedule.func
        with schedule.scope(f"{self.name}({schedule.name_of(block)})"):
            result = self._call(schedule, block)
        if not (result is None or isinstance(result, Skip)):
            raise RuleError(f"rule {self.name} returned {result!r}; a rule returns None, or skip(reason)")
        if isinstance(result, Skip) and schedule.func is not before:
            raise RuleError(f"rule {self.name} skipped block `{block.label}` after transforming it; decide first")
        return result

    def _call(self, schedule: Schedule, block: BlockRV) -> object:
        try:
            return self.fn(schedule, block, **dict(self.config))
        except Exception as error:
            code = self.fn.__code__ if hasattr(self.fn, "__code__") else None
            where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
            error.add_note(f"in rule {self.name}{where}, on block `{block.label}` of {schedule.program.key}")
            raise


def rule(fn: RuleFunction) -> Rule:
    """Make a function `(sch, block, *, parameters...)` a rule. Its docstring is its documentation.

    @ms.rule
    def vectorize_rows(sch, block, *, lanes: int = 16):
        \"\"\"Vectorise the innermost loop.\"\"\"
        if sch.describe(block).reduces:
            return ms.skip("a reduction")
        sch.vectorize(sch.get_loops(block)[-1], lanes=lanes)
    """
    if not fn.__doc__:
        raise RuleError(
            f"rule {fn.__name__} ({fn.__code__.co_filename}:{fn.__code__.co_firstlineno}) has no docstring, "
            "which is its documentation"
        )
    parameters = list(inspect.signature(fn).parameters.values())
    positional = [p for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(positional) != 2:
        raise RuleError(f"rule {fn.__name__}: the parameters are (schedule, block), and the others keyword-only")
    return Rule(fn.__name__, fn, inspect.cleandoc(fn.__doc__))

"""Results of steps, kept so that the same step on the same program is not computed again.

A module tries steps before it takes them, and one that is run again under other choices repeats all the steps before
the first of these. Programs are immutable values, so the result of a step can be used again wherever its program, its
arguments and the free variables are equal.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metasched.ir.nodes import Func
from metasched.schedule.context import Constraint, Context
from metasched.schedule.primitive import Declaration
from metasched.support.data_classes import dataclass

# Those of a step, by position and by name.
Arguments = tuple[Sequence[Any], Mapping[str, Any]]

# The results that are kept, the latest used: a search goes on from schedules that it made a short time ago.
_MOST_STEPS = 4096


@dataclass(frozen=True)
class _Effect:
    """What a step did: the program after it, the names that it took and the constraints that it added.

    `asked` are the names that it looked up among those taken, and whether they were there.
    """

    func: Func
    result: Any
    added: frozenset[str]
    constraints: tuple[Constraint, ...]
    asked: tuple[tuple[str, bool], ...]


class _NameLookups(set[str]):
    """Names taken; `asked` records which of them were looked up."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(names)
        self.asked: dict[str, bool] = {}

    def __contains__(self, name: object) -> bool:
        found = super().__contains__(name)
        self.asked.setdefault(str(name), found)
        return found


class StepMemo:
    """The effects of steps on programs that were met before."""

    def __init__(self) -> None:
        self._effects: OrderedDict[object, _Effect] = OrderedDict()
        self._programs: OrderedDict[Func, Func] = OrderedDict()

    def run(
        self,
        step: Callable[[], Any],
        declaration: Declaration,
        ctx: Context,
        arguments: tuple[Sequence[Any], Mapping[str, Any]],
    ) -> Any:
        """The result of a step, which changes the context: by `step`, or as it did before.

        Raises what `step` raises; then the context is left as `step` left it.
        """
        key = _key(declaration, ctx, arguments)
        known = self._effects.get(key)
        if known is not None and all((name in ctx.taken) is there for name, there in known.asked):
            self._effects.move_to_end(key)
            ctx.func = known.func
            ctx.taken |= known.added
            ctx.constraints.extend(c for c in known.constraints if c not in ctx.constraints)
            return known.result
        before, constraints = ctx.taken, ctx.constraints
        taken = ctx.taken = _NameLookups(before)
        ctx.constraints = []
        result = step()
        ctx.func = self._share_program(ctx.func)
        added = ctx.constraints
        self._keep(
            self._effects,
            key,
            _Effect(ctx.func, result, frozenset(ctx.taken - before), tuple(added), tuple(taken.asked.items())),
        )
        ctx.taken = set(ctx.taken)
        constraints.extend(c for c in added if c not in constraints)
        ctx.constraints = constraints
        return result

    def _share_program(self, func: Func) -> Func:
        """An equal program that was met before, if there is one: what is found out about it is kept with it."""
        known = self._programs.get(func)
        if known is None:
            self._keep(self._programs, func, func)
            return func
        return known

    @staticmethod
    def _keep(where: OrderedDict[Any, Any], key: object, value: object) -> None:
        where[key] = value
        if len(where) > _MOST_STEPS:
            where.popitem(last=False)


def _key(declaration: Declaration, ctx: Context, arguments: Arguments) -> object:
    positional, keywords = arguments
    # 1 and True are equal in Python, and are different arguments.
    given = tuple((type(value), value) for value in positional)
    named = tuple((name, type(value), value) for name, value in keywords.items())
    return declaration.name, ctx.func, frozenset(ctx.free), ctx.allowed, ctx.held_to_allowed, given, named

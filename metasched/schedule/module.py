"""Modules: schedules as probabilistic programs, and running one again with given decisions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from metasched.errors import ScheduleError
from metasched.ir.program import Program
from metasched.lang import print_decision
from metasched.lang.instructions import Decision
from metasched.schedule.handlers import DrawFromPrior, Free, Policy, Repair, Replay
from metasched.schedule.trace import Schedule, Trace, require_trace
from metasched.schedule.values import BlockRV, LoopRV
from metasched.support.messages import a_or_an
from metasched.target import Target

P = ParamSpec("P")
R = TypeVar("R")


def module(fn: Callable[P, R]) -> Callable[P, R]:
    """Make a function over a `Schedule` a module: it opens a scope, so its random variables get addresses under
    `name(block)`. Modules are composed by calling one another.

        >>> @ms.module
        ... def inlined(sch, block):
        ...     sch.compute_inline(sch.get_block(block))
        >>> sch = ms.Schedule(prog)
        >>> inlined(sch, "biased")
    """
    if not callable(fn):
        raise TypeError(f"a module is a function over a Schedule, not {a_or_an(type(fn).__name__)}")

    @functools.wraps(fn)
    def scoped(*args: P.args, **kwargs: P.kwargs) -> R:
        schedule = args[0] if args else None
        if not isinstance(schedule, Schedule):
            raise TypeError(f"module {fn.__name__}: the first argument must be a Schedule, got {schedule!r}")
        with schedule.scope(scope_name(fn.__name__, schedule, args[1:])):
            return fn(*args, **kwargs)

    return scoped


def scope_name(name: str, schedule: Schedule, args: tuple[Any, ...]) -> str:
    """`name(dense)`, after the first handle among the arguments."""
    for arg in args:
        if isinstance(arg, BlockRV | LoopRV):
            return f"{name}({schedule.name_of(arg)})"
    return name


def rerun(
    fn: Callable[[Schedule], Any],
    program: Program,
    decisions: Trace,
    policy: Policy = Policy.STRICT,
    *,
    seed: int = 0,
    target: Target | None = None,
) -> Schedule:
    """Run a module on a program and for a target (by default this machine), taking decisions by address from a trace.

        >>> @ms.module
        ... def tiles(sch):
        ...     i, j = sch.get_loops(sch.get_block("gelu"))
        ...     sch.split(j, sch.sample_tile(j, parts=2))
        >>> drawn = ms.Schedule(prog, seed=1)
        >>> tiles(drawn)
        >>> ms.rerun(tiles, prog, drawn.trace).trace == drawn.trace
        True

    Unlike `Trace.apply_to`, the module's own code runs. A decision that is missing, left over or out of support raises
    ScheduleError under STRICT; under REPAIR it is drawn with `seed`, dropped or repaired, and reported in
    `Schedule.repairs`. Where the module fixes a decision itself, a different decision in the trace counts as out of
    support.
    """
    require_trace("decisions", decisions)
    replay = Replay(decisions.decisions, policy, DrawFromPrior(seed))
    schedule = Schedule(program, target, handler=replay)
    fn(schedule)
    name = getattr(fn, "__name__", "module")
    fixed = {r.site.address: r.decision for r in schedule.sites if r.site.address not in replay.used}
    overruled = _find_repairs(replay.decisions, fixed)
    leftover = [address for address in replay.leftover() if address not in fixed]
    if policy is Policy.STRICT and overruled:
        first = overruled[0]
        raise ScheduleError(
            name,
            f'the trace decides {_decision_text(first.before)} at "{first.address}", '
            f"and the module {_decision_text(first.after)}",
            hint="change one of them, or use Policy.REPAIR to follow the module",
        )
    if policy is Policy.STRICT and leftover:
        raise ScheduleError(
            name,
            f'the trace decides "{leftover[0]}", which the module never asked for',
            hint="the module has changed since; use Policy.REPAIR to drop such decisions",
        )
    dropped = [Repair(address, replay.decisions[address], None) for address in leftover]
    schedule.repairs = [*replay.repairs, *overruled, *dropped]
    return schedule


def _find_repairs(given: Mapping[str, Decision], fixed: Mapping[str, Decision | Free]) -> list[Repair]:
    return [
        Repair(address, given[address], after, "the module decides it itself")
        for address, after in fixed.items()
        if address in given and not isinstance(after, Free) and given[address] != after
    ]


def _decision_text(decision: Decision | None) -> str:
    return "nothing" if decision is None else print_decision(decision)

"""A rule on trial: the space and the tuned kernel of a program with it and without, at equal trials."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from metasched.cli.arguments import UsageError
from metasched.ir.program import Program
from metasched.lang.load import SEPARATOR, SUFFIX
from metasched.measure.comparison import Comparison
from metasched.measure.paired_timing import IN_TURNS, compare
from metasched.measure.runner import LocalRunner, RunnerSettings
from metasched.permissions import Allow
from metasched.report.progress import ProgressCallback
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Trace
from metasched.search.paired_tuning import tune_in_turns
from metasched.search.report import TuningReport
from metasched.search.session import TuningSession
from metasched.search.strategy_registry import DEFAULT_STRATEGY
from metasched.search.task import Task
from metasched.settings import IN_MEMORY
from metasched.space.registry import DEFAULT_PRESET, resolve
from metasched.space.rule import Rule
from metasched.space.rule_files import rules_of_file
from metasched.space.sketch import Sketch
from metasched.space.source import FromRules
from metasched.space.space import Space
from metasched.support.data_classes import dataclass
from metasched.target import Target

FIRST, LAST = "first", "last"
WITHOUT, WITH = "without", "with"


@dataclass(frozen=True)
class Placement:
    """Rules without the one on trial and with it, and the specifications of both, to be used elsewhere.

    `listed` is whether the given list has the rule: then the list without it is what it is compared with.
    """

    rule: Rule
    without: tuple[Rule, ...]
    rules: tuple[Rule, ...]
    spec: str
    without_spec: str
    listed: bool = False


def find_rule(name: str) -> tuple[Rule, str]:
    """The rule of `FILE.py:NAME`, `FILE.ms::NAME`, of a file with one rule, or of an installed name, and its name as
    part of a specification. Raises RuleError, UsageError.
    """
    path = Path(name)
    if path.suffix not in {".py", SUFFIX}:
        found = resolve(f"+{name}")
        if len(found) != 1:
            raise UsageError(f"`{name}` is {len(found)} rules; try one of {', '.join(r.name for r in found)}")
        return found[0], name
    rules = rules_of_file(path)
    separator = SEPARATOR if path.suffix == SUFFIX else ":"
    if len(rules) > 1:
        choices = " or ".join(f"{name}{separator}{attribute}" for attribute in rules)
        raise UsageError(f"{name} has {len(rules)} rules; try one: {choices}")
    ((attribute, rule),) = rules.items()
    return rule, f"{name}{separator}{attribute}"


def place(name: str, base: str | None, at: str | None, instead_of: str | None) -> Placement:
    """Put a rule into a list: `at` is "first", "last", or the rule that it goes before; or `instead_of` another.

    A rule that the list has already is taken out of it on the other side, and stays where it is unless `at` or
    `instead_of` says otherwise.

    Raises RuleError, and UsageError for a rule that is not in the list, or that has the name of another there.
    """
    rule, part = find_rule(name)
    spec = base or DEFAULT_PRESET
    given = resolve(spec)
    there = next((r for r in given if _is_same_rule(r, rule)), None)
    if there is None:
        return _place_rule(rule, part, given, spec, spec, at or FIRST, instead_of)
    rest = tuple(r for r in given if not _is_same_rule(r, rule))
    rest_spec = f"{spec},-{rule.name}"
    if instead_of == rule.name:
        raise UsageError(
            f"--instead-of {rule.name}: the rule on trial is that one; without --instead-of, it is left out"
        )
    if at in {None, rule.name} and instead_of is None:
        return Placement(there, rest, given, spec, rest_spec, listed=True)
    written = rest_spec if at == LAST else ",".join(r.name for r in rest)
    return replace(_place_rule(there, part, rest, written, rest_spec, at or FIRST, instead_of), listed=True)


def _is_same_rule(one: Rule, other: Rule) -> bool:
    """Whether two are one rule and its configuration, perhaps for other blocks. A file read twice gives two objects."""

    def key(rule: Rule) -> tuple[object, ...]:
        return rule.name, rule.doc, rule.parameters, rule.place

    return key(one) == key(other)


def _place_rule(
    rule: Rule, part: str, without: tuple[Rule, ...], spec: str, without_spec: str, at: str, instead_of: str | None
) -> Placement:
    """A rule put into a list that lacks it. `spec` is that of the list as a text to put it before or after."""
    names = [r.name for r in without]
    if rule.name in names and instead_of != rule.name:
        raise UsageError(
            f"the list has another rule `{rule.name}`, and what rules do is told by name; "
            f"try yours with --instead-of {rule.name}, or give it another name"
        )
    if instead_of is None and at == FIRST:
        return Placement(rule, without, (rule, *without), ",".join(filter(None, (part, spec))), without_spec)
    if instead_of is None and at == LAST:
        return Placement(rule, without, (*without, rule), ",".join(filter(None, (spec, f"+{part}"))), without_spec)
    n = _position(without, at if instead_of is None else instead_of)
    after = n if instead_of is None else n + 1
    written = ",".join([*names[:n], part, *names[after:]])
    return Placement(rule, without, (*without[:n], rule, *without[after:]), written, without_spec)


def _position(rules: tuple[Rule, ...], name: str) -> int:
    names = [r.name for r in rules]
    if name not in names:
        raise UsageError(f"no rule `{name}` is in the list: there are {', '.join(names) or 'none'}")
    return names.index(name)


@dataclass(frozen=True)
class Spaces:
    """The spaces without the rule and with it."""

    without: Space
    rules: Space
    placement: Placement

    @property
    def has_applied(self) -> bool:
        """Whether the rule applied to any block in any sketch."""
        name = self.placement.rule.name
        return any(o.rule == name and o.reason is None for run in self.rules.outcomes() for o in run)

    def added_sketches(self) -> list[tuple[int, Sketch]]:
        """The sketches that the space without the rule does not have, by number."""
        known = {_steps(sketch) for sketch in self.without}
        return [(n, sketch) for n, sketch in enumerate(self.rules) if _steps(sketch) not in known]


def _steps(sketch: Sketch) -> Trace:
    """The steps of a sketch, without the choices that lead to it."""
    data = sketch.trace.data
    steps = tuple(i for i in data.instructions if not registry()[i.op].branches)
    return Trace(replace(data, instructions=steps), sketch.program)


def spaces(
    program: Program,
    placement: Placement,
    target: Target,
    seed: int,
    allow: Allow = None,
) -> Spaces:
    """The spaces as a search would see them."""

    def make_space(rules: tuple[Rule, ...]) -> Space:
        return Space(program, FromRules(rules), target, allow=allow, seed=seed)

    return Spaces(make_space(placement.without), make_space(placement.rules), placement)


@dataclass(frozen=True)
class Trial:
    """What tuning gave. `comparison` is None where one side has no valid schedule, or both have the same."""

    without: TuningReport
    rules: TuningReport
    comparison: Comparison | None

    @property
    def interrupted(self) -> bool:
        return self.without.interrupted or self.rules.interrupted

    @property
    def found_the_same(self) -> bool:
        """Whether both searches ended at one schedule."""
        best, other = self.without.best, self.rules.best
        return best is not None and other is not None and best.trace == other.trace


def run_trial(
    program: Program,
    both: Spaces,
    target: Target,
    trials: int,
    seed: int,
    pairs: int,
    progress: Callable[[str], ProgressCallback],
    strategy: str = DEFAULT_STRATEGY,
) -> Trial:
    """Tune without and with the rule, in turns and at equal trials, then time the two best schedules in turns."""
    with ExitStack() as stack:
        sessions = []
        for name, space in ((WITHOUT, both.without), (WITH, both.rules)):
            task, tell = Task(program, space, target), progress(name)
            session = TuningSession([task], db=IN_MEMORY, strategy=strategy, seed=seed, progress=tell, guess=False)
            sessions.append(stack.enter_context(session))
        (without,), (rules,) = tune_in_turns(sessions, trials)
    trial = Trial(without, rules, None)
    if without.best is None or rules.best is None or trial.found_the_same or trial.interrupted:
        return trial
    with LocalRunner(RunnerSettings(threads=target.threads, plan=IN_TURNS)) as runner:
        return Trial(without, rules, compare(runner, program, without.best.trace, rules.best.trace, str(target), pairs))

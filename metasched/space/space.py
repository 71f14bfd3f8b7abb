"""A program's search space: its sketches, made lazily."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from metasched.errors import MetaschedError, NondeterministicModule, ScheduleError
from metasched.ir.highlight import show
from metasched.ir.notebook import table
from metasched.ir.program import Program
from metasched.lang import print_instruction
from metasched.lang.instructions import Decision, Instruction
from metasched.permissions import Allow, Allowed
from metasched.schedule.handlers import PURE_HINT, DrawFromPrior, EnumerateOptions, Policy, Site
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Schedule, Trace
from metasched.space.explanation import explain
from metasched.space.given import nearest_option
from metasched.space.rule import Outcome
from metasched.space.sketch import Sketch
from metasched.space.source import Conditioned, Given, SpaceSource
from metasched.space.source_runs import Pick, SourceRun, SourceRuns, picked_by
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted
from metasched.target import Target

Prefix = dict[str, Decision]
DEFAULT_MAX_SKETCHES = 256
# How often `Space.mutate` moves to another sketch.
STRUCTURAL_SHARE = 0.1


@dataclass
class _RecordDecisions:
    """Decides as `inner`; `met` has each random variable asked for, once."""

    inner: Pick
    met: dict[str, tuple[Site, Decision]] = field(default_factory=dict)

    def pick(self, site: Site) -> Decision:
        decision = self.inner(site)
        self.met.setdefault(site.address, (site, decision))
        return decision


def _keep_decisions(decisions: Prefix) -> Pick:
    """The given decisions where they are still possible, else those that are most like them."""

    def pick(site: Site) -> Decision:
        return nearest_option(decisions.get(site.address), site.dist.options())

    return pick


@dataclass(frozen=True)
class _Branch:
    """Choices to run the module under, and the steps that its previous run took before the last of them."""

    prefix: Prefix
    head: tuple[Instruction, ...]


class Space:
    """The sketches of a program under rules or a module.

    A *sketch* fixes the `choose`s; its *variants* fix the compute locations too. Both are enumerated lazily, in
    the order of the options, by running the module again under a forced prefix of choices. Beyond `max_sketches`
    they are sampled from the prior instead, `complete` is false, and `explain` names the `choose` that multiplies.

    `source` makes them for `target`, and says which decisions are given. `allow` is what results may differ by. Compute
    locations that a trace leaves open are enumerated like choices; those for which a later step of it is not legal are
    left out.

    Raises NondeterministicModule when a module takes other steps under the same choices.
    """

    def __init__(
        self,
        program: Program,
        source: SpaceSource,
        target: Target | None = None,
        *,
        allow: Allow = None,
        max_sketches: int = DEFAULT_MAX_SKETCHES,
        seed: int = 0,
    ) -> None:
        self.program = program
        self.source = source
        self._target = target
        self.allowed = Allowed.of(allow)
        self.max_sketches = max_sketches
        self.seed = seed
        self.given: Given = source.given
        self._addresses: set[str] = set()
        self._illegal: list[ScheduleError] = []
        self._found: list[SourceRun] = []
        self._stack: list[_Branch] = [_Branch({}, ())]
        self._runs = SourceRuns(source, Schedule(program, target, allow=self.allowed))
        self._variants: dict[tuple[int, int], list[Sketch]] = {}

    @property
    def target(self) -> Target:
        """The target of its schedules, which modules may read: by default this machine."""
        return Target.detect() if self._target is None else self._target

    @property
    def complete(self) -> bool:
        """Whether every sketch was enumerated; forces enumeration."""
        self._force()
        return not self._stack

    def __len__(self) -> int:
        self._force()
        return len(self._found)

    def __getitem__(self, n: int) -> Sketch:
        if n < 0:
            self._force()
        while len(self._found) <= n and self._enumerate_next():
            pass
        if not -len(self._found) <= n < len(self._found):
            raise IndexError(f"there is no sketch {n}: the space has {counted(len(self._found), 'sketch', 'sketches')}")
        return self._found[n].sketch

    def __iter__(self) -> Iterator[Sketch]:
        n = 0
        while n < len(self._found) or self._enumerate_next():
            yield self._found[n].sketch
            n += 1

    def _force(self) -> None:
        while self._enumerate_next():
            pass

    def __repr__(self) -> str:
        return f"<space of {self.program.key}: {self._counts}>"

    def _repr_html_(self) -> str:
        """The sketches enumerated so far; it enumerates no more."""
        rows = [(str(n), repr(run.sketch)) for n, run in enumerate(self._found)]
        return table(f"space of {self.program.key}: {self._counts}", rows)

    @property
    def _counts(self) -> str:
        more = ", and more to come" if self._stack and len(self._found) < self.max_sketches else ""
        given = f", {counted(len(self.given), 'decision')} given" if self.given else ""
        return f"{counted(len(self._found), 'sketch', 'sketches')}{more}{given}"

    # --- given decisions

    def conditioned(self, given: Mapping[str, object]) -> Space:
        """The space with more given decisions. Raises ScheduleError where they contradict earlier ones."""
        source = Conditioned(self.source, given)
        return self._replace_fields(source=source)

    def of(self, program: Program) -> Space:
        """The space itself. Raises MetaschedError unless it is one of this program."""
        if self.program != program:
            raise MetaschedError(f"the space is one of {self.program.key}, and the program is {program.key}")
        return self

    def of_part(self, part: Program) -> Space:
        """The space of the same source for a part of its program (`metasched.ir.excerpt`)."""
        return self._replace_fields(program=part)

    def on(self, target: Target | None) -> Space:
        """The space of the same source for another target; None returns this space."""
        if target is None or target == self.target:
            return self
        return self._replace_fields(target=target)

    def resized(self, max_sketches: int) -> Space:
        """The space with another limit, beyond which sketches are sampled."""
        if max_sketches == self.max_sketches:
            return self
        return self._replace_fields(max_sketches=max_sketches)

    def allowing(self, allow: Allow) -> Space:
        """The space of the same source where results may differ by other things; None returns this space."""
        return (
            self
            if allow is None or Allowed.of(allow) == self.allowed
            else self._replace_fields(allow=Allowed.of(allow))
        )

    def _replace_fields(self, **changed: Any) -> Space:
        made: dict[str, Any] = {
            "program": self.program,
            "source": self.source,
            "target": self._target,
            "allow": self.allowed,
            "max_sketches": self.max_sketches,
            "seed": self.seed,
        }
        return Space(**(made | changed))

    def unmet(self) -> list[str]:
        """Given addresses that no sketch has; enumerates sketches until each was found."""
        while not self._addresses.issuperset(self.given) and self._enumerate_next():
            pass
        return [address for address in self.given if address not in self._addresses]

    def addresses(self) -> frozenset[str]:
        """Addresses of the random variables of the sketches enumerated so far."""
        return frozenset(self._addresses)

    def holds(self, trace: Trace) -> bool:
        """Whether a trace agrees with the given decisions; for the space of a trace, whether it fills its holes."""
        return self.source.holds(trace)

    def _enumerate_next(self) -> bool:
        """Enumerate one more sketch."""
        if not self._stack or len(self._found) >= self.max_sketches:
            return False
        if len(self._found) + len(self._stack) > self.max_sketches:
            return self._sample()
        while self._stack:
            branch = self._stack.pop()
            try:
                if self._take(branch):
                    return True
            except Exception:
                # Raised again at each call: `list(space)` asks for the length first, and ignores a TypeError.
                self._stack.append(branch)
                raise
        if not self._found and self._illegal:
            raise self._illegal[0]
        return False

    def _take(self, branch: _Branch) -> bool:
        """Run the module under a branch's choices; returns whether that gave a sketch."""
        asked = _RecordDecisions(picked_by(EnumerateOptions(branch.prefix, DrawFromPrior(self.seed))))
        run = self._run_if_legal(asked)
        if run is not None:
            self._require_same(branch, run)
            self._found.append(run)
        met = run.met if run is not None else tuple(asked.met.values())
        steps = run.instructions if run is not None else ()
        self._stack.extend(_branches([m for m in met if self._splits(m[0])], steps, len(branch.prefix)))
        return run is not None

    def _splits(self, site: Site) -> bool:
        """Whether each option of a structural variable is a sketch, and not a variant of one."""
        return not _takes_places(site) or self.source.fixes_steps

    def _run_if_legal(self, asked: _RecordDecisions) -> SourceRun | None:
        """The result of a run; None if a step of a trace is not legal with the locations tried for its holes."""
        try:
            return self._run(asked.pick)
        except ScheduleError as error:
            if not self.source.fixes_steps or not asked.met:
                raise
            self._illegal.append(error)
            return None

    def _require_same(self, branch: _Branch, run: SourceRun) -> None:
        met = {site.address for site, _ in run.met}
        missing = [address for address in branch.prefix if address not in met]
        if missing:
            raise NondeterministicModule(
                f'run again with the same choices, the module never came to "{missing[0]}" of {self.program.key}',
                hint=PURE_HINT,
            )
        for before, now in zip(branch.head, run.instructions, strict=False):
            if before != now:
                raise NondeterministicModule(
                    f"run again with the same choices, the module took other steps on {self.program.key}:\n"
                    f"    {print_instruction(before)}\n    {print_instruction(now)}",
                    hint=PURE_HINT,
                )

    def _sample(self) -> bool:
        """Draw one more sketch from the prior; False after many draws of known ones."""
        known = {run.sketch.trace for run in self._found}
        for attempt in range(16):
            run = self._run_if_legal(
                _RecordDecisions(picked_by(DrawFromPrior(self.seed + 1 + len(self._found) * 16 + attempt)))
            )
            if run is not None and run.sketch.trace not in known:
                self._found.append(run)
                return True
        return False

    def _run(self, pick: Pick) -> SourceRun:
        run = self._runs.run(pick)
        self._addresses |= run.addresses
        return run

    # --- structures

    def first_run(self) -> SourceRun | None:
        """The run that made the first sketch; None for an empty space."""
        return self._found[0] if next(iter(self), None) is not None else None

    def run_with(self, pick: Pick) -> SourceRun | None:
        """The run under some structural decisions; None if a step of a trace is not legal with them.

        What earlier runs have in common with it is not run again. Raises ScheduleError for an illegal step of a rule.
        """
        return self._run_if_legal(_RecordDecisions(pick))

    # --- variants

    def variants(self, n: int, limit: int) -> tuple[Sketch, ...]:
        """Up to `limit` variants of sketch `n`, which differ in where blocks are computed.

        All of them in order if there are no more than `limit`, otherwise the first and a sample of the others. A place
        that is also for a later block, which cannot go there, is left out; `explain` says so.
        """
        sketch = self[n]
        run = self._found[n]
        places = [(site, taken) for site, taken in run.met if not self._splits(site)]
        if not places:
            return (sketch,)
        cached = self._variants.setdefault((n, limit), [sketch])
        fixed = {site.address: taken for site, taken in run.met if not _takes_places(site)}
        if len(cached) == 1:
            for prefix in self._variant_prefixes(fixed, places, limit):
                made = self._variant(prefix)
                if made is not None and all(made.trace != other.trace for other in cached):
                    cached.append(made)
        return tuple(cached[:limit])

    def _variant(self, prefix: Prefix) -> Sketch | None:
        try:
            return self._run(_keep_decisions(prefix)).sketch
        except ScheduleError as error:
            self._illegal.append(error)
            return None

    def _variant_prefixes(self, fixed: Prefix, places: list[tuple[Site, Decision]], limit: int) -> list[Prefix]:
        """Prefixes that move one block each: all combinations would be too many to measure."""
        moves = [
            {**fixed, site.address: option}
            for site, taken in places
            for option in site.dist.options()
            if option != taken
        ]
        if len(moves) < limit:
            return moves
        rng = np.random.default_rng(self.seed)
        kept = sorted(rng.choice(len(moves), size=limit - 1, replace=False).tolist())
        return [moves[k] for k in kept]

    def sketch_near(self, decisions: Mapping[str, Decision]) -> Sketch:
        """The sketch of structural decisions, by address: where one is not possible, of the option that is most alike.

        It need not be among those enumerated. Raises ScheduleError where a step of the source is not legal under them.
        """
        return self._run(_keep_decisions(dict(decisions))).sketch

    def options_near(self, decisions: Mapping[str, Decision]) -> dict[str, tuple[Decision, ...]]:
        """The options that the structural variables of that sketch have, by address. Raises what `sketch_near` does."""
        return {site.address: tuple(site.dist.options()) for site, _ in self._run(_keep_decisions(dict(decisions))).met}

    # --- descriptions

    def outcomes(self) -> tuple[tuple[Outcome, ...], ...]:
        """For each sketch, the outcome of every rule for every block that it was tried on."""
        self._force()
        return tuple(run.outcomes for run in self._found)

    def explain(self) -> str:
        """Per block, which rule applied, or why not; and whether every sketch was enumerated."""
        self._force()
        count = len(self._found)
        of_more = "" if self.complete else ", of more"
        lines = [f"{self.program.key}: {counted(count, 'sketch', 'sketches')}{of_more}"]
        lines.append(explain([run.outcomes for run in self._found], self.source.rules))
        lines.extend(self._multiplier())
        lines.extend(self._conditions())
        return "\n".join(line for line in lines if line)

    def _multiplier(self) -> list[str]:
        options: dict[str, int] = {}
        for run in self._found:
            for site, _ in run.met:
                if self._splits(site):
                    options[site.address] = max(options.get(site.address, 0), len(site.dist.options()))
        lines = [f'choice "{address}": {count} options' for address, count in options.items() if count > 1]
        if self._stack and options:
            widest = max(options, key=lambda a: options[a])
            lines.append(
                f'the sketches were sampled, as there are more than {self.max_sketches}; "{widest}" multiplies most'
            )
        return lines

    def _conditions(self) -> list[str]:
        lines = [f'"{address}" is given: {decision!r}' for address, decision in self.given.items()]
        if self.source.fixes_steps:
            lines = [f"{_count_text(len(self.given))} given, and {len(self._addresses - self.given.keys())} open"]
        counts = Counter(error.reason for error in self._illegal)
        return lines + [f"left out {count} times: {reason}" for reason, count in counts.items()]

    def show(self) -> None:
        """Print every sketch."""
        for n, sketch in enumerate(self):
            show(f"# sketch {n}\n{sketch}")

    def mutate(self, rng: np.random.Generator, trace: Trace) -> Trace:
        """Another trace of this space: a numeric variable moved, or with a small probability a structural one.

        Raises ScheduleError for a trace of another program.
        """
        if rng.random() < STRUCTURAL_SHARE and len(self) > 1:
            sketch = self[int(rng.integers(len(self)))]
            kept = {a: d for a, d in trace.decisions.items() if any(v.address == a for v in sketch.variables)}
            row = sketch.repair(sketch.sample(rng, 1))
            merged = sketch.decisions(row[0]) | kept
            full = sketch.trace.with_decisions(dict(merged))
            return full.apply_to(self.program, Policy.REPAIR, target=self._target).trace
        # What a module or a condition decides itself is not a variable of a sketch.
        free = {variable.address for sketch in self for variable in sketch.variables}
        return trace.mutate(rng, self.program, among=free)


def _branches(met: Sequence[tuple[Site, Decision]], steps: tuple[Instruction, ...], decided: int) -> list[_Branch]:
    """For each choice beyond those already decided, a branch for every other option; the next one to try comes last."""
    out: list[_Branch] = []
    lines = {i.address: n for n, i in enumerate(steps) if i.address is not None}
    for position in range(decided, len(met)):
        head = {site.address: taken for site, taken in met[:position]}
        site, taken = met[position]
        before = steps[: lines.get(site.address, 0)]
        out.extend(_Branch({**head, site.address: o}, before) for o in reversed(site.dist.options()) if o != taken)
    return out


def _count_text(decisions: int) -> str:
    return counted(decisions, "decision is", "decisions are")


def _takes_places(site: Site) -> bool:
    """Whether the decision at this site is a compute location."""
    return registry()[site.op].places

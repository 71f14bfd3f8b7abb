"""Handlers, which decide random variables.

Running a module or a trace meets *sites*: random variables with an address and a distribution. A handler decides the
value of each. Handlers nest by holding one another; there is no stack and no global.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Final, Protocol

import numpy as np

from metasched.errors import MetaschedError, NondeterministicModule, ScheduleError
from metasched.lang import print_decision
from metasched.lang.decisions import from_python
from metasched.lang.instructions import Decision, Ref
from metasched.schedule.distributions.base import Distribution
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted


@dataclass(frozen=True)
class Site:
    """One random variable met while running: its address (module path and name) and its distribution."""

    address: str
    op: str
    dist: Distribution


class Free(Enum):
    """The answer of a handler that leaves a numeric variable open."""

    FREE = "free"


FREE: Final = Free.FREE
PURE_HINT = "a module may depend on the program and on its random variables, on nothing else"


class MissingDecision(ScheduleError):
    """A replay has no decision for a random variable."""


class Policy(Enum):
    """What a replay does with a decision that is missing or out of support."""

    STRICT = "strict"  # raise
    REPAIR = "repair"  # mend it, and report where


@dataclass(frozen=True)
class Repair:
    """A decision that replay changed. `before` is None when it was missing, `after` when no site used it.

    `reason` explains the change in words; it is ignored by equality.
    """

    address: str
    before: Decision | None
    after: Decision | None
    reason: str = field(default="", compare=False)

    def __str__(self) -> str:
        """`"tile(dense)/i": [_, 64] -> [_, 7]  (its support here: ...)`."""
        before = "nothing" if self.before is None else print_decision(self.before)
        after = "dropped" if self.after is None else print_decision(self.after)
        return f'"{self.address}": {before} -> {after}' + (f"  ({self.reason})" if self.reason else "")


class Repairs(tuple[Repair, ...]):
    """The decisions that a replay changed; as text, a line each."""

    def __str__(self) -> str:
        if not self:
            return "nothing had to be repaired"
        return "\n".join([f"repaired {counted(len(self), 'decision')}:", *(f"    {repair}" for repair in self)])


class Handler(Protocol):
    def decide(self, site: Site) -> Decision | Free:
        """What the variable takes."""
        ...


def out_of_support(site: Site, decision: Decision, hint: str) -> ScheduleError:
    """The error of a decision that its variable cannot take here."""
    return ScheduleError(
        site.op,
        f'the decision {print_decision(decision)} at "{site.address}" is not in the support ({site.dist.support()})',
        hint=hint,
    )


def decision_of(site: Site, value: object) -> Decision:
    """Convert a decision from its Python form: None inside a list is `_`, and a location is the name of a loop.

    Raises ScheduleError for what is no decision.
    """
    places = site.dist.structural and any(isinstance(o, Ref) for o in site.dist.options())
    return checked_decision(value, site.op, site.address, places=places)


def checked_decision(value: object, op: str, address: str, *, places: bool) -> Decision:
    """A decision from its Python form. Raises ScheduleError, naming the address, for what is no decision."""
    try:
        return from_python(value, places=places)
    except ValueError as error:
        kinds = "a number, a text, or a list of numbers with None for what follows from the others"
        raise ScheduleError(op, f'what is given for "{address}": {error}', hint=f"a decision is {kinds}") from None


def stream(seed: int, address: str) -> np.random.Generator:
    """The random stream of one address: independent of every other, so adding a rule leaves other draws alone."""
    digest = hashlib.blake2b(address.encode(), digest_size=8).digest()
    return np.random.default_rng([seed, int.from_bytes(digest, "little")])


@dataclass
class DrawFromPrior:
    """Draw from the prior."""

    seed: int

    def decide(self, site: Site) -> Decision | Free:
        return site.dist.sample(stream(self.seed, site.address))


@dataclass
class Replay:
    """Take decisions by address. Under REPAIR, `fallback` decides what is missing."""

    decisions: Mapping[str, Decision]
    policy: Policy
    fallback: Handler
    repairs: list[Repair] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        policy: object = self.policy
        if not isinstance(policy, Policy):
            raise MetaschedError(f"the policy is {policy!r}", hint="give Policy.STRICT or Policy.REPAIR")

    def decide(self, site: Site) -> Decision | Free:
        self.used.add(site.address)
        before = self.decisions.get(site.address)
        if before is None:
            return self._decide_missing(site)
        if site.dist.contains(before):
            return before
        if self.policy is Policy.STRICT:
            raise out_of_support(site, before, "replay with Policy.REPAIR to mend it")
        after = site.dist.repair(before)
        self.repairs.append(Repair(site.address, before, after, f"the support here: {site.dist.support()}"))
        return after

    def _decide_missing(self, site: Site) -> Decision | Free:
        if self.policy is Policy.STRICT:
            raise MissingDecision(
                site.op,
                f'no decision is given for "{site.address}"',
                hint="replay with Policy.REPAIR to draw it, or search over it",
            )
        after = self.fallback.decide(site)
        if not isinstance(after, Free):
            self.repairs.append(Repair(site.address, None, after, "it was left open, and is drawn"))
        return after

    def leftover(self) -> list[str]:
        """Given addresses that no site used."""
        return [address for address in self.decisions if address not in self.used]


@dataclass
class FixedDecisions:
    """Takes given decisions, by address and in Python form, and delegates all others to `inner`.

    `used` has the addresses met so far. The schedule checks that a given decision is in the support, as that may be a
    constraint on rows. Raises ScheduleError where `inner` is given another decision for the same address.
    """

    given: Mapping[str, object]
    inner: Handler
    used: set[str] = field(default_factory=set)

    def decide(self, site: Site) -> Decision | Free:
        if site.address not in self.given:
            return self.inner.decide(site)
        self.used.add(site.address)
        decision = decision_of(site, self.given[site.address])
        inner = self.inner
        while isinstance(inner, FixedDecisions | UndoableDecisions):
            if isinstance(inner, FixedDecisions) and site.address in inner.given:
                self._require_same(site, decision, decision_of(site, inner.given[site.address]))
            inner = inner.inner
        return decision

    def _require_same(self, site: Site, decision: Decision, outside: Decision) -> None:
        if decision != outside:
            raise ScheduleError(
                site.op,
                f'"{site.address}" is decided twice: it is {print_decision(decision)} where it is drawn, and '
                f"{print_decision(outside)} is asked for",
                hint="change one of the two decisions, or leave it out",
            )


@dataclass
class UndoableDecisions:
    """Decides for steps that may be undone: their draws are then not in the trace, so a replay draws them again.

    `missing` is the first error that `inner` raised, to be raised if the steps are kept.
    """

    inner: Handler
    missing: MissingDecision | None = None

    def decide(self, site: Site) -> Decision | Free:
        try:
            return self.inner.decide(site)
        except MissingDecision as error:
            if site.dist.structural:
                raise
            self.missing = self.missing or error
            return DrawFromPrior(0).decide(site)


@dataclass
class EnumerateOptions:
    """Enumerate: take structural decisions from a prefix, then the first option; `met` records their order.

    Raises NondeterministicModule when a decision of the prefix is no option any more.
    """

    prefix: Mapping[str, Decision]
    numeric: Handler
    met: list[tuple[Site, Decision]] = field(default_factory=list)

    def decide(self, site: Site) -> Decision | Free:
        if not site.dist.structural:
            return self.numeric.decide(site)
        decision = self.prefix.get(site.address)
        if decision is None:
            decision = site.dist.options()[0]
        elif not site.dist.contains(decision):
            raise NondeterministicModule(
                f'run again with the same choices, the module offers other options at "{site.address}": '
                f"{print_decision(decision)} is not {site.dist.support()}",
                hint=PURE_HINT,
            )
        self.met.append((site, decision))
        return decision


@dataclass
class PickByFunction:
    """Takes what `pick` says, and keeps what was met and taken, in order."""

    pick: Callable[[Site], Decision]
    met: list[tuple[Site, Decision]] = field(default_factory=list)

    def decide(self, site: Site) -> Decision | Free:
        decision = self.pick(site)
        self.met.append((site, decision))
        return decision


def first_option(site: Site) -> Decision:
    """The first option of a structural variable."""
    return site.dist.options()[0]


@dataclass
class Symbolic:
    """Leave numeric variables free; `structural` decides the others."""

    structural: Handler

    def decide(self, site: Site) -> Decision | Free:
        return self.structural.decide(site) if site.dist.structural else FREE


@dataclass(frozen=True)
class RefuseStructure:
    """Decides nothing, for steps that are only tried: a structural decision must be given with the step.

    Raises MetaschedError for every variable that it is asked for, as legality may depend on the option.
    """

    def decide(self, site: Site) -> Decision | Free:
        raise MetaschedError(f'"{site.address}" is a choice of structure; steps that are only tried give `decision`')

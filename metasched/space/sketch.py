"""A sketch: a program with its structure fixed and its numbers left free.

The trace is applied once, symbolically. A candidate is then a row of integers, one column for each free number, and
drawing, mutating, repairing and filtering work on all rows at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
import numpy.typing as npt

from metasched.ir.highlight import html_text, show
from metasched.ir.integers.evaluate import Evaluator
from metasched.ir.nodes import Func
from metasched.ir.notebook import table
from metasched.ir.printer import print_func
from metasched.ir.program import Program
from metasched.lang import print_decision
from metasched.lang.instructions import Decision
from metasched.schedule.context import Constraint
from metasched.schedule.distributions.base import NumericDistribution, Rows
from metasched.schedule.handlers import Free
from metasched.schedule.sites import SiteRecord
from metasched.schedule.trace import Schedule, Trace
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

# Share of rows in which a second variable is mutated as well.
SECOND_MUTATION = 0.3


@dataclass(frozen=True)
class Variable:
    """A numeric random variable: its columns, in a population's order."""

    address: str
    dist: NumericDistribution
    columns: tuple[str, ...]
    first: int

    @property
    def span(self) -> slice:
        return slice(self.first, self.first + len(self.columns))


@dataclass(frozen=True)
class Sketch:
    """A parametric program.

    The columns are free variables of `func`. `trace` leaves their decisions open and has all others. Rows that break a
    constraint are not in the space. A population is int64 of shape (rows, len(columns)).
    """

    program: Program
    func: Func
    trace: Trace
    variables: tuple[Variable, ...]
    constraints: tuple[Constraint, ...]

    @classmethod
    def of(cls, schedule: Schedule) -> Sketch:
        """The sketch of a schedule that was run under the symbolic handler."""
        trace = schedule.trace.simplified()
        kept = {i.address for i in trace.instructions}  # unused variables have no columns
        variables: list[Variable] = []
        first = 0
        for record in schedule.sites:
            if isinstance(record.decision, Free) and record.site.address in kept:
                variables.append(_variable(record, first))
                first += len(variables[-1].columns)
        return cls(schedule.program, schedule.func, trace, tuple(variables), tuple(schedule.context.constraints))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(c for v in self.variables for c in v.columns)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Positions of each variable's columns."""
        return tuple(tuple(range(v.first, v.first + len(v.columns))) for v in self.variables)

    @property
    def structure(self) -> dict[str, Decision]:
        """The decisions that all its candidates share, by address: structural ones, and given numbers."""
        return self.trace.decisions

    @cached_property
    def _conditions(self) -> Evaluator:
        return Evaluator([c.cond for c in self.constraints])

    def _env(self, rows: Rows) -> dict[str, npt.NDArray[np.int64]]:
        return {name: rows[:, n] for n, name in enumerate(self.columns)}

    def _extent(self, variable: Variable, rows: Rows) -> Rows:
        """The extent a variable's support depends on, for each row; earlier columns must be filled."""
        value = self._extent_of[variable.address](self._env(rows))[0]
        return np.broadcast_to(np.asarray(value, dtype=np.int64), (len(rows),))

    @cached_property
    def _extent_of(self) -> Mapping[str, Evaluator]:
        return {v.address: Evaluator([v.dist.extent]) for v in self.variables}

    # --- populations

    def sample(self, rng: np.random.Generator, count: int) -> Rows:
        """`count` draws from the prior; some may break a constraint."""
        rows = np.ones((count, len(self.columns)), dtype=np.int64)
        for v in self.variables:
            rows[:, v.span] = v.dist.sample_rows(rng, self._extent(v, rows))
        return rows

    def repair(self, rows: Rows) -> Rows:
        """Each row moved into the support, in trace order."""
        out = rows.copy()
        for v in self.variables:
            out[:, v.span] = v.dist.repair_rows(out[:, v.span], self._extent(v, out))
        return out

    def mutate(self, rng: np.random.Generator, rows: Rows) -> Rows:
        """Each row with one variable changed, or sometimes two; not repaired."""
        out = rows.copy()
        if not self.variables or not len(rows):
            return out
        count = len(self.variables)
        first = rng.integers(count, size=len(rows))
        second = np.where(rng.random(len(rows)) < SECOND_MUTATION, rng.integers(count, size=len(rows)), -1)
        for n, v in enumerate(self.variables):
            chosen = np.flatnonzero((first == n) | (second == n))
            if len(chosen):
                part = out[chosen]
                part[:, v.span] = v.dist.mutate_rows(rng, part[:, v.span], self._extent(v, part))
                out[chosen] = part
        return out

    def adopt(self, rng: np.random.Generator, other: Sketch, rows: Rows) -> Rows:
        """Rows of another sketch carried over by address: what it has not is drawn; not repaired."""
        out = self.sample(rng, len(rows))
        theirs = {v.address: v for v in other.variables}
        for v in self.variables:
            found = theirs.get(v.address)
            if found is not None and len(found.columns) == len(v.columns):
                out[:, v.span] = rows[:, found.span]
        return out

    def mask(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether each row meets every constraint."""
        out = np.ones(len(rows), dtype=np.bool_)
        for value in self._conditions(self._env(rows)):
            out &= np.asarray(value, dtype=np.bool_)
        return out

    def unmet(self, rows: Rows) -> tuple[str, ...]:
        """The reasons of the constraints that none of the rows meets."""
        values = self._conditions(self._env(rows))
        return tuple(c.reason for c, value in zip(self.constraints, values, strict=True) if not np.any(value))

    # --- single candidates

    def decisions(self, row: npt.NDArray[np.int64] | tuple[int, ...]) -> dict[str, Decision]:
        """The numeric decisions of a row, by address."""
        return {v.address: v.dist.decode([int(x) for x in row[v.span]]) for v in self.variables}

    def trace_of(self, row: npt.NDArray[np.int64] | tuple[int, ...]) -> Trace:
        """The whole trace of a row, made without a replay."""
        return self.trace.with_decisions(self.decisions(row))

    def row_of(self, trace: Trace) -> tuple[int, ...] | None:
        """The row whose trace this is; None for a trace of another sketch."""
        given = trace.decisions
        if trace.with_decisions({v.address: None for v in self.variables if v.address in given}) != self.trace:
            return None
        row: list[int] = []
        for v in self.variables:
            decision = given.get(v.address)
            if decision is None:
                return None
            row.extend(v.dist.encode(decision))
        return tuple(row)

    def __str__(self) -> str:
        return print_func(self.func)

    def show(self) -> None:
        """Print the parametric program."""
        show(str(self))

    def __repr__(self) -> str:
        return f"<sketch of {self.program.key}: {self._counts}>"

    def _repr_html_(self) -> str:
        decided = [(address, print_decision(decision)) for address, decision in self.structure.items()]
        return table(f"sketch of {self.program.key}: {self._counts}", decided, html_text(str(self)))

    @property
    def _counts(self) -> str:
        free = f"{counted(len(self.columns), 'number')} left open"
        return f"{counted(len(self.structure), 'decision')}, {free}, {counted(len(self.constraints), 'constraint')}"


def _variable(record: SiteRecord, first: int) -> Variable:
    dist = cast("NumericDistribution", record.site.dist)
    return Variable(record.site.address, dist, dist.column_names(record.outputs), first)

"""The interface of random variables, the only one that mutation and crossover use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from metasched.ir.nodes import Expr
from metasched.lang.instructions import Decision

Rows = npt.NDArray[np.int64]


class Distribution(Protocol):
    """A random variable's prior and support.

    *Structural* ones change what the program looks like; they have `options`. *Numeric* ones are `width` integer
    columns of a population, and a support that may depend on `extent`, an expression over earlier variables; with
    `gives_list` the sampler gives a list of integers, however many, and else one integer.
    """

    structural: ClassVar[bool]
    gives_list: ClassVar[bool]

    def sample(self, rng: np.random.Generator) -> Decision:
        """Draw one decision from the prior."""
        ...

    def contains(self, decision: Decision) -> bool: ...

    def repair(self, decision: Decision) -> Decision:
        """A decision in the support, near the given one; deterministic."""
        ...

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        """Decisions a small step away, in the support."""
        ...

    def options(self) -> Sequence[Decision]:
        """Every possible decision, for a structural variable."""
        ...

    def support(self) -> str:
        """The support in words, for messages."""
        ...

    def outputs(self, decision: Decision) -> tuple[Any, ...]:
        """What the sampler returns: integers (`Expr`), a plain option, or a location's name."""
        ...


class NumericDistribution(Distribution, Protocol):
    """A distribution over `width` integers, drawn and repaired for a whole population at once."""

    @property
    def width(self) -> int: ...

    @property
    def extent(self) -> Expr:
        """What the support depends on; a constant when it depends on nothing."""
        ...

    def conditions(self, decision: Decision) -> Sequence[Expr | bool]:
        """What must hold for a decision to be in the support, over the variables that `extent` depends on."""
        ...

    @property
    def likeliest(self) -> Decision | None:
        """The decision that at least half of all draws are, and that no other equals; None where there is none."""
        ...

    def encode(self, decision: Decision) -> tuple[int, ...]: ...

    def decode(self, row: Sequence[int]) -> Decision: ...

    def free_outputs(self, columns: Sequence[Expr]) -> tuple[Expr, ...]:
        """What the sampler returns when its columns are free variables."""
        ...

    def column_names(self, outputs: Sequence[str]) -> tuple[str, ...]:
        """Which of the output labels are columns."""
        ...

    def sample_rows(self, rng: np.random.Generator, extents: Rows) -> Rows:
        """One draw for each entry of `extents` (int64[n]) -> int64[n, width]."""
        ...

    def repair_rows(self, rows: Rows, extents: Rows) -> Rows: ...

    def mutate_rows(self, rng: np.random.Generator, rows: Rows, extents: Rows) -> Rows: ...

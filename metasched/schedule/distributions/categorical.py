"""An integer from a list of values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from metasched.ir.integers.affine import ZERO, const
from metasched.ir.nodes import Expr
from metasched.lang.instructions import Decision
from metasched.schedule.distributions.base import Rows
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.integers import is_integer


@dataclass(frozen=True)
class Categorical:
    """One of `values` (distinct integers) with the given probabilities. The column holds the value itself."""

    structural: ClassVar[bool] = False
    gives_list: ClassVar[bool] = False

    values: tuple[int, ...]
    probabilities: tuple[float, ...]

    @property
    def width(self) -> int:
        return 1

    @property
    def extent(self) -> Expr:
        return ZERO

    @property
    def likeliest(self) -> Decision | None:
        most = max(self.probabilities)
        stands_out = most >= 0.5 and self.probabilities.count(most) == 1
        return self.values[self.probabilities.index(most)] if stands_out else None

    def sample(self, rng: np.random.Generator) -> Decision:
        return int(rng.choice(np.array(self.values), p=np.array(self.probabilities)))

    def contains(self, decision: Decision) -> bool:
        return is_integer(decision) and decision in self.values

    def conditions(self, decision: Decision) -> Sequence[Expr | bool]:
        return (self.contains(decision),)

    def repair(self, decision: Decision) -> Decision:
        wanted = decision if isinstance(decision, int) else self.values[0]
        return min(self.values, key=lambda v: (abs(v - wanted), v))

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        return tuple(v for v in self.values if v != decision)

    def options(self) -> Sequence[Decision]:
        return self.values

    def support(self) -> str:
        return "one of " + ", ".join(str(v) for v in self.values)

    def outputs(self, decision: Decision) -> tuple[Any, ...]:
        assert isinstance(decision, int)
        return (const(decision),)

    def encode(self, decision: Decision) -> tuple[int, ...]:
        assert isinstance(decision, int)
        return (decision,)

    def decode(self, row: Sequence[int]) -> Decision:
        return int(row[0])

    def free_outputs(self, columns: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(columns)

    def column_names(self, outputs: Sequence[str]) -> tuple[str, ...]:
        return tuple(outputs)

    def sample_rows(self, rng: np.random.Generator, extents: Rows) -> Rows:
        # As `rng.choice` draws, without looking at the probabilities anew each time, which takes longer than draws.
        drawn = self._sums.searchsorted(rng.random(len(extents)), side="right")
        return np.asarray(np.array(self.values, dtype=np.int64)[drawn][:, None])

    @cached_property
    def _sums(self) -> npt.NDArray[np.float64]:
        """The probability of each value or one before it."""
        sums = np.cumsum(self.probabilities)
        return np.asarray(sums / sums[-1])

    def repair_rows(self, rows: Rows, extents: Rows) -> Rows:
        table = np.array(sorted(self.values), dtype=np.int64)
        nearest = np.abs(rows - table[None, :]).argmin(axis=1)
        return np.asarray(table[nearest][:, None], dtype=np.int64)

    def mutate_rows(self, rng: np.random.Generator, rows: Rows, extents: Rows) -> Rows:
        return self.sample_rows(rng, extents)

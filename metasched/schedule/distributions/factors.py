"""Inner factors of an extent, from which the outer one follows: the base of the tile distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from metasched.ir.integers.affine import as_int, const, simplify
from metasched.ir.nodes import Binary, BinOp, Expr
from metasched.lang.instructions import HOLE, Decision
from metasched.schedule.distributions.base import Rows
from metasched.support.data_classes import dataclass
from metasched.support.integers import is_integer

# Rows are int64.
_LARGEST = 2**63 - 1
# Nests are less deep.
MOST_PARTS = 64


@dataclass(frozen=True)
class Factors(ABC):
    """Inner factors `f1 .. f(parts-1)` of an extent; the outer one is `ceildiv(extent, f1 * .. * f(parts-1))`.

    A decision is `(HOLE, f1, ..)`, a row the inner factors. Subclasses define the support.
    """

    structural: ClassVar[bool] = False
    gives_list: ClassVar[bool] = True

    extent: Expr
    parts: int

    @abstractmethod
    def contains(self, decision: Decision) -> bool: ...

    @abstractmethod
    def sample_rows(self, rng: np.random.Generator, extents: Rows) -> Rows: ...

    @abstractmethod
    def repair_rows(self, rows: Rows, extents: Rows) -> Rows: ...

    @property
    def width(self) -> int:
        return self.parts - 1

    @property
    def likeliest(self) -> Decision | None:
        return None

    def concrete_extent(self) -> int:
        value = as_int(self.extent)
        assert value is not None, "a concrete draw needs a concrete extent"
        return value

    def sample(self, rng: np.random.Generator) -> Decision:
        return self.decode(self.sample_rows(rng, np.array([self.concrete_extent()]))[0])

    def well_formed(self, decision: Decision) -> bool:
        """Whether it is a hole and as many positive numbers as there are inner factors."""
        return (
            isinstance(decision, tuple)
            and len(decision) == self.parts
            and decision[0] == HOLE
            and all(is_integer(f) and 1 <= f <= _LARGEST for f in decision[1:])
        )

    def repair(self, decision: Decision) -> Decision:
        given = (
            [max(-_LARGEST, min(f, _LARGEST)) for f in decision[1:] if isinstance(f, int)]
            if isinstance(decision, tuple)
            else []
        )
        row = np.array([([1] * self.width + given)[len(given) :]], dtype=np.int64)
        return self.decode(self.repair_rows(row, np.array([self.concrete_extent()]))[0])

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        factors = self.encode(decision)
        found: dict[Decision, None] = {}
        for column, factor in enumerate(factors):
            for changed in (factor - 1, factor + 1, factor * 2, factor // 2):
                candidate: Decision = (HOLE, *factors[:column], changed, *factors[column + 1 :])
                if self.contains(candidate):
                    found[candidate] = None
        return tuple(found)

    def options(self) -> Sequence[Decision]:
        raise TypeError("a tile has no list of options; it is numeric")

    def outputs(self, decision: Decision) -> tuple[Any, ...]:
        return self.free_outputs([const(f) for f in self.encode(decision)])

    def encode(self, decision: Decision) -> tuple[int, ...]:
        assert isinstance(decision, tuple)
        return tuple(int(f) for f in decision[1:])  # type: ignore[arg-type]

    def decode(self, row: Sequence[int]) -> Decision:
        return (HOLE, *(int(f) for f in row))

    def free_outputs(self, columns: Sequence[Expr]) -> tuple[Expr, ...]:
        inner: Expr = const(1)
        for column in columns:
            inner = inner * column
        return (simplify(Binary(BinOp.CEILDIV, self.extent, inner)), *columns)

    def column_names(self, outputs: Sequence[str]) -> tuple[str, ...]:
        return tuple(outputs[1:])

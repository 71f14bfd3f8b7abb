"""Structural variables: one of a few options that change what the program looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from metasched.lang.instructions import Decision, Ref
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class ChoiceDistribution:
    """One of `values`, uniformly. A location's options are `Ref`s; those of `choose` are plain values."""

    structural: ClassVar[bool] = True
    gives_list: ClassVar[bool] = False

    values: tuple[Decision, ...]

    def sample(self, rng: np.random.Generator) -> Decision:
        return self.values[int(rng.integers(len(self.values)))]

    def contains(self, decision: Decision) -> bool:
        return any(type(v) is type(decision) and v == decision for v in self.values)

    def repair(self, decision: Decision) -> Decision:
        return self.values[0]

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        return tuple(v for v in self.values if v != decision)

    def options(self) -> Sequence[Decision]:
        return self.values

    def support(self) -> str:
        return "one of " + ", ".join(v.name if isinstance(v, Ref) else repr(v) for v in self.values)

    def outputs(self, decision: Decision) -> tuple[Any, ...]:
        return (decision.name if isinstance(decision, Ref) else decision,)

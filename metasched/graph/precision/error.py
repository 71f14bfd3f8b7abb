"""How far a network's results are from those in float32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metasched.support.data_classes import dataclass

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OutputDifference:
    """How far an output is from the same output in float32.

    Attributes:
        name: the output's.
        absolute: the largest difference of an element; infinite where one of the two is no finite number, and where
            there are more elements than in float32, or fewer.
        relative: the norm of all differences over the norm of the output in float32.
        largest: the largest element in float32.

    """

    name: str
    absolute: float
    relative: float
    largest: float

    def __str__(self) -> str:
        of = f"{self.absolute:.2g} at most, of elements up to {self.largest:.3g}"
        return f"`{self.name}` differs by {of}; by {self.relative:.2g} of its norm"


@dataclass(frozen=True)
class PrecisionError:
    """How far results are from those in float32; `str()` is for a person to read.

    Attributes:
        precision: of the network.
        outputs: for each output, in order.

    """

    precision: str
    outputs: tuple[OutputDifference, ...]

    def __str__(self) -> str:
        return "\n".join([f"{self.precision} against float32:", *(f"  {each}" for each in self.outputs)])

    @property
    def summary(self) -> str:
        """The error in a few words: of the output whose norm differs most."""
        worst = max(self.outputs, key=lambda each: each.relative, default=None)
        return "" if worst is None else f"{worst.relative:.2g} of `{worst.name}`'s norm from float32"


def differences(results: Mapping[str, Array], wide: Sequence[Array]) -> tuple[OutputDifference, ...]:
    """How far results are from those in float32, which come in the same order and shapes."""
    return tuple(_difference(name, got, want) for (name, got), want in zip(results.items(), wide, strict=True))


def _difference(name: str, got: Array, want: Array) -> OutputDifference:
    first, second = got.astype(np.float64), want.astype(np.float64)
    if got.shape != want.shape:  # loops ended after other numbers of steps
        return OutputDifference(name, float("inf"), float("inf"), float(np.abs(second).max(initial=0.0)))
    largest = float(np.abs(second, where=np.isfinite(second), out=np.zeros_like(second)).max(initial=0.0))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    if not (same | (np.isfinite(first) & np.isfinite(second))).all():
        return OutputDifference(name, float("inf"), float("inf"), largest)
    gap = np.subtract(first, second, where=~same, out=np.zeros_like(first))
    norm = float(np.linalg.norm(np.where(np.isfinite(second), second, 0.0)))
    absolute, whole = float(np.abs(gap).max(initial=0.0)), float(np.linalg.norm(gap))
    return OutputDifference(name, absolute, whole / norm if norm else whole, largest)

"""A space without programs: rows of small integers whose features are their logarithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasched.cost.features import NAMES
from metasched.lang.instructions import Decision
from metasched.search.space_protocol import Candidate, Observation, StructuralChoice

EFFICIENCY = NAMES.index("all.efficiency")
_BASE = 4
_DIGITS = tuple(range(_BASE))


@dataclass(frozen=True)
class Toy:
    """`width` tile sizes between 1 and 64; legal where their product is at most `most`."""

    width: int = 4
    most: int = 1 << 14
    flavour: int = 0

    @property
    def name(self) -> str:
        return f"{type(self).__name__}({self.width}, {self.most}, {self.flavour})"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"t{n}" for n in range(self.width))

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return ((0, 1), *((n,) for n in range(2, self.width)))

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.integers(1, 65, (count, self.width))

    def mutate(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        out = rows.copy()
        column = rng.integers(self.width, size=len(rows))
        out[np.arange(len(rows)), column] += rng.integers(-8, 9, len(rows))
        return out

    def repair(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(rows, 1, 64))

    def mask(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows.prod(axis=1) <= self.most)

    def features(self, rows: np.ndarray) -> np.ndarray:
        out = np.zeros((len(rows), len(NAMES)), np.float32)
        out[:, : self.width] = np.log2(rows)
        out[:, self.width] = self.flavour
        out[:, EFFICIENCY] = 0.1
        return out

    def adopt(self, rng: np.random.Generator, other: Toy, rows: np.ndarray) -> np.ndarray:
        out = self.sample(rng, len(rows))
        common = min(self.width, other.width)
        out[:, :common] = rows[:, :common]
        return out

    def seconds(self, row: tuple[int, ...]) -> float:
        """Best at 12 everywhere, with the first two columns wanting to be alike."""
        logs = np.log2(np.array(row))
        away = ((logs - np.log2(12)) ** 2).sum() + 2 * abs(logs[0] - logs[1])
        return float(1e-3 * (1 + away) * (1 + self.flavour))


class Fixed(Toy):
    """An arm without a free number."""

    def __init__(self, flavour: int = 0) -> None:
        super().__init__(width=0, flavour=flavour)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return ()

    def mutate(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        return rows

    def seconds(self, row: tuple[int, ...]) -> float:
        return 1e-3 * (1 + self.flavour)


class Toys(list[Any]):
    """The structures of a space, all of which are there from the beginning.

    Their decisions are the digits of their positions, the last of which counts least; what is past the end is no
    structure.
    """

    def first(self) -> int | None:
        return 0 if self else None

    def known(self) -> list[int]:
        return []

    def draw(self, rng: np.random.Generator) -> int | None:
        return int(rng.integers(len(self)))

    def mutate(self, rng: np.random.Generator, arm: int) -> int | None:
        return None if len(self) == 1 else (arm + 1 + int(rng.integers(len(self) - 1))) % len(self)

    def cross(self, rng: np.random.Generator, mother: int, father: int) -> int | None:
        return mother if rng.random() < 0.5 else father

    @property
    def _places(self) -> list[int]:
        """What each digit counts."""
        return [_BASE**n for n in reversed(range(len(np.base_repr(max(len(self) - 1, 0), _BASE))))]

    def choices(self, arm: int) -> list[StructuralChoice]:
        if len(self) < 2:
            return []
        return [StructuralChoice(f"d{place}", _DIGITS, arm // place % _BASE) for place in self._places]

    def of(self, rng: np.random.Generator, decisions: Mapping[str, Decision]) -> int | None:
        drawn = rng.integers(_BASE, size=len(self._places))
        digits = (decisions.get(f"d{place}", int(some)) for place, some in zip(self._places, drawn, strict=True))
        arm = sum(place * int(str(digit)) for place, digit in zip(self._places, digits, strict=True))
        return arm if arm < len(self) else None


class Bench:
    """Measures candidates of toys, and counts."""

    def __init__(self, arms: list[Toy]) -> None:
        self.arms = arms
        self.times: list[float] = []
        self.seen: list[Candidate] = []

    def measure(self, candidates: list[Candidate]) -> list[Observation]:
        out = []
        for c in candidates:
            seconds = self.arms[c.arm].seconds(c.row)
            self.times.append(seconds)
            self.seen.append(c)
            out.append(Observation(c, seconds))
        return out

    @property
    def best(self) -> float:
        return min(self.times)

"""Declaring features of a statement: a group is a function under `@features(...)`, which names what it computes.

Names, which of them the second statement has too, and how they are given are said there and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable

from metasched.cost.estimate.footprint import Array
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass

Columns = dict[str, Array]


@dataclass(frozen=True)
class Feature:
    """A feature by name. `raw` is given as it is, others as log2(1 + x); `second` is a feature of the second statement,
    too."""

    name: str
    raw: bool = False
    second: bool = False


@dataclass(frozen=True)
class FeatureGroup:
    """Features that one function computes, in order."""

    features: tuple[Feature, ...]
    compute: Callable[..., Columns]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    def __call__(self, *arguments: object) -> Columns:
        """The columns by name. Raises TypeError where they are not those that are declared, in their order."""
        columns = self.compute(*arguments)
        if tuple(columns) != self.names:
            apart = sorted(columns.keys() ^ set(self.names)) or ["the order"]
            raise TypeError(f"features of `{self.compute.__name__}`: {', '.join(apart)} differs from what is declared")
        return columns


def features(*declared: Feature | str) -> Callable[[Callable[..., Columns]], FeatureGroup]:
    """Declare what a function computes; a text is a feature of that name without further properties.

    Raises TypeError for a name that is there twice.
    """
    group = tuple(Feature(each) if isinstance(each, str) else each for each in declared)

    def attach(compute: Callable[..., Columns]) -> FeatureGroup:
        require_distinct(group)
        return FeatureGroup(group, compute)

    return attach


def require_distinct(declared: tuple[Feature, ...]) -> None:
    """Raise TypeError where two features have one name."""
    names = [feature.name for feature in declared]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TypeError(f"feature `{twice[0]}` is declared twice")

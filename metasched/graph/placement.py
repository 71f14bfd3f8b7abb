"""Where values lie that have no memory of their own, and how much of what grows is there."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Position:
    """An input of the network that says where a part begins: one whole number, from `lowest` to `highest`.

    A part begins `step` elements later for each that the number is larger.
    """

    input: str
    step: int
    lowest: int
    highest: int


@dataclass(frozen=True)
class ValuePart:
    """Where a value lies that has no memory of its own, in elements.

    Attributes:
        of: the value in whose memory it lies, which may be a part itself.
        offset: its first element comes so many elements after that one's first.
        strides: elements between neighbours along each of its dimensions.
        position: what else decides where it begins, for a part of a state of the network.

    """

    of: str
    offset: int
    strides: tuple[int, ...]
    position: Position | None = None


@dataclass(frozen=True)
class Growth:
    """A size that grows from call to call, in a graph that has room for the longest.

    Attributes:
        length: the input that says how long it is before a call: one whole number from 0 on.
        longest: the largest that it may be.
        values: of inputs and outputs that grow with it, for each dimension how much longer than the length it is; None
            for one that does not grow. What lies beyond means nothing.
        caches: inputs that are next themselves with new elements behind as many as the length says.

    """

    length: str
    longest: int
    values: Mapping[str, tuple[int | None, ...]]
    caches: frozenset[str] = frozenset()

    def shape(self, name: str, whole: tuple[int, ...], length: int) -> tuple[int, ...]:
        """The shape that a value has at a length, where there is room for `whole`."""
        offsets = self.values.get(name)
        if offsets is None:
            return whole
        return tuple(n if b is None else length + b for n, b in zip(whole, offsets, strict=True))

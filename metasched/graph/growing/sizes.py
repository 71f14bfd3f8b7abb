"""A size that grows from call to call; the lengths at which a model is imported, and what grows by one with it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from metasched.graph.errors import NetworkError
from metasched.graph.whole_numbers import bucket_sizes, require_whole_number
from metasched.support.data_classes import dataclass

# The shortest length at which a model is joined with itself: longer than what is broadcast.
_SHORTEST = 2
# Shorter ones, at which it may have other nodes, but no other shapes and numbers.
CHECKED_LENGTHS = (1, 0)
# Through fewer elements of its caches a decoder goes in no time that counts beside its weights.
_SHORTEST_BUCKET = 64
# The shortest one at the other end: so that three are apart. Of fewer lengths, each may have a network of its own.
FEWEST = 5


@dataclass(frozen=True)
class GrowingSize:
    """A size that is larger in each call, as that of a decoder's caches: what there is room for at its end.

        >>> ms.GrowingSize(512)  # ms.load_onnx("decoder.onnx", past=...)
        GrowingSize(capacity=512, buckets=())

    Attributes:
        capacity: the most that a cache holds once it has grown.
        buckets: lengths that have kernels of their own, which go through so much of a cache: a call runs on the
            shortest that holds what the caches do after it. By default each is half of the next, and none is
            shorter than 64.

    """

    capacity: int
    buckets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "capacity", require_whole_number(self.capacity, "the capacity of caches"))
        object.__setattr__(self, "buckets", bucket_sizes(self.buckets))
        if self.capacity < 1:
            raise NetworkError(f"a cache has room for at least 1, and not for {self.capacity}")
        wrong = [size for size in self.buckets if not 1 <= size <= self.capacity]
        if wrong:
            raise NetworkError(f"a bucket up to {wrong[0]} is not from 1 to {self.capacity}, the capacity")

    @property
    def rooms(self) -> tuple[int, ...]:
        """The lengths that have kernels of their own, the shortest first and the capacity last."""
        return tuple(sorted({*(self.buckets or self._halves()), self.capacity}))

    def shorter(self, longest: int) -> tuple[int, ...]:
        """The longest length of a call on each of these but the last, where none is longer than `longest`."""
        added = self.capacity - longest
        return tuple(room - added for room in self.rooms if added <= room < self.capacity)

    def _halves(self) -> list[int]:
        found, size = [], self.capacity
        while (size := (size + 1) // 2) >= _SHORTEST_BUCKET:
            found.append(size)
        return found

    def __str__(self) -> str:
        return f"grows to {self.capacity}"


class LengthDependence(NetworkError):
    """What a model computes does not depend on a length as a network of fixed capacity can: linearly, or not at all."""


@dataclass(frozen=True)
class LengthLine:
    """A number that is `slope * length + constant`."""

    slope: Fraction
    constant: Fraction

    def evaluate(self, length: int) -> Fraction:
        return self.slope * length + self.constant


@dataclass(frozen=True)
class Lengths:
    """What is known of a growing size.

    Attributes:
        samples: the lengths at which the model is imported, the longest first.
        longest: the largest that a call may have.

    """

    samples: tuple[int, ...]
    longest: int

    def line(self, values: Sequence[float]) -> LengthLine:
        """The line through numbers at the samples. Raises LengthDependence where there is none."""
        exact = [Fraction(value) for value in values]
        slope = (exact[0] - exact[-1]) / (self.samples[0] - self.samples[-1])
        found = LengthLine(slope, exact[0] - slope * self.samples[0])
        if any(found.evaluate(length) != value for length, value in zip(self.samples, exact, strict=True)):
            at = " and ".join(f"{value} at {length}" for value, length in zip(values, self.samples, strict=True))
            raise LengthDependence(f"a number in it is {at}, which is no line")
        return found

    def offsets(self, shapes: Sequence[tuple[int, ...]]) -> tuple[int | None, ...]:
        """For each dimension, how much longer than the size it is; None for one that does not grow.

        Raises LengthDependence for one that grows otherwise than by one.
        """
        if len({len(shape) for shape in shapes}) != 1:
            raise LengthDependence("it has more dimensions at some lengths than at others")
        return tuple(self._offset(extents) for extents in zip(*shapes, strict=True))

    def _offset(self, extents: Sequence[int]) -> int | None:
        line = self.line(extents)
        if not line.slope:
            return None
        if line.slope != 1:
            raise LengthDependence(f"a dimension grows by {line.slope} for each that the size does")
        return int(line.constant)


def lengths_of(capacity: int, added: Sequence[int]) -> Lengths:
    """The lengths for caches of a capacity, to which a call adds so many elements.

    Raises NetworkError where there is no room for a call.
    """
    longest = capacity - max(added, default=0)
    if longest < 0:
        raise NetworkError(f"a call adds {max(added)} elements to caches that have room for {capacity}")
    last = max(longest, FEWEST)
    return Lengths((last, (last + _SHORTEST) // 2, _SHORTEST), longest)

"""Sizes from a smallest to a largest one, in buckets; and types of values whose sizes these are."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.dtypes import DType
from metasched.graph.errors import NetworkError
from metasched.graph.value_type import ValueType
from metasched.graph.whole_numbers import bucket_sizes, require_whole_number
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class SizeRange:
    """Sizes from `low` to `high`, both included.

        >>> ms.SizeRange(1, 512, buckets=(64, 512))  # ms.load_onnx("m.onnx", seq=...)
        SizeRange(low=1, high=512, buckets=(64, 512))

    Attributes:
        buckets: the largest size of each bucket. By default each is half of the next, so that no call computes more
            than twice of what it needs along this size; a number for every size makes a network of just that size.

    """

    low: int
    high: int
    buckets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            object.__setattr__(self, name, require_whole_number(getattr(self, name), f"`{name}` of a range of sizes"))
        if not 1 <= self.low <= self.high:
            raise NetworkError(f"a range of sizes goes from at least 1 up, and not from {self.low} to {self.high}")
        given = set(bucket_sizes(self.buckets))
        wrong = [size for size in given if not self.low <= size <= self.high]
        if wrong:
            raise NetworkError(f"a bucket up to {wrong[0]} is not in the range of sizes from {self.low} to {self.high}")
        object.__setattr__(self, "buckets", tuple(sorted(given | {self.high} | set(() if given else self._halves()))))

    def _halves(self) -> list[int]:
        found, size = [], self.high
        while (size := size // 2) >= self.low:
            found.append(size)
        return found

    def bucket(self, size: int) -> tuple[int, int]:
        """The smallest and the largest size of the bucket that a size is in."""
        number = next(n for n, largest in enumerate(self.buckets) if size <= largest)
        return (self.buckets[number - 1] + 1 if number else self.low), self.buckets[number]

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The smallest and the largest size of each bucket, the smallest bucket first."""
        return tuple(self.bucket(size) for size in self.buckets)


@dataclass(frozen=True)
class OpenType:
    """A type some of whose sizes are ranges, by their names; "?" is one that depends on sizes in another way."""

    dtype: DType
    dims: tuple[int | str, ...]

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions' sizes, '' for one that is fixed."""
        return tuple(dim if isinstance(dim, str) else "" for dim in self.dims)

    def at(self, sizes: Mapping[str, int]) -> ValueType:
        """The type at some sizes. Raises NetworkError for one that its sizes do not say."""
        if "?" in self.dims:
            raise NetworkError(f"{self} depends on sizes in another way than by being one")
        return ValueType(self.dtype, tuple(sizes[dim] if isinstance(dim, str) else dim for dim in self.dims))

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.dims))}]"


def more_than_one(bounds: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """A bucket's smallest and largest sizes without a size of one that is not its only one."""
    return {name: (2 if low == 1 < high else low, high) for name, (low, high) in bounds.items()}

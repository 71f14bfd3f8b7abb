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
    """Sizes from `low` to `high`, both included: all of them, or those in steps.

        >>> ms.SizeRange(1, 512, buckets=(64, 512))  # ms.load_onnx("m.onnx", seq=...)
        SizeRange(low=1, high=512, buckets=(64, 512), step=1)
        >>> ms.SizeRange(32, 160, step=32)
        SizeRange(low=32, high=160, buckets=(32, 64, 160), step=32)

    Attributes:
        buckets: the largest size of each bucket. By default each is half of the next, or the next smaller size that
            there is, so that no call computes more than about twice of what it needs along this size; a number for
            every size makes a network of just that size.
        step: from one size to the next. A model that halves a size, or takes it apart into windows, has perhaps only
            multiples of a number.

    """

    low: int
    high: int
    buckets: tuple[int, ...] = ()
    step: int = 1

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            object.__setattr__(self, name, require_whole_number(getattr(self, name), f"`{name}` of a range of sizes"))
        if not 1 <= self.low <= self.high:
            raise NetworkError(f"a range of sizes goes from at least 1 up, and not from {self.low} to {self.high}")
        if self.step < 1:
            raise NetworkError(f"the step of a range of sizes is at least 1, and not {self.step}")
        if self.high not in self.sizes:
            last = self._round_down(self.high)
            multiples = f"; multiples of {self.step} begin at {self.step}" if self.high % self.step == 0 else ""
            raise NetworkError(
                f"the sizes from {self.low} in steps of {self.step} have no {self.high}",
                hint=f"the last one is {last} or {last + self.step}{multiples}",
            )
        given = set(bucket_sizes(self.buckets))
        wrong = [size for size in given if size not in self.sizes]
        if wrong:
            raise NetworkError(
                f"a bucket up to {wrong[0]} is not in the range of sizes from {self}{self._nearest_text(wrong[0])}"
            )
        object.__setattr__(self, "buckets", tuple(sorted(given | {self.high} | set(() if given else self._halves()))))

    def _halves(self) -> list[int]:
        found, size = [], self.high
        while (size := self._round_down(size // 2)) >= self.low:
            found.append(size)
        return found

    def _round_down(self, size: int) -> int:
        """The largest number up to one that is a size by its steps."""
        return size - (size - self.low) % self.step

    @property
    def sizes(self) -> range:
        """All sizes."""
        return range(self.low, self.high + 1, self.step)

    def bucket(self, size: int) -> range:
        """The sizes of the bucket that a size is in."""
        number = next(n for n, largest in enumerate(self.buckets) if size <= largest)
        low = self.buckets[number - 1] + self.step if number else self.low
        return range(low, self.buckets[number] + 1, self.step)

    def largest_up_to(self, size: int) -> int:
        """The largest size up to a number, and the smallest one where all are larger."""
        return max(self._round_down(min(size, self.high)), self.low)

    def refusal(self, size: int) -> str:
        """What is said of a size that is none of these."""
        return f"{size}, and the network was loaded for {self}{self._nearest_text(size)}"

    def _nearest_text(self, size: int) -> str:
        """The sizes next to one that is none of these, as the end of a sentence."""
        if self.step == 1:
            return ""
        below = self.largest_up_to(size)
        nearest = {below, self.high if size >= self.high else below + self.step * (size > self.low)}
        return f"; the nearest {'is' if len(nearest) == 1 else 'are'} {' and '.join(map(str, sorted(nearest)))}"

    def __str__(self) -> str:
        return sizes_text(self.sizes)

    @property
    def bucket_ranges(self) -> tuple[range, ...]:
        """The sizes of each bucket, the smallest bucket first."""
        return tuple(self.bucket(size) for size in self.buckets)


@dataclass(frozen=True)
class OpenType:
    """A type some of whose sizes are ranges, by their names, or multiples or parts of these ("h/2"); "?" is one that
    depends on sizes in another way.
    """

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
        if any(isinstance(dim, str) and dim not in sizes for dim in self.dims):
            raise NetworkError(f"{self} depends on sizes in another way than by being one")
        return ValueType(self.dtype, tuple(sizes[dim] if isinstance(dim, str) else dim for dim in self.dims))

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.dims))}]"


def sizes_text(sizes: range) -> str:
    """Sizes as text: "1 to 6", or "32 to 512 in steps of 32"."""
    steps = f" in steps of {sizes.step}" if sizes.step > 1 and len(sizes) > 1 else ""
    return f"{sizes[0]} to {sizes[-1]}{steps}"


def more_than_a_step(bucket: Mapping[str, range]) -> dict[str, range]:
    """The sizes of a bucket without a size of one step that is not its only one.

    Along a size of one, models broadcast; in steps, a size of one step is what perhaps is divided to one.
    """
    return {name: sizes[1:] if sizes[0] == sizes.step and len(sizes) > 1 else sizes for name, sizes in bucket.items()}

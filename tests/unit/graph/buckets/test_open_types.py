"""At which sizes models are asked what they return."""

from __future__ import annotations

import pytest

from metasched.graph.buckets.open_types import other_sizes
from metasched.graph.buckets.size_range import SizeRange


@pytest.mark.parametrize("divisor", [1, 2, 32, 14])
def test_other_sizes_have_multiples_and_tell_ranges_apart(divisor: int) -> None:
    ranges = {name: SizeRange(divisor, divisor * 32) for name in ("h", "w")}
    in_steps = {name: SizeRange(divisor, divisor * 32, step=divisor) for name in ("h", "w")}
    assert next(other_sizes(in_steps)) == {"h": divisor * 31, "w": divisor * 30}
    found = next(sizes for sizes in other_sizes(ranges) if all(size % divisor == 0 for size in sizes.values()))
    assert divisor <= found["w"] < found["h"] < divisor * 32


def test_other_sizes_are_in_their_ranges() -> None:
    ranges = {"n": SizeRange(3, 5), "m": SizeRange(4, 4)}
    assert list(other_sizes(ranges))[:2] == [{"n": 4, "m": 4}, {"n": 3, "m": 4}]
    for sizes in other_sizes(ranges):
        assert all(ranges[name].low <= size <= ranges[name].high for name, size in sizes.items())

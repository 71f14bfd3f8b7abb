"""Which steps help a model that has not all sizes: the smallest, along the ranges that need them, by few readings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

import metasched as ms
from metasched.graph.buckets.steps import hint_of_steps, steps_that_help

Sizes = Mapping[str, int]


@pytest.mark.parametrize(
    ("has", "found"),
    [
        (lambda sizes: sizes["h"] % 8 == sizes["w"] % 8 == 0, {"h": range(16, 101, 8), "w": range(24, 91, 8)}),
        (lambda sizes: sizes["h"] % 2 == 0, {"h": range(10, 101, 2)}),
        (lambda sizes: sizes["w"] % 14 == 0, {"w": range(28, 91, 14)}),
        (lambda sizes: True, {}),
        (lambda sizes: False, {}),
        (lambda sizes: sizes["h"] % 11 == 0, {}),
    ],
)
def test_the_smallest_steps_are_found(has: Callable[[Sizes], bool], found: dict[str, range]) -> None:
    seen: list[Sizes] = []

    def reading(sizes: Sizes) -> bool:
        seen.append(sizes)
        return has(sizes)

    ranges = {"batch": ms.SizeRange(1, 3), "h": ms.SizeRange(10, 100), "w": ms.SizeRange(23, 90)}
    assert steps_that_help(ranges, reading) == found
    assert len(seen) < 25


def test_steps_that_there_are_become_larger_ones() -> None:
    ranges = {"h": ms.SizeRange(6, 60, step=6)}
    assert steps_that_help(ranges, lambda sizes: sizes["h"] % 4 == 0) == {"h": range(12, 61, 12)}


def test_steps_are_said_as_arguments_where_names_can_be_some() -> None:
    assert hint_of_steps({"h": range(2, 9, 2), "w": range(4, 9, 4)}).endswith("h=range(2, 9, 2), w=range(4, 9, 4)")
    assert hint_of_steps({"2*h": range(2, 9, 2)}).endswith("load it with sizes={'2*h': range(2, 9, 2)}")
    assert not hint_of_steps({})

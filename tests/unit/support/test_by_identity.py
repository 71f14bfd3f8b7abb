"""Results that are remembered by objects, and not by what objects are equal to."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from metasched.support.by_identity import Itself, remembered_by_identity, remembered_weakly


def test_an_object_is_asked_about_once_and_an_equal_one_by_itself() -> None:
    asked: list[list[int]] = []

    @remembered_by_identity
    def length(values: list[int]) -> int:
        """How many there are."""
        asked.append(values)
        return len(values)

    first, second = [1, 2], [1, 2]
    assert [length(first), length(first), length(second)] == [2, 2, 2]
    assert len(asked) == 2
    assert length.__doc__ == "How many there are."
    assert Itself(first) == Itself(first) != Itself(second)
    assert Itself(first) != first


def test_what_is_remembered_weakly_is_computed_once_and_lets_its_object_go() -> None:
    calls = list[tuple[int, str]]()

    @remembered_weakly
    def describe(array: Any, text: str) -> str:
        calls.append((array.size, text))
        return f"{array.size} {text}"

    array, same = np.zeros(3), np.zeros(3)
    found = [describe(array, "a"), describe(array, "a"), describe(array, "b"), describe(same, "a")]
    assert found == ["3 a", "3 a", "3 b", "3 a"]
    assert calls == [(3, "a"), (3, "b"), (3, "a")]
    kept = weakref.ref(array)
    del array
    assert kept() is None

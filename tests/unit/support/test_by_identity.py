"""Results that are remembered by objects, and not by what objects are equal to."""

from __future__ import annotations

from metasched.support.by_identity import Itself, remembered_by_identity


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

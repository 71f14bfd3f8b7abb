"""Sizes that a model says by others."""

from __future__ import annotations

import pytest

from metasched.graph.reading.size_expressions import names_in, size_of


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("past", 3),
        ("past + 1", 4),
        ("past + seq*2 - 1", 12),
        ("(past + seq)//2", 4),
        ("past//0", None),
        ("other + 1", None),
        ("a size", None),
        ("__import__('os')", None),
        ("past ** 2", None),
        ("7", None),
        ("", None),
    ],
)
def test_sizes_of_texts(text: str, size: int | None) -> None:
    assert size_of(text, {"past": 3, "seq": 5}) == size


def test_names() -> None:
    assert names_in("past + seq * 2") == {"past", "seq"}
    assert names_in("a size") == frozenset()

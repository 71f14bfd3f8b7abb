from __future__ import annotations

import pytest

from metasched.errors import LanguageError
from metasched.ir.printer import print_index_map
from metasched.lang import parse_index_map, sizes_of


@pytest.mark.parametrize(
    "text",
    [
        "i -> i",
        "i, j -> j // 16, i, j % 16",
        "n, h, w -> (n*7 + h)*7 + w",
        "a -> 3 - a, -a + 4",
        "x -> 0, x",
        "j -> j // (t*2*u), j % t",
    ],
)
def test_prints_and_parses_back(text: str) -> None:
    index_map = parse_index_map(text)
    assert parse_index_map(print_index_map(index_map)) == index_map


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i, j", "1:5: expected `,` or `->`, found the end of the line"),
        ("i, j -> k, i", "1:9: `k` is not an index of the map"),
        ("i, i -> i", "1:4: `i` stands for two indices"),
        ("i -> i*i", "1:7: indices are multiplied by numbers only"),
        ("i -> i//0", "1:7: an index is divided by something other than a positive number"),
        ("i, j -> i%j", "1:10: an index is divided by something other than a positive number"),
        ("i -> i/2", "1:7: `i / 2` has no meaning in an index map"),
        ("i -> A[i]", "1:6: `A[i]` has no meaning in an index map"),
        ("i -> i//t + t", "1:13: `t` is not an index of the map"),
        ("i -> i//(t + 1)", "1:7: an index is divided by something other than a positive number"),
        ("i -> i*t", "1:7: indices are multiplied by numbers only"),
        ("i ->", "1:1: the map has no indices after the arrow"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(LanguageError) as info:
        parse_index_map(text)
    assert f"<index map>:{message}" in str(info.value)


def test_sizes_come_in_the_order_in_which_they_appear() -> None:
    assert sizes_of(parse_index_map("i, j -> i//b, j//(a*b), i%b")) == ("b", "a")

"""Ranges of combined and shifted bits, against all numbers of small ranges."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement

import pytest

from metasched.ir.integers.bit_ranges import range_of_bits
from metasched.ir.nodes import BinOp

RANGES = list(combinations_with_replacement(range(-5, 7), 2))
PLACES = list(combinations_with_replacement((-2, 0, 1, 3, 70), 2))


def left(a: int, places: int) -> int:
    return a << places if 0 <= places < 64 else 0


def right(a: int, places: int) -> int:
    return a >> (places if 0 <= places < 64 else 64)


OPERATIONS: list[tuple[BinOp, Callable[[int, int], int], list[tuple[int, int]]]] = [
    (BinOp.BIT_AND, int.__and__, RANGES),
    (BinOp.BIT_OR, int.__or__, RANGES),
    (BinOp.BIT_XOR, int.__xor__, RANGES),
    (BinOp.SHIFT_LEFT, left, PLACES),
    (BinOp.SHIFT_RIGHT, right, PLACES),
]


@pytest.mark.parametrize(("op", "compute", "others"), OPERATIONS)
def test_every_value_is_inside(op: BinOp, compute: Callable[[int, int], int], others: list[tuple[int, int]]) -> None:
    for a in RANGES:
        for b in others:
            found = {compute(x, y) for x in range(a[0], a[1] + 1) for y in range(b[0], b[1] + 1)}
            lo, hi = range_of_bits(op, a, b)
            assert lo <= min(found), (a, b)
            assert max(found) <= hi, (a, b)


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        (BinOp.BIT_AND, (-(2**31), 2**31 - 1), (15, 15), (0, 15)),
        (BinOp.BIT_AND, (0, 9), (0, 200), (0, 9)),
        (BinOp.BIT_OR, (4, 9), (0, 1), (4, 9)),
        (BinOp.BIT_OR, (-9, 9), (0, 1), (-9, 9)),
        (BinOp.BIT_XOR, (0, 7), (1, 1), (0, 7)),
        (BinOp.BIT_XOR, (0, 49), (1, 1), (0, 49)),
        (BinOp.BIT_XOR, (0, 48), (1, 1), (0, 49)),
        (BinOp.BIT_XOR, (8, 48), (0, 3), (8, 51)),
        (BinOp.BIT_XOR, (-8, 7), (-1, -1), (-8, 7)),
        (BinOp.SHIFT_RIGHT, (-9, 9), (1, 1), (-5, 4)),
        (BinOp.SHIFT_RIGHT, (0, 255), (0, 4), (0, 255)),
        (BinOp.SHIFT_RIGHT, (-9, 9), (-1, 1), (-9, 9)),
        (BinOp.SHIFT_LEFT, (0, 3), (0, 2), (0, 12)),
        (BinOp.SHIFT_LEFT, (1, 3), (64, 99), (0, 0)),
    ],
)
def test_ends_are_reached(op: BinOp, a: tuple[int, int], b: tuple[int, int], expected: tuple[int, int]) -> None:
    assert range_of_bits(op, a, b) == expected

"""Neighbouring dimensions that are used as one."""

from __future__ import annotations

import pytest

from metasched.cost.program.joined_dims import joined_dims
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Expr, Var
from metasched.ir.printer import print_expr

f, r, t = Var("f"), Var("r"), Var("t")


@pytest.mark.parametrize(
    ("indices", "shape", "expected"),
    [
        ([f // 28, f % 28], [28, 28], ["f"]),
        ([r, f // 28 % 28, f % 28], [8, 28, 28], ["r", "f % 784"]),
        ([f // 784, f // 28 % 28, f % 28], [8, 28, 28], ["f"]),
        ([f // 784, r, f // 28 % 28, f % 28], [8, 4, 28, 28], ["f // 784", "r", "f % 784"]),
        ([f // t, f % t], [28, t], ["f"]),
        ([f // 28, f % 28], [28, 30], ["f // 28", "f % 28"]),
        ([f // 28 + r, f % 28], [30, 28], ["f // 28 + r", "f % 28"]),
        ([f % 28, f // 28], [28, 28], ["f % 28", "f // 28"]),
    ],
)
def test_dimensions_are_joined_where_what_they_are_together_divides_less(
    indices: list[Expr], shape: list[int | Expr], expected: list[str]
) -> None:
    extents = [const(extent) if isinstance(extent, int) else extent for extent in shape]
    places, joined = joined_dims(indices, extents)
    assert [print_expr(place) for place in places] == expected
    assert len(joined) == len(places)


def test_extents_of_joined_dimensions_are_multiplied() -> None:
    _, shape = joined_dims([f // 784, f // 28 % 28, f % 28], [const(8), const(28), const(28)])
    assert shape == (const(8 * 28 * 28),)

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metasched.ir.index_map import image_shape, inverse, resolve
from metasched.ir.integers.affine import NotAffine, as_int, const
from metasched.ir.integers.evaluate import evaluate
from metasched.ir.nodes import Expr, IndexMap, Var
from metasched.ir.printer import print_expr
from metasched.lang import parse_index_map

a, b, i = Var("a"), Var("b"), Var("i")


def undone(text: str, *shape: int) -> dict[str, str]:
    index_map = parse_index_map(text)
    names = [f"o{n}" for n in range(len(index_map.outputs))]
    return {k: print_expr(v) for k, v in inverse(index_map, [const(n) for n in shape], names).items()}


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("i, j -> j//16, i, j%16", (5, 127), {"i": "o1", "j": "o0*16 + o2"}),
        ("i, j -> i*7 + j", (5, 7), {"i": "o0 // 7", "j": "o0 % 7"}),
        ("i, j -> (i*7 + j)//16, (i*7 + j)%16", (5, 7), {"i": "(o0*16 + o1) // 7", "j": "(o0*16 + o1) % 7"}),
        ("i -> i//64, i//16%4, i%16", (1000,), {"i": "o0*64 + o1*16 + o2"}),
        ("i -> i//64, i%64//16, i%16", (1000,), {"i": "o0*64 + o1*16 + o2"}),
        ("i, j -> i//4*8 + j, i%4", (10, 8), {"i": "o1 + (o0 // 8)*4", "j": "o0 % 8"}),
        ("i, j -> j", (1, 8), {"i": "0", "j": "o0"}),
        ("i -> i%16", (12,), {"i": "o0"}),
        ("i, j -> i + j", (4, 4), {}),
        ("i, j -> i*3 + j", (4, 4), {}),
        ("i -> i//4", (8,), {}),
        ("i, j -> i*6 + j*4", (2, 2), {}),
        ("i -> 3 - i", (4,), {}),
    ],
)
def test_inverse(text: str, shape: tuple[int, ...], expected: dict[str, str]) -> None:
    assert undone(text, *shape) == expected


@pytest.mark.parametrize(
    ("e", "expected"),
    [
        ((a * 16 + b) // 16, "a"),
        ((a * 16 + b) % 16, "b"),
        ((a * 8 + b) // 16, "(a*8 + b) // 16"),
        (a // 3 * 3 + a % 3, "a"),
        (a // 6 * 12 + a // 3 % 2 * 6 + b, "b + (a // 3)*6"),
        (a // 2 // 3, "a // 6"),
        (a % 12 // 4, "a // 4 % 3"),
        ((a * 32 + b) // 16, "a*2"),
        (i % 4 + 5, "i + 5"),
        (a % b, "a % b"),
    ],
)
def test_resolve(e: Expr, expected: str) -> None:
    got = resolve(e, {"a": const(100), "b": const(16), "i": const(3)})
    assert print_expr(got) == expected


def test_a_tile_that_divides_the_layout() -> None:
    ranges = {"a": const(100), "b": const(8)}
    assert print_expr(resolve((a * 8 + b) // 16, ranges)) == "a // 2"
    assert print_expr(resolve((a * 8 + b) % 16, ranges)) == "b + (a % 2)*8"


def test_a_tile_that_divides_the_number_in_a_free_size() -> None:
    t, u = Var("t"), Var("u")
    ranges = {"a": const(100), "b": const(16), "c": const(5)}
    e = a * u * 16 + Var("c") * 16 + b
    assert print_expr(resolve(e // (t * 16), ranges)) == "(a*u + c) // t"
    assert print_expr(resolve(e % (t * 16), ranges)) == "b + ((a*u + c) % t)*16"
    assert print_expr(resolve((a * 8 + b) // (t * 16), ranges)) == "(a*8 + b) // (t*16)"


def test_shape() -> None:
    index_map = parse_index_map("i, j -> j//16, i, j%16")
    assert [print_expr(e) for e in image_shape(index_map, [const(5), const(127)])] == ["8", "5", "16"]
    assert [print_expr(e) for e in image_shape(index_map, [Var("t"), Var("u")])] == ["(u + 15) // 16", "t", "16"]
    with pytest.raises(NotAffine, match="an index may be negative"):
        image_shape(parse_index_map("i -> i - 1"), [const(5)])


@st.composite
def maps(draw: st.DrawFn) -> tuple[IndexMap, list[int]]:
    """A map that splits and fuses at random, and a shape."""
    shape = draw(st.lists(st.integers(1, 13), min_size=1, max_size=3))
    names = [f"x{n}" for n in range(len(shape))]
    digits: list[tuple[Expr, int]] = [(Var(name), size) for name, size in zip(names, shape, strict=True)]
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(digits) - 1))
        digit, size = digits.pop(at)
        if draw(st.booleans()) or not digits:
            f = draw(st.integers(1, 7))
            digits[at:at] = [(digit // f, -(-size // f)), (digit % f, f)]
        else:
            other, width = digits.pop(draw(st.integers(0, len(digits) - 1)))
            digits.append((digit * width + other, size * width))
    order = draw(st.permutations(digits))
    return IndexMap(tuple(names), tuple(e for e, _ in order)), shape


_NINES = Var("x0") * 9 + Var("x1")


@given(maps())
@example((IndexMap(("x0", "x1"), (_NINES // 6, _NINES % 6 // 3, _NINES % 6 % 3)), [2, 9]))
def test_what_is_split_and_fused_is_undone(case: tuple[IndexMap, list[int]]) -> None:
    index_map, shape = case
    extents = [const(n) for n in shape]
    outputs = [f"o{n}" for n in range(len(index_map.outputs))]
    points = dict(zip(index_map.names, np.indices(shape).reshape(len(shape), prod(shape)), strict=True))
    places = {o: np.broadcast_to(evaluate(e, points), prod(shape)) for o, e in zip(outputs, index_map.outputs)}  # noqa: B905
    back = inverse(index_map, extents, outputs)
    assert back.keys() == set(index_map.names)
    for name, e in back.items():
        np.testing.assert_array_equal(np.broadcast_to(evaluate(e, places), prod(shape)), points[name])
    for values, size in zip(places.values(), image_shape(index_map, extents), strict=True):
        assert values.min() >= 0
        assert values.max() < (as_int(size) or 0)
    ranges = dict(zip(index_map.names, extents, strict=True))
    for e in index_map.outputs:
        np.testing.assert_array_equal(
            np.broadcast_to(evaluate(resolve(e, ranges), points), prod(shape)),
            np.broadcast_to(evaluate(e, points), prod(shape)),
        )

"""What is known of rows or of a batch, where a program has several indices of them."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.knowledge.anchor import Anchor, anchor_of
from metasched.knowledge.entries import parse_entries
from metasched.knowledge.joined_indices import JoinedIndices
from metasched.knowledge.library import Knowledge
from metasched.lang.instructions import HOLE, Ref
from tests.support.targets import AVX512

KIND = "y[s0, s1] sum= x0[s0, r0] * x1[r0, s1] of x0: f32, x1: f32, y: f32"
TEXT = f"""metasched knowledge 1

kind {KIND}
cpu 16 lanes, 2 threads
structure
  packing({{anchor}})/packed := "{{anchor#1}} in panels"
  parallelize({{anchor}})/depth := 2
  compute_location({{anchor<0}})/{{anchor<0}} := {{"ref": "{{anchor$0}}_0_{{anchor$1}}_0"}}
numbers
  multi_level_tiling({{anchor}})/{{anchor$0}}
  multi_level_tiling({{anchor}})/{{anchor$1}}
  vectorize({{anchor}})/lanes
found
  200x64x32 in 10 us: [[null,2,1,12],[null,1,1,32],16]
"""


def anchor(statement: str, result: str, **shapes: str) -> Anchor:
    inputs = ", ".join(f"{name}: f32[{shape}]" for name, shape in shapes.items())
    return anchor_of(ms.parse_program(f"program p({inputs}) -> Y: f32[{result}]:\n    {statement}\n").func)


PIXELS = anchor("Y[h, w, o] = sum[c](X[h, w, c] * W[c, o])", "14, 7, 64", X="14, 7, 32", W="32, 64")


BATCH = "y[s0, s1, s2] sum= x0[s0, s1, r0] * x1[s0, s2, r0] of x0: f32, x1: f32, y: f32"
W = {"W": "32, 64"}


@pytest.mark.parametrize(
    ("statement", "shapes", "kind", "loops"),
    [
        (
            "Y[h, w, o] = sum[c](X[h, w, c] * W[c, o])",
            {"result": "14, 7, 64", "X": "14, 7, 32"} | W,
            KIND,
            ((0, 1), (2,), (3,)),
        ),
        (
            "Y[n, h, w] = sum[c](X[n, h, w, c])",
            {"result": "2, 3, 4", "X": "2, 3, 4, 5"},
            "y[s0] sum= x0[s0, r0] of x0: f32, y: f32",
            ((0, 1, 2), (3,)),
        ),
        (
            "Y[b, h, i, j] = sum[k](X[b, h, i, k] * W[b, j, 1, h, k])",
            {"result": "2, 3, 4, 6", "X": "2, 3, 4, 5", "W": "2, 6, 3, 3, 5"},
            BATCH,
            ((0, 1), (2,), (3,), (4,)),
        ),
        (
            "Y[i, h, j] = sum[k](X[h, i, k] * W[h, j, k])",
            {"result": "4, 3, 6", "X": "3, 4, 5", "W": "3, 6, 5"},
            BATCH,
            ((1,), (0,), (2,), (3,)),
        ),
        (
            "Y[b, h, w, o] = sum[c](X[b, h, w, c] * W[b, c, o])",
            {"result": "2, 3, 4, 6", "X": "2, 3, 4, 5", "W": "2, 5, 6"},
            "y[s0, s1, s2] sum= x0[s0, s1, r0] * x1[s0, r0, s2] of x0: f32, x1: f32, y: f32",
            ((0,), (1, 2), (3,), (4,)),
        ),
        (
            "Y[n, o, l] = sum[c](X[n, c, l] * W[o, c])",
            {"result": "2, 6, 9", "X": "2, 5, 9", "W": "6, 5"},
            "y[s0, s1, s2] sum= x0[s0, s1, r0] * x1[s0, r0, s2] of x0: f32, x1: f32, y: f32",
            ((0,), (1,), (2,), (3,)),
        ),
    ],
    ids=[
        "pixels",
        "rows alone",
        "a batch elsewhere",
        "a batch that is not first",
        "rows of a batch",
        "a shared filter",
    ],
)
def test_which_indices_could_be_one(
    statement: str, shapes: dict[str, str], kind: str, loops: tuple[tuple[int, ...], ...]
) -> None:
    found = JoinedIndices.of(anchor(statement, **shapes))
    assert found is not None
    assert (found.joined.kind, found.loops) == (kind, loops)


@pytest.mark.parametrize(
    ("statement", "shapes"),
    [
        ("Y[b, i, j] = sum[k](X[b, i, k] * W[b, k, j])", {"result": "2, 3, 5", "X": "2, 3, 4", "W": "2, 4, 5"}),
        ("Y[h, w, o] = sum[c](X[w, h, c] * W[c, o])", {"result": "14, 7, 64", "X": "7, 14, 32"} | W),
        ("Y[h, w, o] = sum[c](X[h, c, w] * W[c, o])", {"result": "14, 7, 64", "X": "14, 32, 7"} | W),
        ("Y[h, w, o] = sum[c](X[h, w, c] * f32(h) * W[c, o])", {"result": "14, 7, 64", "X": "14, 7, 32"} | W),
        ("Y[b, i, j] = X[b, j, i]", {"result": "3, 5, 4", "X": "3, 4, 5"}),
        ("Y[j] = sum[i](X[i, j])", {"result": "5", "X": "4, 5"}),
        ("Y[i, j] = X[j, i]", {"result": "5, 4", "X": "4, 5"}),
        ("Y[i, c] = sum[r](X[i + r, c] * W[r, c])", {"result": "4, 5", "X": "6, 5", "W": "3, 5"}),
    ],
    ids=[
        "one index each",
        "another order",
        "apart",
        "a value depends on one",
        "vectors run along them",
        "columns",
        "transposed",
        "channels",
    ],
)
def test_what_stays_as_it_is(statement: str, shapes: dict[str, str]) -> None:
    assert JoinedIndices.of(anchor(statement, **shapes)) is None


def test_strides_are_no_rows() -> None:
    """An index that moves by two is one of another kind, of which nothing is known."""
    strided = anchor("Y[h, w, o] = sum[c](X[2 * h, 2 * w, c] * W[c, o])", "7, 4, 64", X="14, 7, 32", W="32, 64")
    assert Knowledge(tuple(parse_entries(TEXT))).nearest(strided, AVX512, 4) == []


def test_the_anchor_with_one_index_has_all_rows() -> None:
    joined = JoinedIndices.of(PIXELS)
    assert joined is not None
    assert joined.joined.extents == (98, 64, 32)


def test_tiles_of_rows_are_tiles_of_the_last_index_and_then_of_the_one_before() -> None:
    (near,) = Knowledge(tuple(parse_entries(TEXT))).nearest(PIXELS, AVX512, 4)
    assert dict(near.entry.numbers) == {
        # Of 12 rows as many as a row of pixels has; the two tiles are in two rows of pixels.
        "multi_level_tiling({anchor})/{anchor$0}": (HOLE, 2, 1, 1),
        "multi_level_tiling({anchor})/{anchor$1}": (HOLE, 1, 1, 7),
        "multi_level_tiling({anchor})/{anchor$2}": (HOLE, 1, 1, 32),
        "vectorize({anchor})/lanes": 16,
    }
    assert dict(near.entry.structure) == {
        "packing({anchor})/packed": "{anchor#1} in panels",
        "parallelize({anchor})/depth": 3,
        "compute_location({anchor<0})/{anchor<0}": Ref("{anchor$1}_0_{anchor$2}_0"),
    }
    assert near.distance == pytest.approx(1.03, abs=0.01)  # log2(200 / 98), of rows alone


@pytest.mark.parametrize(
    ("size", "tile"), [(1, (1, 1)), (4, (1, 4)), (6, (1, 4)), (7, (1, 7)), (14, (2, 7)), (64, (7, 7))]
)
def test_tiles_are_equal_parts(size: int, tile: tuple[int, int]) -> None:
    text = TEXT.replace("[null,2,1,12]", f"[null,1,1,{size}]")
    (near,) = Knowledge(tuple(parse_entries(text))).nearest(PIXELS, AVX512, 1)
    numbers = dict(near.entry.numbers)
    found = [numbers[f"multi_level_tiling({{anchor}})/{{anchor${n}}}"] for n in range(2)]
    assert [sizes[-1] for sizes in found if isinstance(sizes, tuple)] == list(tile)


def test_what_names_a_loop_that_is_not_there_is_left_out() -> None:
    odd = TEXT.replace("{anchor$1}\n", "{anchor$7}\n").replace("[null,2,1,12]", "[null]")
    (near,) = Knowledge(tuple(parse_entries(odd))).nearest(PIXELS, AVX512, 1)
    addresses = [address for address, _ in near.entry.numbers]
    assert not any("$7" in address for address in addresses)
    assert dict(near.entry.numbers)["multi_level_tiling({anchor})/{anchor$0}"] == (HOLE,)

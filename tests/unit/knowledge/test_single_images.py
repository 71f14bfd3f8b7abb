from __future__ import annotations

from dataclasses import replace

import pytest

import metasched as ms
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.entries import Cpu, Entry
from metasched.knowledge.library import Knowledge
from metasched.knowledge.single_images import drop_batch, kind_without_batch
from metasched.lang.instructions import HOLE, Ref
from tests.support.targets import AVX512

IMAGES = "y[s0, s1, s2, s3] sum= x0[s0, r0+s1, r1+s2, r2] * x1[r0, r1, r2, s3] of x0: f32, x1: f32, y: f32"
IMAGE = "y[s0, s1, s2] sum= x0[r0+s0, r1+s1, r2] * x1[r0, r1, r2, s2] of x0: f32, x1: f32, y: f32"
FOUND = Entry(
    IMAGES,
    Cpu(16, 2),
    (
        ("packing({anchor})/packed", "{anchor#1} in panels"),
        ("compute_location({anchor<0})/{anchor<0}", Ref("{anchor$2}_0")),
        ("compute_location({anchor<1})/{anchor<1}", Ref("{anchor$0}_1")),
    ),
    (1, 56, 56, 64, 3, 3, 32),
    (1, 1, 1, 1),
    10.0,
    (
        ("multi_level_tiling({anchor})/{anchor$0}", (HOLE, 1)),
        ("multi_level_tiling({anchor})/{anchor$1}", (HOLE, 8)),
        ("unroll({anchor})/limit", 16),
    ),
)


@pytest.mark.parametrize(
    ("kind", "single"),
    [
        (IMAGES, IMAGE),
        ("y[s0, s1] sum= x0[s0, r0] * x1[r0, s1] of x0: f32", "y[s0] sum= x0[r0] * x1[r0, s0] of x0: f32"),
        # The first index is added to another, is the only one of an operand, or the only one there is.
        ("y[s0, s1] sum= x0[r0+s0, s1] of x0: f32", None),
        ("y[s0, s1] = x0[s0] + x1[s0, s1] of x0: f32", None),
        ("y[s0] sum= x0[s0, r0] of x0: f32", None),
    ],
)
def test_a_kind_has_one_less_where_the_first_index_stands_alone(kind: str, single: str | None) -> None:
    assert kind_without_batch(kind) == single


def test_loops_come_one_earlier() -> None:
    found = drop_batch(FOUND)
    assert (found.kind, found.extents, found.steps) == (IMAGE, (56, 56, 64, 3, 3, 32), (1, 1, 1, 1))
    assert found.structure == (
        ("packing({anchor})/packed", "{anchor#1} in panels"),
        ("compute_location({anchor<0})/{anchor<0}", Ref("{anchor$1}_0")),
        ("compute_location({anchor<1})/{anchor<1}", Ref("{anchor$0}_1")),
    )
    assert found.numbers == (("multi_level_tiling({anchor})/{anchor$0}", (HOLE, 8)), ("unroll({anchor})/limit", 16))


def test_a_program_of_one_image_has_neighbours_among_batches_of_one() -> None:
    program = ms.parse_program(
        "program image(X: f32[58, 58, 32], K: f32[3, 3, 32, 64]) -> Y: f32[56, 56, 64]:\n"
        "    Y[h < 56, w < 56, o] = sum[r < 3, s < 3, c](X[h + r, w + s, c] * K[r, s, c, o])\n"
    )
    anchor = anchor_of(program.func)
    assert anchor.kind == IMAGE
    many = replace(FOUND, extents=(2, *FOUND.extents[1:]))
    (near,) = Knowledge((FOUND, many)).nearest(anchor, AVX512, 8)
    assert near.distance == 0
    assert near.entry == drop_batch(FOUND)

"""Layouts and padding with random numbers: what a sketch lets through replays, and computes the program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from metasched.cost.features import FeatureProgram
from metasched.ir.program import Program
from metasched.ir.validate import validate
from metasched.lang import parse_program
from metasched.schedule.handlers import Prior, Symbolic
from metasched.schedule.trace import Schedule
from metasched.space.sketch import Sketch
from metasched.target import Target
from tests.support.native import native_agrees

MATMUL = """
program matmul[M=13, N=18, K=10](A: f32[M, K], B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""


def padded(sch: Schedule) -> None:
    """Whole tiles of random width; the copy of B is padded without conditions, in rows of random distance."""
    c = sch.get_block("C")
    i, j, k = sch.get_loops(c)
    p, q = sch.sample_categorical([1, 3, 8], name="p"), sch.sample_categorical([2, 16], name="q")
    _, b, _ = sch.pad_einsum(c, [p, q, 4])
    j0, j1 = sch.split(j, [None, q])
    sch.reorder(i, j0, k, j1)
    sch.vectorize(j1, lanes=q)
    sch.compute_at(b, j0)
    sch.decompose_padding(b, sch.get_loops(b)[2])
    sch.storage_align(b, 0, 16, sch.sample_categorical([0, 3], name="gap"))


def factored(sch: Schedule) -> None:
    """Partial sums over a random tile, in a layout, read through a copy over other iteration variables."""
    c = sch.get_block("C")
    _, _, k = sch.get_loops(c)
    _, k1 = sch.split(k, sch.sample_tile(k, parts=2))
    sch.transform_layout(sch.rfactor(k1), "a, i, j -> j//4, a//2, i, j%4, a%2")
    copy = sch.reindex(c, "C_rf")
    sch.transform_block_layout(copy, "i, j, a -> a//2, i, j, a%2")


def packed(sch: Schedule) -> None:
    """Panels of a width that random tiles need not fit."""
    c = sch.get_block("C")
    i, j, k = sch.get_loops(c)
    b = sch.cache_read(c, "B", scope="local")
    sch.transform_layout(b, "k, j -> j//8, k, j%8")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(x, sch.sample_tile(x, parts=2)) for x in (i, j, k))
    sch.reorder(i0, j0, k0, i1, k1, j1)
    sch.compute_at(b, k0)
    for loop in (j1, sch.get_loops(b)[-1]):
        sch.vectorize(loop, lanes=8)


@pytest.mark.parametrize("sizes", [(13, 18, 10), (16, 16, 16)])
@pytest.mark.parametrize("module", [padded, factored, packed])
def test_rows_of_a_sketch_replay_and_agree(module: Callable[[Schedule], None], sizes: tuple[int, int, int]) -> None:
    program: Program = parse_program(MATMUL, **dict(zip("MNK", sizes, strict=True)))
    symbolic = Schedule(program, handler=Symbolic(Prior(0)))
    module(symbolic)
    sketch = Sketch.of(symbolic)
    rows = np.unique(sketch.sample(np.random.default_rng(0), 10), axis=0)
    legal = rows[sketch.mask(rows)]
    assert len(legal)
    assert np.isfinite(FeatureProgram(symbolic.func, sketch.columns, Target.detect())(rows)).all()
    for row in legal[:4]:
        schedule = sketch.trace_of(row).apply_to(program)
        validate(schedule.func)
        native_agrees(program.func, schedule.func)

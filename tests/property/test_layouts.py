"""Layouts and padding with random numbers: what a sketch lets through replays, and computes the program."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from metasched.cost.features import NAMES, FeatureProgram, features_of
from metasched.ir.program import Program
from metasched.ir.validate import validate
from metasched.lang import parse_program
from metasched.schedule.handlers import DrawFromPrior, Symbolic
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


def random_panels(sch: Schedule) -> None:
    """Panels as wide as the inner tile, or of a width of their own, which tiles need not fit."""
    c = sch.get_block("C")
    i, j, k = sch.get_loops(c)
    (i0, i1), (k0, k1) = (sch.split(x, sch.sample_tile(x, parts=2)) for x in (i, k))
    _, t = sch.sample_tile(j, parts=2, innermost=16)
    j0, j1 = sch.split(j, [None, t])
    b, a = sch.cache_read(c, "B"), sch.cache_read(c, "A", scope="local")
    sch.transform_layout(b, lambda k, j: (j // t, k, j % t))
    sch.transform_layout(a, "i, k -> k//s, i, k%s", sch.sample_categorical([1, 4, 6, 24], name="other"))
    sch.reorder(i0, j0, k0, i1, k1, j1)
    sch.compute_at(a, k0)
    sch.vectorize(j1, lanes=8)
    k_copy, j_copy = sch.get_loops(b)
    outer, inner = sch.split(j_copy, [None, t])
    sch.reorder(outer, k_copy, inner)
    sch.vectorize(inner, lanes=8)


def random_unfolding(sch: Schedule) -> None:
    """Copies over other variables, whose tiles need not divide what they are tiles of."""
    c = sch.get_block("C")
    t, u = sch.sample_categorical([1, 3, 8, 32], name="t"), sch.sample_categorical([2, 5], name="u")
    b = sch.reindex(c, "B")
    sch.transform_block_layout(b, "j, k -> j//t, k//u, j%t, k%u", t, u)
    a = sch.reindex(c, "A")
    sch.transform_block_layout(a, lambda i, k: (k // (t * 2), i, k % (t * 2)))
    sch.reindex(c, "C")
    i, *_, tile, _ = sch.transform_block_layout(c, "i, j, k -> i, j//t, j%t, k", t)
    sch.parallel(i)
    sch.vectorize(tile, lanes=8)


@pytest.mark.parametrize("sizes", [(13, 18, 10), (16, 16, 16)])
@pytest.mark.parametrize("module", [padded, factored, packed, random_panels, random_unfolding])
def test_rows_of_a_sketch_replay_and_agree(module: Callable[[Schedule], None], sizes: tuple[int, int, int]) -> None:
    program: Program = parse_program(MATMUL, **dict(zip("MNK", sizes, strict=True)))
    symbolic = Schedule(program, handler=Symbolic(DrawFromPrior(0)))
    module(symbolic)
    sketch = Sketch.of(symbolic)
    rows = np.unique(sketch.sample(np.random.default_rng(0), 10), axis=0)
    legal = rows[sketch.mask(rows)]
    assert len(legal)
    target = Target.detect()
    parametric = FeatureProgram(symbolic.func, sketch.columns, target)
    assert np.isfinite(parametric(rows)).all()
    for row, features in zip(legal[:2], parametric(legal[:2]), strict=True):
        schedule = sketch.trace_of(row).apply_to(program)
        concrete = features_of(schedule.func, target)
        wrong = np.flatnonzero(~np.isclose(features, concrete, rtol=1e-4, atol=1e-4))
        assert not wrong.size, (row, [(NAMES[n], features[n], concrete[n]) for n in wrong], schedule)
        validate(schedule.func)
        native_agrees(program.func, schedule.func)

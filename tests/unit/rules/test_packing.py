"""Operands of tiled reductions are copied to where and how they are read."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.target import Target
from tests.support.programs import CONV, DENSE_RELU
from tests.support.rulework import correct, reasons, rule

SMALL = Target.parse("name=small threads=2 l1=512 l2=1024 l3=4096 cacheline=64 features=avx,avx2,fma")
WEIGHTS = """
program weights[N=20, M=37, K=9](A: f32[N, K], const B: f32[M, K], const bias: f32[M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[j, k])
    relu:  D[i, j] = max(C[i, j] + bias[j], 0)
"""
CHANNELS = """
program channels[H=9, C=5, O=12](X: f32[C, H, H], const K: f32[O, C, 3, 3]) -> Y: f32[O, H - 2, H - 2]:
    conv: Y[o, h < H - 2, w < H - 2] = sum[c, r, s](X[c, h + r, w + s] * K[o, c, r, s])
"""
BATCHED = """
program batched[B=3, N=12, M=24, K=9](P: f32[B, N, K], Q: f32[B, M, K]) -> R: f32[B, N, M]:
    R[b, i, j] = sum[k](P[b, i, k] * Q[b, j, k])
"""


def options(text: str, **params: int) -> list[object]:
    space = ms.space(
        ms.parse_program(text, **params),
        rules=["multi_level_tiling", rule("packing")(reuse=4, gathered=4)],
        target=SMALL,
    )
    return list(dict.fromkeys(x for s in space for name, x in s.structure.items() if name.endswith("/packed")))


def test_what_is_offered() -> None:
    assert options(DENSE_RELU, N=8, M=8, K=4) == ["B in tiles", "none"]  # small: the second cache holds it with ease
    assert options(DENSE_RELU, N=8, M=32, K=8) == ["B in tiles", "B in panels", "none"]
    by_tile = "B in panels by tile"
    assert options(DENSE_RELU, N=64, M=32, K=64) == ["B in tiles", "B in panels", by_tile, "panels of all", "none"]
    assert options(DENSE_RELU, N=2, M=32, K=16) == ["B in tiles", "none"]  # hardly reused
    assert options(CONV) == ["K in tiles", "none"]


def test_constants_are_copied_ahead_of_calls_only() -> None:
    assert options(WEIGHTS) == ["B in panels", "none"]
    assert options(WEIGHTS, N=1) == ["B in panels"]  # read once: nothing but reading them takes time
    assert options(WEIGHTS.replace("const ", ""), N=1) == []
    assert options(CHANNELS) == ["X in tiles", "K in panels", "none"]


def test_operands_that_vectors_would_gather() -> None:
    assert options(BATCHED) == ["Q in panels", "none"]


@pytest.mark.parametrize(("size", "unrolled"), [(12, True), (9, False)])
def test_runs_of_what_vectors_would_gather_are_read_as_a_whole(size: int, unrolled: bool) -> None:
    """Four neighbours at a time, where that divides a row."""
    program = ms.parse_program(BATCHED, K=size)
    space = ms.space(program, rules=["multi_level_tiling", rule("packing")(reuse=4, gathered=4)], target=SMALL)
    sketch = space.sketch_near({"packing(R)/packed": "Q in panels"})
    assert ("unroll(k_R_Q_read_1)" in str(sketch.trace)) == unrolled
    rows = sketch.sample(np.random.default_rng(0), 4)
    correct(sketch.trace_of(rows[sketch.mask(rows)][0]).apply_to(program))


def test_copies_of_halves_may_move_as_many_as_are_multiplied_at_a_time() -> None:
    def traces(**types: str) -> set[str]:
        program = ms.operators.load("matmul_nn", M=64, N=32, K=64, **types)
        space = ms.space(program, rules=["multi_level_tiling", rule("packing")(reuse=4, gathered=4)], target=SMALL)
        lines = [line for s in space for line in str(s.trace).splitlines() if '"packing(C)/' in line]
        return {line.split(" ~ ")[1] for line in lines if "sample_categorical" in line}

    unrolled = 'sample_categorical([0, 4]) @ "packing(C)/unrolled"'
    assert unrolled in traces()
    assert not any("lanes" in line for line in traces())
    assert 'sample_categorical([16, 8]) @ "packing(C)/lanes"' in traces(T="bf16", ACC="f32")


def test_threads_copy_whole_panels_where_there_are_enough() -> None:
    def fused(size: int) -> bool:
        program = ms.operators.load("matmul_nn", M=64, N=size, K=size)
        space = ms.space(program, rules=["multi_level_tiling", "packing", "parallelize"], target=SMALL)
        sketch = space.sketch_near({"packing(C)/packed": "B in panels"})
        copy = next(line for line in str(sketch).splitlines() if line.strip().startswith("parallel"))
        return "_k" in copy

    assert [fused(size) for size in (256, 512)] == [True, False]


def test_what_is_not_tiled() -> None:
    found = reasons(DENSE_RELU, "packing")
    assert found == {"dense": "it is not tiled", "relu": "it is not tiled"}


@pytest.mark.parametrize("text", [DENSE_RELU, WEIGHTS, CHANNELS])
def test_every_structure_is_right(text: str) -> None:
    rules = [
        rule("multi_level_tiling")(fuse_after=(2,)),
        rule("packing")(reuse=2),
        rule("parallelize")(tiny=1),
        "vectorize",
        "unroll",
    ]
    target = Target.parse("name=tiny threads=2 l1=64 l2=64 l3=64 cacheline=64 features=avx,avx2,fma")
    space = ms.space(ms.parse_program(text), rules=rules, target=target)
    rng = np.random.default_rng(0)
    panels = [s for s in space if any("panels" in str(how) for how in s.structure.values())]
    assert panels
    for sketch in panels:
        rows = sketch.sample(rng, 2)
        for row in rows[sketch.mask(rows)][:1]:
            correct(sketch.trace_of(row).apply_to(space.program))


def test_a_tuned_kernel_has_weights_to_pack() -> None:
    program = ms.parse_program(WEIGHTS)
    space = ms.space(program, rules=["multi_level_tiling", "packing"], target=SMALL)
    sketch = next(s for s in space if "B in panels" in s.structure.values())
    assert "layout d0, d1 -> d0 // t" in str(sketch)
    rows = sketch.sample(np.random.default_rng(0), 8)
    kernel = ms.compile(program, trace=sketch.trace_of(rows[sketch.mask(rows)][0]))
    rng = np.random.default_rng(1)
    a, b, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((20, 9), (37, 9), (37,)))
    packed = kernel.pack(b, bias)
    assert [array.ndim for array in packed.arrays] == [1, 3]  # the bias, and panels
    np.testing.assert_array_equal(packed(a), kernel(a, b, bias))

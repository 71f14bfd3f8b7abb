"""Windows lane by lane: where the rule applies, what it says where it does not, and that results stay."""

from __future__ import annotations

import re

import numpy as np
import pytest
from metasched.rules.tensor_windows import tensor_windows
from metasched.rules.use_vnni_windows import use_vnni_windows
from metasched.rules.vectorize import vectorize

import metasched as ms
from metasched.cost.estimate.roofline import issue_cycles
from metasched.cost.expectation import stage_views
from metasched.ir.program import Program
from metasched.space.sketch import Sketch
from tests.support.structural import same
from tests.support.targets import AVX512, SAPPHIRE

HERE = ms.Target.detect(threads=1)

# A quantised depthwise layer: its own padding, a bias, and bytes out of it.
LAYER = """
program layer[H=9, W=10, C=32, R=3, S=1, T=u8](
    X: T[H, W, C], const K: i8[R, R, C], B: f32[C]
) -> Y: u8[H // S, W // S, C]:
    pad: P[y < H + R - 1, x < W + R - 1, c] = X[y - 1, x - 1, c] if y >= 1 and y < H + 1 and x >= 1 and x < W + 1 else 0
    sum: A[y < H // S, x < W // S, c] = sum[r < R, s < R](i32(P[y*S + r, x*S + s, c]) * i32(K[r, s, c]))
    out: Y[y, x, c] = u8(min(max(rint(f32(A[y, x, c]) * 0.01 + B[c]), 0.0), 255.0))
"""


def layer(**params: object) -> Program:
    return ms.parse_program(LAYER, **params)


def windows(program: Program) -> list[Sketch]:
    space = ms.space(program, rules=[use_vnni_windows, vectorize], target=SAPPHIRE)
    return [sketch for sketch in space if "@tensorize" in str(sketch)]


def drawn(sketch: Sketch, **tiles: int) -> ms.Trace:
    """A candidate of a sketch, with tiles of so many windows along some variables."""
    rows = sketch.repair(sketch.sample(np.random.default_rng(1), 400))
    for row in rows[sketch.mask(rows)]:
        found = sketch.decisions(row)
        if all(list(found[f"use_vnni_windows(sum)/{name}_sum"])[-1] == size for name, size in tiles.items()):
            return sketch.trace_of(row)
    raise AssertionError(f"none of 400 has {tiles}")


def why_not(program: Program, target: ms.Target = SAPPHIRE) -> str:
    return str(ms.space(program, rules=[use_vnni_windows], target=target).explain())


needs_vnni = pytest.mark.skipif(not HERE.has("avx512vnni"), reason="this machine has no avx512vnni")


@needs_vnni
@pytest.mark.parametrize(
    "params",
    [{}, {"R": 5, "C": 48}, {"S": 2, "H": 10}, {"C": 24}, {"T": "i8"}, {"R": 4}],
    ids=["3 by 3", "5 by 5", "stride", "lanes are padded", "signed", "nothing is padded"],
)
def test_results_are_those_of_the_program(params: dict[str, object]) -> None:
    program = layer(**params)
    rng = np.random.default_rng(0)
    args = [rng.integers(np.iinfo(b.dtype.numpy).min, 127, [int(e.value) for e in b.shape]) for b in program.inputs[:2]]
    given = [a.astype(b.dtype.numpy) for a, b in zip(args, program.inputs, strict=False)]
    given.append(rng.normal(size=given[0].shape[-1]).astype(np.float32))
    expected = ms.reference(program)(*given)
    for sketch in windows(program):
        kernel = ms.compile(program, trace=drawn(sketch), target=HERE)
        np.testing.assert_array_equal(kernel(*given), expected)


def test_terms_are_padded_and_operands_stay_where_they_are() -> None:
    text = str(windows(layer())[0])
    assert "pad_einsum" in str(windows(layer())[0].trace)
    assert "P_pad: u8[11, 13, 32]" in text
    assert "K_pad_global: i8[3, 4, 32]" in text


def test_the_consumer_may_go_with_the_tile() -> None:
    shown = [re.findall(r':= "(with the tile|none)"', str(s.trace))[-1] for s in windows(layer())]
    assert shown == ["with the tile", "none"]


@needs_vnni
def test_neighbouring_windows_share_what_they_read() -> None:
    """Three uses for each of four rows of windows: six rows of pixels are put side by side, not twelve."""
    program = layer(H=8, W=8, C=16)
    trace = drawn(windows(program)[0], y=4, x=1)
    kernel = ms.compile(program, trace=trace, target=HERE)
    assert kernel.llvm.count("call <16 x i32> @llvm.x86.avx512.vpdpbusd") == 12
    assert len(re.findall(r"shufflevector <32 x i8> .*, <64 x i32>", kernel.llvm)) == 6


def test_estimates_know_what_is_shared() -> None:
    """Of a window of three rows four loads each, one a cycle, and of eight windows below one another ten rows."""
    program = layer(H=16, W=16, C=64)
    sketch = windows(program)[0]

    def cycles(windows: int) -> float:
        views = stage_views(drawn(sketch, y=windows, x=1).apply_to(program).func, SAPPHIRE)
        return next(float(issue_cycles(view)[0]) for view in views if view.statement.tensor is not None)

    assert cycles(1) == pytest.approx(0.5 + 4 * 3 / 3)
    assert cycles(8) == pytest.approx(0.5 + 4 * 10 / 24)


def test_what_is_not_applied_says_why() -> None:
    floats = LAYER.replace("i32(P", "f32(P").replace("i32(K", "f32(K").replace("f32(A[", "(A[")
    assert "`lanes_u8i8_vnni`" in why_not(ms.parse_program(floats))
    assert "`lanes_u8i8_vnni` would fit, and the target lacks avx512vnni" in why_not(layer(), AVX512)
    assert "would compute 2.7 times as much as needed" in why_not(layer(C=8))
    assert "uses of `lanes_u8i8_vnni`" in why_not(layer(R=12, H=24, W=24))


def test_products_without_windows_are_left_alone() -> None:
    batches = """
program batches[B=16, K=8](X: u8[K, B], Y: i8[K, B]) -> Z: i32[B]:
    dot: Z[b] = sum[k](i32(X[k, b]) * i32(Y[k, b]))
"""
    assert "each of its results has operands of its own" in why_not(ms.parse_program(batches))


def test_the_rule_may_be_given_other_tiles() -> None:
    rule = tensor_windows(intrinsics=("lanes_u8i8_vnni",), rows=(1, 3))
    space = ms.space(layer(), rules=[rule], target=SAPPHIRE)
    assert "innermost=3" in str(space[0].trace)


def test_an_equal_program() -> None:
    for sketch in windows(layer()):
        same(layer().func, drawn(sketch).apply_to(layer()).func)


CHANNELS_FIRST = LAYER.replace("X: T[H, W, C]", "X: T[C, H, W]").replace("X[y - 1, x - 1, c]", "X[c, y - 1, x - 1]")


def test_borders_of_what_lies_otherwise_are_not_part_of_a_copy_of_rows() -> None:
    """Its vectors would be gathered byte by byte; alone it is tiled as a transposition."""
    for program, apart in ((layer(), False), (ms.parse_program(CHANNELS_FIRST), True)):
        assert all(("pad: P[" in str(sketch)) is apart for sketch in windows(program))
    program = ms.parse_program(CHANNELS_FIRST)
    same(program.func, drawn(windows(program)[0]).apply_to(program).func)

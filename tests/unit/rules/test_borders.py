"""The rule that reads padding where it is needed, and takes borders apart."""

from __future__ import annotations

import re

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from tests.support.rulework import correct, reasons, rule
from tests.support.targets import AVX512

SMALL = {
    "depthwise_conv2d_nhwc": {"N": 2, "H": 9, "W": 11, "C": 20, "R": 3, "S": 1, "P": 1},
    "max_pool2d_nhwc": {"H": 9, "W": 8, "C": 17, "R": 3, "S": 2, "P": 1},
    "max_pool3d_ndhwc": {"Z": 5, "H": 6, "W": 7, "C": 9, "R": 2, "S": 2, "P": 1},
}


ACTIVATED = """
program activated[H=9, W=11, C=20](X: f32[H, W, C], K: f32[3, 3, C], b: f32[C]) -> Y: f32[H, W, C]:
    Xp: f32[H + 2, W + 2, C]
    pad: Xp[h, w, c] = X[h - 1, w - 1, c] if h >= 1 and h < H + 1 and w >= 1 and w < W + 1 else 0
    conv: A[h < H, w < W, c] = sum[r < 3, s < 3](Xp[h + r, w + s, c] * K[r, s, c])
    relu: Y[h, w, c] = max(A[h, w, c] + b[c], 0)
"""


def drawn(program: ms.Program, count: int, how: str = "apart") -> list[ms.Schedule]:
    """Draws with borders apart."""
    rng = np.random.default_rng(0)
    (sketch,) = (s for s in ms.space(program, rules=[rule("borders")]) if how in s.structure.values())
    rows = sketch.repair(sketch.sample(rng, 4 * count))
    return [sketch.trace_of(row).apply_to(program) for row in rows[sketch.mask(rows)][:count]]


@pytest.mark.parametrize("operator", SMALL)
def test_borders_are_nests_of_their_own(operator: str) -> None:
    for sch in drawn(operators.load(operator, **SMALL[operator]), 2):
        assert "pad" not in sch.block_names()
        assert sum(name.endswith(("head", "tail", "_1")) for name in sch.block_names()) == 8
        correct(sch)


@pytest.mark.parametrize("operator", SMALL)
def test_columns_apart(operator: str) -> None:
    for sch in drawn(operators.load(operator, **SMALL[operator]), 1, "columns apart"):
        assert sum(name.endswith(("head", "tail")) for name in sch.block_names()) == 2
        correct(sch)


@pytest.mark.parametrize(("how", "nests"), [("apart", 9), ("columns apart", 3)])
def test_what_follows_is_computed_tile_by_tile(how: str, nests: int) -> None:
    """In each nest: no array has more of the sums than a tile's."""
    for sch in drawn(ms.parse_program(ACTIVATED), 1, how):
        blocks = [sch.describe(sch.get_block(name)) for name in sch.block_names()]
        assert sum(block.name.startswith("relu") for block in blocks) == nests == len(blocks) / 2
        kept = re.findall(r"^    \w+ A\w*: f32\[(\d+)\]", print_kernel(lower(sch.func, AVX512)), re.MULTILINE)
        assert kept
        assert all(int(count) <= 8 * 8 * 20 for count in kept)
        correct(sch)


def test_loops_may_be_in_another_order_than_the_variables() -> None:
    """As those of a block that `rfactor` made: each variable's tile is that of its own loop."""

    def reordered(sch: ms.Schedule) -> None:
        block = sch.get_block("pool")
        *elements, r, s = sch.get_loops(block)
        sch.reorder(r, s, *elements)
        rule("borders").apply(sch, block)

    program = operators.load("max_pool2d_nhwc", **SMALL["max_pool2d_nhwc"])
    (sketch,) = (s for s in ms.space(program, module=reordered) if "apart" in s.structure.values())
    tiles = [f"borders(pool)/{loop}" for loop in ("h_pool", "w_pool", "c_pool")]
    assert [v.address for v in sketch.variables][:3] == tiles
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 8))
    correct(sketch.trace_of(rows[sketch.mask(rows)][0]).apply_to(program))


def test_the_inside_has_no_conditions() -> None:
    """Whatever the tile: nine nests read the input, and one does so without a choice."""
    program = operators.load("depthwise_conv2d_nhwc", H=40, W=40, C=16, R=3, S=1, P=1)
    for sch in drawn(program, 4):
        updates = [line for line in print_kernel(lower(sch.func, AVX512)).splitlines() if "X[" in line]
        assert sum(" if " not in line for line in updates) == 1
        assert len(updates) <= 9


def test_it_is_a_choice_of_the_preset() -> None:
    space = ms.space(operators.load("max_pool2d_nhwc", **SMALL["max_pool2d_nhwc"]))
    assert {sketch.structure["borders(pool)/borders"] for sketch in space} == {"apart", "columns apart", "copied"}


@pytest.mark.parametrize(
    ("operator", "params", "reason"),
    [
        ("conv2d_nhwc", {"CO": 64}, "it has many terms"),
        ("matmul_nn", {"K": 9}, "it reads no padding that is cheaper to read than to copy"),
        ("depthwise_conv2d_nchw", {}, "vectors would run across borders"),
        (
            "max_pool2d_nhwc",
            {"H": 8, "W": 8, "R": 2, "S": 2, "P": 0},
            "it reads no padding that is cheaper to read than to copy",
        ),
    ],
)
def test_it_says_why_not(operator: str, params: dict[str, int], reason: str) -> None:
    program = operators.load(operator, **params)
    found = reasons(str(program), "borders", **dict(program.params))
    assert reason in found.values()

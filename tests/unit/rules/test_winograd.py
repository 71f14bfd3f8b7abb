"""Convolutions go through transforms where callers allow it, and a search may choose so."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.operators import load
from tests.support.agreement import check_kernel
from tests.support.rulework import TARGET, rule

SIZES = {"H": 10, "W": 10, "CI": 16, "CO": 20, "R": 3, "S": 1, "P": 1}


def space(program: ms.Program, *names: str) -> ms.Space:
    return ms.space(program, rules=[rule(name) for name in ("winograd", *names)], target=TARGET, allow={"winograd"})


def chosen(program: ms.Program, tile: int | str) -> ms.Sketch:
    return next(s for s in space(program) if s.structure["winograd(conv)/winograd"] == tile)


def test_only_where_it_is_allowed() -> None:
    program = load("conv2d_nhwc", **SIZES)
    explained = ms.space(program, rules=[rule("winograd")], target=TARGET).explain()
    assert "it is not allowed: results would differ by more (`allow`)" in explained
    assert len(ms.space(program, rules=[rule("winograd")], target=TARGET)) == 1
    assert [s.structure["winograd(conv)/winograd"] for s in space(program)] == [4, 6, 2, "direct"]


def test_what_is_left_is_a_batch_of_matrix_products() -> None:
    text = str(chosen(load("conv2d_nhwc", **SIZES), 4))
    assert "for ht_wt, n_of_conv_1, h_w, o_of_conv, c_of_conv_1 in grid(36, 1, 9, 20, 16):" in text
    assert "conv.Xp.pad: Xp_pad[n, hx, wx, c] = (X[n, hx - 1, wx - 1, c] if" in text


def test_element_wise_readers_are_computed_in_the_last_transform() -> None:
    sketch = chosen(load("conv2d_bn_relu_nchw", **SIZES), 2)
    assert sketch.trace is not None
    assert not {"biased:", "norm:", "relu:"} & set(str(sketch).split())


@pytest.mark.parametrize(("name", "tile"), [("conv2d_nhwc", 4), ("conv2d_bn_relu_nchw", 2)])
def test_they_are_right(name: str, tile: int) -> None:
    program = load(name, **SIZES)
    check_kernel(ms.compile(program, trace=chosen(program, tile).trace), program)


def test_of_one_axis() -> None:
    program = load("conv1d_nlc", N=1, L=20, CI=16, CO=20, R=3, S=1, P=1)
    check_kernel(ms.compile(program, trace=chosen(program, 6).trace), program)


@pytest.mark.parametrize(
    ("name", "sizes", "reason"),
    [
        ("matmul_nn", {}, "winograd: no window of 2 to 7 elements slides over an operand of block"),
        ("conv2d_nhwc", SIZES | {"S": 2}, "winograd: no window of 2 to 7 elements slides over an operand of block"),
        ("conv2d_nhwc", SIZES | {"CI": 3}, "it sums over so few channels that transforms would take longer"),
        ("depthwise_conv2d_nhwc", {}, "it sums over so few channels that transforms would take longer"),
        ("softmax", {}, "it is no reduction that is not scheduled yet"),
    ],
)
def test_why_it_does_not_apply(name: str, sizes: dict[str, int], reason: str) -> None:
    assert reason in space(load(name, **sizes)).explain()


@pytest.mark.parametrize("image", ["X[i + r, j + s]", "X[i + r, j + s, c]"], ids=["grey", "colours"])
def test_an_image_whose_window_sums_no_channels_has_none_to_multiply(image: str) -> None:
    more = ", 3" if "c" in image else ""
    at = "[i, j, c]" if more else "[i, j]"
    text = f"program blurred(X: f32[18, 18{more}], k: f32[3, 3]) -> Y: f32[16, 16{more}]:\n"
    prog = ms.parse_program(text + f"    Y{at} = sum[r, s]({image} * k[r, s])\n")
    assert "it sums over so few channels" in space(prog).explain()


def test_it_finds_a_tiling_of_the_products() -> None:
    sketch = next(s for s in space(load("conv2d_nhwc", **SIZES), "multi_level_tiling") if 4 in s.structure.values())
    assert any("multi_level_tiling(conv)" in address for address in sketch.structure)

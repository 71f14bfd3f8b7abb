"""The rule that leaves terms of padding out."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.search.guesses.guess import guess
from metasched.space.source import FromRules
from tests.support.rulework import TARGET, correct, rule

NAME = "padding_terms"
ADDRESS = f"{NAME}(conv)/{NAME}"
EVERYWHERE = "skipped along all dimensions"
SMALL_IMAGES = rule(NAME)(gained=0)
# Of each several rows of windows read padding.
SMALL = {
    "conv2d_nhwc": {"H": 5, "W": 9, "CI": 6, "CO": 18, "R": 3, "P": 2, "D": 2},
    "conv2d_nchw": {"H": 5, "W": 9, "CI": 6, "CO": 5, "R": 3, "P": 2, "D": 2},
    "conv3d_ndhwc": {"Z": 3, "H": 5, "W": 5, "CI": 3, "CO": 17, "R": 3, "S": 1, "P": 1},
}


@pytest.mark.parametrize("operator", SMALL)
def test_results_are_the_same_under_the_other_rules(operator: str) -> None:
    _check_way(operator, "skipped", SMALL[operator])


@pytest.mark.parametrize("operator", ["conv2d_nhwc", "conv3d_ndhwc"])
def test_without_columns_results_are_the_same(operator: str) -> None:
    _check_way(operator, EVERYWHERE, {**SMALL[operator], "CI": 8})


def _check_way(operator: str, how: str, params: dict[str, int]) -> None:
    program = operators.load(operator, **params)
    space = ms.space(program, rules=[SMALL_IMAGES, *_preset()], target=TARGET)
    sketch = space.sketch_near({ADDRESS: how})
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), 8))
    row = rows[sketch.mask(rows)][0]
    sch = sketch.trace_of(row).apply_to(program)
    assert {"conv.zeros", "conv.start"} <= set(sch.block_names())
    assert sch.describe(sch.get_block("conv")).present <= 0.78
    correct(sch)


def _preset() -> list[ms.Rule]:
    names = ["multi_level_tiling", "packing", "compute_location", "padding", "parallelize", "vectorize", "unroll"]
    return [rule(name) for name in names]


def test_it_is_a_choice() -> None:
    space = ms.space(operators.load("conv2d_nhwc", **SMALL["conv2d_nhwc"]), rules=[SMALL_IMAGES])
    assert [sketch.structure for sketch in space] == [{ADDRESS: how} for how in (ms.LEFT_ALONE, "skipped")]


def test_guesses_take_it_where_what_is_known_is_older() -> None:
    found = guess(operators.load("conv2d_nhwc", H=33, W=33, CI=320, CO=256, R=3, P=18, D=18), TARGET)
    assert f'@ "{ADDRESS}" := "{EVERYWHERE}"' in str(found.trace)


def test_columns_are_asked_for_where_channels_share_them_and_lanes_do_not_run_along_them() -> None:
    assert _ways("conv2d_nhwc", {**SMALL["conv2d_nhwc"], "CI": 8}) == [ms.LEFT_ALONE, "skipped", EVERYWHERE]
    assert _ways("conv2d_nchw", {**SMALL["conv2d_nchw"], "CI": 8}) == [ms.LEFT_ALONE, "skipped"]
    many = {"H": 14, "W": 14, "CI": 8, "CO": 16, "R": 3, "P": 1}
    assert _ways("conv2d_nhwc", many) == [ms.LEFT_ALONE, EVERYWHERE]


def _ways(operator: str, params: dict[str, int]) -> list[str]:
    space = ms.space(operators.load(operator, **params), rules=[SMALL_IMAGES])
    return [str(sketch.structure[ADDRESS]) for sketch in space]


@pytest.mark.parametrize(
    ("operator", "params", "reason"),
    [
        ("conv2d_nhwc", {"H": 56, "W": 56}, "99% of its terms read no rows of padding"),
        (
            "depthwise_conv2d_nhwc",
            {"H": 6, "W": 7, "C": 18, "R": 3, "S": 1, "P": 1},
            "so few terms share a row that conditions would take longer",
        ),
        (
            "conv2d_nhwc",
            {"H": 7, "W": 7, "CI": 3, "P": 3, "D": 3},
            "so few terms are left out for each weight that looking at the weights would take as long",
        ),
        ("conv1d_nlc", {"L": 9, "P": 2}, "it reads no padding of several dimensions"),
        (
            "conv2d_nhwc",
            {**SMALL["conv2d_nhwc"], "T": "bf16", "ACC": "f32"},
            "terms of other types are summed by tensor instructions, several at once",
        ),
    ],
)
def test_it_says_why_not(operator: str, params: dict[str, int | str], reason: str) -> None:
    outcomes = FromRules((rule(NAME),)).run(ms.Schedule(operators.load(operator, **params)))
    assert {outcome.block: outcome.reason for outcome in outcomes}["conv"] == reason

"""AMX, dot products, vectors and scalars: one estimate ranks them as they were measured, and is not far off.

Times are of the whole kernel, packing included, on two threads of a Xeon of 2024 at 3.4 GHz (Granite Rapids), each the
median of calls in a compiled loop on an idle machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pytest

import metasched as ms
from metasched import operators
from metasched.cost.expectation import expectation_of
from metasched.ir.program import Program
from tests.support.cross import AMX, AVX2, WIDE

TARGET = ms.Target("graniterapids", frozenset((*AVX2, *WIDE, *AMX)), 2, 48 << 10, 2 << 20, 480 << 20)
CLOCK_GHZ = 3.4
TYPES = {
    "bf16": {"T": "bf16", "U": "bf16", "ACC": "f32"},
    "u8i8": {"T": "u8", "U": "i8", "ACC": "i32"},
    "i8i8": {"T": "i8", "U": "i8", "ACC": "i32"},
}
TRACES = {
    "bf16": {"AMX": "amx_bf16", "dot": "bf16", "vectors": "goto_half"},
    "u8i8": {"AMX": "amx_u8i8", "dot": "vnni", "vectors": "goto_half"},
    "i8i8": {"AMX": "amx_u8i8", "dot": "vnni", "vectors": "goto_half"},
}
# Microseconds, by types and M, N, K.
MEASURED: Mapping[tuple[str, tuple[int, int, int]], Mapping[str, float]] = {
    ("bf16", (64, 64, 64)): {"AMX": 3.927, "dot": 6.214, "vectors": 4.116, "scalars": 176.3},
    ("bf16", (256, 256, 256)): {"AMX": 34.5, "dot": 179.3, "vectors": 131.5, "scalars": 1.654e04},
    ("bf16", (1024, 1024, 1024)): {"AMX": 1538, "dot": 1.581e04, "vectors": 8078},
    ("bf16", (1024, 32, 1024)): {"AMX": 47.84, "dot": 320.2, "vectors": 588.7, "scalars": 3.443e04},
    ("bf16", (128, 3072, 768)): {"AMX": 985.9, "dot": 7130, "vectors": 2497},
    ("bf16", (192, 96, 320)): {"AMX": 22.14, "dot": 77.57, "vectors": 96.25, "scalars": 5620},
    ("bf16", (100, 96, 128)): {"dot": 20.71, "vectors": 19.58, "scalars": 992.1},
    ("u8i8", (64, 64, 64)): {"AMX": 3.88, "dot": 3.381, "vectors": 5.072, "scalars": 120.9},
    ("u8i8", (256, 256, 256)): {"AMX": 23.97, "dot": 49.08, "vectors": 162.3, "scalars": 1.385e04},
    ("u8i8", (1024, 1024, 1024)): {"AMX": 603.2, "dot": 2274, "vectors": 1.419e04},
    ("u8i8", (1024, 32, 1024)): {"AMX": 29.05, "dot": 69.38, "vectors": 699.2, "scalars": 1.109e04},
    ("u8i8", (128, 3072, 768)): {"AMX": 621.5, "dot": 1604, "vectors": 2871},
    ("u8i8", (192, 96, 320)): {"AMX": 16.25, "dot": 20.01, "vectors": 112.2, "scalars": 2136},
    ("u8i8", (100, 96, 128)): {"dot": 7.263, "vectors": 24.24, "scalars": 491.3},
    ("i8i8", (64, 64, 64)): {"AMX": 4.305, "dot": 4.579, "vectors": 9.174, "scalars": 126.9},
    ("i8i8", (256, 256, 256)): {"AMX": 24.53, "dot": 75.88, "vectors": 288.8, "scalars": 1.427e04},
    ("i8i8", (1024, 1024, 1024)): {"AMX": 575.7, "dot": 4113, "vectors": 1.86e04},
    ("i8i8", (1024, 32, 1024)): {"AMX": 30.32, "dot": 123.5, "vectors": 1232, "scalars": 1.148e04},
    ("i8i8", (128, 3072, 768)): {"AMX": 662.7, "dot": 2621, "vectors": 5104},
    ("i8i8", (192, 96, 320)): {"AMX": 16.53, "dot": 30.88, "vectors": 205.5, "scalars": 2238},
    ("i8i8", (100, 96, 128)): {"dot": 9.912, "vectors": 40.71, "scalars": 485.6},
}
# Times nearer than that to one another are in no order.
APART = 1.25
# The estimate is at most so many times the measurement, and the measurement so many times the estimate.
FACTOR, OF_SCALARS = 2.25, 4.0


def program(types: str, shape: tuple[int, int, int]) -> Program:
    m, n, k = shape
    params: dict[str, Any] = TYPES[types]
    return operators.load("matmul_nn", M=m, N=n, K=k, **params)


def estimated(types: str, shape: tuple[int, int, int], way: str) -> float:
    """Microseconds."""
    written = program(types, shape)
    text = f"trace 1 of {written.key}:\n"
    if way != "scalars":
        text = str(operators.expert(f"matmul_nn.{TRACES[types][way]}").trace)
    if types == "i8i8":
        text = text.replace("u8i8", "i8i8")
    func = ms.parse_trace(text).apply_to(written, ms.Policy.REPAIR).func
    return expectation_of(func, TARGET).cycles / CLOCK_GHZ / 1e3


@pytest.mark.parametrize(("types", "shape"), MEASURED)
def test_estimates_are_in_the_order_of_measurements_and_near_them(types: str, shape: tuple[int, int, int]) -> None:
    measured = MEASURED[types, shape]
    found = {way: estimated(types, shape, way) for way in measured}
    for one, other in combinations(measured, 2):
        slower, faster = sorted((one, other), key=lambda way: -measured[way])
        if measured[slower] > APART * measured[faster]:
            assert found[slower] > found[faster], f"{faster} is faster than {slower}: {found}"
    for way, microseconds in measured.items():
        factor = OF_SCALARS if way == "scalars" else FACTOR
        assert 1 / factor < found[way] / microseconds < factor, f"{way}: {found}"


def test_there_is_something_to_order() -> None:
    """Vectors beat dot products of bf16 at some shapes and lose at others, and tiles beat all but the smallest."""
    times = [MEASURED["bf16", shape] for types, shape in MEASURED if types == "bf16"]
    assert 1 < sum(each["dot"] > APART * each["vectors"] for each in times) < len(times)
    assert any(each["vectors"] > APART * each["dot"] for each in times)

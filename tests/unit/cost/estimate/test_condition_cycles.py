"""What conditions cost: padding's four ways and the parities of a transposed convolution come in their measured order.

Times are microseconds on one core of an AVX-512 server, the median of five visits with nothing else running. They are
facts of that day: nothing is timed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import pytest

import metasched as ms
from metasched import operators
from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.condition_cycles import gated_reads
from metasched.cost.expectation import expectation_of, stage_views

SERVER = ms.Target("sapphirerapids", frozenset({"avx512f", "avx512vl", "fma"}), 1, 48 << 10, 2 << 20, 64 << 20)

# Pairs whose times differ by less are not to be far apart, in either order; others are to be in order.
APART, NEAR = 1.5, 1.7


@dataclass(frozen=True)
class Padded:
    """A convolution, the pixels and channels of its register tile, and the time that each way of padding takes.

    buffer: a stage of its own, with a condition; fused: that stage for a row at a time; decomposed: zeros, and the
    interior copied over them, at once or for a row at a time; inlined: no stage, a condition at every read.
    """

    operator: str
    params: dict[str, int]
    pixels: int
    channels: int
    times: dict[str, float]


CONV2D, CONV3D = "conv2d_nhwc", "conv3d_ndhwc"
FIRST = {"CI": 3, "CO": 64, "R": 7, "S": 2, "P": 3}
PADDED = {
    "C1D": Padded(
        "conv1d_nlc",
        {"L": 256, "CI": 64, "CO": 128, "R": 3, "S": 2, "P": 1},
        8,
        32,
        {"buffer": 39, "fused": 43, "decomposed": 41, "fused decomposed": 38, "inlined": 45},
    ),
    "C2D": Padded(
        CONV2D,
        {"H": 224, "W": 224, **FIRST},
        7,
        64,
        {"buffer": 1534, "fused": 1585, "decomposed": 1544, "fused decomposed": 1592, "inlined": 2667},
    ),
    "C3D": Padded(
        CONV3D,
        {"Z": 8, "H": 56, "W": 56, **FIRST},
        7,
        64,
        {"buffer": 2876, "fused": 3356, "decomposed": 2714, "fused decomposed": 3108, "inlined": 4434},
    ),
    "DEP": Padded(
        "depthwise_conv2d_nhwc",
        {"H": 112, "W": 112, "C": 32, "R": 3, "S": 1, "P": 1},
        7,
        32,
        {"buffer": 227, "fused": 209, "decomposed": 224, "fused decomposed": 218, "inlined": 128},
    ),
    "DIL": Padded(
        CONV2D,
        {"H": 224, "W": 224, "D": 2, **FIRST},
        6,
        64,
        {"buffer": 1268, "fused": 1895, "decomposed": 1360, "fused decomposed": 1586, "inlined": 2253},
    ),
    "GRP": Padded(
        CONV2D,
        {"H": 56, "W": 56, "CI": 64, "CO": 128, "R": 3, "S": 2, "P": 1, "G": 4},
        7,
        32,
        {"buffer": 211, "fused": 241, "decomposed": 212, "fused decomposed": 247, "inlined": 352},
    ),
    "14 x 14": Padded(
        CONV2D,
        {"H": 14, "W": 14, "CI": 64, "CO": 128, "R": 3, "S": 1, "P": 1},
        7,
        32,
        {"buffer": 209, "fused": 219, "decomposed": 206, "fused decomposed": 163, "inlined": 357},
    ),
    "T2D": Padded(
        "conv2d_transpose_nhwc",
        {"H": 4, "W": 4, "CI": 128, "CO": 256, "R": 4, "S": 2, "P": 1},
        8,
        32,
        {"buffer": 962, "fused": 1024, "decomposed": 816, "fused decomposed": 833, "inlined": 1112},
    ),
}


def padded_in(case: Padded, way: str) -> float:
    """Estimated cycles of a convolution padded in a way: a tile of pixels by channels in registers, terms around it."""
    sch = ms.Schedule(operators.load(case.operator, **case.params))
    pad, conv = sch.get_block("pad"), sch.get_block("conv")
    if way == "inlined":
        sch.compute_inline(pad)
    loops = sch.get_loops(conv)
    terms = 2 if case.operator.startswith("depthwise") else {5: 2, 7: 3, 9: 4}[len(loops)]
    *outer, pixel, channel = loops[:-terms]
    pixels, tile = sch.split(pixel, [None, case.pixels])
    channels, lanes = sch.split(channel, [None, case.channels])
    sch.reorder(*outer, pixels, channels, *loops[-terms:], tile, lanes)
    if way.startswith("fused"):
        sch.compute_at(pad, pixels if len(outer) == 1 else outer[-1])
    if way.endswith("decomposed"):
        fill = sch.decompose_padding(pad, sch.get_loops(pad)[-2])
        sch.vectorize(sch.get_loops(fill)[-1], lanes=16)
    if way != "inlined":
        sch.vectorize(sch.get_loops(pad)[-1], lanes=16)
    sch.vectorize(lanes, lanes=16)
    sch.annotate(conv, "unroll_limit", 64)
    return expectation_of(sch.func, SERVER).cycles


@pytest.mark.parametrize("name", PADDED)
def test_the_ways_of_padding_come_in_their_measured_order(name: str) -> None:
    times = PADDED[name].times
    cycles = {way: padded_in(PADDED[name], way) for way in times}
    for slow, fast in combinations(sorted(times, key=times.__getitem__, reverse=True), 2):
        measured, estimated = times[slow] / times[fast], cycles[slow] / cycles[fast]
        if measured > APART:
            assert measured / NEAR < estimated > 1.0, (slow, fast, measured)
        else:
            assert 1 / NEAR < estimated < NEAR, (slow, fast, measured)


# Transposed convolutions of stride S by the order of their loops. parity: outputs and filter elements are split by S
# and unrolled, so that which of them meet is known when the code is made; outer: so are those of a tile and its terms;
# plain: a tile whose conditions are decided when it runs; rolled: an output at a time. Without fastmath (strict), terms
# of zero are added.
TRANSPOSED = {
    "8 x 8": (
        {"H": 8, "W": 8, "CI": 64, "CO": 64},
        {"parity": 107, "plain": 425, "outer": 277, "rolled": 1107, "parity strict": 221, "outer strict": 334},
    ),
    "16 x 16": (
        {"H": 16, "W": 16, "CI": 32, "CO": 32},
        {"parity": 163, "plain": 434, "outer": 149, "rolled": 938, "parity strict": 466, "outer strict": 279},
    ),
    "stride 3": (
        {"H": 8, "W": 8, "CI": 32, "CO": 64, "R": 3, "S": 3, "P": 0},
        {"parity": 49, "plain": 292, "outer": 190, "rolled": 708, "parity strict": 291, "outer strict": 200},
    ),
}


# Zeros stand for the terms that are not there.
WITH_ZEROS = """
program with_zeros[H=4, W=4, CI=512, CO=256, R=4, S=2, P=1](X: f32[1, H, W, CI], K: f32[R, R, CI, CO]) -> Y: f32[1, OH, OW, CO]:
    let OH = (H - 1) * S - 2*P + R
    let OW = (W - 1) * S - 2*P + R
    let Q = (R - 1 - P + S - 1) // S
    let B = Q*S - (R - 1 - P)
    Xp: f32[1, H + Q + (R - 1 - P) // S, W + Q + (R - 1 - P) // S, CI]
    pad: Xp[n, h, w, c] = X[n, h - Q, w - Q, c] if h >= Q and h < H + Q and w >= Q and w < W + Q else 0
    conv: Y[n, h, w, o] = sum[r < R, s < R, c]((Xp[n, (h + r + B) // S, (w + s + B) // S, c] if (h + r + B) % S == 0 and (w + s + B) % S == 0 else 0) * K[R - 1 - r, R - 1 - s, c, o])
"""  # noqa: E501


def transposed_in(program: ms.Program, way: str) -> float:
    """Estimated cycles of a transposed convolution with its loops in an order."""
    params = dict(program.params)
    sch = ms.Schedule(program)
    conv = sch.get_block("conv")
    n, h, w, o, r, s, c = sch.get_loops(conv)
    channels, lanes = sch.split(o, [None, 32])
    sch.vectorize(lanes, lanes=16)
    if way.startswith("parity"):
        stride = params["S"]
        (h0, h1), (w0, w1), (r0, r1), (s0, s1) = (sch.split(loop, [None, stride]) for loop in (h, w, r, s))
        sch.reorder(n, channels, h1, w1, h0, r1, s1, r0, s0, c, w0, lanes)
        unrolled = [h1, w1, r1, s1, w0]
    elif way == "rolled":
        sch.reorder(n, channels, h, w, r, s, c, lanes)
        unrolled = []
    else:
        pixels, tile = sch.split(w, [None, 4])
        terms = [r, s, c] if way == "plain" else [c, r, s]
        sch.reorder(n, channels, h, pixels, *terms, tile, lanes)
        unrolled = [tile] if way == "plain" else [tile, s, r]
    for loop in unrolled:
        sch.unroll(loop)
    sch.annotate(conv, "unroll_limit", 64)
    if not way.endswith("strict"):
        sch.annotate(conv, "fastmath", True)
    return expectation_of(sch.func, SERVER).cycles


@pytest.mark.parametrize("name", TRANSPOSED)
def test_parities_of_a_transposed_convolution_come_in_their_measured_order(name: str) -> None:
    params, times = TRANSPOSED[name]
    cycles = {way: transposed_in(ms.parse_program(WITH_ZEROS, **params), way) for way in times}
    for slow, fast in combinations(sorted(times, key=times.__getitem__, reverse=True), 2):
        measured, estimated = times[slow] / times[fast], cycles[slow] / cycles[fast]
        if measured > APART:
            assert measured / NEAR < estimated > 1.0, (slow, fast, measured)


# The same with terms that are not there (`sum[r, s, c if ...](...)`), whose work is skipped however its loops run.
ABSENT_TERMS = {
    "8 x 8": {"parity": 53, "outer": 114, "plain": 222},
    "16 x 16": {"outer": 80, "plain": 125, "parity": 141},
    "stride 3": {"parity": 38, "outer": 49, "plain": 50},
}


@pytest.mark.parametrize("name", ABSENT_TERMS)
def test_the_fastest_order_of_loops_around_absent_terms_is_known(name: str) -> None:
    program = operators.load("conv2d_transpose_nhwc", **TRANSPOSED[name][0])
    cycles = {way: transposed_in(program, way) for way in ABSENT_TERMS[name]}
    times = ABSENT_TERMS[name]
    assert min(cycles, key=cycles.__getitem__) == min(times, key=times.__getitem__), cycles
    for slow, fast in combinations(sorted(times, key=times.__getitem__, reverse=True), 2):
        if times[slow] / times[fast] > APART:
            assert cycles[slow] > cycles[fast], (slow, fast)
    assert max(cycles.values()) < transposed_in(ms.parse_program(WITH_ZEROS, **TRANSPOSED[name][0]), "plain strict")


PADDED_COLUMNS = """
program columns[H=33, W=33, D=18, CI=320, CO=64](X: f32[H, W, CI], K: f32[3, 3, CI, CO]) -> Y: f32[H, W, CO]:
    Xp: f32[H + 2*D, W + 2*D, CI]
    pad: Xp[h, w, c] = X[h - D, w - D, c] if h >= D and h < H + D and w >= D and w < W + D else 0
    conv: Y[h, w, o] = sum[r < 3, s < 3, c < CI if {}](Xp[h + D*r, w + D*s, c] * K[r, s, c, o])
"""
ROWS = "h + D*r >= D and h + D*r < H + D"
COLUMNS = "w + D*s >= D and w + D*s < W + D"
# One core of a Zen 4, milliseconds, tiles of 6 columns and 64 channels: rows, and rows and columns, beside all terms.
SHARE_OF_TIME = {18: (0.63, 0.42), 12: (0.76, 0.58), 6: (0.88, 0.78)}


@pytest.mark.parametrize("dilation", SHARE_OF_TIME)
def test_terms_of_columns_that_a_tile_lacks_take_no_time(dilation: int) -> None:
    """Columns are asked before the loop over channels, for the tile at once."""

    def cycles(condition: str) -> float:
        sch = ms.Schedule(ms.parse_program(PADDED_COLUMNS.format(condition), D=dilation))
        h, w, o, r, s, c = sch.get_loops(sch.get_block("conv"))
        w0, w1 = sch.split(w, [None, 6])
        sch.reorder(h, w0, r, s, c, w1, o)
        sch.unroll(w1)
        for lanes in (o, sch.get_loops(sch.get_block("pad"))[-1]):
            sch.vectorize(lanes, lanes=16)
        return expectation_of(sch.func, SERVER).cycles

    everything = cycles("h >= 0")
    rows, both = (cycles(condition) / everything for condition in (ROWS, f"{ROWS} and {COLUMNS}"))
    assert (rows, both) == pytest.approx(SHARE_OF_TIME[dilation], rel=0.15)


def test_of_a_tile_of_rows_and_columns_each_element_is_asked() -> None:
    """A tile of 3 x 2 with its few whole parts costs more for conditions than one of 6 columns."""

    def cycles(rows: int, columns: int) -> float:
        sch = ms.Schedule(ms.parse_program(PADDED_COLUMNS.format(f"{ROWS} and {COLUMNS}"), H=12, W=12, D=1))
        h, w, o, r, s, c = sch.get_loops(sch.get_block("conv"))
        (h0, h1), (w0, w1) = sch.split(h, [None, rows]), sch.split(w, [None, columns])
        sch.reorder(h0, w0, r, s, c, h1, w1, o)
        for loop in (h1, w1):
            sch.unroll(loop)
        sch.vectorize(o, lanes=16)
        return expectation_of(sch.func, SERVER).cycles

    assert cycles(3, 2) > 1.1 * cycles(1, 6)


@pytest.mark.parametrize("rows", [1, 4])
def test_rows_of_a_scan_share_the_mask_of_a_vector(rows: int) -> None:
    """Which lanes are beyond a term is the same in all rows of unrolled code: each of them has a masked read of it."""
    text = (
        "program scan[N=64, K=64](X: f32[N, K]) -> Y: f32[N, K]:\n    Y[i, j] = sum[k < K](X[i, k] if k <= j else 0)\n"
    )
    sch = ms.Schedule(ms.parse_program(text))
    i, j, k = sch.get_loops(sch.get_block("Y"))
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, k, i1, j1)
    sch.unroll(i1)
    sch.vectorize(j1, lanes=16)
    instructions, left_out = gated_reads(stage_views(sch.func, SERVER)[0])
    mask = DEFAULT_CORE.redirected_read + DEFAULT_CORE.lane_mask - 1.0
    assert float(instructions[0]) == pytest.approx(1.0 + mask / rows)
    assert float(left_out[0]) == 0.0

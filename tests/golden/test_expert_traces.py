"""Expert traces are in the space of the preset: decisions that lead to the same code, or the reason why none do.

`FOUND` has for a trace the decisions that differ from the first options, smallest tiles and first numbers. `LACKING`
names a step of the trace that no rule of the preset takes: it fails once a rule does, and the trace is to be looked at
again. `OTHERWISE` has for the rest what differs, with the decisions that come nearest, which fail once they lead there.
Both hold only while a guess in the space is expected to take no longer, within a tenth, on a target with AVX-512.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import metasched as ms
from metasched.cost.expectation import expectation_of
from metasched.ir.nodes import Func
from metasched.ir.program import Program
from metasched.lang.instructions import Decision, Ref
from metasched.measure.compiling import lower_candidate
from metasched.operators.experts import Expert, expert, expert_names
from metasched.operators.files import file_of
from metasched.schedule.handlers import Policy
from metasched.space.registry import resolve
from metasched.space.source import FromRules
from metasched.support.stopwatch import Stopwatch
from metasched.target import Target
from tests.support.decided import Decided, tile
from tests.support.targets import AVX512, SAPPHIRE

RULES = Path(inspect.getfile(resolve("cpu")[0].fn)).parent


@dataclass(frozen=True)
class Way:
    """Decisions by address: a list has inner factors, `at(...)` is a place. `shape`: parameters at which the rules
    apply, where the trace was written for a smaller one; `arguments`: weights that are arguments like any other, where
    the trace copies them at every call; `weights`: arguments that are weights, whose copies are made ahead and are not
    part of the code that is timed: how the trace copies them does not count then; `reason`: why the code differs, where
    it does."""

    decisions: Mapping[str, Decision]
    shape: Mapping[str, int] = field(default_factory=dict)
    allow: frozenset[str] = frozenset()
    arguments: frozenset[str] = frozenset()
    weights: frozenset[str] = frozenset()
    target: Target = AVX512
    reason: str = ""


def lanes(rule: str, width: int, *blocks: str) -> dict[str, Decision]:
    return {f"{rule}({block})/lanes": width for block in blocks}


SIX_USES = tile(3, 2)


def with_tiles(rule: str, rows: Decision, columns: Decision = SIX_USES, allow: frozenset[str] = frozenset()) -> Way:
    """Tiles of a tensor intrinsic by a rule; the rows of B, a weight, lie whole in its copy."""
    decisions: dict[str, Decision] = {"use_amx(C)/intrinsic": "none"} if rule != "use_amx" else {}
    decisions |= {f"{rule}(C)/{'i_0' if rule == 'use_amx' else 'i'}": rows, f"{rule}(C)/j_0": columns}
    decisions |= {f"{rule}(C)/uses in a panel": 6}
    return Way(decisions, allow=allow, weights=frozenset({"B"}), target=SAPPHIRE)


TILED = "multi_level_tiling"
LARGE = {"M": 512, "N": 512}
IN_PLACE = {"multi_level_tiling(C)/fusion": "none", "packing(C)/packed": "none"}
PRODUCT: dict[str, Decision] = {
    **IN_PLACE,
    **lanes("vectorize", 16, "C"),
    f"{TILED}(C)/i": tile(1, 1, 6),
    f"{TILED}(C)/j": tile(2, 1, 64),
    f"{TILED}(C)/k": tile(2),
    "unroll(C)/limit": 256,
}
GOTO: dict[str, Decision] = {
    "multi_level_tiling(C)/fusion": "none",
    "packing(C)/packed": "B in panels by tile",
    **lanes("vectorize", 16, "C"),
    f"{TILED}(C)/i": tile(342, 1, 6),
    f"{TILED}(C)/j": tile(2, 1, 64),
    f"{TILED}(C)/k": tile(2),
    "prefetch(C.B.read)/ahead": 8,
    "unroll(C)/limit": 256,
}
CONV: dict[str, Decision] = {
    f"{TILED}(conv)/fusion": "none",
    f"{TILED}(conv)/w_conv": tile(2, 1, 7),
    f"{TILED}(conv)/r": tile(3),
    f"{TILED}(conv)/s": tile(3),
    f"{TILED}(conv)/c_conv": tile(16),
    "compute_location(pad)/pad": Ref("o_0"),
    "unroll(conv)/limit": 64,
    **lanes("vectorize", 16, "conv", "pad"),
}
FILLED = {**CONV, **lanes("vectorize", 16, "pad.fill")}
CHANNELS: dict[str, Decision] = {
    **FILLED,
    "packing(conv)/packed": "K in panels",
    f"{TILED}(conv)/w_conv": tile(2, 1, 6),
    f"{TILED}(conv)/o": tile(1, 1, 64),
    f"{TILED}(conv)/r": tile(7),
    f"{TILED}(conv)/s": tile(7),
    f"{TILED}(conv)/c_conv": tile(3),
    "unroll(conv)/limit": 256,
}

FOUND: Mapping[str, Way] = {
    "argmax.lanes": Way(lanes("reduction_lanes", 64, "V")),
    "bias_gelu.fused": Way(lanes("vectorize", 64, "gelu"), LARGE),
    "box_blur.rolling": Way(
        {
            "rolling(down)/h_down": tile(16),
            **lanes("vectorize", 16, "down", "mean", "across"),
            "unroll(down)/limit": 16,
            "unroll(across)/limit": 16,
        },
        {"H": 512, "W": 512},
    ),
    "conv1d_nlc.tile": Way(
        {
            f"{TILED}(conv)/fusion": "none",
            f"{TILED}(conv)/l_conv": tile(1, 2, 13),
            f"{TILED}(conv)/o": tile(1, 1, 32),
            f"{TILED}(conv)/r": tile(3),
            f"{TILED}(conv)/c_conv": tile(16),
            "packing(conv)/packed": "K in tiles",
            "unroll(conv)/limit": 64,
            **lanes("vectorize", 16, "conv", "pad", "pad.fill", "conv.K.read"),
        },
        {"L": 52},
        arguments=frozenset({"K"}),
    ),
    "conv2d_nhwc.deep": Way(
        {
            **FILLED,
            f"{TILED}(conv)/fusion": "none, columns around rows",
            f"{TILED}(conv)/h_conv": tile(1, 7, 1),
            f"{TILED}(conv)/w_conv": tile(1, 1, 7),
            f"{TILED}(conv)/o": tile(1, 4, 64),
            f"{TILED}(conv)/c_conv": tile(32),
            "packing(conv)/packed": "none",
            "compute_location(pad)/pad": Ref("c_conv_0"),
            "prefetch_tiles(conv)/terms": 0,
            "prefetch_tiles(conv)/outermost": 0,
            "prefetch_tiles(conv)/rows": 4,
        },
        {"CI": 320, "CO": 512},
    ),
    "conv2d_nhwc.pointwise": Way(
        {
            f"{TILED}(conv)/fusion": "none",
            f"{TILED}(conv)/w_conv": tile(3, 1, 6),
            f"{TILED}(conv)/o": tile(1, 1, 64),
            f"{TILED}(conv)/c_conv": tile(32),
            "packing(conv)/packed": "K in panels",
            "unroll(conv)/limit": 64,
            **lanes("vectorize", 16, "conv"),
        }
    ),
    "conv2d_bn_relu_nhwc.few_channels": Way(
        {
            **CHANNELS,
            f"{TILED}(conv)/fusion": "consumer at level 2",
            "unroll(conv)/tile": 0,
            f"{TILED}(conv)/h_conv": tile(8, 1, 1),
            f"{TILED}(conv)/w_conv": tile(6, 1, 6),
            **lanes("vectorize", 16, "relu"),
        },
        {"H": 63, "W": 69},
    ),
    "conv2d_nhwc.few_channels": Way(
        {**CHANNELS, f"{TILED}(conv)/h_conv": tile(14, 1, 1), f"{TILED}(conv)/w_conv": tile(6, 1, 6)},
        {"H": 56, "W": 69},
    ),
    "conv2d_nhwc.groups": Way(
        {
            **FILLED,
            "compute_location(pad)/pad": Ref("w_conv_0"),
            "packing(conv)/packed": "none",
            f"{TILED}(conv)/h_conv": tile(2, 1, 1),
            f"{TILED}(conv)/w_conv": tile(1, 1, 14),
            f"{TILED}(conv)/o": tile(1, 1, 32),
        },
        {"S": 1},
    ),
    "conv2d_nhwc.padded": Way(
        {
            **FILLED,
            f"{TILED}(conv)/o": tile(1, 1, 32),
            f"{TILED}(conv)/c_conv": tile(64),
            "packing(conv)/packed": "none",
            "unroll(conv)/limit": 16,
        },
        {"CI": 64},
    ),
    "conv2d_nhwc.tile14": Way(
        {
            **FILLED,
            f"{TILED}(conv)/h_conv": tile(1, 14, 1),
            f"{TILED}(conv)/w_conv": tile(1, 1, 14),
            f"{TILED}(conv)/o": tile(1, 1, 32),
            f"{TILED}(conv)/c_conv": tile(64),
            "packing(conv)/packed": "K in tiles",
            "packing(conv)/unrolled": 4,
            "compute_location(pad)/pad": Ref("c_conv_0"),
            **lanes("vectorize", 16, "conv.K.read"),
        },
        {"CI": 128},
        arguments=frozenset({"K"}),
    ),
    "conv2d_nhwc.weights": Way(
        {
            **CONV,
            f"{TILED}(conv)/o": tile(2, 1, 32),
            "packing(conv)/packed": "K in panels",
            "padding(pad)/padding": "copied",
            "unroll(conv)/limit": 16,
            **lanes("vectorize", 1, "pad"),
        }
    ),
    "transpose_batch_matmul.heads": Way(
        {
            f"{TILED}(C)/fusion": "none",
            f"{TILED}(C)/i_C": tile(5, 1, 14),
            f"{TILED}(C)/j_C": tile(1, 1, 32),
            f"{TILED}(C)/d_C": tile(20),
            "inline(key_t)/transpose": "kept",
            "compute_location(key_t)/key_t": Ref("h_C_0"),
            "vectorize(key_t)/vectors": "along what is read",
            "unroll(C)/limit": 64,
            **lanes("vectorize", 16, "C", "key_t"),
        },
        {"L": 70},
    ),
    "conv2d_transpose_nhwc.parity": Way(
        {
            f"{TILED}(conv)/fusion": "none",
            f"{TILED}(conv)/h_conv_0": tile(4, 1, 1),
            f"{TILED}(conv)/w_conv_0": tile(1, 1, 4),
            f"{TILED}(conv)/o": tile(1, 1, 64),
            f"{TILED}(conv)/r_0": tile(2),
            f"{TILED}(conv)/s_0": tile(2),
            f"{TILED}(conv)/c_conv": tile(64),
            "packing(conv)/packed": "none",
            "unroll(conv)/limit": 64,
            **lanes("vectorize", 16, "conv", "pad", "pad.fill"),
        },
        {"CI": 64, "CO": 128},
        frozenset({"fastmath"}),
    ),
    "conv3d_ndhwc.few_channels": Way(
        {
            **CHANNELS,
            f"{TILED}(conv)/z_conv": tile(2, 1, 1),
            f"{TILED}(conv)/h_conv": tile(8, 1, 1),
            f"{TILED}(conv)/w_conv": tile(3, 1, 6),
            f"{TILED}(conv)/q": tile(5),
            f"{TILED}(conv)/r": tile(5),
            f"{TILED}(conv)/s": tile(5),
        },
        {"H": 32, "W": 36, "R": 5, "P": 2},
    ),
    "depthwise_conv2d_nhwc.borders": Way(
        {
            "borders(conv)/borders": "apart",
            "borders(conv)/h_conv": tile(1),
            "borders(conv)/w_conv": tile(1),
            "borders(conv)/c_conv": tile(32),
            "borders(conv)/lanes": 16,
        },
        {"H": 112, "W": 112},
    ),
    "depthwise_conv2d_nhwc.columns": Way(
        {
            "borders(conv)/borders": "columns apart",
            "borders(conv)/h_conv": tile(4),
            "borders(conv)/c_conv": tile(16),
            "borders(conv)/lanes": 16,
        },
        {"H": 112, "W": 112},
    ),
    "depthwise_conv2d_nhwc.rows": Way(
        {
            f"{TILED}(conv)/fusion": "none",
            f"{TILED}(conv)/h_conv": tile(8, 1, 1),
            f"{TILED}(conv)/w_conv": tile(4, 1, 7),
            f"{TILED}(conv)/c_conv": tile(1, 1, 32),
            f"{TILED}(conv)/r": tile(3),
            f"{TILED}(conv)/s": tile(3),
            "packing(conv)/packed": "none",
            "compute_location(pad)/pad": Ref("w_conv_0"),
            "unroll(conv)/limit": 256,
            **lanes("vectorize", 16, "conv", "pad", "pad.fill"),
        },
        {"H": 24, "W": 28},
    ),
    "bias_gelu.streamed": Way(
        {
            "prefetch(gelu)/run": 64,
            "prefetch(gelu)/ahead": 6,
            "stream(gelu)/past_caches": 1,
            **lanes("vectorize", 64, "gelu"),
        },
        {"M": 4096, "N": 4096},
    ),
    "layer_norm.fast": Way(
        {
            "prefetch(normal)/run": 128,
            "prefetch(normal)/ahead": 8,
            **lanes("vectorize", 64, "normal"),
            **lanes("reduction_lanes", 64, "total", "squares"),
        },
        {"M": 4096, "N": 1024},
    ),
    "matmul_nn.goto": Way(GOTO, {"M": 2048, "N": 2048, "K": 2048}),
    "matmul_nn.packed": Way(
        {
            **PRODUCT,
            "packing(C)/packed": "B in panels",
            "packing(C)/unrolled": 0,
            f"{TILED}(C)/i": tile(1, 1, 4),
            f"{TILED}(C)/j": tile(32, 1, 32),
            f"{TILED}(C)/k": tile(40),
            "unroll(C)/limit": 16,
        },
        {"N": 1024, "K": 1024},
    ),
    "matmul_nn.goto_half": Way({**GOTO, "packing(C)/lanes": 16}, {"M": 2048, "N": 2048, "K": 2048}),
    "matmul_nn.goto_f64": Way(
        {**GOTO, **lanes("vectorize", 8, "C"), f"{TILED}(C)/j": tile(2, 1, 32)}, {"M": 2048, "N": 2048, "K": 2048}
    ),
    "scale_shift_add_relu.streamed": Way(
        {
            "prefetch(Y)/run": 64,
            "prefetch(Y)/ahead": 8,
            "prefetch(Y)/unrolled": 64,
            "stream(Y)/past_caches": 1,
            **lanes("vectorize", 16, "Y"),
        },
        {"M": 4096, "N": 4096},
    ),
    "softmax.long": Way(
        {
            "row_chain(normal)/chain": "rows, recomputed",
            "prefetch(total)/run": 128,
            "prefetch(total)/ahead": 32,
            **lanes("vectorize", 64, "normal"),
            **lanes("reduction_lanes", 64, "maximum", "total"),
        },
        {"M": 4096, "N": 4096},
        frozenset({"fastmath"}),
    ),
    "matmul_nn.amx_bf16": with_tiles("use_amx", tile(1, 2), allow=frozenset({"flush_denormals"})),
    "matmul_nn.amx_u8i8": with_tiles("use_amx", tile(1, 2)),
    "matmul_nn.bf16": with_tiles("use_avx512_bf16", tile(1, 10), allow=frozenset({"flush_denormals"})),
    "matmul_nn.vnni": with_tiles("use_vnni", tile(1, 6)),
    "matmul_nn.vnni_signed": with_tiles("use_vnni", tile(1, 4), columns=tile(2, 3)),
    "matmul_nn.vnni_tiles": Way(
        {
            "use_amx(C)/intrinsic": "none",
            "use_vnni(C)/i": tile(64, 8),
            "use_vnni(C)/j_0": tile(32, 2),
            "use_vnni(C)/k_0": tile(4),
            "use_vnni(C)/uses in a panel": 2,
        },
        {"M": 1024, "N": 1024, "K": 1024},
        target=SAPPHIRE,
    ),
    "matmul_nn.small": Way(PRODUCT),
    "matmul_nn.small_f64": Way({**PRODUCT, f"{TILED}(C)/j": tile(4, 1, 32), **lanes("vectorize", 8, "C")}),
    "matmul_nn.vector": Way(
        {
            "multi_level_tiling(C)/fusion": "none",
            **lanes("vectorize", 16, "C"),
            f"{TILED}(C)/j": tile(1, 1, 64),
            f"{TILED}(C)/k": tile(256),
            "prefetch_tiles(C)/terms": 0,
            "prefetch_tiles(C)/outermost": 0,
            "unroll(C)/limit": 16,
        },
        weights=frozenset({"B"}),
    ),
    "norm.lanes": Way(lanes("reduction_lanes", 64, "squares")),
    "scale_shift_add_relu.folded": Way(lanes("vectorize", 16, "Y"), LARGE),
    "softmax.fast": Way(
        {**lanes("vectorize", 64, "exponential", "normal"), **lanes("reduction_lanes", 64, "maximum", "total")},
        LARGE,
        frozenset({"fastmath"}),
    ),
}

LACKING: Mapping[str, str] = {
    # Zeros are stored ahead and loaded for the sums: a store and a load of every result that the space never does, as
    # its sums begin in registers. The same tiles without the step take .91 and .99 of the time (14 x 14 x 64 and 28 x
    # 28 x 32, Zen 3).
    "conv2d_nhwc.direct": "decompose_reduction",
    # Its tiles are in registers for the ReLU in the space, too. That sums start from the bias took .995 of the time of
    # adding it there (geometric mean of five products with 16 to 512 terms, Zen 3), which is less than noise.
    "dense_bias_relu.from_bias": "fuse_reduction_epilogue",
    # As that, with tiles that go through memory to the ReLU: its rows are unrolled and not the vectors of a row.
    "dense_bias_relu.weights": "fuse_reduction_epilogue",
    # Rows of a copy that begin where vectors do, or are a line longer than they need be: both were built, as sampled
    # numbers of the copies that `packing` makes at every call, and led to the code of these traces. Products then took
    # 1.06 to 1.6 times as long as with panels, and guesses took them (five products of 64 to 768 columns, Zen 3).
    "matmul_nn.aligned": "storage_align",
    "matmul_nn.odd_columns": "storage_align",
    # norm.lanes, which the space has, keeps the same partial sums in registers: its guess takes .24 of the time of the
    # trace for 8 lanes at 256 x 256 (Zen 3).
    "norm.partial_sums": "add_unit_loop",
    # One parallel region for three nests: the rule is there, and in no preset. Decisions lead to its nests otherwise,
    # but for sums of more than 4096 terms, which the space takes in blocks for accuracy.
    # Ten guesses with several nests took .80 to 1.08 of the time when merged, .98 in geometric mean and .94 to 1.07 by
    # their fastest runs (Zen 3): less than noise.
    "softmax.few_rows": "merge_parallel",
}

OTHERWISE: Mapping[str, Way] = {
    "batch_matmul_nn.small": Way(
        PRODUCT,
        reason="threads start once for each matrix, and in the space once for all: the same tiles take .90 to .92 "
        "of the time so (2 x 37 x 100 x 40 and 12 x 128 x 128 x 64, Zen 3)",
    ),
    "conv2d_nhwc.matmul": Way(
        {},
        reason="windows are unfolded for a tile of pixels where channels, which are last, fill vectors; the space "
        "reads them in place then, and its guess takes .54 of the time of the trace with tiles for 8 lanes (Zen 3)",
    ),
    "matmul_nn.blocked": Way(
        {**PRODUCT, f"{TILED}(C)/i": tile(1, 1, 4), f"{TILED}(C)/j": tile(3, 1, 32), f"{TILED}(C)/k": tile(40)},
        reason="threads start once for each part of the reduction, and in the space once for all, with the same order "
        "of loops in each thread: parts of the reduction around rows of tiles. At 256 x 256 x 240 the same tiles take "
        ".86 to 1.02 of the time so. At 1024 x 1024 x 1000 they take 1.02 to 1.36, and the guess .59 (Zen 3)",
    ),
    "matmul_nn.odd": Way(
        {},
        reason="pad_einsum copies whole operands, for tiles that have no rest; the space has tiles with one: its "
        "guess takes .60 of the time of the trace with tiles for 8 lanes at 127 x 127 x 127, .82 at "
        "255 x 257 x 251 (Zen 3)",
    ),
    "softmax.rows": Way(
        lanes("vectorize", 16, "exponential", "normal"),
        LARGE,
        reason="partial sums are stored and loaded for every vector, and in the space in registers along the lanes: "
        "its guess takes .30 of the time of the trace for 8 lanes at 256 x 256, .52 at 1024 x 1024 (Zen 3)",
    ),
}


def program_of(trace: Expert, way: Way) -> Program:
    text = file_of(trace.operator).read_text(encoding="utf-8")
    for name in way.arguments:
        assert f"const {name}:" in text
        text = text.replace(f"const {name}:", f"{name}:")
    for name in way.weights:
        assert f" {name}:" in text
        text = text.replace(f" {name}:", f" const {name}:")
    return ms.parse_program(text, **{**dict(trace.trace.data.params), **way.shape})


def code(func: Func, target: Target) -> str:
    """The code that is timed, up to names of values and labels: the main part, where weights are packed ahead."""
    return lower_candidate(func, target, Stopwatch())[2]


def codes(name: str, way: Way) -> tuple[str, str]:
    """The code of the trace, and that of the candidate of the space."""
    wanted = expert(name)
    program = program_of(wanted, way)
    handler = Decided(way.decisions)
    schedule = ms.Schedule(program, way.target, handler=handler, allow=way.allow)
    FromRules(resolve("cpu")).run(schedule)
    assert not handler.left, f"no rule asks for {list(handler.left)}"
    trace = wanted.trace.apply_to(program, Policy.REPAIR)
    return code(trace.func, way.target), code(schedule.func, way.target)


def test_every_trace_is_accounted_for() -> None:
    assert sorted([*FOUND, *LACKING, *OTHERWISE]) == sorted(expert_names())


@pytest.mark.parametrize("name", FOUND)
def test_the_space_has_the_trace(name: str) -> None:
    wanted, found = codes(name, FOUND[name])
    assert wanted == found


@pytest.mark.parametrize("name", [*LACKING, *OTHERWISE])
def test_what_is_left_out_is_not_missed(name: str) -> None:
    """A trace whose schedule the estimate prefers to the guess in the space is one that a rule should find."""
    wanted = expert(name)
    program = program_of(wanted, Way({}))
    found = ms.parse_trace(str(ms.guess(program, target=AVX512, rules="cpu"))).apply_to(program)
    there = expectation_of(wanted.trace.apply_to(program, Policy.REPAIR).func, AVX512)
    assert expectation_of(found.func, AVX512).cycles <= 1.1 * there.cycles


def steps_of_rules() -> set[str]:
    """What the rules of the preset call on a schedule, and the annotations that they set."""
    sources = {Path(inspect.getfile(r.fn)).read_text() for r in resolve("cpu") if r.name != "tile_transposition"}
    sources.add((RULES / "tile_transposition.ms").read_text())
    return {name for source in sources for found in re.findall(r'\.(\w+)\(|"(\w+)"', source) for name in found if name}


@pytest.mark.parametrize("name", LACKING)
def test_no_rule_takes_a_step_of_the_trace(name: str) -> None:
    step = LACKING[name]
    text = str(expert(name).trace)
    assert f"{step}(" in text or f'"{step}"' in text
    assert step not in steps_of_rules(), f"a rule takes {step} now: look for decisions that lead to {name}"


@pytest.mark.parametrize("name", [name for name in OTHERWISE if OTHERWISE[name].decisions])
def test_what_differs_still_does(name: str) -> None:
    wanted, found = codes(name, OTHERWISE[name])
    assert wanted != found, f"{name} is in the space now"

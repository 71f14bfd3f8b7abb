"""Each rule applies to a program that shows it, says why it does not to others, and keeps the result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.cost.features import FeatureProgram, features_of
from metasched.ir import query
from metasched.ir.nodes import LoopKind
from metasched.ir.printer import print_func
from metasched.space.registry import resolve
from metasched.space.source import FromRules
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL, ROWS, STENCIL, TWO
from tests.support.rulework import apply, correct, reasons, rule
from tests.support.schedules import vars_of
from tests.support.targets import AVX512

EXAMPLES = Path(__file__).parents[3] / "examples"
Golden = Callable[[str, str], None]

EXPENSIVE = """
program expensive[N=6](A: f32[N]) -> C: f32[N]:
    e: E[i] = exp(A[i])
    f: C[i] = E[i] + 1
"""

DOT = """
program dot[N=200](A: f32[N], B: f32[N]) -> S: f32[1]:
    dot: S[o < 1] = sum[i](A[i] * B[i])
"""

COLUMNS = """
program columns[N=30, M=13](A: f32[N, M]) -> S: f32[M]:
    sums: S[j] = sum[i](A[i, j])
"""


SPLIT = """
program split[N=16, K=8](A: f32[N, K]) -> C: f32[N]:
    sums:  S[i] = sum[k](A[i, k])
    twice: C[i] = S[i] * 2
"""

TRANSPOSE = """
program transpose[N=6, M=5](A: f32[N, M], B: f32[M, N]) -> C: f32[M, N]:
    At[j, i] = A[i, j]
    add: C[j, i] = At[j, i] + B[j, i]
"""


def kinds(sch: ms.Schedule, block: str) -> list[LoopKind]:
    return [x.kind for x in query.loops_above(sch.func, block)]


# --- inline


def test_inline_a_cheap_block() -> None:
    sch, _ = apply(STENCIL, "inline")
    assert sch.block_names() == ("sum3",)
    correct(sch)


def test_inline_a_chain() -> None:
    sch, _ = apply(TWO, "inline")
    assert sch.block_names() == ("both",)
    correct(sch)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DENSE_RELU, {"relu": "it writes an output", "dense": "it is a reduction"}),
        (EXPENSIVE, {"f": "it writes an output", "e": "it calls a costly function"}),
        (
            RELU_PAD_MATMUL,
            {
                "matmul": "it is a reduction",
                "pad": "it has a condition; compute_location decides where it is computed",
                "relu": None,
            },
        ),
    ],
)
def test_inline_says_why_not(text: str, expected: dict[str, str | None]) -> None:
    assert reasons(text, "inline") == expected


# --- multi_level_tiling


@pytest.mark.parametrize("seed", range(4))
def test_tiling_a_matrix_product(seed: int) -> None:
    sch, outcomes = apply(DENSE_RELU, "multi_level_tiling", seed=seed)
    assert [(o.block, o.reason) for o in outcomes] == [("relu", "it is not a reduction"), ("dense", None)]
    assert len(vars_of(sch, "dense")) == 10
    assert {r.site.address.split("/")[0] for r in sch.sites} == {"multi_level_tiling(dense)"}
    correct(sch)


def structures(text: str, address: str, **params: int) -> list[object]:
    space = ms.space(ms.parse_program(text, **params), rules=["multi_level_tiling"])
    return list(dict.fromkeys(s.structure[address] for s in space))


def test_tiling_fuses_the_consumer_or_copies_out() -> None:
    assert structures(DENSE_RELU, "multi_level_tiling(dense)/fusion") == [
        *("consumer at level 1", "consumer at level 2", "none")
    ]
    assert structures(CONV, "multi_level_tiling(conv)/fusion") == ["cache at level 1", "cache at level 2", "none"]


def test_every_structure_of_tiling_is_right() -> None:
    space = ms.space(ms.parse_program(CONV), rules=["multi_level_tiling"])
    assert len(space) == 3
    rng = np.random.default_rng(0)
    for sketch in space:
        rows = sketch.sample(rng, 2)
        for row in rows[sketch.mask(rows)]:
            correct(sketch.trace_of(row).apply_to(space.program))


ARGMAX = """
program largest[N=6, K=9](A: f32[N, K], B: f32[K]) -> (V: f32[N], P: i64[N]):
    best: V[i], P[i] = argmax[k](A[i, k] + B[k])
"""


def test_values_and_positions_are_written_in_place() -> None:
    assert structures(ARGMAX, "multi_level_tiling(best)/fusion") == ["none"]
    sch, _ = apply(ARGMAX, "multi_level_tiling")
    correct(sch)


FUSION = "multi_level_tiling(dense)/fusion"


def test_tiling_levels_are_a_parameter() -> None:
    sch, _ = apply(DENSE_RELU, rule("multi_level_tiling")(levels="SRS", fuse_after=(1,)))
    assert len(vars_of(sch, "dense")) == 5
    correct(sch)


@pytest.mark.parametrize(("levels", "places"), [("SR", {1}), ("RS", set()), ("SRS", {1}), ("SSR", {1, 2})])
def test_levels_that_are_not_there_have_no_consumer(levels: str, places: set[int]) -> None:
    tiling = rule("multi_level_tiling")(levels=levels, fuse_after=(0, 1, 2, 3))
    found = {apply(DENSE_RELU, tiling, seed=seed)[0].trace.decisions[FUSION] for seed in range(16)}
    assert found == {*(f"consumer at level {place}" for place in places), "none"}
    correct(apply(DENSE_RELU, tiling)[0])


@pytest.mark.parametrize("levels", ["", "S", "RR", "SXR", "sr"])
def test_levels_are_of_two_kinds(levels: str) -> None:
    with pytest.raises(ms.RuleError, match=r"the levels are .*\n  hint: they are letters S and R"):
        apply(DENSE_RELU, rule("multi_level_tiling")(levels=levels))


def test_vectors_of_no_width() -> None:
    assert reasons(STENCIL, rule("vectorize")(lanes=()))["sum3"] == "no width is given"


def test_columns_may_be_around_rows_where_most_that_is_read_is_theirs() -> None:
    def space(**params: int) -> ms.Space:
        small = replace(AVX512, l2=1 << 14)
        return ms.space(ms.parse_program(DENSE_RELU, **params), rules=["multi_level_tiling"], target=small)

    def options(space: ms.Space) -> list[object]:
        return [sketch.structure["multi_level_tiling(dense)/fusion"] for sketch in space]

    usual = ["consumer at level 1", "consumer at level 2", "none"]
    wide = space(N=8, M=128, K=64)
    assert options(wide) == [*usual, *(f"{how}, columns around rows" for how in usual)]
    for fewer in ({"N": 128, "M": 128, "K": 64}, {"N": 8, "M": 16, "K": 16}, {"N": 1, "M": 128, "K": 64}):
        assert options(space(**fewer)) == usual
    sketch = wide[len(usual)]
    for row in sketch.sample(np.random.default_rng(0), 2):
        sch = sketch.trace_of(row).apply_to(sketch.program)
        correct(sch)
        loops = sch.describe(sch.get_block("dense")).loops
        assert loops.index("j_2") < loops.index("i_2") < loops.index("k_1")


PLANES = """
program planes(X: f32[6, 20, 40], W: f32[6, 3, 5]) -> Y: f32[6, 18, 36]:
    Y[c, i, j] = sum[r < 3, s < 5](X[c, i + r, j + s] * W[c, r, s])
"""


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        (PLANES, ["s", "r"]),
        (PLANES.replace("X: f32[6, 20, 40]", "X: f32[6, 20, 80]").replace("j + s]", "2*j + s]"), ["s", "r"]),
        (PLANES.replace("j + s]", "j]").replace("20, 40", "20, 36"), ["r", "s"]),
    ],
    ids=["windows", "strides", "no row"],
)
def test_terms_down_a_window_are_inside_those_along_the_rows_of_vectors(text: str, terms: list[str]) -> None:
    """So rows that neighbouring rows of a tile read, too, are loaded once."""
    sch, _ = apply(text, "multi_level_tiling")
    info = sch.describe(sch.get_block("Y"))
    order = [it.name for loop in info.loops for it in info.iter_of(loop) if it.reduces]
    assert order[-len(terms) :] == terms
    correct(sch)


def test_tiling_says_why_not() -> None:
    assert reasons(DENSE_RELU, "multi_level_tiling")["relu"] == "it is not a reduction"
    expected = "it reads every element once for each result, so tiles reuse nothing"
    assert reasons(COLUMNS, "multi_level_tiling") == {"sums": expected}


# --- rfactor


def rfactored(text: str, how: str, **params: int) -> ms.Schedule:
    space = ms.space(ms.parse_program(text, **params), rules=["rfactor", "vectorize"])
    for sketch in space:
        if how in sketch.structure.values():
            row = sketch.repair(sketch.sample(np.random.default_rng(1), 1))[0]
            return sketch.trace_of(row).apply_to(space.program)
    raise AssertionError(how)


@pytest.mark.parametrize("how", ["none", "inner", "outer"])
@pytest.mark.parametrize("extent", [2, 7, 127, 200])
def test_factoring_a_long_sum(how: str, extent: int) -> None:
    sch = rfactored(DOT, how, N=extent)
    assert ("dot.rf" in sch.block_names()) is (how != "none")
    if how == "inner":
        assert LoopKind.VECTORIZED in kinds(sch, "dot.rf")
    correct(sch)


def test_factoring_several_reduction_loops() -> None:
    for how in ("inner", "outer"):
        correct(rfactored(CONV, how, H=2, C=5, O=1))


def test_factoring_says_why_not() -> None:
    assert reasons(DENSE_RELU, "rfactor") == {
        "relu": "it is not a reduction",
        "dense": "its result (99 elements) is large enough for its reduction (7)",
    }
    assert reasons(DOT, rule("rfactor")(max_spatial=0)) == {
        "dot": "its result (1 elements) is large enough for its reduction (200)"
    }


# --- compute_location


@pytest.mark.parametrize("seed", range(6))
def test_a_producer_is_put_somewhere(seed: int) -> None:
    sch, outcomes = apply(RELU_PAD_MATMUL, "compute_location", seed=seed)
    assert {o.block: o.reason for o in outcomes} == {"matmul": "it writes an output", "pad": None, "relu": None}
    assert [r.site.address for r in sch.sites] == ["compute_location(pad)/pad", "compute_location(relu)/relu"]
    correct(sch)


def test_locations_say_why_not() -> None:
    assert reasons(ROWS, "compute_location")["out"] == "it writes an output"
    _, outcomes = apply(DENSE_RELU, "multi_level_tiling", "compute_location")
    assert {o.block: o.reason for o in outcomes}["dense"] == "it is tiled; its consumer may move to it"
    assert reasons(SPLIT, "compute_location") == {"sums": None, "twice": "it writes an output"}
    sch = ms.Schedule(ms.parse_program(SPLIT))
    sch.split(sch.get_loops(sch.get_block("sums"))[0], [None, 4])
    (_, outcome) = FromRules((rule("compute_location"),)).run(sch)
    assert outcome.reason == "it is scheduled already"


def test_sums_of_rows_may_be_computed_with_the_rows() -> None:
    space = ms.space(ms.parse_program(ROWS), rules=["compute_location"])
    assert len(space) == 1
    places = {str(v.structure["compute_location(total)/total"].name) for v in space.variants(0, 100)}
    assert {"root", "i_out"} <= places
    for variant in space.variants(0, 100):
        correct(variant.trace_of(()).apply_to(space.program))


def test_the_last_block_of_a_nest_decides_how_it_runs() -> None:
    sch = ms.Schedule(ms.parse_program(ROWS))
    out = sch.get_block("out")
    for name in ("total", "apart"):
        with contextlib.suppress(ms.ScheduleError):
            sch.compute_at(sch.get_block(name), sch.get_loops(out)[0])
    outcomes = FromRules((rule("parallelize")(small=0, tiny=0),)).run(sch)
    assert {o.block: o.reason for o in outcomes}["total"] == "its outermost loop has been decided already"
    assert kinds(sch, "total")[0] is LoopKind.PARALLEL
    correct(sch)


def test_transposes_are_inlined_or_kept() -> None:
    space = ms.space(ms.parse_program(TRANSPOSE), rules=["inline"])
    assert [(s.structure, "At" in print_func(s.func)) for s in space] == [
        ({"inline(At)/transpose": "inlined"}, False),
        ({"inline(At)/transpose": "kept"}, True),
    ]


def test_parts_of_a_reduction_are_as_long_as_a_share_of_a_thread() -> None:
    program = ms.parse_program("program longest[K=4096](X: f32[2, K]) -> S: f32[2]:\n    S[i] = max[k](X[i, k])")
    largest = {}
    for sketch in ms.space(program, rules=["rfactor"], target=AVX512):
        for column in sketch.sample(np.random.default_rng(0), 500).T:
            largest[sketch.structure["rfactor(S)/rfactor"]] = column.max()
    assert largest["inner"] <= 64
    assert 512 < largest["outer"] <= 2048


# --- parallelize, vectorize, unroll


def test_threads_share_the_outermost_loops() -> None:
    sch, _ = apply(DENSE_RELU, rule("parallelize")(small=0, tiny=0))
    assert kinds(sch, "relu") == [LoopKind.PARALLEL, LoopKind.SERIAL]
    assert kinds(sch, "dense") == [LoopKind.PARALLEL, LoopKind.SERIAL]
    correct(sch)


def test_small_nests_may_stay_serial() -> None:
    space = ms.space(ms.parse_program(STENCIL), rules=["inline", rule("parallelize")(tiny=0)])
    assert [list(s.structure.values()) for s in space] == [["parallel"], ["serial"]]
    assert [kinds(s.trace_of(()).apply_to(space.program), "sum3")[0] for s in space] == [
        *(LoopKind.PARALLEL, LoopKind.SERIAL)
    ]
    tiny = "it is so small (17 instances) that starting threads would take longer"
    assert reasons(STENCIL, "parallelize")["sum3"] == tiny


def test_one_choice_is_for_all_small_nests() -> None:
    space = ms.space(ms.parse_program(TWO), rules=[rule("parallelize")(tiny=0)])
    assert [list(s.structure.values()) for s in space] == [["parallel"], ["serial"]]
    large = ms.space(ms.parse_program(TWO), rules=[rule("parallelize")(tiny=0, small=4)])
    assert [list(s.structure.values()) for s in large] == [[]]


def test_tiles_of_the_outermost_level_are_shared() -> None:
    sch, _ = apply(DENSE_RELU, "multi_level_tiling", rule("parallelize")(small=0, tiny=0))
    assert kinds(sch, "dense")[0] is LoopKind.PARALLEL
    correct(sch)


def depths(params: dict[str, int], threads: int, *rules: object) -> list[object]:
    """The depths that the tiled nest of a dense layer with these sizes is offered."""
    target = replace(AVX512, threads=threads)
    space = ms.space(ms.parse_program(DENSE_RELU, **params), rules=[*rules], target=target)
    found = {sketch.structure.get("parallelize(dense)/depth") for sketch in space}
    return sorted(found, key=str)


def test_how_many_loops_of_tiles_threads_share_is_a_choice() -> None:
    parallel = rule("parallelize")(small=0, tiny=0)
    tiled = ("multi_level_tiling", parallel)
    assert depths({"N": 64, "M": 64}, 2, *tiled) == [1, 2]
    assert depths({"N": 32, "M": 64}, 2, *tiled) == [1, 2]
    assert depths({"N": 31, "M": 64}, 2, *tiled) == [None], "rows alone are not enough for two threads"
    assert depths({"N": 64, "M": 64}, 8, *tiled) == [None], "nor are more rows for more threads"
    assert depths({"N": 64, "M": 64}, 2, parallel) == [None], "without tiles an iteration is an element"


def test_each_depth_is_the_loops_that_threads_share() -> None:
    prog = ms.parse_program(DENSE_RELU, N=48, M=40)
    rules = ["multi_level_tiling", rule("parallelize")(small=0, tiny=0)]
    for sketch in ms.space(prog, rules=rules, target=AVX512):
        depth = sketch.structure["parallelize(dense)/depth"]
        rows = sketch.repair(sketch.sample(np.random.default_rng(0), 8))
        sch = sketch.trace_of(rows[sketch.mask(rows)][0]).apply_to(prog)
        outermost, *inner = query.loops_above(sch.func, "dense")
        assert outermost.kind is LoopKind.PARALLEL
        assert (outermost.var, inner[0].var) == {1: ("i_0", "j_0"), 2: ("i_0_j_0", "i_1")}[depth]
        assert f'"parallelize(dense)/depth" := {depth}' in str(sch.trace)
        correct(sch)


def test_threads_say_why_not() -> None:
    sch, outcomes = apply(DENSE_RELU, *(rule("parallelize")(tiny=0),) * 2, seed=1)
    decided = {o.reason for o in outcomes[2:]}
    assert decided <= {None, "its outermost loop has been decided already"}
    correct(sch)


def test_a_sum_alone_has_nothing_to_share() -> None:
    sch, outcomes = apply(DOT, "parallelize", "vectorize")
    assert outcomes[1].reason == "its innermost loop runs along the reduction"
    correct(sch)


def test_vectors_run_along_the_last_dimension() -> None:
    sch, outcomes = apply(DENSE_RELU, "vectorize")
    assert {o.block: o.reason for o in outcomes} == {
        "relu": None,
        "dense": "its innermost loop runs along the reduction",
    }
    assert kinds(sch, "relu") == [LoopKind.SERIAL, LoopKind.VECTORIZED]
    assert sch.trace.decisions["vectorize(relu)/lanes"] in (8, 16, 32)
    correct(sch)


def test_long_chains_of_arithmetic_may_take_wider_vectors() -> None:
    sch, _ = apply(EXPENSIVE, "vectorize")
    lines = str(sch.trace).splitlines()
    (chain,) = (line for line in lines if '"vectorize(e)/lanes"' in line)
    (plain,) = (line for line in lines if '"vectorize(f)/lanes"' in line)
    assert "([8, 16, 32, 64])" in chain
    assert "([8, 16, 32])" in plain
    correct(sch)


def test_elements_under_a_condition_may_be_taken_one_by_one() -> None:
    program = ms.operators.load("conv2d_nhwc", H=4, W=4, CI=8, CO=8)
    (sketch,) = ms.space(program, rules=["vectorize"])
    assert "([8, 16, 32, 1], probabilities=[" in next(
        line for line in str(sketch.trace).splitlines() if "(pad)" in line
    )
    rows = sketch.sample(np.random.default_rng(0), 200)
    assert 0 < np.mean(rows[:, 0] == 1) < 0.15
    row = rows[rows[:, 0] == 1][0]
    (features,) = FeatureProgram(sketch.func, sketch.columns, AVX512)(row[None])
    sch = sketch.trace_of(row).apply_to(program)
    np.testing.assert_allclose(features, features_of(sch.func, AVX512), rtol=1e-4, atol=1e-4)
    correct(sch)


def test_elements_of_short_rows_may_be_taken_one_by_one() -> None:
    text = "program tint[N=6, C=3](X: f32[N, C], T: f32[C]) -> Y: f32[N, C]:\n    Y[n, c] = X[n, 0] * T[c]"
    for channels, widths in (
        (3, "([8, 16, 32, 1])"),
        (4, "([8, 16, 32, 1])"),
        (5, "([8, 16, 32])"),
        (1, "([8, 16, 32])"),
    ):
        sch, _ = apply(text, "vectorize", C=channels)
        assert widths in str(sch.trace)
        correct(sch)


def test_loops_of_one_iteration_are_moved_out_of_vectors() -> None:
    text = "program gate[C=50](X: f32[1, C, 1, 1]) -> Y: f32[1, C, 1, 1]:\n    Y[n, c, h, w] = X[n, c, h, w] * 2"
    sch, _ = apply(text, "vectorize")
    info = sch.describe(sch.get_block("Y"))
    assert (info.extents[-1], info.kinds[-1]) == (50, LoopKind.VECTORIZED)
    correct(sch)


SCORES = """
program scores[L=20, D=12](Q: f32[L, D], K: f32[L, D]) -> S: f32[L, L]:
    keys: T[d, j] = K[j, d] * 2
    S[i, j] = sum[d](Q[i, d] * T[d, j])
"""


def test_what_transposes_for_others_is_in_vectors_along_what_it_reads_or_writes() -> None:
    program = ms.parse_program(SCORES)
    space = ms.space(program, rules=["vectorize"])
    assert [s.structure for s in space] == [
        {"vectorize(keys)/vectors": how} for how in ("along what is written", "along what is read")
    ]
    for sketch, inner in zip(space, "jd", strict=True):
        sch = sketch.trace_of(sketch.sample(np.random.default_rng(0), 1)[0]).apply_to(program)
        assert sch.describe(sch.get_block("keys")).loops[-1].startswith(inner)
        correct(sch)
    alone = ms.operators.load("transpose", M=20, N=12)
    assert len(ms.space(alone, rules=["vectorize"])) == 1  # nothing reads it again


@ms.rule
def ahead(sch: ms.Schedule, block: ms.BlockRV) -> None:
    """Ask for what comes, by a loop that can be in no vectors then."""
    if sch.name_of(block) == "keys":
        sch.annotate(sch.get_loops(block)[-1], "prefetch", 2)


def test_what_transposes_for_others_is_in_the_vectors_that_are_legal() -> None:
    sch, _ = apply(SCORES, ahead, "vectorize")
    info = sch.describe(sch.get_block("keys"))
    assert (info.loops[-1][0], info.kinds[-1]) == ("d", LoopKind.VECTORIZED)
    correct(sch)


def test_vectors_are_decided_once() -> None:
    assert apply(STENCIL, "vectorize", "vectorize")[1][2].reason == "it has a vector loop"
    assert apply(STENCIL, "inline", "parallelize", "vectorize", seed=0)[1][-1].block == "sum3"


def test_unrolling_is_a_note_with_a_sampled_limit() -> None:
    sch, outcomes = apply(DENSE_RELU, rule("unroll")(limits=(16,)))
    assert {o.block: o.reason for o in outcomes} == {"relu": "it is not a reduction", "dense": None}
    assert sch.trace.decisions == {"unroll(dense)/limit": 16}
    assert "@unroll_limit(16)" in str(sch)
    correct(sch)


# --- the preset


@pytest.mark.parametrize("text", [DENSE_RELU, RELU_PAD_MATMUL, CONV, STENCIL, ROWS, DOT], ids=lambda t: t.split()[1])
def test_draws_of_the_preset_are_right(text: str) -> None:
    sch, _ = apply(text, *(r.name for r in resolve("cpu")), seed=1)
    correct(sch)


@pytest.mark.parametrize("extent", [1, 7, 127])
def test_odd_extents(extent: int) -> None:
    space = ms.space(ms.parse_program(DENSE_RELU, N=extent, M=extent, K=extent))
    sketch = space[len(space) // 2]
    rows = sketch.sample(np.random.default_rng(0), 4)
    row = rows[sketch.mask(rows)][0]
    correct(sketch.trace_of(row).apply_to(space.program))


@pytest.mark.parametrize("name", ["multi_level_tiling", "rfactor", "compute_location"])
def test_what_is_computed_once_from_constants_has_no_choices(name: str) -> None:
    """A sum over rows of weights, which no call computes."""
    text = "program p(A: f32[8, 64], const B: f32[64, 4], const C: f32[64]) -> Y: f32[8, 4]:\n"
    text += "    Z: f32[4]\n    T: f32[8, 4]\n    Z[o] = sum[k < 64](B[k, o] * C[k])\n"
    text += "    T[i, o] = sum[k < 64](A[i, k] * B[k, o])\n    Y[i, o] = T[i, o] - Z[o]\n"
    why = "it depends on constants alone, and is computed once"
    assert (reasons(text, name)["Z"] or "").startswith(why)
    assert not (reasons(text.replace("const ", ""), name)["Z"] or "").startswith(why)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("dense_relu", {}),
        ("conv2d", {"H": 7, "W": 5, "CI": 4, "CO": 12}),
        ("relu_pad_matmul", {}),
    ],
)
def test_what_the_preset_makes_of_the_examples(name: str, params: dict[str, int], golden: Golden) -> None:
    space = ms.space(ms.load_program(EXAMPLES / f"{name}.ms", **params), target=AVX512)
    first = f"# sketch 0\n{space[0]}\n\n{space[0].trace}"
    golden(f"rules/{name}", f"{space.explain()}\n\n{first}")

"""The samplers: sample_tile, sample_categorical, choose, sample_compute_location."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from metasched.lang.instructions import HOLE, Decision, Ref
from metasched.schedule.handlers import DrawFromPrior, Policy, Replay, Symbolic
from metasched.schedule.trace import Schedule, Trace
from metasched.schedule.values import Int
from tests.support.programs import CONV, DENSE_RELU, RELU_PAD_MATMUL, ROWS, STENCIL
from tests.support.schedules import checked, fails, lines, loops_of, schedule, vars_of

# --- sample_tile


def test_a_tile_is_written_with_its_outer_part_open() -> None:
    sch = schedule(handler=Replay({"i": (HOLE, 2, 3)}, Policy.STRICT, DrawFromPrior(0)))
    i, *_ = loops_of(sch, "dense")
    sizes = sch.sample_tile(i, parts=3)
    assert all(isinstance(t, Int) for t in sizes)
    assert lines(sch.trace)[-1] == 't0, t1, t2 ~ sample_tile(i, parts=3) @ "i" := [_, 2, 3]'
    sch.split(i, sizes)
    assert "for i_0, i_1, i_2" in str(sch)
    assert "grid(2, 2, 3, 9, 7)" in str(sch)
    checked(sch)


def test_decisions_may_be_numpy_s() -> None:
    sch = schedule()
    sch.sample_tile(loops_of(sch, "dense")[0], decision=[None, np.int64(4)])
    sch.sample_categorical([4, 8], decision=np.int64(8))
    sch.choose("which", ["a", "b"], decision=np.str_("b"))
    assert list(sch.trace.decisions.values()) == [(HOLE, 4), 8, "b"]
    assert Trace.parse(str(sch.trace)) == sch.trace
    with fails("sample_categorical: what is given for \"c\": <class 'int'> is a type, and no decision"):
        sch.sample_categorical([4, 8], name="c", decision=int)


def test_a_tile_of_a_tile() -> None:
    sch = schedule(N=60)
    i, *_ = loops_of(sch, "dense")
    _, inner = sch.split(i, sch.sample_tile(i))
    sch.split(inner, sch.sample_tile(inner))
    checked(sch)


def test_integers_are_integers_under_every_handler() -> None:
    for handler in (
        DrawFromPrior(0),
        Symbolic(DrawFromPrior(0)),
        Replay({"i": (HOLE, 4)}, Policy.STRICT, DrawFromPrior(0)),
    ):
        sch = schedule(handler=handler)
        assert all(isinstance(t, Int) for t in sch.sample_tile(loops_of(sch, "dense")[0]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parts": 1}, "sample_tile: parts is 1; a tile has at least two parts"),
        ({"parts": 65}, "sample_tile: parts is 65; a tile has at most 64"),
        ({"innermost": 0}, "sample_tile: innermost is 0; it is at least 1"),
        ({"step": -1}, "sample_tile: step is -1; it is at least 0"),
        ({"step": 4, "perfect": True}, "sample_tile: step is 4, and only dividing sizes are wanted"),
    ],
)
def test_tiles_that_are_none(settings: dict[str, Any], message: str) -> None:
    sch = schedule()
    with fails(message):
        sch.sample_tile(loops_of(sch, "dense")[0], **settings)


def test_a_tile_of_a_loop_that_is_gone() -> None:
    sch = schedule()
    i, j, _ = loops_of(sch, "dense")
    sch.fuse(i, j)
    with fails("sample_tile: loop `i` no longer exists"):
        sch.sample_tile(i)


# --- sample_categorical


def test_one_of_the_values() -> None:
    sch = schedule()
    drawn = sch.sample_categorical([4, 8, 16], name="lanes")
    assert isinstance(drawn, Int)
    assert sch.trace.decisions["lanes"] in (4, 8, 16)
    assert lines(sch.trace)[-1].startswith('t0 ~ sample_categorical([4, 8, 16]) @ "lanes" := ')
    checked(sch)


def test_probabilities() -> None:
    for seed in range(5):
        sch = schedule(seed=seed)
        sch.sample_categorical([4, 8], [0.0, 1.0], name="lanes")
        assert sch.trace.decisions["lanes"] == 8
    assert "sample_categorical([4, 8], probabilities=[0.0, 1.0])" in str(sch.trace)
    checked(sch)


@pytest.mark.parametrize(
    ("values", "probabilities", "message"),
    [
        ([], (), "values must be distinct, and at least one"),
        ([4, 4], (), "values must be distinct, and at least one"),
        ([4, 8], (1.0,), "probabilities must be one for each value, not negative, and add up to 1"),
        ([4, 8], (0.5, 0.6), "probabilities must be one for each value, not negative, and add up to 1"),
        ([4, 8], (float("nan"), 0.5), "probabilities must be one for each value, not negative, and add up to 1"),
        ([4, 8], (1.5, -0.5), "probabilities must be one for each value, not negative, and add up to 1"),
    ],
)
def test_values_that_are_no_distribution(values: list[int], probabilities: tuple[float, ...], message: str) -> None:
    with fails(f"sample_categorical: {message}"):
        schedule().sample_categorical(values, probabilities)


@pytest.mark.parametrize("value", ["8", 8.0, True, None])
def test_values_are_integers(value: Any) -> None:
    with fails(f"sample_categorical: argument `values`: expected a list, each a number, got {value!r}"):
        schedule().sample_categorical([4, value])


# --- choose


def test_a_choice_leaves_a_line() -> None:
    sch = schedule(handler=Replay({"how": "outer"}, Policy.STRICT, DrawFromPrior(0)))
    assert sch.choose("how", ["none", "outer"]) == "outer"
    assert lines(sch.trace) == ['how ~ choose("none", "outer") @ "how" := "outer"']
    checked(sch)


def test_the_type_of_a_choice_counts() -> None:
    """`1` is no answer to a question between True and False."""
    wrong = Trace.parse('trace 1 of dense_relu[N=11, M=9, K=7]:\n    x ~ choose(True, False) @ "x" := 1\n')
    with fails('choose: the decision 1 at "x" is not in the support (one of True, False)'):
        wrong.apply_to(schedule().program)


# --- sample_compute_location

MIDDLE = """
program middle[N=11, M=9, K=7](A: f32[N, K], B: f32[K, M], c: f32[M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    bias:  S[i, j] = C[i, j] + c[j]
    relu:  D[i, j] = max(S[i, j], 0)
"""
ADD_RELU = """
program add_relu[N=6, M=5](A: f32[N, M], B: f32[N, M]) -> D: f32[N, M]:
    add:  C[i, j] = A[i, j] + B[i, j]
    relu: D[i, j] = max(C[i, j], 0)
"""
ADD_RELU_HALF = """
program add_relu_half[N=6, M=5](A: f32[N, M], B: f32[N, M]) -> (D: f32[N, M], E: f32[N, M]):
    add:  C[i, j] = A[i, j] + B[i, j]
    relu: D[i, j] = max(C[i, j], 0)
    half: E[i, j] = C[i, j] / 2
"""
TWO_READERS = """
program two_readers[N=6, M=5, K=7](A: f32[N, K], B: f32[K, M]) -> (D: f32[N, M], E: f32[N]):
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
    total: E[i] = sum[j](C[i, j])
"""
BRANCHES = """
program branches[N=6, M=5](A: f32[N, M], B: f32[N, M]) -> D: f32[N, M]:
    left:  L[i, j] = A[i, j] * 2
    right: R[i, j] = B[i, j] + 1
    join:  D[i, j] = L[i, j] * R[i, j]
"""
ALONE = """
program alone[N=6](A: f32[N]) -> (X: f32[N], Y: f32[N]):
    x: X[i] = A[i] + 1
    y: Y[i] = A[i] * 2
"""


def options(text: str, block: str, *around: str) -> list[Decision]:
    sch = schedule(text)
    sch.sample_compute_location(sch.get_block(block), *map(sch.get_block, around))
    return list(sch.sites[-1].site.dist.options())


def test_places_are_root_inline_and_legal_loops() -> None:
    assert options(RELU_PAD_MATMUL, "pad") == [
        *(Ref("root"), Ref("inline"), Ref("i_matmul"), Ref("j"), Ref("k_matmul"))
    ]
    assert options(STENCIL, "double") == [Ref("root"), Ref("inline"), Ref("i_sum3")]
    assert options(ROWS, "most") == [Ref("root"), Ref("i_apart"), Ref("k_apart")]
    assert options(CONV, "conv") == [Ref("root")]


def test_places_of_an_output_are_around_what_it_reads() -> None:
    assert options(DENSE_RELU, "relu") == [Ref("root"), Ref("i"), Ref("j")]
    assert options(ADD_RELU, "relu") == [Ref("root"), Ref("inline"), Ref("i"), Ref("j")]
    assert options(STENCIL, "sum3") == [Ref("root")], "neighbouring iterations complete what it reads"


def test_places_of_an_output_that_is_read_are_around_what_it_reads() -> None:
    """It stays an output, so its readers cannot have it to themselves."""
    both = DENSE_RELU.replace("-> D: f32[N, M]:", "-> (D: f32[N, M], E: f32[N, M]):")
    assert options(f"{both}    half: E[i, j] = D[i, j] / 2\n", "relu") == [Ref("root"), Ref("i"), Ref("j")]


def test_places_of_a_block_in_the_middle() -> None:
    """Around its readers, unless the blocks around which it is to be say otherwise."""
    assert options(ROWS, "apart") == [Ref("root"), Ref("inline")]
    assert options(ROWS, "apart", "most") == [Ref("root"), Ref("i")]
    assert options(MIDDLE, "bias") == [Ref("root"), Ref("inline"), Ref("i_relu"), Ref("j_relu")]
    assert options(MIDDLE, "bias", "relu") == options(MIDDLE, "bias")
    assert options(MIDDLE, "bias", "dense") == [Ref("root"), Ref("i"), Ref("j")]


def test_places_around_several_blocks() -> None:
    sch = schedule(ROWS)
    apart, total, out = map(sch.get_block, ("apart", "total", "out"))
    sch.reverse_compute_at(out, sch.get_loops(total)[0])
    sch.sample_compute_location(apart, out, total)
    assert [o.name for o in sch.sites[-1].site.dist.options()] == ["root", "inline", "i_total"]  # type: ignore[union-attr]


def test_blocks_that_no_location_is_around() -> None:
    sch = schedule(ROWS)
    most, apart, total, out = map(sch.get_block, ("most", "apart", "total", "out"))
    with fails(
        "sample_compute_location: `out` neither reads what `most` computes nor computes what it reads",
        "`most` can be computed in a loop around `apart`",
    ):
        sch.sample_compute_location(most, out)
    with fails(
        "sample_compute_location: of `most` and `total`, some read what `apart` computes and others compute what it "
        "reads",
        "name its readers only, to move it to them, or only what it reads, to move it there",
    ):
        sch.sample_compute_location(apart, most, total)
    alone = schedule(ALONE)
    message = "sample_compute_location: `y` neither reads what `x` computes nor computes what it reads"
    with fails(message, "leave `x` where it is"):
        alone.sample_compute_location(alone.get_block("x"), alone.get_block("y"))


@pytest.mark.parametrize(
    ("text", "move", "block", "around", "then", "places"),
    [
        (TWO_READERS, "reverse_compute_at", "relu", [], ["total"], ["i"]),  # the sum of a row has all of the row
        (MIDDLE, "compute_at", "bias", [], ["dense"], ["i_relu", "j_relu"]),  # a chain of producers, consumers first
        (MIDDLE, "reverse_compute_at", "bias", ["dense"], ["relu"], ["i", "j"]),  # and of consumers, producers first
        (ADD_RELU_HALF, "reverse_compute_at", "relu", ["add"], ["half"], ["i", "j"]),
        (ROWS, "compute_at", "total", [], ["apart", "most"], ["i_out", "k_out"]),
        (ROWS, "reverse_compute_at", "apart", ["most"], ["total", "out"], ["i"]),
        (BRANCHES, "compute_at", "left", [], ["right"], ["inline", "i_join", "j_join"]),  # two producers of one block
    ],
)
def test_one_place_for_several_blocks(
    text: str, move: str, block: str, around: list[str], then: list[str], places: list[str]
) -> None:
    """Offered is what is legal for all of them, one after another; and the blocks move there in that order."""
    for place in ("root", *places):
        sch = schedule(text, handler=Replay({block: Ref(place)}, Policy.STRICT, DrawFromPrior(0)))
        moved = [sch.get_block(name) for name in (block, *then)]
        where = sch.sample_compute_location(moved[0], *map(sch.get_block, around), then=moved[1:])
        assert sch.sites[-1].site.dist.options() == tuple(map(Ref, ("root", *places)))
        for handle in moved:
            getattr(sch, move)(handle, where)
        checked(sch)


def test_blocks_move_to_a_place_between_them() -> None:
    """A producer goes to a loop of its reader, and what follows goes there, too."""
    sch = schedule(MIDDLE, handler=Replay({"dense": Ref("i_bias")}, Policy.STRICT, DrawFromPrior(0)))
    dense, bias, relu = map(sch.get_block, ("dense", "bias", "relu"))
    where = sch.sample_compute_location(dense, then=[relu])
    sch.compute_at(dense, where)
    sch.reverse_compute_at(relu, where)
    assert all("i_bias" in vars_of(sch, name) for name in ("dense", "bias", "relu"))
    assert sch.name_of(bias) == "bias"
    checked(sch)


def test_blocks_that_do_not_move_together() -> None:
    sch = schedule(ROWS)
    most, apart, total, out = map(sch.get_block, ("most", "apart", "total", "out"))
    with fails(
        "sample_compute_location: neither what `most` reads nor what reads it is at the location, or moves there "
        "before",
        "name blocks in an order in which each reads from one before it or is read by it, or draw a location for "
        "`most` of its own",
    ):
        sch.sample_compute_location(total, then=[most, apart])
    with fails(
        "sample_compute_location: `total` is to move between `apart`, which it reads, and `out`, which reads it: both "
        "are at the location, or move there before",
        "name `total` before one of the two",
    ):
        sch.sample_compute_location(apart, most, then=[out, total])
    with fails(
        "sample_compute_location: the location of `most` is a loop around `apart`, which cannot move there",
        "draw the location of `apart`, with `then=[most]`",
    ):
        sch.sample_compute_location(most, then=[apart])
    with fails("sample_compute_location: `apart` is named twice", "name each block that moves once"):
        sch.sample_compute_location(total, then=[apart, apart])


@pytest.mark.parametrize("text", [RELU_PAD_MATMUL, STENCIL, ROWS, CONV, DENSE_RELU, ADD_RELU, MIDDLE])
def test_every_place_is_legal(text: str) -> None:
    """Whatever is drawn, the primitive that it is for takes it, and the result stays."""
    for block in schedule(text).block_names():
        for place in options(text, block):
            sch = schedule(text, handler=Replay({block: place}, Policy.STRICT, DrawFromPrior(0)))
            handle = sch.get_block(block)
            move = sch.reverse_compute_at if sch.describe(handle).output else sch.compute_at
            move(handle, sch.sample_compute_location(handle))
            checked(sch)


@pytest.mark.parametrize("place", ["root", "i", "j"])
def test_a_chain_of_consumers_moves_together(place: str) -> None:
    sch = schedule(MIDDLE, handler=Replay({"bias": Ref(place)}, Policy.STRICT, DrawFromPrior(0)))
    dense, bias, relu = map(sch.get_block, ("dense", "bias", "relu"))
    where = sch.sample_compute_location(bias, dense)
    for block in (bias, relu):
        sch.reverse_compute_at(block, where)
    assert {"i", "j"} & {*vars_of(sch, "relu")} == {"root": set(), "i": {"i"}, "j": {"i", "j"}}[place]
    assert 'bias_1 ~ sample_compute_location(bias, dense) @ "bias" := ' + place in lines(sch.trace)
    checked(sch)


def tiled(sch: Schedule) -> None:
    """A matmul in tiles, and the ReLU at a sampled place of the tile."""
    dense, relu = sch.get_block("dense"), sch.get_block("relu")
    i, j, k = sch.get_loops(dense)
    i0, i1 = sch.split(i, sch.sample_tile(i, name="i"))
    j0, j1 = sch.split(j, sch.sample_tile(j, name="j"))
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(relu, sch.sample_compute_location(relu))


def test_a_consumer_is_at_a_sampled_place_of_the_tile() -> None:
    sch = schedule(handler=Symbolic(DrawFromPrior(0)))
    tiled(sch)
    assert sch.sites[-1].site.dist.options() == (Ref("root"), Ref("i_0"), Ref("j_0"))  # not where sums are incomplete
    for place in ("root", "i_0", "j_0"):
        for sizes in ((2, 3), (4, 9), (11, 1)):
            decided: dict[str, Decision] = {"i": (HOLE, sizes[0]), "j": (HOLE, sizes[1]), "relu": Ref(place)}
            sch = schedule(handler=Replay(decided, Policy.STRICT, DrawFromPrior(0)))
            tiled(sch)
            assert (place in vars_of(sch, "relu")) == (place != "root")
            checked(sch)


def test_a_place_that_is_none_is_repaired() -> None:
    decided: dict[str, Decision] = {"i": (HOLE, 2), "j": (HOLE, 3), "relu": Ref("k")}
    with fails('sample_compute_location: the decision k at "relu" is not in the support (one of root, i_0, j_0)'):
        tiled(schedule(handler=Replay(decided, Policy.STRICT, DrawFromPrior(0))))
    sch = schedule(handler=Replay(decided, Policy.REPAIR, DrawFromPrior(0)))
    tiled(sch)
    assert sch.sites[-1].decision in sch.sites[-1].site.dist.options()
    checked(sch)


def test_staying_where_it_is_changes_nothing() -> None:
    sch = schedule(RELU_PAD_MATMUL, handler=Replay({"pad": Ref("root")}, Policy.STRICT, DrawFromPrior(0)))
    pad = sch.get_block("pad")
    before = sch.func
    place = sch.sample_compute_location(pad)
    sch.compute_at(pad, place)
    assert sch.func is before
    assert lines(sch.trace)[-2:] == ['pad_1 ~ sample_compute_location(pad) @ "pad" := root', "compute_at(pad, pad_1)"]


def test_places_of_a_tiled_reader_are_few() -> None:
    """Down to the innermost level of tiles there are many loops; every one of them is legal."""
    sch = schedule(RELU_PAD_MATMUL)
    i, j, k = loops_of(sch, "matmul")
    i0, i1 = sch.split(i, [2, 2])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, k0, j, i1, k1)
    sch.sample_compute_location(sch.get_block("pad"))
    names = {o.name for o in sch.sites[-1].site.dist.options() if isinstance(o, Ref)}
    assert {"root", "inline", "i_matmul_0", "k_matmul_0"} <= names <= {"root", "inline", *vars_of(sch, "matmul")}


def test_a_location_is_structural_and_a_tile_is_not() -> None:
    sch = schedule(RELU_PAD_MATMUL)
    sch.sample_compute_location(sch.get_block("pad"))
    sch.sample_tile(loops_of(sch, "matmul")[0])
    assert [r.site.dist.structural for r in sch.sites] == [True, False]

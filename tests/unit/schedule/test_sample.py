"""The samplers: sample_tile, sample_categorical, choose, sample_compute_location."""

from __future__ import annotations

import pytest

from metasched.lang.instructions import HOLE, Ref
from metasched.schedule.handlers import Policy, Prior, Replay, Symbolic
from metasched.schedule.trace import Trace
from metasched.schedule.values import Int
from tests.support.programs import CONV, RELU_PAD_MATMUL, ROWS, STENCIL
from tests.support.schedules import checked, fails, lines, loops_of, schedule, vars_of

# --- sample_tile


def test_a_tile_is_written_with_its_outer_part_open() -> None:
    sch = schedule(handler=Replay({"i": (HOLE, 2, 3)}, Policy.STRICT, Prior(0)))
    i, *_ = loops_of(sch, "dense")
    sizes = sch.sample_tile(i, parts=3)
    assert all(isinstance(t, Int) for t in sizes)
    assert lines(sch.trace)[-1] == 't0, t1, t2 ~ sample_tile(i, parts=3) @ "i" := [_, 2, 3]'
    sch.split(i, sizes)
    assert "for i_0, i_1, i_2" in str(sch)
    assert "grid(2, 2, 3, 9, 7)" in str(sch)
    checked(sch)


def test_a_tile_of_a_tile() -> None:
    sch = schedule(N=60)
    i, *_ = loops_of(sch, "dense")
    _, inner = sch.split(i, sch.sample_tile(i))
    sch.split(inner, sch.sample_tile(inner))
    checked(sch)


def test_integers_are_integers_under_every_handler() -> None:
    for handler in (Prior(0), Symbolic(Prior(0)), Replay({"i": (HOLE, 4)}, Policy.STRICT, Prior(0))):
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
def test_tiles_that_are_none(settings: dict[str, int], message: str) -> None:
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
        ([4, 8], (1.5, -0.5), "probabilities must be one for each value, not negative, and add up to 1"),
    ],
)
def test_values_that_are_no_distribution(values: list[int], probabilities: tuple[float, ...], message: str) -> None:
    with fails(f"sample_categorical: {message}"):
        schedule().sample_categorical(values, probabilities)


@pytest.mark.parametrize("value", ["8", 8.0, True, None])
def test_values_are_integers(value: object) -> None:
    with fails(f"sample_categorical: argument `values`: expected a list, each a number, got {value!r}"):
        schedule().sample_categorical([4, value])


# --- choose


def test_a_choice_leaves_a_line() -> None:
    sch = schedule(handler=Replay({"how": "outer"}, Policy.STRICT, Prior(0)))
    assert sch.choose("how", ["none", "outer"]) == "outer"
    assert lines(sch.trace) == ['how ~ choose("none", "outer") @ "how" := "outer"']
    checked(sch)


def test_the_type_of_a_choice_counts() -> None:
    """`1` is no answer to a question between True and False."""
    wrong = Trace.parse('trace 1 of dense_relu[N=11, M=9, K=7]:\n    x ~ choose(True, False) @ "x" := 1\n')
    with fails('choose: the decision 1 at "x" is not in the support (one of True, False)'):
        wrong.apply_to(schedule().program)


# --- sample_compute_location


def options(text: str, block: str) -> list[object]:
    sch = schedule(text)
    sch.sample_compute_location(sch.get_block(block))
    return list(sch.sites[-1].site.dist.options())


def test_places_are_root_inline_and_legal_loops() -> None:
    assert options(RELU_PAD_MATMUL, "pad") == [
        *(Ref("root"), Ref("inline"), Ref("i_matmul"), Ref("j"), Ref("k_matmul"))
    ]
    assert options(STENCIL, "double") == [Ref("root"), Ref("inline"), Ref("i_sum3")]
    assert options(ROWS, "most") == [Ref("root"), Ref("i_apart"), Ref("k_apart")]
    assert options(CONV, "conv") == [Ref("root")]


@pytest.mark.parametrize("text", [RELU_PAD_MATMUL, STENCIL, ROWS, CONV])
def test_every_place_is_legal(text: str) -> None:
    """Whatever is drawn, compute_at takes it, and the result stays."""
    for block in schedule(text).block_names():
        for place in options(text, block):
            sch = schedule(text, handler=Replay({block: place}, Policy.STRICT, Prior(0)))
            handle = sch.get_block(block)
            sch.compute_at(handle, sch.sample_compute_location(handle))
            checked(sch)


def test_staying_where_it_is_changes_nothing() -> None:
    sch = schedule(RELU_PAD_MATMUL, handler=Replay({"pad": Ref("root")}, Policy.STRICT, Prior(0)))
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

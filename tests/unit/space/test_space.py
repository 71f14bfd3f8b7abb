from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.lang.instructions import Ref
from tests.support.programs import DENSE_RELU, RELU_PAD_MATMUL, STENCIL
from tests.support.schedules import program

Golden = Callable[[str, str], None]


def space(module: Callable[[ms.Schedule], object], text: str = DENSE_RELU, **settings: Any) -> ms.Space:
    return ms.space(program(text), module=module, **settings)


def three(sch: ms.Schedule) -> None:
    """A choice that opens another one."""
    if sch.choose("first", ["a", "b"]) == "a":
        sch.choose("second", [1, 2, 3])


def chosen(sketch: ms.Sketch) -> list[object]:
    return list(sketch.structure.values())


def test_sketches_are_in_the_order_of_the_options() -> None:
    made = space(three)
    assert [chosen(s) for s in made] == [["a", 1], ["a", 2], ["a", 3], ["b"]]
    assert len(made) == 4
    assert made.complete


@pytest.mark.parametrize("sizes", [(2, 3), (3, 1, 2), (2, 2, 2, 2)])
def test_every_combination_once(sizes: tuple[int, ...]) -> None:
    def product(sch: ms.Schedule) -> None:
        for n, size in enumerate(sizes):
            sch.choose(f"c{n}", list(range(size)))

    found = [tuple(chosen(s)) for s in space(product)]
    assert found == list(itertools.product(*(range(n) for n in sizes)))


def test_a_module_without_choices_is_one_sketch() -> None:
    made = space(lambda sch: sch.get_block("dense"))
    assert len(made) == 1
    assert made.complete
    assert made[0].columns == ()


def test_enumeration_is_lazy() -> None:
    ran: list[int] = []

    def counted(sch: ms.Schedule) -> None:
        ran.append(sch.choose("n", list(range(50))))

    made = space(counted)
    assert ran == []
    assert chosen(made[0]) == [0]
    assert ran == [0]
    assert chosen(made[2]) == [2]
    assert ran == [0, 1, 2]
    made[1]
    assert ran == [0, 1, 2], "a sketch is made once"
    assert [chosen(s) for s in itertools.islice(made, 2)] == [[0], [1]]
    assert len(ran) == 3
    assert chosen(made[-1]) == [49]
    assert len(ran) == 50


def test_beyond_the_last() -> None:
    made = space(three)
    with pytest.raises(IndexError):
        made[4]


# --- too many


def many(sch: ms.Schedule) -> None:
    for n in range(5):
        sch.choose(f"c{n}", list(range(4 + n)))


def test_beyond_the_limit_sketches_are_sampled() -> None:
    made = space(many, max_sketches=20)
    assert len(made) == 20
    assert not made.complete
    found = [tuple(chosen(s)) for s in made]
    assert len(set(found)) == 20
    assert {f[0] for f in found} == {0, 1, 2, 3}, "a prefix of the enumeration would have one only"
    assert found == [tuple(chosen(s)) for s in space(many, max_sketches=20)]
    assert found != [tuple(chosen(s)) for s in space(many, max_sketches=20, seed=1)]


def test_explaining_a_sample(golden: Golden) -> None:
    golden("space/explain_sampled", space(many, max_sketches=20).explain())


def test_as_many_as_the_limit_are_all() -> None:
    made = space(three, max_sketches=4)
    assert [chosen(s) for s in made] == [["a", 1], ["a", 2], ["a", 3], ["b"]]
    assert made.complete


# --- modules that are none


def test_a_choice_that_is_not_met_again() -> None:
    ran: list[int] = []

    def forgetful(sch: ms.Schedule) -> None:
        ran.append(1)
        sch.choose("first" if len(ran) == 1 else "second", [1, 2])

    with pytest.raises(ms.NondeterministicModule, match='never came to "first" of dense_relu') as info:
        len(space(forgetful))
    assert "hint: a module may depend on the program and on its random variables" in str(info.value)


def test_options_that_differ() -> None:
    ran: list[int] = []

    def growing(sch: ms.Schedule) -> None:
        ran.append(1)
        sch.choose("how", [len(ran) + n for n in range(2)])

    with pytest.raises(ms.NondeterministicModule, match='offers other options at "how": 2 is not one of'):
        space(lambda sch: growing(sch) if len(ran) < 1 else sch.choose("how", [7, 8]))[1]


def test_steps_that_differ() -> None:
    ran: list[int] = []

    def drifting(sch: ms.Schedule) -> None:
        ran.append(1)
        i, *_ = sch.get_loops(sch.get_block("dense"))
        sch.split(i, [None, len(ran)])
        sch.choose("how", [1, 2])

    with pytest.raises(ms.NondeterministicModule) as info:
        len(space(drifting))
    assert "took other steps on dense_relu" in str(info.value)
    assert "split(i, [None, 1])\n    i_0, i_1 = split(i, [None, 2])" in str(info.value)


def test_a_module_that_fails_says_so() -> None:
    with pytest.raises(ms.ScheduleError, match="get_block: there is no block `conv`"):
        space(lambda sch: sch.get_block("conv"))[0]


# --- variants


def located(sch: ms.Schedule) -> None:
    pad = sch.get_block("pad")
    sch.choose("x", [1, 2])
    sch.compute_at(pad, sch.sample_compute_location(pad))
    matmul = sch.get_block("matmul")
    sch.split(sch.get_loops(matmul)[-1], sch.sample_tile(sch.get_loops(matmul)[-1]))


def test_variants_differ_in_where_blocks_are_computed() -> None:
    made = space(located, RELU_PAD_MATMUL)
    assert len(made) == 2
    variants = made.variants(0, 100)
    assert variants[0] is made[0]
    places = [v.structure["pad"] for v in variants]
    assert places == [Ref("root"), Ref("inline"), Ref("i_matmul"), Ref("j"), Ref("k_matmul")]
    assert all(v.structure["x"] == 1 for v in variants)
    assert all(v.structure["x"] == 2 for v in made.variants(1, 100))
    assert made.variants(0, 100)[3] is variants[3], "variants are made once"


TWO_READERS = """
program two[N=12, M=10, K=8](A: f32[N, K], B: f32[K, M]) -> (D: f32[N, M], E: f32[N]):
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
    total: E[i] = sum[j](C[i, j])
"""

FORK = """
program fork[N=12, M=10](X: f32[N, M]) -> D: f32[N, M]:
    pad:   P[i, j < M + 2] = X[i, j - 1] if j >= 1 and j < M + 1 else 0
    left:  A[i, j < M] = sum[r < 3](P[i, j + r])
    right: B[i, j < M] = max[r < 3](P[i, j + r])
    d:     D[i, j] = A[i, j] * B[i, j] + X[i, j]
"""


def test_a_place_for_several_readers_is_one_where_all_can_go() -> None:
    def both(sch: ms.Schedule) -> None:
        dense, relu, total = map(sch.get_block, ("dense", "relu", "total"))
        i, _, _ = sch.get_loops(dense)
        sch.split(i, sch.sample_tile(i))
        where = sch.sample_compute_location(relu, dense)
        sch.reverse_compute_at(relu, where)
        sch.reverse_compute_at(total, where)

    made = space(both, TWO_READERS)
    places = [v.structure["relu"] for v in made.variants(0, 100)]
    assert places == [Ref("root"), Ref("i_0"), Ref("i_1")]  # under `j`, a total is not complete
    assert "left out 1 times: reverse_compute_at: `total` reduces over `j`" in made.explain()


def test_a_producer_goes_to_a_loop_around_all_its_readers() -> None:
    def together(sch: ms.Schedule) -> None:
        pad, left, right = map(sch.get_block, ("pad", "left", "right"))
        i, j = sch.get_loops(sch.get_block("d"))
        sch.split(j, sch.sample_tile(j))
        for block in (left, right):
            sch.compute_at(block, i)
        sch.compute_at(pad, sch.sample_compute_location(pad, left, right))

    places = [v.structure["pad"] for v in space(together, FORK).variants(0, 100)]
    assert places == [Ref("root"), Ref("inline"), Ref("i_d")]


def test_more_variants_than_were_asked_for_before() -> None:
    made = space(located, RELU_PAD_MATMUL)
    assert len(made.variants(0, 2)) == 2
    assert len(made.variants(0, 3)) == 3


def test_few_variants_are_a_sample_with_the_first() -> None:
    few = space(located, RELU_PAD_MATMUL).variants(0, 3)
    assert len(few) == 3
    assert few[0].structure["pad"] == Ref("root")
    again = space(located, RELU_PAD_MATMUL).variants(0, 3)
    assert [v.trace for v in few] == [v.trace for v in again]


def test_no_locations_no_variants() -> None:
    made = space(three)
    assert made.variants(1, 10) == (made[1],)


def test_another_location_may_leave_other_choices() -> None:
    """A later choice that has lost its option takes the first there is."""

    def dependent(sch: ms.Schedule) -> None:
        pad = sch.get_block("pad")
        sch.compute_at(pad, sch.sample_compute_location(pad))
        gone = "pad" not in sch.block_names()
        sch.choose("after", ["inlined"] if gone else ["there", "still there"])

    variants = space(dependent, RELU_PAD_MATMUL).variants(0, 100)
    assert {(v.structure["pad"], v.structure["after"]) for v in variants} >= {
        (Ref("root"), "there"),
        (Ref("inline"), "inlined"),
    }
    for v in variants:
        v.trace.apply_to(v.program)


# --- what it says


def test_explaining_a_module() -> None:
    assert space(three).explain() == (
        'dense_relu[N=11, M=9, K=7]: 4 sketches\nchoice "first": 2 options\nchoice "second": 3 options'
    )


def test_showing_every_sketch(capsys: pytest.CaptureFixture[str]) -> None:
    made = space(three)
    made.show()
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith("#")] == [f"# sketch {n}" for n in range(4)]
    assert shown.count("func dense_relu(") == 4


# --- mutation


def test_mutants_are_of_the_space() -> None:
    def tiled(sch: ms.Schedule) -> None:
        i, j, _ = sch.get_loops(sch.get_block("dense"))
        loop = i if sch.choose("which", ["i", "j"]) == "i" else j
        sch.split(loop, sch.sample_tile(loop, parts=3, name="size"))

    made = space(tiled)
    rng = np.random.default_rng(0)
    trace = made[0].trace_of(made[0].sample(rng, 1)[0])
    structures, numbers = set(), set()
    for _ in range(120):
        trace = made.mutate(rng, trace)
        assert trace.apply_to(made.program).trace == trace
        structures.add(trace.decisions["which"])
        numbers.add(trace.decisions["size"])
    assert structures == {"i", "j"}
    assert len(numbers) > 10


def test_the_default_rules_of_a_stencil(golden: Golden) -> None:
    golden("space/explain_stencil", ms.space(program(STENCIL)).explain())


def test_a_module_that_fails_fails_each_time() -> None:
    """`list` asks for the length first, and passes over a TypeError there."""

    def branches(sch: ms.Schedule) -> None:
        if sch.choose("how", ["a", "b"]) == "b":
            bool(sch.sample_categorical([4, 8]) == 4)

    made = ms.space(program(), branches)
    assert made[0].structure["how"] == "a"
    for use in (list, len, list, lambda space: space[1]):
        with pytest.raises(TypeError, match="cannot compare the random variable `t0` inside a module"):
            use(made)


def test_the_options_of_a_structure() -> None:
    found = space(three)
    assert found.options_near({"first": "b"}) == {"first": ("a", "b")}
    assert found.options_near({"first": "a", "second": 3}) == {"first": ("a", "b"), "second": (1, 2, 3)}

"""Spaces in which some decisions are given: conditions, and traces with holes."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.lang.instructions import HOLE, Ref
from tests.support.programs import RELU_PAD_MATMUL
from tests.support.schedules import fails, program


def tiled(sch: ms.Schedule) -> None:
    """A choice, a tile and a tile of its inner loop."""
    i, j, _ = sch.get_loops(sch.get_block("dense"))
    loop = i if sch.choose("which", ["i", "j"]) == "i" else j
    _, inner = sch.split(loop, sch.sample_tile(loop, name="outer"))
    sch.split(inner, sch.sample_tile(inner, name="inner"))


def located(sch: ms.Schedule) -> None:
    pad = sch.get_block("pad")
    k = sch.get_loops(sch.get_block("matmul"))[-1]
    sch.compute_at(pad, sch.sample_compute_location(pad))
    sch.split(k, sch.sample_tile(k))


def space(given: dict[str, object]) -> ms.Space:
    return ms.space(program(), ms.condition(tiled, given))


def sampled(sketch: ms.Sketch, count: int = 64) -> np.ndarray:
    rows = sketch.repair(sketch.sample(np.random.default_rng(0), count))
    return rows[sketch.mask(rows)]


# --- conditions


def test_a_given_number_is_a_constant_and_no_column() -> None:
    sketch = space({"outer": [None, 4]})[0]
    assert sketch.columns == ("t3",)
    assert sketch.trace.decisions == {"which": "i", "outer": (HOLE, 4)}
    assert "for i_0, i_1_0, i_1_1, j, k in grid(3, ceildiv(4, t3), t3, 9, 7)" in str(sketch)
    for row in sampled(sketch, 8):
        trace = sketch.trace_of(row)
        assert trace.decisions["outer"] == (HOLE, 4)
        assert trace.apply_to(program()).trace == trace


def test_what_is_given_may_be_numpy_s() -> None:
    made = space({"outer": np.array([None, np.int64(4)], object), "which": np.str_("i")})
    assert [sketch.trace.decisions for sketch in made] == [{"outer": (HOLE, 4), "which": "i"}]
    assert made.source.describe() == space({"outer": [None, 4], "which": "i"}).source.describe()
    assert made.conditioned({"outer": [None, np.int64(4)]}).given == {"outer": (None, 4), "which": "i"}
    with fails('condition: what is given for "which": 1j is a complex, and no decision'):
        ms.condition(tiled, {"which": 1j})


def test_a_given_structure_leaves_one_sketch() -> None:
    assert [s.structure["which"] for s in space({})] == ["i", "j"]
    made = space({"which": "j"})
    assert [s.structure["which"] for s in made] == ["j"]
    assert "\"which\" is given: 'j'" in made.explain()


def test_a_given_number_whose_support_is_open_is_a_constraint() -> None:
    """The tile of a tile: the outer one has to be as large as the inner one that is given."""
    sketch = space({"inner": [None, 5]})[0]
    rows = sampled(sketch, 200)
    assert 0 < len(rows) < 200
    assert rows.min() >= 5
    for row in {tuple(row) for row in rows}:
        trace = sketch.trace_of(row)
        assert trace.apply_to(program()).trace == trace


@pytest.mark.parametrize("perfect", [True, False])
def test_the_constraint_is_the_support(perfect: bool) -> None:
    def nested(sch: ms.Schedule) -> None:
        i, *_ = sch.get_loops(sch.get_block("dense"))
        _, inner = sch.split(i, sch.sample_tile(i, name="outer", innermost=24))
        sch.split(inner, sch.sample_tile(inner, parts=3, perfect=perfect, name="inner", innermost=4))

    prog = program(N=24)
    sketch = ms.space(prog, ms.condition(nested, {"inner": [None, 2, 3]}))[0]
    rows = np.arange(1, 25)[:, None]
    legal = []
    for row in rows:
        try:
            sketch.trace_of(row).apply_to(prog)
        except ms.ScheduleError:
            legal.append(False)
        else:
            legal.append(True)
    assert sketch.mask(rows).tolist() == legal
    assert 0 < sum(legal) < 24


def test_conditions_add_up() -> None:
    once = ms.condition(tiled, {"which": "j"})
    both = ms.space(program(), ms.condition(once, {"outer": [None, 3]}))
    assert [s.structure for s in both] == [{"which": "j", "outer": (HOLE, 3)}]


@pytest.mark.parametrize(
    ("address", "first", "second", "said"),
    [
        ("which", "i", "j", 'as "i", and as "j"'),
        ("outer", [None, 3], [None, 4], "as [_, 3], and as [_, 4]"),
        ("outer", (HOLE, 3), [None, 4], "as [_, 3], and as [_, 4]"),
    ],
)
def test_conditions_do_not_contradict(address: str, first: object, second: object, said: str) -> None:
    wrong = f'condition: "{address}" is decided twice: {said}', "change one of the two decisions, or leave it out"
    once = ms.condition(tiled, {address: first})
    with fails(*wrong):
        ms.condition(once, {address: second})
    with fails(*wrong):
        ms.condition(ms.condition(once, {"inner": [None, 1]}), {address: second})
    with fails(*wrong):
        ms.condition(ms.space(program(), once), {address: second})
    again = ms.condition(ms.condition(once, {address: first}), {"inner": [None, 1]})
    assert len(ms.space(program(), again)) == len(ms.space(program(), once))


def test_a_condition_does_not_contradict_a_trace() -> None:
    said = 'condition: "pad" is decided twice: as "inline", and as "j"'
    trace = ms.space(program(RELU_PAD_MATMUL), located).variants(0, 9)[1].trace
    inlined = ms.condition(trace, {"pad": "inline"})
    for space in (trace, inlined, of(trace)):
        with fails(said):
            ms.condition(space, {"pad": "j"})


def test_a_space_is_conditioned_as_well() -> None:
    made = ms.condition(ms.space(program(), tiled), {"which": "j"})
    assert isinstance(made, ms.Space)
    assert [s.structure["which"] for s in made] == ["j"]


def test_rules_are_conditioned_by_address() -> None:
    given = {"multi_level_tiling(dense)/fusion": "none", "multi_level_tiling(dense)/i": [None, 1, 2, 4]}
    made = ms.space(program(), ms.condition("cpu", given))
    assert len(made) > 1
    assert all(s.structure["multi_level_tiling(dense)/i"] == (HOLE, 1, 2, 4) for s in made)
    assert len(made) < len(ms.space(program()))


@pytest.mark.parametrize("given", [{"outr": [None, 4]}, {"oute": [None, 4], "which": "j"}])
def test_an_address_that_is_not_there(given: dict[str, object]) -> None:
    with pytest.raises(ms.ScheduleError) as info:
        space(given)
    assert info.value.hint == "did you mean `outer`?"
    assert "no sketch of dense_relu[N=11, M=9, K=7] has a random variable at" in info.value.reason
    with pytest.raises(ms.ScheduleError):
        ms.condition(ms.space(program(), tiled), given)


def test_nothing_near() -> None:
    with pytest.raises(ms.ScheduleError) as info:
        space({"xyz/abc": 1})
    assert info.value.hint == "there are `inner`, `outer` and `which`"


TILES = "1 inner factor of 11, the innermost at most 64"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"which": "k"}, "choose: the decision \"k\" at \"which\" is not in the support (one of 'i', 'j')"),
        ({"outer": [None, 12]}, f'sample_tile: the decision [_, 12] at "outer" is not in the support ({TILES})'),
    ],
)
def test_a_decision_out_of_support(given: dict[str, object], reason: str) -> None:
    with fails(reason, "change it, or leave it out"):
        space(given)


def test_none_is_no_decision() -> None:
    with fails('condition: None is no decision for "outer"', "leave out what is to be searched"):
        ms.condition(tiled, {"outer": None})


def test_a_space_of_another_program() -> None:
    with pytest.raises(
        ms.MetaschedError, match=r"the space is one of dense_relu\[N=11.*the program is dense_relu\[N=12"
    ):
        ms.space(program(N=12), ms.space(program(), tiled))


def test_what_describes_no_space() -> None:
    with pytest.raises(ms.MetaschedError, match="3 describes no space\n  hint: give rules, a module, a trace or"):
        ms.space(program(), 3)  # type: ignore[arg-type]


# --- traces with holes


def holes(*addresses: str) -> ms.Trace:
    sketch = ms.space(program(RELU_PAD_MATMUL), located).variants(0, 9)[2]
    trace = sketch.trace_of(sampled(sketch)[0])
    return ms.parse_trace(str(trace.with_decisions(dict.fromkeys(addresses))))


def of(trace: ms.Trace) -> ms.Space:
    return ms.space(program(RELU_PAD_MATMUL), trace)


def test_a_trace_without_holes_is_one_candidate() -> None:
    made = of(holes())
    assert [s.columns for s in made] == [()]
    assert made[0].trace_of(()) == holes()


def test_a_hole_is_a_column() -> None:
    made = of(holes("k_matmul"))
    assert len(made) == 1
    (sketch,) = made
    assert len(sketch.columns) == 1
    for row in sampled(sketch, 8):
        filled = sketch.trace_of(row)
        assert {**filled.decisions, "k_matmul": None} == {**holes().decisions, "k_matmul": None}
        assert filled.apply_to(program(RELU_PAD_MATMUL)).trace == filled
        assert sketch.row_of(filled) == tuple(row)
    assert "1 decision is given, and 1 open" in made.explain()


def test_the_places_of_a_hole_are_enumerated() -> None:
    made = of(holes("pad"))
    assert [s.structure["pad"] for s in made] == [
        Ref("root"),
        Ref("inline"),
        Ref("i_matmul"),
        Ref("j"),
        Ref("k_matmul"),
    ]
    assert {s.trace.decisions["k_matmul"] for s in made} == {holes().decisions["k_matmul"]}
    assert [made.variants(n, 9) for n in range(5)] == [(s,) for s in made]
    assert len(of(holes("pad", "k_matmul"))[3].columns) == 1


def test_places_that_later_lines_do_not_allow_are_left_out() -> None:
    """Computed inline the block is gone, and the line that asks for its loops fails."""
    text = str(holes("pad")) + '    again = get_block("pad")\n    parallel(again_loop)\n'
    text = text.replace("    parallel(again_loop)\n", '    annotate(again, "unroll_limit", 4)\n')
    made = of(ms.parse_trace(text))
    assert Ref("inline") not in [s.structure["pad"] for s in made]
    assert len(made) == 4
    assert "left out 1 times: get_block: there is no block `pad`" in made.explain()


def test_a_trace_that_never_applies() -> None:
    text = str(holes("pad")) + '    gone = get_block("gone")\n'
    with pytest.raises(ms.ScheduleError, match="there is no block `gone`") as info:
        len(of(ms.parse_trace(text)))
    assert info.value.line == text.count("\n")


def test_an_open_choice_is_refused() -> None:
    sketch = ms.space(program(), tiled)[0]
    trace = sketch.trace_of(sampled(sketch)[0]).with_decisions({"which": None})
    with pytest.raises(ms.ScheduleError, match="line 4 of the trace leaves a choice open") as info:
        ms.space(program(), trace)
    assert "ms.condition(space, {address: decision})" in info.value.hint


def test_a_trace_of_another_program() -> None:
    with pytest.raises(ms.ScheduleError, match=r"it was made for relu_pad_matmul"):
        ms.space(program(), holes("pad"))


def test_filling_a_hole_by_a_condition() -> None:
    made = ms.space(program(RELU_PAD_MATMUL), ms.condition(holes("pad", "k_matmul"), {"pad": "j"}))
    assert [s.structure["pad"] for s in made] == [Ref("j")]
    assert len(made[0].columns) == 1


# --- which records belong


def test_what_fills_the_holes_belongs() -> None:
    made = of(holes("k_matmul"))
    assert made.holds(holes())
    assert made.holds(made[0].trace_of(sampled(made[0])[0]))
    assert not made.holds(holes().with_decisions({"pad": Ref("j")}))
    assert not made.holds(ms.parse_trace(str(holes()) + '    again = get_block("pad")\n    parallel(i_matmul)\n'))


def test_what_contradicts_nothing_belongs() -> None:
    made = space({"outer": [None, 4]})
    inside, outside = space({"outer": [None, 4]})[0], space({"outer": [None, 3]})[0]
    assert made.holds(inside.trace_of(sampled(inside)[0]))
    assert not made.holds(outside.trace_of(sampled(outside)[0]))
    place = ms.space(program(RELU_PAD_MATMUL), ms.condition(located, {"pad": "j"}))
    assert place.holds(holes().with_decisions({"pad": Ref("j")}))
    assert not place.holds(holes().with_decisions({"pad": Ref("root")}))

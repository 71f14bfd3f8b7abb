from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.lang.instructions import HOLE
from tests.support.text_modules import PROGRAM, SPLIT, run, steps, whole

TILE = """
module tile[innermost=64](dense):
    "Tile a reduction."
    if not reduces(dense): skip "it is not a reduction"
    i, j, k = get_loops(dense)
    x, y ~ sample_tile(i, parts=2, innermost=innermost)
    z, w ~ sample_tile(j, parts=2) := [_, 8]
    i0, i1 = split(i, [x, y])
    j0, j1 = split(j, [z, w])
    reorder(i0, j0, i1, j1, k)
    how ~ choose("none", "outer", "both")
    if how == "outer":
        parallel(i0)
    elif how == "both":
        parallel(fuse(i0, j0))
    else:
        limit ~ sample_categorical([0, 16]) @ "limit"
        annotate(dense, "unroll_limit", limit)
    for c in get_consumers(dense):
        if elementwise(c):
            reverse_compute_at(c, j0 if how != "both" else get_loops(dense)[0])
    return i0, j0
"""


@ms.module
def tile(sch: ms.Schedule, dense: ms.BlockRV, *, innermost: int = 64) -> Any:
    if not sch.describe(dense).reduces:
        return ms.skip("it is not a reduction")
    i, j, k = sch.get_loops(dense)
    x, y = sch.sample_tile(i, parts=2, innermost=innermost)
    z, w = sch.sample_tile(j, parts=2, decision=[None, 8])
    i0, i1 = sch.split(i, [x, y])
    j0, j1 = sch.split(j, [z, w])
    sch.reorder(i0, j0, i1, j1, k)
    how = sch.choose("how", ["none", "outer", "both"])
    if how == "outer":
        sch.parallel(i0)
    elif how == "both":
        sch.parallel(sch.fuse(i0, j0))
    else:
        sch.annotate(dense, "unroll_limit", sch.sample_categorical([0, 16], name="limit"))
    for c in sch.get_consumers(dense):
        if sch.describe(c).elementwise:
            sch.reverse_compute_at(c, j0 if how != "both" else sch.get_loops(dense)[0])
    return i0, j0


# --- the same as Python -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_text_and_python_leave_equal_traces(seed: int) -> None:
    text = ms.parse_module(TILE)
    ours, theirs = ms.Schedule(PROGRAM, seed=seed), ms.Schedule(PROGRAM, seed=seed)
    results = text(ours, ours.get_block("dense")), tile(theirs, theirs.get_block("dense"))
    assert results[0] == results[1]
    assert str(ours.trace) == str(theirs.trace)
    assert ours.func == theirs.func
    assert ours.trace.apply_to(PROGRAM).func == ours.func


def test_settings_given_at_the_call_and_before() -> None:
    text = ms.parse_module(TILE)
    for how in (lambda s, b: text(s, b, innermost=2), text(innermost=2)):
        sch = ms.Schedule(PROGRAM, seed=1)
        how(sch, sch.get_block("dense"))
        assert "sample_tile(i, innermost=2)" in str(sch.trace)
    assert text(innermost=2).parameters == {"innermost": 2}
    with pytest.raises(ms.RuleError, match="has no parameter `inermost`; it has innermost"):
        text(inermost=2)
    with pytest.raises(TypeError, match="module tile has no parameter `inermost`; it has innermost"):
        text(sch, sch.get_block("dense"), inermost=2)


def test_skip_is_returned() -> None:
    sch = ms.Schedule(PROGRAM)
    assert ms.parse_module(TILE)(sch, sch.get_block("relu")) == ms.skip("it is not a reduction")


def test_sketches_and_explanation() -> None:
    space = ms.space(PROGRAM, rules=[ms.parse_module(TILE)])
    again = ms.space(PROGRAM, module=lambda sch: [tile(sch, sch.get_block(name)) for name in ("relu", "dense")])
    assert [s.columns for s in space] == [s.columns for s in again] == [("t1", "t4"), ("t1",), ("t1",)]
    assert [str(s) for s in space] == [str(s) for s in again]
    assert "tile  not applied: it is not a reduction" in space.explain()


# --- calls of other modules -------------------------------------------------------------------------------


def test_modules_call_modules() -> None:
    sch = run("a, b = halve(i)\nc = halve(j, by=3)\nreorder(a, *c, b)", SPLIT)
    assert "split(i, [None, 2])" in str(sch.trace)
    assert "reorder(i_0, j_0, j_1, i_1)" in str(sch.trace)


def test_addresses_are_paths_of_modules() -> None:
    helper = "module inner(loop):\n    x, y ~ sample_tile(loop, parts=2)\n    split(loop, [x, y])\n"
    assert list(run("inner(i)\ninner(j)", helper).trace.decisions) == ["main/inner(i)/i", "main/inner(j)/j"]


def test_a_called_module_that_skips() -> None:
    helper = 'module never(loop):\n    if extent(loop) != 0: skip "no use"\n    return loop\n'
    assert steps("never(i)\nunroll(j)", helper) == ["unroll(j)"]
    with pytest.raises(ms.ScheduleError, match="module `never` gives nothing here: no use"):
        run("x = never(i)\nunroll(x)", helper)
    late = 'module late(loop):\n    unroll(loop)\n    if not serial(loop): skip "too late"\n'
    with pytest.raises(ms.ScheduleError, match="module late: it skipped after transforming the program: too late"):
        run("late(i)", late)


# --- conditioning -----------------------------------------------------------------------------------------

FIXED = whole(
    "x, y ~ sample_tile(i, parts=2) := [_, 4]\n"
    'how ~ choose("none", "outer") := "outer"\n'
    "z, w ~ sample_tile(j, parts=2)\n"
    "i0, i1 = split(i, [x, y])\n"
    "split(j, [z, w])\n"
    'if how == "outer": parallel(i0)'
)
DECIDED = {"main/i": (HOLE, 4), "main/how": "outer"}


@pytest.mark.parametrize("seed", range(4))
def test_conditions_hold_when_recording_and_replay(seed: int) -> None:
    sch = ms.Schedule(PROGRAM, seed=seed)
    FIXED(sch)
    assert {k: sch.trace.decisions[k] for k in DECIDED} == DECIDED
    assert sch.trace.apply_to(PROGRAM).func == sch.func
    assert ms.Trace.parse(str(sch.trace)) == sch.trace
    again = ms.rerun(FIXED, PROGRAM, sch.trace)
    assert again.trace == sch.trace
    assert again.repairs == []


def test_conditions_hold_in_sketches() -> None:
    space = ms.space(PROGRAM, FIXED)
    (sketch,) = space
    assert sketch.columns == ("t3",)
    assert {k: sketch.trace.decisions[k] for k in DECIDED} == DECIDED
    rng = np.random.default_rng(0)
    rows = sketch.repair(sketch.mutate(rng, sketch.sample(rng, 16)))
    for row in rows:
        sch = sketch.trace_of(row).apply_to(PROGRAM)
        assert {k: sch.trace.decisions[k] for k in DECIDED} == DECIDED
    trace = sketch.trace_of(rows[0])
    for _ in range(8):
        trace = space.mutate(rng, trace)
        assert {k: trace.decisions[k] for k in DECIDED} == DECIDED
        assert sketch.row_of(trace) is not None


def test_conditions_on_what_depends_on_open_variables() -> None:
    module = whole(
        "x, y ~ sample_tile(i, parts=2)\ni0, i1 = split(i, [x, y])\n"
        'u, v ~ sample_tile(i1, parts=2) @ "inner" := [_, 3]\nsplit(i1, [u, v])'
    )
    (sketch,) = ms.space(PROGRAM, module)
    assert sketch.columns == ("t1",)
    assert sketch.mask(np.array([[2], [3], [7]])).tolist() == [False, True, True]


def test_reruns_with_another_decision() -> None:
    sch = ms.Schedule(PROGRAM)
    FIXED(sch)
    other = sch.trace.with_decisions({"main/i": (HOLE, 2)})
    with pytest.raises(ms.ScheduleError, match=r'decides \[_, 2\] at "main/i", and the module \[_, 4\]'):
        ms.rerun(FIXED, PROGRAM, other)
    again = ms.rerun(FIXED, PROGRAM, other, ms.Policy.REPAIR)
    assert again.trace == sch.trace
    assert [str(r) for r in again.repairs] == ['"main/i": [_, 2] -> [_, 4]  (the module decides it itself)']


def test_conditions_from_outside_may_not_contradict() -> None:
    agreed = {"main/i": [None, 4], "main/how": "outer", "main/j": [None, 3]}
    (sketch,) = ms.space(PROGRAM, ms.condition(FIXED, agreed))
    assert sketch.columns == ()
    for address, other, message in (
        ("main/i", [None, 2], r"\[_, 4\] .* \[_, 2\]"),
        ("main/how", "none", '"outer" .* "none"'),
    ):
        with pytest.raises(ms.ScheduleError, match=f'"{address}" is decided twice: it is {message} is asked for'):
            list(ms.space(PROGRAM, ms.condition(FIXED, {address: other})))


def test_decisions_may_name_settings() -> None:
    module = ms.parse_module(
        'module main[size=4, kind="b"]():\n    i, *_rest = get_loops(get_block("dense"))\n'
        "    x, y ~ sample_tile(i, parts=2) := [_, size]\n    split(i, [x, y])\n"
        '    how ~ choose("a", "b") := kind\n    if how == "b": unroll(get_loops(get_block("relu"))[0])\n'
    )
    sch = ms.Schedule(PROGRAM)
    module(size=2)(sch)
    assert sch.trace.decisions == {"main/i": (HOLE, 2), "main/how": "b"}


def test_a_condition_out_of_support() -> None:
    with pytest.raises(ms.ScheduleError, match=r'the decision \[_, 12\] at "main/i" is not in the support') as caught:
        run("x, y ~ sample_tile(i, parts=2) := [_, 12]\nsplit(i, [x, y])")
    assert "x, y ~ sample_tile(i, parts=2) := [_, 12]" in "".join(caught.value.__notes__)


def test_wrong_arguments_from_python() -> None:
    module = whole("unroll(i)")
    with pytest.raises(TypeError, match="module main: the first argument must be a Schedule, got 3"):
        module(3)
    sch = ms.Schedule(PROGRAM)
    with pytest.raises(TypeError, match="module main takes no handle after the schedule, and got 1 handles"):
        module(sch, sch.get_block("dense"))

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.lang.instructions import HOLE, Ref
from metasched.space.text.modules import TextModule
from tests.support.programs import DENSE_RELU, STENCIL
from tests.support.schedules import program

PROGRAM = program(DENSE_RELU)

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


def whole(body: str, *helpers: str) -> TextModule:
    """A module of the whole program, with `d` its reduction and `i, j, k` the loops around it, where they are used."""
    head = 'module main():\n    d = get_block("dense")\n'
    head += "    i, j, k = get_loops(d)\n" if re.search(r"\b[ijk]\b", body) else "    _loops = get_loops(d)\n"
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    module = ms.parse_module("\n".join([*helpers, head + lines]), "main")
    assert isinstance(module, TextModule)
    return module


def run(body: str, *helpers: str, seed: int = 0) -> ms.Schedule:
    sch = ms.Schedule(PROGRAM, seed=seed)
    whole(body, *helpers)(sch)
    return sch


def steps(body: str, *helpers: str) -> list[str]:
    """The lines of the trace, less those that only look."""
    lines = [line.strip() for line in str(run(body, *helpers).trace).splitlines()[1:]]
    return [line for line in lines if "get_" not in line]


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


# --- statements -------------------------------------------------------------------------------------------


def test_names_take_lists() -> None:
    assert steps("*outer, last = get_loops(d)\nunroll(last)\nreorder(*outer)") == [
        "unroll(k)",
        "reorder(i, j)",
    ]
    assert steps("first, *rest = get_loops(d)\nreorder(*rest, first)") == ["reorder(j, k, i)"]
    assert steps("a, *middle, z = get_loops(d)\nreorder(z, *middle, a)") == ["reorder(k, j, i)"]
    assert steps("loops = get_loops(d)\nunroll(loops[-1])\nunroll(loops[0])") == ["unroll(k)", "unroll(i)"]
    assert steps("unroll(get_loops(d)[len(get_loops(d)) - 1])") == ["unroll(k)"]
    assert steps("loops = [j] + [i]\nreorder(*loops)") == ["reorder(j, i)"]


def test_repetition() -> None:
    assert steps("for l in [i, j]:\n    unroll(l)") == ["unroll(i)", "unroll(j)"]
    assert steps("for A in reads(d): cache_read(d, A)") == [
        'dense_A_read = cache_read(dense, "A")',
        'dense_B_read = cache_read(dense, "B")',
    ]
    assert steps("for l, n in [[i, 2], [j, 3]]: split(l, [None, n])") == [
        "i_0, i_1 = split(i, [None, 2])",
        "j_0, j_1 = split(j, [None, 3])",
    ]


def test_a_return_inside_a_loop_ends_the_module() -> None:
    helper = "module first(block):\n    for l in get_loops(block):\n        if serial(l): return l\n"
    assert steps("unroll(first(d))\nunroll(first(d))", helper) == ["unroll(i)", "unroll(j)"]


def test_arithmetic_on_random_variables_and_numbers() -> None:
    lines = steps(
        "x, y ~ sample_tile(i, parts=2)\nsplit(i, [None, max(y * 2, 1 + x // 3)])\nsplit(j, [None, max(2, 3)])"
    )
    assert lines[1:] == [
        "i_0, i_1 = split(i, [None, max(t1 * 2, 1 + t0 // 3)])",
        "j_0, j_1 = split(j, [None, 3])",
    ]
    assert steps("split(i, [None, ceildiv(7, 2) if rank(d) == 2 and not output(d) else -1 + 2])")[-1].endswith(
        "[None, 4])"
    )


def test_conditions_are_lazy_and_compare_what_is_not_known() -> None:
    body = "x, y ~ sample_tile(i, parts=2)\na, b = split(i, [x, y])\n{}"
    known = body.format("if extent(a) != None and extent(a) >= 1: unroll(a)")
    assert "unroll(i_0)" in str(run(known).trace)
    (sketch,) = ms.space(PROGRAM, whole(known))
    assert "unroll" not in str(sketch.trace)


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("if extent(first(d)) >= 1: unroll(a)", "extent(first(d))"),
        ("if extent(first(d)) == 4: unroll(a)", "extent(first(d))"),
        ("if 4 != extent(first(d)): unroll(a)", "extent(first(d))"),
        ("if results(d) == 4 or extent(first(d)) == extent(j): unroll(a)", "extent(first(d))"),
        ("n = extent(first(d))\nif n == 4: unroll(a)", "n"),
        ("if length(first(d)) == 4: unroll(a)", "length(first(d))"),
        ("split(b, [None, extent(first(d)) * 2])", "extent(first(d))"),
    ],
)
def test_a_size_that_is_not_known_compares_with_none_only(line: str, size: str) -> None:
    helpers = (
        "module first(block):\n    return get_loops(block)[0]\n",
        "module length(loop):\n    return extent(loop)\n",
    )
    used = [helper for helper in helpers if helper.split("(")[0].removeprefix("module ") in line]
    module = whole(f"x, y ~ sample_tile(i, parts=2)\na, b = split(i, [x, y])\n{line}", *used)
    with pytest.raises(ms.ScheduleError) as caught:
        list(ms.space(PROGRAM, module))
    assert caught.value.reason == f"module main: `{size}` is not known: it depends on tile sizes"
    assert caught.value.hint == f"test `{size} == None` before"


def test_a_size_that_is_not_known_is_none_in_python() -> None:
    module = ms.parse_module(
        "module sizes(d):\n    i, *_rest = get_loops(d)\n    x, y ~ sample_tile(i)\n    a, b = split(i, [x, y])\n"
        "    return extent(a), [extent(b), extent(_rest[0])], extent(a) == None, None != extent(b)\n"
    )
    sch = ms.Schedule(PROGRAM)
    block = sch.get_block("dense")
    assert module(sch.trial(), block) == (None, [None, 9], True, False)


def test_a_size_that_is_not_known_is_no_factor() -> None:
    body = "x, y ~ sample_tile(i, parts=2)\na, b = split(i, [x, y])\nunroll(a)\nsplit(b, [None, extent(b)])"
    with pytest.raises(ms.ScheduleError) as caught:
        list(ms.space(PROGRAM, whole(body)))
    assert caught.value.message.endswith("got a size that is not known")


def test_locations_and_handles_compare_with_nothing() -> None:
    helper = 'module inlined(where):\n    return where == "inline"\n'
    lines = "at ~ sample_compute_location(d) := root\nflag = inlined(at)\nif flag: unroll(i)"
    error, notes = wrong(lines, helper)
    assert error.reason == 'module inlined: `where == "inline"` compares a random variable'
    assert error.hint.startswith("for a structural decision write")
    assert notes[0] == '<text>:2:18: in module inlined\n        return where == "inline"\n                     ^'
    helper = "module truth(x):\n    return not x\n"
    error, _ = wrong("at ~ sample_compute_location(d) := root\nflag = truth(at)\nif flag: unroll(i)", helper)
    assert error.reason == "module truth: `x` is a random variable, and no condition"
    error, _ = wrong('if d == "dense": unroll(i)')
    assert error.reason == 'module main: `d == "dense"` compares a block with a text'
    assert error.hint == "`name(block)` is its name"
    error, _ = wrong('if "i" != i: unroll(i)')
    assert error.reason == 'module main: `"i" != i` compares a loop with a text'
    assert error.hint == "loops are told apart by queries"
    error, _ = wrong("if least < 1: unroll(i)\n".replace("least", "none()"), "module none():\n    return None\n")
    assert error.reason == "module main: `none()` is None, which has no order"
    assert error.hint == "test `none() == None` before"


def test_locations() -> None:
    text = program(STENCIL)
    loop = '    l = get_loops(get_block("sum3"))[0]\n'
    for decision, line, expected in (("root", "", "root"), ("l", loop, "i_sum3"), ("inline", "", "inline")):
        module = ms.parse_module(
            f'module main():\n    b = get_block("double")\n{line}'
            f"    where ~ sample_compute_location(b) := {decision}\n    compute_at(b, where)\n"
        )
        sch = ms.Schedule(text)
        module(sch)
        assert sch.trace.decisions == {"main/double": Ref(expected)}
    module = ms.parse_module('module main():\n    b = get_block("double")\n    compute_at(b, inline)\n')
    sch = ms.Schedule(text)
    module(sch)
    assert sch.block_names() == ("sum3",)


# --- calls of other modules -------------------------------------------------------------------------------

SPLIT = """
module halve[by=2](loop):
    outer, inner = split(loop, [None, by])
    return outer, inner
"""


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


# --- what goes wrong while it runs ------------------------------------------------------------------------


def wrong(body: str, *helpers: str) -> tuple[ms.ScheduleError, list[str]]:
    with pytest.raises(ms.ScheduleError) as caught:
        run(body, *helpers)
    return caught.value, caught.value.__notes__


def test_an_illegal_step_shows_its_line_and_the_program() -> None:
    error, notes = wrong("parallel(i)\nsplit(i, [None, 2])")
    assert "split: loop `i` is parallel" in str(error)
    assert re.search(r"\n +parallel i in 11:\n +\^+\n", str(error))
    assert notes == ["<text>:5:5: in module main\n        split(i, [None, 2])\n        ^"]


def test_each_call_on_the_way_is_noted_once() -> None:
    error, notes = wrong("parallel(i)\nhalve(i)", SPLIT)
    assert "loop `i` is parallel" in str(error)
    assert [note.splitlines()[0] for note in notes] == ["<text>:3:20: in module halve", "<text>:10:5: in module main"]


@pytest.mark.parametrize(
    ("body", "message", "caret"),
    [
        ("a, b = get_loops(d)\nunroll(a)", "it gives 3 here, and on the left is `a, b`", "get_loops(d)"),
        ("a, b, c, e, *f = get_loops(d)\nunroll(a)", "on the left is `a, b, c, e, *f`", "get_loops(d)"),
        ("unroll(get_loops(d)[7])", "`get_loops(d)` has 3 items, and 7 is not one", "get_loops(d)[7]"),
        ("x = i\nunroll(x[0])", "`x` is a loop, and no list", "x[0]"),
        ("for l in d: unroll(l)", "`d` is no list", "d: unroll"),
        ("unroll(*d)", "`d` is a block, and no list", "*d"),
        ("if rank(d): unroll(i)", "a condition is True or False, and `rank(d)` is 2", "rank(d)"),
        ("split(i, [None, 2 + i])", "`2 + i` has no value", "+ i]"),
        ("split(i, [None, 2 // 0])", "`2 // 0` divides by zero", "// 0"),
        ("split(i, [None, ceildiv(4, 0)])", "`ceildiv(4, 0)` divides by zero", "ceildiv(4"),
        ("t ~ sample_categorical([4, 8])\nsplit(i, [None, t // 0])", "`t // 0` divides by zero", "// 0"),
        ("t ~ sample_categorical([4, 8])\nsplit(i, [None, t * 1.5])", "`t * 1.5` has no value", "* 1.5"),
        ("if len(d) == 1: unroll(i)", "`len` cannot take a block", "len(d)"),
        ("split(i, [None, min(i, 2)])", "`min` cannot take a loop, 2", "min(i"),
        ("if reduces(i): unroll(i)", "reduces: argument `block`: expected a block", "reduces(i)"),
        ("if rank(d) == 3:\n    x = i\nunroll(x)", "`x` is not defined here", "x)"),
        (
            "a = get_block('none')\nunroll(get_loops(a)[0])".replace("'", '"'),
            "there is no block `none`",
            'get_block("none")',
        ),
        (
            "n ~ sample_categorical([2, 4])\nz = [n]\nfor m in z: halve(i, by=m > 2)",
            "compares a random variable",
            "> 2",
        ),
        ("x ~ sample_categorical([2, 4]) := d\nsplit(i, [None, x])", "`d` is a block, and no decision", "sample_cat"),
    ],
)
def test_mistakes_while_running(body: str, message: str, caret: str) -> None:
    error, notes = wrong(body, SPLIT)
    assert message in str(error)
    _, line, mark = notes[0].splitlines()
    assert line[mark.index("^") :].startswith(caret)


def test_wrong_arguments_from_python() -> None:
    module = whole("unroll(i)")
    with pytest.raises(TypeError, match="module main: the first argument must be a Schedule, got 3"):
        module(3)
    sch = ms.Schedule(PROGRAM)
    with pytest.raises(TypeError, match="module main takes no handle after the schedule, and got 1 handles"):
        module(sch, sch.get_block("dense"))


def test_numbers_have_bits_and_random_variables_have_none() -> None:
    text = "module m[n=13](dense):\n    i = get_loops(dense)[0]\n    x, y = split(i, [None, (n & ~3) >> 1])\n"
    sch = ms.Schedule(PROGRAM)
    ms.parse_module(text)(sch, sch.get_block("dense"))
    assert sch.describe(sch.get_block("dense")).extents[1] == 6
    drawn = "module m(b):\n    i = get_loops(b)[0]\n    x, y ~ sample_tile(i, parts=2)\n    split(i, [x, y & 3])\n"
    with pytest.raises(ms.ScheduleError, match=re.escape("`y & 3` has no value")):
        ms.parse_module(drawn)(sch, sch.get_block("dense"))

"""What the statements of a module in text do, and where they say that something is wrong."""

from __future__ import annotations

import re

import pytest

import metasched as ms
from metasched.lang.instructions import Ref
from tests.support.programs import STENCIL
from tests.support.schedules import program
from tests.support.text_modules import PROGRAM, SPLIT, run, steps, whole, wrong

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


# --- what goes wrong while it runs ------------------------------------------------------------------------


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


def test_numbers_have_bits_and_random_variables_have_none() -> None:
    text = "module m[n=13](dense):\n    i = get_loops(dense)[0]\n    x, y = split(i, [None, (n & ~3) >> 1])\n"
    sch = ms.Schedule(PROGRAM)
    ms.parse_module(text)(sch, sch.get_block("dense"))
    assert sch.describe(sch.get_block("dense")).extents[1] == 6
    drawn = "module m(b):\n    i = get_loops(b)[0]\n    x, y ~ sample_tile(i, parts=2)\n    split(i, [x, y & 3])\n"
    with pytest.raises(ms.ScheduleError, match=re.escape("`y & 3` has no value")):
        ms.parse_module(drawn)(sch, sch.get_block("dense"))

"""Validation: every mistake of a trace, with the line and the reason."""

from __future__ import annotations

from typing import Any

import pytest

import metasched as ms
from tests.support.schedules import program

GOOD = """\
trace 1 of dense_relu[N=11, M=9, K=7]:
    dense = get_block("dense")
    i, j, k = get_loops(dense)
    t0, t1 ~ sample_tile(i) @ "i" := [_, 4]
    i0, i1 = split(i, [t0, t1])
    t2 ~ sample_categorical([4, 8]) @ "lanes" := 8
    how ~ choose("a", "b") @ "how" := "a"
    reorder(i0, j, k, i1)
    annotate(dense, "unroll_limit", t2 * 2)
"""


def problems(text: str, *, run: bool = True) -> list[tuple[int, str]]:
    found = ms.parse_trace(text).problems(program() if run else None)
    return [(p.line, p.reason) for p in found]


def test_nothing_is_wrong() -> None:
    assert problems(GOOD) == []
    ms.parse_trace(GOOD).validate(program())
    holes = ms.parse_trace(GOOD).with_decisions({"i": None, "lanes": None, "how": None})
    assert holes.problems(program()) == (), "an open decision is no mistake"


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("get_loops(dense)", "get_loop(dense)", 3, "get_loop: there is no primitive of this name"),
        ("reorder(i0", "reorder@7(i0", 8, "reorder: version 7 is not known; this metasched has version 1"),
        ("split(i, [t0, t1])", "split(i)", 5, "split: argument `factors` is missing"),
        ("split(i, [t0, t1])", "split(i, [t0, t1], 3)", 5, "split: unexpected argument 3"),
        ("split(i, [t0, t1])", "split(i, [t0, t1], j)", 5, "split: unexpected argument `j`"),
        (
            "split(i, [",
            "split(dense, [",
            5,
            "split: `dense`, given for `loop`, is not a loop",
        ),
        ("sample_tile(i)", 'sample_tile("i")', 4, "sample_tile: argument `loop`: expected a loop, got 'i'"),
        ("~ sample_tile", "= sample_tile", 4, "sample_tile: it is a random variable, and the line has `=`"),
        ("i0, i1 = split", "i0, i1 ~ split", 5, "split: it draws nothing, and the line has `~`"),
        ('dense = get_block("dense")', 'dense, b = get_block("dense")', 2, "get_block: it gives one result and the"),
        ("reorder(i0", "x = reorder(i0", 8, "reorder: it gives nothing and the trace names 1"),
        ('"lanes"', '"i"', 6, 'sample_categorical: the address "i" is that of line 4 too'),
        ("t2 * 2", "how * 2", 9, "annotate:"),
    ],
)
def test_what_the_text_alone_tells(old: str, new: str, line: int, reason: str) -> None:
    text = GOOD.replace(old, new)
    if "@ " in text and "= sample_tile" in text:
        text = text.replace(' @ "i" := [_, 4]', "")
    found = problems(text, run="how * 2" in new)
    assert [n for n, _ in found] == [line]
    assert found[0][1].startswith(reason)


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("[_, 4]", "[_, 12]", 4, 'sample_tile: the decision [_, 12] at "i" is not in the support'),
        (":= 8", ":= 6", 6, 'sample_categorical: the decision 6 at "lanes" is not in the support (one of 4, 8)'),
        (':= "a"', ':= "c"', 7, 'choose: the decision "c" at "how" is not in the support'),
        ('get_block("dense")', 'get_block("tense")', 2, "get_block: there is no block `tense`"),
        ("i, j, k = get", "i, j = get", 3, "get_loops: it gives 3 results here and the trace names 2"),
        ("unroll_limit", "unlimited", 9, 'annotate: there is no annotation "unlimited"'),
        ("N=11", "N=12", 1, "trace: the program is dense_relu[N=11, M=9, K=7]"),
    ],
)
def test_what_running_tells(old: str, new: str, line: int, reason: str) -> None:
    found = problems(GOOD.replace(old, new).replace("reorder(i0, j, k, i1)", "reorder(i0, j, i1)"))
    assert [n for n, _ in found] == [line]
    assert found[0][1].startswith(reason)


def test_what_is_no_program_is_told() -> None:
    trace = ms.Schedule(program()).trace
    given: Any = "matmul"
    for ask in (trace.problems, trace.validate):
        with pytest.raises(ms.MetaschedError, match=r"`program` is a str, not a Program\n  hint: make one by"):
            ask(given)


def test_mistakes_are_gathered(golden: object) -> None:
    text = GOOD.replace("[_, 4]", "[_, 12]").replace(":= 8", ":= 6").replace("reorder(", "reordr(")
    text = text.replace('"unroll_limit", t2 * 2', '"unroll_limit"')
    with pytest.raises(ms.InvalidTrace) as info:
        ms.parse_trace(text).validate(program())
    golden("schedule/invalid_trace", f"{info.value}\n")  # type: ignore[operator]
    assert [p.line for p in info.value.problems] == [4, 6, 8, 9]
    assert all(p.text == text.splitlines()[p.line - 1].strip() for p in info.value.problems)


def test_what_a_wrong_line_makes_is_not_blamed() -> None:
    text = GOOD.replace("split(i, [t0, t1])", "splitt(i, [t0, t1])") + "    parallel(i0)\n"
    assert [line for line, _ in problems(text)] == [5]


def test_every_mistake_is_listed() -> None:
    text = """\
trace 1 of dense_relu[N=11, M=9, K=7]:
    dense = get_block("dense")
    i, j, k = get_loops(dense)
    nothing = get_block("nothing")
    a, b, c = get_loops(nothing)
    i0, i1 = splitt(i, [None, 4])
    parallel(i0)
    vectorize(j, lanes=128)
    parallel(k)
    unroll(j)
"""
    found = problems(text)
    assert [line for line, _ in found] == [4, 6, 8, 9]
    assert [reason.partition(":")[0] for _, reason in found] == ["get_block", "splitt", "vectorize", "parallel"]
    hints = [p.hint for p in ms.parse_trace(text).problems(program())]
    assert "without line 4" in hints[2]


def test_json_errors_name_the_file() -> None:
    with pytest.raises(ms.LanguageError, match=r"^best\.json:1:2: this is no JSON"):
        ms.Trace.from_json("{", "best.json")
    with pytest.raises(ms.LanguageError, match=r"^best\.json: "):
        ms.Trace.from_json("{}", "best.json")

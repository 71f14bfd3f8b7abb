"""What differs between two traces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import metasched as ms
from metasched.lang.instructions import HOLE

TEXT = """\
trace 1 of dense_relu[N=11, M=9, K=7]:
    dense = get_block("dense")
    i, j, k = get_loops(dense)
    t0, t1 ~ sample_tile(i) @ "i" := [_, 4]
    i0, i1 = split(i, [t0, t1])
    j0, j1 = split(j, [None, 4])
    t2 ~ sample_categorical([4, 8]) @ "lanes" := 8
    reorder(i0, j0, i1, j1)
    parallel(i0)
    annotate(dense, "unroll_limit", t2 * 2)
"""


def diff(*changes: tuple[str, str]) -> ms.TraceDiff:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return ms.parse_trace(TEXT).diff(ms.parse_trace(text))


def shown(found: ms.TraceDiff) -> tuple[list[str], list[str], list[tuple[str, str]]]:
    return (
        [str(line) for line in found.removed],
        [str(line) for line in found.added],
        [(str(a), str(b)) for a, b in found.changed],
    )


@pytest.mark.parametrize(
    "changes",
    [
        (),
        (("i0", "outer"), ("t2", "lanes"), ("dense =", "d ="), ("(dense", "(d")),
        (("sample_tile(i)", "sample_tile(i, parts=2)"),),
    ],
)
def test_what_says_the_same_does_not_differ(changes: tuple[tuple[str, str], ...]) -> None:
    found = diff(*changes)
    assert not found
    assert str(found) == "the traces say the same"


def test_decisions_by_address() -> None:
    found = diff(("[_, 4]", "[_, 2]"), (" := 8", ""))
    assert [(d.address, d.before, d.after) for d in found.decisions] == [
        ("i", (HOLE, 4), (HOLE, 2)),
        ("lanes", 8, None),
    ]
    assert shown(found) == ([], [], [])
    assert str(found) == 'decision "i": [_, 4] -> [_, 2]\ndecision "lanes": 8 -> open'


def test_a_line_that_is_gone_or_new() -> None:
    gone = diff(("    parallel(i0)\n", ""))
    assert shown(gone) == (["parallel(i0)"], [], [])
    assert gone.removed[0].number == 9
    new = diff(("    parallel(i0)\n", "    parallel(i0)\n    unroll(j1)\n"))
    assert shown(new) == ([], ["unroll(j1)"], [])
    assert str(new) == "+  10  unroll(j1)"


def test_arguments_that_changed() -> None:
    found = diff(("[None, 4]", "[None, 8]"), ("t2 * 2", "t2 * 4"))
    assert shown(found) == (
        [],
        [],
        [
            ("j0, j1 = split(j, [None, 4])", "j0, j1 = split(j, [None, 8])"),
            ('annotate(dense, "unroll_limit", t2 * 2)', 'annotate(dense, "unroll_limit", t2 * 4)'),
        ],
    )


def test_a_handle_that_is_another_one() -> None:
    found = diff(("parallel(i0)", "parallel(j0)"))
    assert shown(found) in (
        ([], [], [("parallel(i0)", "parallel(j0)")]),
        (["parallel(i0)"], ["parallel(j0)"], []),
    )


def test_a_step_in_between_does_not_disturb_what_follows() -> None:
    found = diff(
        ("    reorder(i0, j0, i1, j1)\n", "    k0, k1 = split(k, [None, 2])\n    reorder(i0, j0, k0, i1, j1)\n")
    )
    assert shown(found) == (
        [],
        ["k0, k1 = split(k, [None, 2])"],
        [("reorder(i0, j0, i1, j1)", "reorder(i0, j0, k0, i1, j1)")],
    )


def test_other_programs() -> None:
    assert diff(("N=11", "N=12")).programs == ("dense_relu[N=11, M=9, K=7]", "dense_relu[N=12, M=9, K=7]")


def test_both_ways() -> None:
    other = ms.parse_trace(TEXT.replace("    parallel(i0)\n", "").replace(":= 8", ":= 4"))
    there, back = ms.parse_trace(TEXT).diff(other), other.diff(ms.parse_trace(TEXT))
    assert [str(x) for x in there.removed] == [str(x) for x in back.added]
    assert [(d.before, d.after) for d in there.decisions] == [(d.after, d.before) for d in back.decisions]


def test_all_of_it_to_read(golden: Callable[[str, str], None]) -> None:
    found = diff(
        ("N=11", "N=12"),
        ("i0", "outer"),
        ("[_, 4]", "[_, 2]"),
        ("[None, 4]", "[None, 8]"),
        ("    parallel(outer)\n", ""),
        ("reorder(outer", "k0, k1 = split(k, [None, 2])\n    reorder(outer"),
    )
    golden("schedule/trace_diff", f"{found}\n")


def test_what_is_no_trace_is_told() -> None:
    with pytest.raises(
        ms.MetaschedError, match=r"`other` is a str, not a Trace\n  hint: make one by parse_trace\(text"
    ):
        ms.parse_trace(TEXT).diff(TEXT)  # type: ignore[arg-type]

from __future__ import annotations

import json

import pytest

from metasched.schedule.trace import Trace
from metasched.schedule.trace_outline import Outline, outline_of, outline_of_trace

TEXT = """trace 1 of p[N=4]:
    b = get_block("B")
    how ~ choose("x := y", "none") @ "f(B)/how" := "x := y"
    i, j = get_loops(b)
    t0, t1 ~ sample_tile(i, parts=2) @ "f(B)/i" := [_, 8]
    place ~ sample_compute_location(b) @ "f(B)/B" := i_0
    n ~ sample_categorical([1, 2]) @ "n" := 2
    q ~ choose(True, 0.5) @ "q" := True
"""


def test_decisions_are_a_list_in_the_order_of_the_steps() -> None:
    found = outline_of(TEXT)
    assert json.loads(found.decisions) == ["x := y", [None, 8], {"ref": "i_0"}, 2, True]
    assert found == outline_of_trace(Trace.parse(TEXT))


@pytest.mark.parametrize(
    ("written", "otherwise"),
    [
        ("t0, t1 ~", "outer, inner ~"),
        ('@ "f(B)/how"', '@ "another address"'),
        ("sample_tile(i, parts=2)", "sample_tile(i)"),
        ('"none")', '"none"  )'),
        ("[_, 8]", "[ _,8 ]  # by hand"),
        ("p[N=4]", "q[M=4]"),
    ],
)
def test_what_things_are_called_and_how_they_are_written_is_left_out(written: str, otherwise: str) -> None:
    changed = TEXT.replace(written, otherwise)
    assert outline_of(changed) == outline_of(TEXT)


def test_other_steps_are_another_structure_and_other_decisions_are_not() -> None:
    assert outline_of(TEXT.replace("parts=2", "parts=3")).structure != outline_of(TEXT).structure
    other = outline_of(TEXT.replace("[_, 8]", "[_, 4]"))
    assert other.structure == outline_of(TEXT).structure
    assert other != outline_of(TEXT)


def test_a_decision_that_is_left_open_and_one_that_is_no_plain_number() -> None:
    held = TEXT.replace(" := [_, 8]", "").replace(":= True", ":= 0.5")
    assert json.loads(outline_of(held).decisions) == ["x := y", None, {"ref": "i_0"}, 2, 0.5]


@pytest.mark.parametrize("text", ["", "[0, 1]", "trace 1 of p:\n    get_block(", "(" * 100_000])
def test_a_text_that_is_no_trace_is_its_own_decisions(text: str) -> None:
    assert outline_of(text) == Outline("", text)

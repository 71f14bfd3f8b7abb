"""Traces that are read line by line are as by the grammar, and so are their mistakes."""

from __future__ import annotations

import pytest

from metasched.errors import LanguageError
from metasched.lang import parse_trace, print_trace
from metasched.lang.instructions import HOLE, Ref, TraceData
from metasched.lang.text.trace_lines import TraceLines
from metasched.lang.text.traces import _parse_trace

HEAD = "trace 1 of conv2d[H=14, T=f32]:\n"
TRACE = f"""{HEAD}    dense = get_block("dense")
    i, j = get_loops(dense)
    t0, t1 ~ sample_tile(i, parts=2) @ "tile(dense)/i" := [_, 8]
    i0, i1 = split@2(i, [t0 * 2, ceildiv(t1, 4)])
    fusion ~ choose("none := 1", "outer") := "none := 1"
    loc ~ sample_compute_location(dense) @ "a := b" := root
    width ~ sample_categorical([8, 16])
    compute_at(dense, loc)
"""


def by_grammar(text: str) -> TraceData:
    return _parse_trace(text, "<trace>", set())


class Counted:
    """Reads by the grammar, and counts how often."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> TraceData:
        self.texts.append(text)
        return _parse_trace(text, "<line>", {"dense", "i", "j", "t0", "t1", "loc"})


def test_what_is_read_is_what_the_grammar_reads() -> None:
    for _ in range(2):
        assert parse_trace(TRACE) == by_grammar(TRACE)
        assert print_trace(parse_trace(TRACE)) == TRACE
    other = TRACE.replace("[_, 8]", "[_, 4]").replace('/i" :=', '/k" :=')
    assert parse_trace(other) == by_grammar(other) != by_grammar(TRACE)


def test_only_a_decision_that_is_new_is_parsed() -> None:
    read = Counted()
    reader = TraceLines(read)
    reader.trace(TRACE, frozenset({"root"}))
    read.texts.clear()
    found = reader.trace(TRACE.replace("[_, 8]", "[_, 4]"), frozenset({"root"}))
    assert found is not None
    assert found.instructions[2].decision == (HOLE, 4)
    assert found.instructions[5].decision == Ref("root")
    assert [text.rpartition(" := ")[2] for text in read.texts] == ["[_, 4]\n"]


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}    dense = get_block(\n        'dense')\n".replace("'", '"'),
        f"{HEAD}    # a comment\n    dense = get_block()\n",
        f"{HEAD}    x ~ f() # := 4\n",
        f"{HEAD}    x ~ f() := 3 # a := 4\n",
        f"# above\n{HEAD}    x ~ f()\n",
        f"{HEAD}  x ~ f()\n",
        f"{HEAD}\n    x ~ f()\n\n",
        f"    {HEAD}        x ~ f()\n",
        HEAD,
        HEAD.replace("\n", "\r\n") + "    x ~ f()\r\n",
    ],
)
def test_other_forms(text: str) -> None:
    assert parse_trace(text) == by_grammar(text)


@pytest.mark.parametrize(
    "text",
    [
        f"{HEAD}    f(x)\n",
        f"{HEAD}    f(x)\n    x = g()\n",
        f"{HEAD}    f(_)\n",
        f"{HEAD}    x = f() := 3\n",
        f"{HEAD}    x ~ f() := 3 := 4\n",
        f"{HEAD}    x ~ f() := [_, \n",
        f'{HEAD}    x ~ f() @ "a := 3\n',
        f"{HEAD}    x ~ f(\n    y ~ f()\n",
        f"{HEAD}    x ~ f()\n        y ~ f()\n",
        f"    {HEAD}    x ~ f()\n",
        "trace 2 of p:\n    x ~ f()\n",
        "trace 1 of p\n    x ~ f()\n",
        "",
    ],
)
def test_mistakes_are_shown_in_the_whole_text(text: str) -> None:
    with pytest.raises(LanguageError) as expected:
        by_grammar(text)
    with pytest.raises(LanguageError) as found:
        parse_trace(text)
    assert str(found.value) == str(expected.value)

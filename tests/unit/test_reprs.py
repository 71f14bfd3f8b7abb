"""What values say of themselves: one short line in a terminal, a table in a notebook, and nothing of it is markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.ir.notebook import collapsible_html, table
from tests.support.kept_workers import kept_workers

PROGRAM = ms.parse_program(
    "program less[N=8](A: f32[N, N], alpha: f32) -> C: f32[N]:\n"
    "    B[i, k] = A[i, k] * alpha if A[i, k] < 2 else 0\n"
    "    C[i] = sum[k](B[i, k])\n"
)
A = np.ones((8, 8), np.float32)


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    url = f"sqlite:///{tmp_path_factory.mktemp('reprs')}/r.db"
    sch = ms.Schedule(PROGRAM)
    sch.parallel(sch.get_loops(sch.get_block("C"))[0])
    space = ms.space(PROGRAM)
    space[0]
    guessed = ms.compile(PROGRAM)
    f = ms.kernel("B[i, k] = A[i, k] if A[i, k] < 2 else 0; C[i] = sum[k](B[i, k])", db=url)
    f(A)
    with kept_workers():
        tuned = ms.tune(PROGRAM, trials=2, db=url)
        f.tune(A[:4].copy(), trials=1, progress=False)
    stored = ms.compile(PROGRAM, db=url)
    return {
        "program": PROGRAM,
        "trace": sch.trace,
        "schedule": sch,
        "space": space,
        "sketch": space[0],
        "guess": guessed,
        "guess report": guessed.report,
        "given": ms.compile(PROGRAM, trace=sch.trace),
        "tuned": tuned,
        "tuned report": tuned.report,
        "record": stored.report,
        "function": f,
    }


EXPECTED = {
    "program": r"<program less\[N=8\]\(A: f32\[8, 8\], alpha: f32\) -> C: f32\[8\], 2 stages>",
    "trace": r"<trace of less\[N=8\]: 3 instructions, 0 decisions>",
    "schedule": r"<schedule of less\[N=8\]: 3 instructions>",
    "space": r"<space of less\[N=8\]: 1 sketch, and more to come>",
    "sketch": r"<sketch of less\[N=8\]: \d+ decisions?, \d+ numbers? left open, \d+ constraints?>",
    "guess": r"<kernel less\(A: f32\[8, 8\], alpha: f32\) -> C: f32\[8\], .*, \d+ threads?, a guess>",
    "guess report": r"<report: a guess: .*>",
    "given": r"<kernel less\(.*, of a given trace>",
    "tuned": r"<kernel less\(.*, (tuned|a guess)>",
    "tuned report": r"<report: .*2 records.*>",
    "record": r"<record of trial \d: .*>",
    "function": r"<kernel 'B.*' of \(A\), compiled for 2 combinations of shapes \(1 tuned, 1 guessed\)>",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_repr_is_one_short_line(values: dict[str, Any], name: str) -> None:
    said = repr(values[name])
    assert re.fullmatch(EXPECTED[name], said), said
    assert len(said) < 200


class Checker(HTMLParser):
    """Every element is closed, and only those that we write are there."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


TABLES = {
    "div",
    "br",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "pre",
    "span",
    "code",
}
# Of a report: no script, nothing that loads.
OURS = TABLES | {"button", "h3", "p", "small", "style", "svg", "rect"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_notebook_gets_sound_html(values: dict[str, Any], name: str) -> None:
    checker = Checker()
    checker.feed(values[name]._repr_html_())
    assert not checker.open
    assert checker.seen <= OURS


@pytest.mark.parametrize("make", [lambda text: table(text, [(text, text)]), lambda text: collapsible_html(text, "")])
def test_texts_are_no_markup(make: Callable[[str], str]) -> None:
    html = make('<script>alert("&")</script>')
    assert "<script" not in html
    assert "&lt;script&gt;alert(&quot;&amp;&quot;)" in html


def test_what_is_there_only_once_looked_at_is_not_made_for_a_repr() -> None:
    space = ms.space(PROGRAM)
    assert repr(space) == "<space of less[N=8]: 0 sketches, and more to come>"
    space._repr_html_()
    assert not space._found


def test_holes_are_said() -> None:
    lines = ("trace 1 of p:", 'b = get_block("C")', "i = get_loops(b)", "t0, t1 ~ sample_tile(i, parts=2)")
    trace = ms.parse_trace("\n    ".join(lines) + "\n")
    assert repr(trace) == "<trace of p: 3 instructions, 0 decisions, 1 left open>"


def test_lines_of_a_cell_are_lines_in_a_notebook() -> None:
    assert '<td style="text-align:left">a &lt; b<br/>c</td>' in table("caption", [("said", "a < b\nc")])

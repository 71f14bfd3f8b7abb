from __future__ import annotations

import io
import re

import pytest

from metasched.ir.highlight import ansi_text, html_text, show

TEXT = """\
func f(A: f32[64]) -> B: f32[64]:
    parallel i in 4:  # why
        dense.rf: B[i] = A[i] < 1.5  @unroll_limit(8)
        x ~ choose("a 1") @ "b" := 2
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_colour_adds_nothing_else() -> None:
    assert plain(ansi_text(TEXT)) == TEXT
    assert (
        re.sub("<[^>]*>", "", html_text(TEXT)).replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"') == TEXT
    )


@pytest.mark.parametrize(
    ("piece", "code"),
    [
        ("func", "34"),
        ("parallel", "1;35"),
        ("dense.rf", "1"),
        ("64", "36"),
        ("1.5", "36"),
        ('"a 1"', "32"),
        ("@unroll_limit", "33"),
        ("# why", "2"),
    ],
)
def test_what_has_which_colour(piece: str, code: str) -> None:
    assert f"\x1b[{code}m{piece}\x1b[0m" in ansi_text(TEXT)


def test_numbers_in_names_are_no_numbers() -> None:
    assert ansi_text("i_0 t1 f32 a.b2") == "i_0 t1 f32 a.b2"


@pytest.mark.parametrize(
    ("out", "variable", "value", "coloured"),
    [
        (Terminal, "TERM", "xterm", True),
        (io.StringIO, "TERM", "xterm", False),
        (Terminal, "NO_COLOR", "1", False),
        (Terminal, "NO_COLOR", "", True),
        (Terminal, "TERM", "dumb", False),
    ],
)
def test_only_terminals_get_colour(
    out: type[io.StringIO], variable: str, value: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, value)
    stream = out()
    show(TEXT, stream)
    assert ("\x1b[" in stream.getvalue()) is coloured
    assert plain(stream.getvalue()) == TEXT + "\n"

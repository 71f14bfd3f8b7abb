"""What is no trace in Python is refused with its place; nothing of it is ever run."""

from __future__ import annotations

import re

import pytest

import metasched as ms
from metasched.errors import LanguageError
from tests.support.schedules import program, schedule

HEAD = 'import metasched as ms\n\n\ndef schedule(sch: ms.Schedule) -> None:\n    """dense[N=4, T=bf16]"""\n'


def test_the_head_says_the_program() -> None:
    trace = ms.Trace.from_python(HEAD + "    pass\n")
    assert (trace.data.program, trace.data.params, trace.instructions) == ("dense", (("N", 4), ("T", "bf16")), ())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("for i in range(3): pass", "6:5: a line of a trace is one call of the schedule"),
        ("if True: pass", "a line of a trace is one call"),
        ("b = 3", "a line of a trace is one call"),
        ("print(sch)", "6:5: only methods of `sch` are called in a trace"),
        ('__import__("os").system("x")', "only methods of `sch`"),
        ('sch.trace.foo("x")', "only methods of `sch`"),
        ('b = sch.get_blok("dense")', "6:9: there is no primitive `get_blok`"),
        ("sch.fuse(i)", "6:14: `i` is the result of no line above"),
        ("sch.fuse(open('x'))", "`open('x')` has no meaning in a trace"),
        ("sch.fuse(*[1])", "`*[1]` has no meaning"),
        ("sch.fuse(**{})", "`**` stands for no argument"),
        ('b.c = sch.get_block("dense")', "results are given plain names"),
        ('b = sch.get_block("dense", labels=["b", "c"])', "1 results have 2 labels"),
        ('b = sch.get_block("dense", labels="b")', "this is to be a list"),
        ('sch.choose("how")', "a choice has a name and a list of options"),
        ('sch.choose("how", [1], address=2)', "this is to be a text"),
        ('sch.choose("how", [1], decision=1 + 1)', "a decision is a plain value"),
        ("sch.fuse(" + "(" * 300 + ")" * 300 + ")", "this is no Python: too many nested parentheses"),
        ("sch.fuse(" + "-" * 20_000 + "1)", "1:1: this is n"),
        ("sch.fuse(" + "1+" * 20_000 + "1)", "1:1: this is nested too deeply"),
        ("x = = 1", "6:9: this is no Python: invalid syntax"),
        ("\0", "1:1: this is no Python"),
    ],
)
def test_lines_that_are_wrong(line: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        ms.Trace.from_python(HEAD + f"    {line}\n")
    place, colon, reason = re.fullmatch(r"(?:(\d+:\d+)(: ))?(.*)", message).groups("")  # type: ignore[union-attr]
    assert str(caught.value).startswith(f"<python>:{place}{colon}")
    assert reason in str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a trace is one function, and there are 0"),
        ("x = 1", "this stands outside of it"),
        (HEAD + "    pass\n" + HEAD + "    pass\n", "there are 2"),
        (HEAD.replace("sch: ms.Schedule", "sch, x"), "takes the schedule and nothing else"),
        (HEAD.replace("sch: ms.Schedule", "*sch"), "takes the schedule and nothing else"),
        ("@x\n" + HEAD[len("import metasched as ms\n\n\n") :], "has no decorator"),
        ("def schedule(sch):\n    pass", "its first line says the program"),
        (HEAD.replace("N=4", "N"), "`N` is no parameter"),
    ],
)
def test_modules_that_are_wrong(text: str, message: str) -> None:
    with pytest.raises(LanguageError, match=message):
        ms.Trace.from_python(text)


def test_labels_and_addresses_that_do_not_come_of_reading_are_written() -> None:
    """A handle is called otherwise than its loop, whose name makes the address when the code is run."""
    trace = ms.parse_trace(
        """\
trace 1 of dense_relu[N=11, M=9, K=7]:
    dense = get_block("dense")
    a, b, c = get_loops(dense)
    t0, t1 ~ sample_tile(a) @ "i" := [_, 4]
    t2, t3 ~ sample_tile(a) @ "i#2" := [_, 4]
"""
    )
    code = trace.as_python(program())
    assert ms.Trace.from_python(code) == trace
    sch = schedule()
    space: dict[str, object] = {}
    exec(code, space)
    space["schedule"](sch)  # type: ignore[operator]
    assert sch.trace == trace

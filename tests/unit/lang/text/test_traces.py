"""Traces: text to data and back."""

from __future__ import annotations

import math

import pytest

from metasched.dtypes import DType
from metasched.errors import LanguageError
from metasched.ir.nodes import Binary, BinOp, Const, Load, Var
from metasched.lang import parse_trace, print_instruction, print_trace, print_value
from metasched.lang.instructions import HOLE, Instruction, Ref, TraceData

TRACE = """trace 1 of conv2d[H=14, P=-1]:
    dense = get_block("dense")
    i, j, k = get_loops(dense)
    t0, t1 ~ sample_tile(i, parts=2) @ "tile(dense)/i" := [_, 8]
    i0, i1 = split@2(i, [t0 * 2, ceildiv(t1, 4)])
    fusion ~ choose("none", "outer") := "outer"
    width ~ sample_categorical([8, 16], [0.25, 0.75])
    loc ~ sample_compute_location(dense) @ "here" := i0
    compute_at(dense, loc)
    vectorize(i1, lanes=16)
    annotate(j, "unroll_limit", None, flags=[True, -2, []])
"""


def test_the_data() -> None:
    data = parse_trace(TRACE)
    assert (data.program, data.params, data.format) == ("conv2d", (("H", 14), ("P", -1)), 1)
    lines = data.instructions
    assert lines[0] == Instruction("get_block", ("dense",), outputs=("dense",))
    assert lines[1] == Instruction("get_loops", (Ref("dense"),), outputs=("i", "j", "k"))
    assert lines[2] == Instruction(
        "sample_tile", (Ref("i"),), (("parts", 2),), ("t0", "t1"), True, "tile(dense)/i", (HOLE, 8)
    )
    factors = (Binary(BinOp.MUL, Var("t0"), Const(2)), Binary(BinOp.CEILDIV, Var("t1"), Const(4)))
    assert lines[3] == Instruction("split", (Ref("i"), factors), outputs=("i0", "i1"), version=2)
    assert lines[4] == Instruction("choose", ("none", "outer"), (), ("fusion",), True, None, "outer")
    assert lines[5].decision is None
    assert lines[6].decision == Ref("i0")
    assert lines[7] == Instruction("compute_at", (Ref("dense"), Ref("loc")))
    assert lines[9].args == (Ref("j"), "unroll_limit", None)
    assert lines[9].kwargs == (("flags", (True, -2, ())),)


def test_canonical_text_is_kept() -> None:
    assert print_trace(parse_trace(TRACE)) == TRACE


def test_a_trace_without_lines() -> None:
    assert parse_trace("trace 1 of p:") == TraceData("p", (), ())
    assert print_trace(TraceData("p", (), ())) == "trace 1 of p:\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Ref("i"), "i"),
        ((HOLE, 8), "[_, 8]"),
        ("a\"b\\\n\u00e9", '"a\\"b\\\\\\n\\u00e9"'),
        (1e-7, "1e-07"),
        (0.1 + 0.2, "0.30000000000000004"),
        (-math.inf, "-inf"),
        (True, "True"),
        (None, "None"),
        (Binary(BinOp.MIN, Var("a"), Binary(BinOp.SUB, Var("b"), Binary(BinOp.SUB, Var("c"), Const(1)))),
         "min(a, b - (c - 1))"),
    ],
)  # fmt: skip
def test_values(value: object, text: str) -> None:
    assert print_value(value) == text  # type: ignore[arg-type]


def test_what_has_no_text() -> None:
    assert print_instruction(Instruction("f", (math.nan,))) == "f(nan)"  # for messages: no trace is read with it
    with pytest.raises(TypeError, match="cannot hold a Load"):
        print_instruction(Instruction("f", (Load("A", (), DType.F32),)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("f(q)", "`q` is not defined by a line above"),
        ("f([q * 2])", "`q` is not defined by a line above"),
        ("f(_)", "`_` stands only in decisions"),
        ("a = f(a)", "`a` is not defined by a line above"),
        ("f(b[1])", "`b[1]` has no meaning in a trace"),
        ("f(sqrt(b))", "`sqrt(b)` has no meaning in a trace"),
        ("f(b & 1)", "`b & 1` has no meaning in a trace"),
        ("f(~b)", "`~b` has no meaning in a trace"),
        ("f(x=1, 2)", "an argument without a name comes after one with a name"),
        ("f(x=1, x=2)", "`x` is given twice"),
        ('f("\\q")', "this is not a JSON string"),
        ("a = f() := 3", "a decision belongs to a random variable, and this line draws none"),
        ('a = f() @ "x"', "an address belongs to a random variable, and this line draws none"),
        ("a ~ f() := 3 * 4", "a decision is a plain value, and `3 * 4` is arithmetic"),
    ],
)
def test_wrong_lines(line: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_trace(f"trace 1 of p:\n    b = get()\n    {line}\n")
    assert [d.message for d in caught.value.diagnostics] == [message]
    assert caught.value.diagnostics[0].line == 3


def test_another_format() -> None:
    with pytest.raises(LanguageError, match="trace of format 2, and format 1"):
        parse_trace("trace 2 of p:\n")

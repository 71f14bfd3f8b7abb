"""Reading and printing programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metasched.errors import LanguageError
from metasched.ir.nodes import BinOp
from metasched.ir.source import At, FloatLit, IfElse, IntLit, Name, Operation, Read, Reduce, Stage
from metasched.ir.source_printer import print_program
from metasched.lang import load_program, parse_definitions, parse_program

DENSE = """program dense_relu[N=512, M=512, K=512](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu: D[i, j] = max(C[i, j], 0)
"""


def one_stage(line: str) -> Stage:
    (definition,) = parse_definitions(f"program p(A: f32[4]) -> B: f32[4]:\n    {line}\n")
    return definition.stages[0]


def test_canonical_text_is_kept() -> None:
    (definition,) = parse_definitions(DENSE)
    assert print_program(definition) == DENSE


def test_layout_and_comments_do_not_matter() -> None:
    loose = """
    # a comment
        program  dense_relu [ N=512,M=512 , K=512 ](A: f32[N,K],   # the left side

             B: f32[K, M]) -> D: f32[N, M]:   # and the result
    # a comment at the margin

          dense: C[i,j] = sum[k](
      A[i, k]
        * B[k, j])
              # an indented comment
          relu:  D[i, j] = (max((C[i, j]), 0))

    # the end"""
    assert parse_definitions(loose) == parse_definitions(DENSE)


@pytest.mark.parametrize("text", [DENSE.rstrip(), DENSE + "\n\n", DENSE.replace("\n", "\r\n"), DENSE + "   # end"])
def test_line_ends(text: str) -> None:
    assert parse_definitions(text) == parse_definitions(DENSE)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_definitions("\ufeff" + DENSE) == parse_definitions(DENSE)
    assert str(parse_program("\ufeff" + DENSE)) == str(parse_program(DENSE))


def test_positions_do_not_take_part_in_equality() -> None:
    (definition,), (moved,) = parse_definitions(DENSE), parse_definitions("\n\n" + DENSE)
    assert definition == moved
    assert hash(definition) == hash(moved)
    assert definition.stages[0].at == At(2, 5)
    assert moved.stages[0].at == At(4, 5)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("(a + b) + c", "a + b + c"),
        ("a + (b + c)", "a + (b + c)"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a * b) + c", "a * b + c"),
        ("a * (b + c)", "a * (b + c)"),
        ("a // b // c", "a // b // c"),
        ("a // (b * c)", "a // (b * c)"),
        ("-(a + b)", "-(a + b)"),
        ("-a * b", "-a * b"),
        ("-(a * b)", "-(a * b)"),
        ("- - a", "--a"),
        ("-1", "-1"),
        ("a - -1", "a - -1"),
        ("--1", "--1"),
        ("-(-1)", "--1"),
        ("not (a < b)", "not a < b"),
        ("(not a) < b", "(not a) < b"),
        ("not (a and b)", "not (a and b)"),
        ("a and (b or c)", "a and (b or c)"),
        ("(a and b) or c", "a and b or c"),
        ("(a < b) == (c < d)", "(a < b) == (c < d)"),
        ("a if b else (c if d else e)", "a if b else c if d else e"),
        ("(a if b else c) if d else e", "(a if b else c) if d else e"),
        ("a if (b if c else d) else e", "a if (b if c else d) else e"),
        ("(a if b else c) + d", "(a if b else c) + d"),
        ("max(a, (b))", "max(a, b)"),
        ("0.10", "0.1"),
        ("1e3", "1000.0"),
        (".5", "0.5"),
        ("2.", "2.0"),
        ("1e-7", "1e-07"),
        ("-inf", "-inf"),
        ("True and False", "True and False"),
    ],
)
def test_minimal_parentheses(written: str, canonical: str) -> None:
    stage = one_stage(f"B[i] = {written}")
    text = print_program(parse_definitions(f"program p(A: f32[4]) -> B: f32[4]:\n  B[i] = {written}")[0])
    assert text.splitlines()[1].strip() == f"B[i] = {canonical}"
    assert one_stage(f"B[i] = {canonical}") == stage


def test_tree_of_an_expression() -> None:
    stage = one_stage("l: B[i, j < 3] = sum[k < 2](A[i, k]) if i < 4 else 0.5")
    assert (stage.label, stage.block, stage.buffer) == ("l", "l", "B")
    assert [(axis.name, axis.extent) for axis in stage.axes] == [("i", None), ("j", IntLit(3))]
    assert isinstance(stage.value, IfElse)
    assert stage.value.cond == Operation(BinOp.LT, Name("i"), IntLit(4))
    assert stage.value.otherwise == FloatLit(0.5)
    assert isinstance(stage.value.then, Reduce)
    assert stage.value.then.operand == Read("A", (Name("i"), Name("k")))


def test_numbers_of_different_types_differ() -> None:
    zero: object = FloatLit(0.0)
    assert IntLit(0) != zero
    assert one_stage("B[i] = 1") != one_stage("B[i] = 1.0")


def test_a_label_that_repeats_the_buffer_is_none() -> None:
    assert one_stage("B: B[i] = A[i]") == one_stage("B[i] = A[i]")


def test_several_programs_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "two.ms"
    path.write_text(DENSE + "\n" + DENSE.replace("dense_relu", "other"))
    assert load_program(f"{path}::other", N=4).key == "other[N=4, M=512, K=512]"
    with pytest.raises(LanguageError, match=r"several programs here: `dense_relu` and `other`"):
        load_program(path)
    with pytest.raises(LanguageError, match=r"no program `othr`(.|\n)*did you mean `other`"):
        load_program(f"{path}::othr")
    with pytest.raises(FileNotFoundError):
        load_program(tmp_path / "none.ms")
    path.write_bytes(b"# caf\xe9\n")
    with pytest.raises(LanguageError, match=r"two\.ms:1:6: this is not text: the byte 0xe9 is not UTF-8"):
        load_program(path)


def test_parameters() -> None:
    assert parse_program(DENSE, K=7).params == (("N", 512), ("M", 512), ("K", 7))
    params = parse_program(DENSE, K=np.int64(7)).params  # type: ignore[arg-type]  # such as what an array of sizes holds
    assert params == (("N", 512), ("M", 512), ("K", 7))
    assert type(params[2][1]) is int
    with pytest.raises(LanguageError, match="no parameter `Q`: its parameters are `N`, `M` and `K`"):
        parse_program(DENSE, Q=1)
    with pytest.raises(LanguageError, match=r"whole number, not 2\.5"):
        parse_program(DENSE, N=2.5)  # type: ignore[arg-type]
    with pytest.raises(LanguageError, match="whole number, not True"):
        parse_program(DENSE, N=True)


def test_deep_nesting_is_an_error_and_not_a_crash() -> None:
    for expression in ["1" + " + 1" * 5000, "-" * 5000 + "1", "not " * 5000 + "True", "abs(" * 500 + "1" + ")" * 500]:
        with pytest.raises(LanguageError, match="nested more than"):
            one_stage(f"B[i] = {expression}")
    # Parentheses alone leave no trace in the tree.
    assert one_stage("B[i] = " + "(" * 5000 + "1" + ")" * 5000) == one_stage("B[i] = 1")


def test_very_long_numbers() -> None:
    with pytest.raises(LanguageError, match="does not fit in 64 bits"):
        one_stage("B[i] = " + "9" * 5000)

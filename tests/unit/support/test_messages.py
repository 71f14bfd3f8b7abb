"""Words of messages, and that nothing but these renders a hint."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from metasched.support.messages import a_or_an, counted, did_you_mean, listing, with_hint
from tests.unit.test_architecture import ROOT, parsed, sources

RENDERS = ROOT / "metasched/support/messages.py"


def test_a_hint_is_a_line_of_its_own() -> None:
    assert with_hint("there is no file", "write one") == "there is no file\n  hint: write one"
    assert with_hint("there is no file", "") == "there is no file"


def test_numbers_of_things() -> None:
    assert [counted(n, "loop") for n in (0, 1, 2)] == ["0 loops", "1 loop", "2 loops"]
    assert [counted(n, "input is", "inputs are") for n in (1, 2)] == ["1 input is", "2 inputs are"]


@pytest.mark.parametrize(
    ("names", "said"), [("", "none"), ("a", "`a`"), ("ab", "`a` and `b`"), ("abc", "`a`, `b` and `c`")]
)
def test_lists_of_names(names: str, said: str) -> None:
    assert listing(names) == said
    assert listing(name for name in names) == said


def test_lists_of_names_in_other_words() -> None:
    assert listing("abc", "or") == "`a`, `b` or `c`"
    assert listing("", none="nothing") == "nothing"


def test_long_lists_of_names_say_how_many_more_there_are() -> None:
    assert listing("abc", most=3) == "`a`, `b` and `c`"
    assert listing("abcd", most=2) == "`a`, `b` and 2 more"


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("matmol", ["softmax", "matmul"], "did you mean `matmul`?"),
        ("tile", ["tiles", "tile_k"], "did you mean `tiles` or `tile_k`?"),
        ("rows", ["rows1", "rows2", "rows3", "rows4"], "did you mean `rows4`, `rows3` or `rows2`?"),
        ("a.blocks", ["a.blocked", "a.odd", "a.packed"], "did you mean `a.blocked`?"),
        ("avx512F", ["avx512f", "avx512bf16"], "did you mean `avx512f`?"),
        ("x", ["alpha"], ""),
        ("x", [], ""),
    ],
)
def test_the_names_that_were_probably_meant(name: str, known: list[str], hint: str) -> None:
    assert did_you_mean(name, iter(known)) == hint


@pytest.mark.parametrize("noun", ["an int", "an ndarray", "an array", "a float", "a uint8", "a list", "an Unknown"])
def test_articles(noun: str) -> None:
    assert a_or_an(noun.partition(" ")[2]) == noun


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a file and their lines, those of f-strings with the others, but no docstrings."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.lineno, node.value


def rendered_hints(tree: ast.Module) -> list[int]:
    return [line for line, text in texts(tree) if "hint:" in text.lower()]


@pytest.mark.parametrize(
    ("code", "finds"),
    [
        ('raise E(f"{x} is no file\\n  hint: name one")', True),
        ('E("no file. " "Hint: name one")', True),
        ('E("no file", hint="name one")', False),
        ('def f(hint: str) -> None:\n    """hint: what to do"""', False),
    ],
)
def test_what_renders_a_hint(code: str, finds: bool) -> None:
    assert bool(rendered_hints(ast.parse(code))) is finds


def files() -> list[Path]:
    # What is exported runs without metasched.
    exported = ROOT / "metasched/runtime/export"
    found = sources("metasched", "rules", "benchmarks", "packages")
    return [path for path in found if path != RENDERS and exported not in path.parents]


def test_hints_are_rendered_in_one_place() -> None:
    # What has the word nowhere need not be parsed.
    named = [path for path in files() if "hint:" in path.read_text(encoding="utf-8").lower()]
    wrong = [f"{path}:{line}" for path in named for line in rendered_hints(parsed(path))]
    assert not wrong, "errors take `hint=`, and other messages are made by `with_hint`:\n" + "\n".join(wrong)
    assert rendered_hints(parsed(RENDERS))

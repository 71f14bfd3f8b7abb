"""The parser that is read parses as the one that is made of the grammar."""

import json
from functools import cache
from importlib.resources import files

import lark
import pytest
from lark import Lark

from metasched.lang.text import parse_tables
from metasched.lang.text.layout import Start, parse_with
from metasched.operators import TWELVE

FOLDER = files("metasched.grammar")
GRAMMAR = FOLDER.joinpath("metasched.lark").read_text(encoding="utf-8")


@cache
def both() -> tuple[Lark, Lark]:
    text = parse_tables.tables_text(GRAMMAR)
    found = parse_tables.read_tables(text, GRAMMAR)
    assert found is not None
    return found, parse_tables.build_parser(GRAMMAR)


def test_the_tables_are_those_of_the_grammar() -> None:
    """After a change of the grammar: make docs."""
    text = FOLDER.joinpath(parse_tables.FILE).read_text(encoding="utf-8")
    made_by, of = json.loads(text.partition("\n")[0])["of"]
    assert of == parse_tables.origin(GRAMMAR)[1]
    if made_by == lark.__version__:
        assert parse_tables.read_tables(text, GRAMMAR) is not None


TEXTS = [
    *[(Start.FILE, str(TWELVE[name].program())) for name in ("C2D", "SFM", "T2D")],
    (Start.INDEX_MAP, "i, j -> j//16, i, j%16"),
    (Start.FILE, "module m(b):\n    i, j = get_loops(b)\n    if x == 1:\n        reorder(j, i)\n"),
]


@pytest.mark.parametrize(("start", "text"), TEXTS)
def test_trees_are_equal(start: Start, text: str) -> None:
    read, built = both()
    assert parse_with(read, text, start) == parse_with(built, text, start)


def test_errors_are_equal() -> None:
    said = []
    for parser in both():
        with pytest.raises(lark.UnexpectedInput) as caught:
            parse_with(parser, "program p(A: f32[4]) -> : \n", Start.FILE)
        error = caught.value
        said.append((type(error), error.line, error.column, getattr(error, "accepts", None)))
    assert said[0] == said[1]


def test_tables_of_another_grammar_are_not_read() -> None:
    assert parse_tables.read_tables(parse_tables.tables_text(GRAMMAR), GRAMMAR + "\n") is None


def test_tables_by_another_release_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = parse_tables.tables_text(GRAMMAR)
    monkeypatch.setattr(lark, "__version__", "9.9.9")
    assert parse_tables.read_tables(text, GRAMMAR) is None

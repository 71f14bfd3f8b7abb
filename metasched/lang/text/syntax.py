"""Text to parse tree: the grammar, loaded once, and syntax errors."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files

from lark import Lark, Token, Tree, UnexpectedInput

from metasched.errors import Diagnostic, LanguageError
from metasched.ir.limits import MAX_LEVELS, SPLIT
from metasched.lang.text import mistakes, parse_tables
from metasched.lang.text.layout import LayoutError, Start, parse_with
from metasched.support.imports import imports


def parse(text: str, start: Start, filename: str) -> Tree[Token]:
    """The parse tree of a text.

    Raises:
        LanguageError: with the first syntax error.
    """
    try:
        tree = _tree(text, start)
    except UnexpectedInput as error:
        diagnostic = mistakes.explain(error, text, grammar())
        raise LanguageError((diagnostic,), text, filename) from None
    except LayoutError as error:
        raise LanguageError((error.diagnostic,), text, filename) from None
    too_deep = _first_below(tree, MAX_LEVELS)
    if too_deep is not None:
        message = f"this expression is nested more than {MAX_LEVELS} levels deep"
        raise LanguageError((Diagnostic(*too_deep, message, SPLIT),), text, filename)
    return tree


# Programs are read again for other sizes, and expert traces for each guess. Nothing writes to a tree.
@lru_cache(maxsize=64)
def _tree(text: str, start: Start) -> Tree[Token]:
    return parse_with(grammar(), text, start)


@cache
def grammar() -> Lark:
    """The parser, read or built at the first use."""
    package = imports.module("metasched.grammar")
    with imports.under_way():  # Python imports what reads resources when they are first read
        text = files(package).joinpath("metasched.lark").read_text(encoding="utf-8")
        tables = files(package).joinpath(parse_tables.FILE).read_text(encoding="utf-8")
    return parse_tables.read_tables(tables, text) or parse_tables.build_parser(text)


def _first_below(tree: Tree[Token], limit: int) -> tuple[int, int] | None:
    """Where the tree first exceeds the depth `limit`; later passes may recurse on trees within it."""
    stack: list[tuple[Tree[Token], int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > limit:
            return node.meta.line, node.meta.column
        stack.extend((child, depth + 1) for child in node.children if isinstance(child, Tree))
    return None

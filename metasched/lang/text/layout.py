"""From indentation to tokens: the step between the lexer and the parser.

Lark's own `Indenter` keeps its state on an object that is part of the (shared) parser; this one keeps it in a
generator, so that one loaded grammar serves several threads. It also knows which bracket was never closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from lark import Lark, Token, Tree

from metasched.errors import Diagnostic

NEWLINE, INDENT, DEDENT = "_NL", "_INDENT", "_DEDENT"
_BRACKET_PAIRS = {"(": ")", "[": "]"}
_CLOSING_BRACKETS = frozenset(_BRACKET_PAIRS.values())


class Start(Enum):
    """The kinds of text that can be parsed."""

    FILE = "file"
    TRACE = "trace"
    INDEX_MAP = "index_map"


class LayoutError(Exception):
    """Mismatched brackets or indentation; caught where the text is known."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


class Layout:
    """The post-lexer. A text may be indented as a whole: its first line sets the margin."""

    always_accept = (NEWLINE, "FOREIGN", "UNKNOWN")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """The tokens with line ends inside brackets dropped and indentation made explicit."""
        levels: list[int] = []
        brackets: list[Token] = []
        for token in stream:
            if token.type == NEWLINE:
                if levels and not brackets:
                    yield from _line_end(token, levels)
                continue
            if not levels:
                levels.append((token.column or 1) - 1)
            if token.value in _BRACKET_PAIRS and token.type != "STRING":
                brackets.append(token)
            elif token.value in _CLOSING_BRACKETS and token.type != "STRING":
                _close(token, brackets)
            yield token
        if brackets:
            raise LayoutError(unclosed_bracket(brackets[-1]))
        for _ in levels[1:]:
            yield Token(DEDENT, "")


def parse_with(grammar: Lark, text: str, start: Start) -> Tree[Token]:
    """The parse tree of a text; raises LayoutError, or what Lark raises."""
    # The end of the last line is a token as well; the comment after it tells the layout that the text is over.
    tree: Tree[Token] = grammar.parse(text.rstrip() + "\n#", start=start.value)
    return tree


def unclosed_bracket(token: Token) -> Diagnostic:
    return Diagnostic(
        token.line or 1, token.column or 1, f"`{token}` is never closed", f"add `{_BRACKET_PAIRS[token]}`"
    )


def _close(token: Token, brackets: list[Token]) -> None:
    line, column = token.line or 1, token.column or 1
    if not brackets:
        message = f"`{token}` closes nothing"
        raise LayoutError(Diagnostic(line, column, message, "remove it, or open the bracket before"))
    opening = brackets.pop()
    if _BRACKET_PAIRS[opening] != token:
        message = f"`{token}` does not close the `{opening}` of line {opening.line}, column {opening.column}"
        raise LayoutError(Diagnostic(line, column, message, f"write `{_BRACKET_PAIRS[opening]}`"))


def _line_end(token: Token, levels: list[int]) -> Iterator[Token]:
    yield token
    last = token.rsplit("\n", 1)[1]
    # A comment left in the last piece means that the text ends here.
    indent = levels[0] if "#" in last else len(last)
    line, column = token.end_line or 1, indent + 1
    if "\t" in last:
        raise LayoutError(Diagnostic(line, last.index("\t") + 1, "a tab in the indentation", "indent with spaces"))
    if indent > levels[-1]:
        levels.append(indent)
        yield Token(INDENT, "", line=line, column=column)
        return
    deepest = levels[-1]
    while indent < levels[-1] and len(levels) > 1:
        deepest = levels.pop()
        yield Token.new_borrow_pos(DEDENT, "", token)
    if indent != levels[-1] and "#" not in last:
        message = "this line is indented like none of the lines it could belong to"
        raise LayoutError(Diagnostic(line, column, message, f"indent it by {deepest} spaces"))

"""Readable syntax errors, with hints from the examples of mistakes beside the grammar."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from keyword import iskeyword
from typing import Any

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from metasched.errors import Diagnostic
from metasched.functions.registry import functions
from metasched.lang.numpy_names import spelling_hint
from metasched.lang.text.layout import DEDENT, INDENT, NEWLINE, LayoutError, Start, parse_with, unclosed_bracket
from metasched.support.data_classes import dataclass
from metasched.support.imports import imports
from metasched.support.messages import did_you_mean

_WORDS = {
    NEWLINE: "the end of the line",
    INDENT: "an indented line",
    DEDENT: "a line indented less",
    "$END": "the end of the text",
    "NAME": "a name",
    "INT": "a whole number",
    "STRING": "a text in quotes",
    "FLOAT": "a number",
}
_EXPRESSION = frozenset({"NAME", "INT", "FLOAT", "LPAR", "SIGN", "TILDE", "NOT", "TRUE", "FALSE", "INF"})
# Rare first tokens of an expression, left out of lists of what was expected.
_VALUE = frozenset({"STRING", "NONE", "LSQB", "STAR"})
_ARITHMETIC = frozenset({"PLUS", "SIGN", "TIMES", "SHIFT", "BIT_AND", "BIT_XOR", "BIT_OR"})
_OPERATOR = _ARITHMETIC | {"COMPARE", "AND", "OR", "IF", "LPAR", "LSQB"}
_NO_WORD = frozenset({NEWLINE, INDENT, DEDENT, "$END"})
# Tokens with many possible texts: the text does not characterise the mistake.
_OPEN_CLASS = frozenset({"NAME", "INT", "FLOAT", "STRING"})
_LEAST_LETTERS = 3
_SYMBOLS = (":=", "->", "==", "!=", "<=", ">=", "//", "<<", ">>")
# Brackets; comments and texts are matched whole, so that brackets inside them do not count.
_BRACKETS = re.compile(r"""[()\[\]]|#[^\n]*|"([^"\\\n]|\\.)*\"""")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEAD = re.compile(r"[ \t]*(program|module|trace)\b")
_LAST_DIGITS = re.compile(r"[0-9]+$")
# A number as Python has it, and programs do not; the digits before are another token.
_PYTHON_NUMBER = re.compile(
    r"0[xX](_?[0-9a-fA-F]){1,16}|0[oO](_?[0-7]){1,22}|0[bB](_?[01]){1,64}|[1-9][0-9]{0,18}(_[0-9]{1,18}){1,6}"
)
_LAST_WORD = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*$")

_STAGE = "program p(A: f32[4]) -> B: f32[4]:\n    {}"
_STEP = "module m(b):\n    {}"
_LINE = "trace 1 of p:\n    {}"


def explain(error: UnexpectedInput, text: str, grammar: Lark) -> Diagnostic:
    """The diagnostic for where the parser stopped: the error, the expected tokens, and the hint of the nearest
    mistake."""
    # Every character belongs to some terminal, so that the lexer itself never gives up.
    assert isinstance(error, UnexpectedToken)
    opening = _open_bracket(error)
    if opening is not None and (error.token.line or 1) > (opening.line or 1) and not _is_closed(opening, text):
        return unclosed_bracket(opening)
    found = _FoundToken.of(error.token, text)
    message = f"expected {_expected_text(error, grammar)}, found {found.words}"
    return Diagnostic(found.line, found.column, message, _hint(error, found, grammar))


@dataclass(frozen=True)
class _FoundToken:
    """The token that did not fit; two with one `key` are the same mistake, given the same parser state."""

    kind: str
    value: str
    before: str
    within: str
    line: int
    column: int
    after: str = ""  # the name that follows
    digits: str = ""  # those right before it

    @classmethod
    def of(cls, token: Token, text: str) -> _FoundToken:
        line, column = max(token.line or 1, 1), max(token.column or 1, 1)
        lines = text.split("\n")
        here = lines[line - 1] if line <= len(lines) else ""
        kind, value = token.type, str(token)
        word = _WORD.match(here, column - 1)
        if kind == "UNKNOWN" and word is not None:
            # The lexer returns only the first character of a token that is not allowed there.
            kind, value = "NAME", word.group()
        # It also truncates a symbol of which only the beginning is allowed there.
        symbol = next((s for s in _SYMBOLS if s.startswith(value) and here.startswith(s, column - 1)), None)
        value = symbol or value
        before = _LAST_WORD.search(here[: column - 1])
        keyword = before.group(1) if before is not None and iskeyword(before.group(1)) else ""
        heads = (_HEAD.match(text_line) for text_line in reversed(lines[:line]))
        within = next((head.group(1) for head in heads if head is not None), "")
        after = _WORD.match(here, column - 1 + len(value))
        follows = after.group() if after is not None else ""
        digits = _LAST_DIGITS.search(here[: column - 1])
        return cls(kind, value, keyword, within, line, column, follows, digits.group() if digits is not None else "")

    @property
    def words(self) -> str:
        return _WORDS[self.kind] if self.kind in _NO_WORD else f"`{self.value}`"

    @property
    def key(self) -> tuple[str, str]:
        if self.kind in _NO_WORD or (self.kind in _OPEN_CLASS and not iskeyword(self.value)):
            return self.kind, self.before
        return self.value, self.before


def _open_bracket(error: UnexpectedToken) -> Token | None:
    parser: Any = error.interactive_parser
    brackets: list[Token] = []
    for item in parser.parser_state.value_stack:
        if isinstance(item, Token) and item.type in ("LPAR", "LSQB"):
            brackets.append(item)
        elif isinstance(item, Token) and item.type in ("RPAR", "RSQB"):
            brackets.pop()
    return brackets[-1] if brackets else None


def _is_closed(opening: Token, text: str) -> bool:
    """Whether the rest of the text closes a bracket."""
    depth = 0
    for bracket in _BRACKETS.finditer(text, opening.start_pos or 0):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(bracket.group(), 0)
        if depth == 0 and bracket.group() in ")]":
            return True
    return False


# --- what was expected -----------------------------------------------------------------------------------


def _expected_text(error: UnexpectedToken, grammar: Lark) -> str:
    accepted = set(error.accepts)
    phrases: list[str] = []
    last: list[str] = []
    if {"INT", "LPAR"} <= accepted:
        accepted -= _EXPRESSION | _VALUE
        phrases.append("an expression")
    if "OR" in accepted:
        accepted -= _OPERATOR
        last.append("an operator")
    phrases += sorted((_phrase(name, grammar) for name in accepted), key=lambda p: (not p.startswith("`"), p))
    return _join_alternatives([*phrases, *last])


def _phrase(name: str, grammar: Lark) -> str:
    if name in _WORDS:
        return _WORDS[name]
    pattern = grammar.get_terminal(name).pattern
    return f"`{pattern.value}`" if isinstance(pattern, PatternStr) else name.lower()


def _join_alternatives(phrases: list[str]) -> str:
    if not phrases:
        return "something else"
    return " or ".join([", ".join(phrases[:-1]), phrases[-1]] if len(phrases) > 1 else phrases)


# --- hints -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mistake:
    """A hint, the symbols that it applies to anywhere, and example texts that it applies to."""

    hint: str
    symbols: tuple[str, ...]
    examples: tuple[str, ...]


@cache
def catalogue() -> tuple[Mistake, ...]:
    """The mistakes of `mistakes.txt`, in order."""
    text = files(imports.module("metasched.grammar")).joinpath("mistakes.txt").read_text(encoding="utf-8")
    mistakes: list[Mistake] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        key, _, value = line.partition(":")
        value = value.strip().replace("\\n", "\n")
        if key == "hint":
            mistakes.append(Mistake(value, (), ()))
            continue
        last = mistakes.pop()
        wrapped = {"stage": _STAGE, "step": _STEP, "line": _LINE}.get(key, "{}").replace("{}", value)
        symbols = (*last.symbols, value) if key == "symbol" else last.symbols
        examples = last.examples if key == "symbol" else (*last.examples, wrapped)
        mistakes.append(Mistake(last.hint, symbols, examples))
    return tuple(mistakes)


def _hint(error: UnexpectedToken, found: _FoundToken, grammar: Lark) -> str:
    if found.kind not in _NO_WORD and found.value == "\t":
        return "indent with spaces"
    if found.value == "." and found.after and found.within == "program":
        known = ", ".join([*functions(), "max", "min"])
        plain = f"names have no parts: an element is written `A[i, j]`, and the functions are {known}"
        return spelling_hint(found.after) or plain
    if found.kind == "NAME" and _PYTHON_NUMBER.fullmatch(found.digits + found.value):
        return f"numbers are decimal, without `_`: write `{int(found.digits + found.value, 0)}`"
    meant = did_you_mean(found.value, _expected_words(error, grammar)) if found.kind == "NAME" else ""
    if meant and len(found.value) >= _LEAST_LETTERS:
        return meant
    # Programs, modules and traces share expressions, but not what is meant by a mistake in one.
    alike = sorted(_examples_by_key(grammar).get(found.key, ()), key=lambda known: known.within != found.within)
    hint: str | None = _forget_depth(error).match_examples(
        lambda example: _reparse(grammar, example), [(a.hint, [a.text]) for a in alike], use_accepts=False
    )
    if hint is not None:
        return hint
    return next((mistake.hint for mistake in catalogue() if found.value in mistake.symbols), "")


def _expected_words(error: UnexpectedToken, grammar: Lark) -> list[str]:
    """The words of the language that could stand there, but for short ones, which many names are like."""
    patterns = (grammar.get_terminal(name).pattern for name in error.accepts if name not in _WORDS)
    words = (pattern.value for pattern in patterns if isinstance(pattern, PatternStr))
    return [word for word in words if len(word) >= _LEAST_LETTERS and _WORD.fullmatch(word)]


def _reparse(grammar: Lark, example: str) -> Tree[Token]:
    try:
        return parse_with(grammar, example, _start(example))
    except UnexpectedToken as error:
        raise _forget_depth(error) from None


def _forget_depth(error: UnexpectedToken) -> UnexpectedToken:
    """The error with its state as a bare number.

    Lark's states compare equal only at the same nesting depth, and a mistake is the same at any depth.
    """
    state: Any = error.state
    error.state = getattr(state, "position", state)
    return error


@dataclass(frozen=True)
class _Example:
    """A text with a mistake, its hint, and whether the mistake is in a program, a module or a trace."""

    hint: str
    text: str
    within: str


@cache
def _examples_by_key(grammar: Lark) -> dict[tuple[str, str], list[_Example]]:
    """The examples by the token that does not fit.

    Lark compares parser states; this also compares the token, or its kind.
    """
    out: dict[tuple[str, str], list[_Example]] = {}
    for mistake in catalogue():
        for example in mistake.examples:
            error = syntax_error(grammar, example)
            if error is not None:
                found = _FoundToken.of(error.token, example)
                out.setdefault(found.key, []).append(_Example(mistake.hint, example, found.within))
    return out


def syntax_error(grammar: Lark, example: str) -> UnexpectedToken | None:
    """The syntax error of an example; None if it parses."""
    try:
        parse_with(grammar, example, _start(example))
    except UnexpectedToken as error:
        return error
    except LayoutError:
        return None
    return None


def _start(text: str) -> Start:
    return Start.TRACE if text.startswith("trace") else Start.FILE

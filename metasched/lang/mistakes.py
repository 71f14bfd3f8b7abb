"""Syntax errors in human words, with hints from the examples of mistakes beside the grammar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lark import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from metasched.errors import Diagnostic


def explain(error: UnexpectedInput, parse: Callable[[str], Any]) -> Diagnostic:
    """What is wrong where `error` stopped."""
    assert isinstance(error, (UnexpectedToken, UnexpectedCharacters))
    found = str(error.token) if isinstance(error, UnexpectedToken) else "?"
    return Diagnostic(max(error.line, 1), max(error.column, 1), f"unexpected `{found}`")

"""Collecting every mistake of a text before raising."""

from __future__ import annotations

from metasched.errors import Diagnostic, LanguageError
from metasched.ir.source import At
from metasched.support.messages import a_or_an


class Diagnostics:
    """The mistakes found so far in one text."""

    def __init__(self, text: str, filename: str) -> None:
        self._text = text
        self._filename = filename
        self._found: dict[Diagnostic, None] = {}

    def error(self, at: At, message: str, hint: str = "") -> None:
        self._found[Diagnostic(max(at.line, 1), max(at.column, 1), message, hint)] = None

    @property
    def ok(self) -> bool:
        return not self._found

    def check(self) -> None:
        """Raise what was found, in reading order.

        Raises:
            LanguageError: when there is any mistake.
        """
        if self._found:
            ordered = sorted(self._found, key=lambda d: (d.line, d.column))
            raise LanguageError(tuple(ordered), self._text, self._filename)


def require_text(kind: str, text: object, hint: str = "") -> None:
    """Raises LanguageError for what is no text, such as the path of one."""
    if not isinstance(text, str):
        found = Diagnostic(1, 1, f"a {kind} is read from a text, not from {a_or_an(type(text).__name__)}", hint)
        raise LanguageError((found,), "", f"<{kind}>")

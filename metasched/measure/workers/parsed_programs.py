"""Programs of candidates from their texts; those of the last ones are parsed once."""

from __future__ import annotations

from functools import lru_cache

from metasched.ir.program import Program
from metasched.ir.source import Setting
from metasched.lang import parse_program


@lru_cache(maxsize=32)
def parsed_program(text: str, params: tuple[tuple[str, Setting], ...]) -> Program:
    """The program of a text for some parameters. Raises LanguageError for a text that is none."""
    return parse_program(text, **dict(params))

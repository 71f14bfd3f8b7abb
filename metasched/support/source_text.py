"""The text of a Python function, as far as it says what the function does: no comments, no layout, no docstrings."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def source_of(fn: Callable[..., Any] | type) -> str | None:
    """The text of a function or class in Python's own layout; None where there is none, as behind `python -c`."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return _text(fn) if not isinstance(code, CodeType) else _text_of_code(code.co_filename, code)


# Reading the text of all that a space of rules mentions takes .4 s, and most tasks of a process are of the same rules.
# Code is equal whatever file it is of, so the file is asked for, too.
@lru_cache(maxsize=4096)
def _text_of_code(_: str, code: CodeType) -> str | None:
    return _lambda_text(code) if code.co_name == "<lambda>" else _text(code)


def _text(of: Callable[..., Any] | CodeType) -> str | None:
    try:
        return normalised(textwrap.dedent(inspect.getsource(of)))
    except (OSError, TypeError, SyntaxError):
        return None


def normalised(text: str) -> str:
    """Python in one layout, without comments and docstrings. Raises SyntaxError."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _lambda_text(code: CodeType) -> str | None:
    """The lambda alone, of a line that may hold several."""
    linecache.checkcache(code.co_filename)
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return None
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    columns = [column for _, _, column, _ in code.co_positions() if column]
    around = [n for n in found if columns and n.col_offset <= min(columns) <= (n.end_col_offset or 0)]
    best = min(around or found, key=lambda n: (n.end_col_offset or 0) - n.col_offset, default=None)
    return None if best is None else ast.unparse(best)

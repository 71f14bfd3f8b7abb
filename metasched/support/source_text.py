"""The text of a Python function, as far as it says what the function does: no comments, no layout, no docstrings."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from metasched.support.data_classes import dataclass

_DOCUMENTED_NODES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
# Where statements, and what holds statements, are inside of others.
_SUITES = ("body", "orelse", "finalbody", "handlers", "cases")


def source_of(fn: Callable[..., Any] | type) -> str | None:
    """The text of a function or class in Python's own layout; None where there is none, as behind `python -c`."""
    if isinstance(fn, type):
        return _text_of_class(fn)
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return _text(fn) if not isinstance(code, CodeType) else _text_of_code(code.co_filename, code)


@lru_cache(maxsize=1024)
def _text_of_class(of: type) -> str | None:
    found = _module_class(of)
    return _text(of) if found is None else ast.unparse(found)


# Reading the text of all that a space of rules mentions takes .3 s, and most tasks of a process are of the same rules.
# Code is equal whatever file it is of, so the file is asked for, too.
@lru_cache(maxsize=4096)
def _text_of_code(_: str, code: CodeType) -> str | None:
    if code.co_name == "<lambda>":
        return _lambda_text(code)
    found = _module_function(code)
    return _text(code) if found is None else ast.unparse(found)


def _module_function(code: CodeType) -> ast.stmt | None:
    """The definition of a function, for one of a module itself. To parse a module once takes less than to find where
    each function ends in its text. `inspect` would look through all modules there are for each.
    """
    found = _definitions_in(code.co_filename).functions.get(code.co_firstlineno)
    return found if getattr(found, "name", None) == code.co_name else None


def _module_class(of: type) -> ast.stmt | None:
    """The definition of a class, for one of a module itself: `inspect` would parse the module anew for each."""
    try:
        file = inspect.getsourcefile(of)
    except (OSError, TypeError):  # of no file
        return None
    return None if file is None else _definitions_in(file).classes.get(of.__qualname__)


@dataclass(frozen=True)
class _Definitions:
    """What a module defines, without docstrings: functions by their first lines, classes by their names."""

    functions: Mapping[int, ast.stmt]
    classes: Mapping[str, ast.stmt]


def _definitions_in(file: str) -> _Definitions:
    linecache.checkcache(file)
    try:
        return _definitions("".join(linecache.getlines(file)))
    except SyntaxError:
        return _Definitions({}, {})


@lru_cache(maxsize=64)
def _definitions(text: str) -> _Definitions:
    """The definitions of a module with this text. Raises SyntaxError."""
    module = ast.parse(text)
    _drop_docstrings(module)
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    by_line = {min(n.lineno for n in (node, *node.decorator_list)): node for node in functions}
    return _Definitions(by_line, {node.name: node for node in reversed(classes)})


def _text(of: Callable[..., Any] | CodeType) -> str | None:
    try:
        return normalise_source(textwrap.dedent(inspect.getsource(of)))
    except (OSError, TypeError, SyntaxError):
        return None


def normalise_source(text: str) -> str:
    """Python in one layout, without comments and docstrings. Raises SyntaxError."""
    tree = ast.parse(text)
    _drop_docstrings(tree)
    return ast.unparse(tree)


def _drop_docstrings(top: ast.AST) -> None:
    """Definitions are statements, so that expressions need not be looked into."""
    stack = [top]
    while stack:
        node = stack.pop()
        if isinstance(node, _DOCUMENTED_NODES) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        stack.extend(inner for name in _SUITES for inner in getattr(node, name, ()))


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

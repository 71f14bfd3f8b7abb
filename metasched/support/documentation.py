"""Docstrings as documentation: of primitives, intrinsics and rules, whose declarations require one."""

from __future__ import annotations

import inspect
import sys

# Nothing is wrong with a function that Python has taken the docstring of.
LEFT_OUT = "(No documentation: Python runs with -OO, which leaves docstrings out.)"
_WITHOUT_DOCSTRINGS = 2


def documentation(thing: object) -> str | None:
    """The docstring of a function or module, its indentation removed; None where there is none.

    `LEFT_OUT` where Python has been told to leave docstrings out.
    """
    doc = thing.__doc__
    if doc:
        return inspect.cleandoc(doc)
    return LEFT_OUT if sys.flags.optimize >= _WITHOUT_DOCSTRINGS else None

"""The examples in the docstrings of public names run, and give what they say."""

from __future__ import annotations

import doctest
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.functions.registry import functions

ROOT = Path(__file__).parents[2]
# What people make; errors, reports and handles are what they get.
MADE = {"Target", "Kernel", "Trace", "Task", "GrowingSize", "SizeRange"}
FUNCTIONS = {name for name in ms.__all__ if inspect.isroutine(getattr(ms, name))}
# What a sentence says: the math functions.
SHORT = set(functions())


def docstring(name: str) -> str:
    return inspect.getdoc(getattr(ms, name)) or ""


@pytest.mark.parametrize("name", sorted((FUNCTIONS | MADE) - SHORT))
def test_what_people_call_has_an_example(name: str) -> None:
    assert re.search(r"\n\n    \S", docstring(name)), f"`{name}` has no indented example after its first sentence"


@pytest.mark.parametrize("name", [name for name in ms.__all__ if ">>> " in docstring(name)])
def test_examples_give_what_they_say(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # files of examples are named from there
    known = {"ms": ms, "np": np, "prog": ms.operator("bias_gelu", M=4, N=8)}
    example = doctest.DocTestParser().get_doctest(docstring(name), known, name, None, 0)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
        example, out=said.append
    )
    assert not said, "".join(said)

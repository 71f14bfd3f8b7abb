"""Pages that are made from the code are those of this code."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_primitives_is_current() -> None:
    made = generator()
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run `make docs`"


def test_the_page_of_operators_is_current() -> None:
    made = generator()
    assert made.OPERATORS.read_text(encoding="utf-8") == made.operators_page(), "run `make docs`"

"""The page about rules shows the files of examples/ and of the package in tests/, word by word."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.space.rule_files import rules_of_file

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "tests" / "e2e" / "packages" / "metasched_toy_rules"


def code_of(name: str) -> str:
    """A file without the comments that it begins with."""
    return re.sub(r"\A(#.*\n+)+", "", (ROOT / "examples" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["gemv.ms", "row_lanes.py", "row_sums.ms"])
def test_the_page_shows_the_examples(name: str) -> None:
    assert code_of(name).strip() in PAGE


def test_the_page_shows_the_package() -> None:
    text = (PACKAGE / "pyproject.toml").read_text(encoding="utf-8")
    points = text[text.index('[project.entry-points."metasched.rules"]') :].split("\n\n")[0]
    assert points in PAGE


def test_the_rule_is_short() -> None:
    source = (ROOT / "examples" / "row_lanes.py").read_text(encoding="utf-8")
    assert len(source[source.index("@ms.rule") :].strip().splitlines()) <= 20


def test_the_page_shows_an_error_as_it_is() -> None:
    shown = (ROOT / "tests/golden/snapshots/space/rule_errors.txt").read_text(encoding="utf-8")
    start = PAGE.index("metasched show: TypeError")
    assert PAGE[start : PAGE.index("\n```", start)] in shown


def test_the_two_forms_of_the_rule_make_one_program() -> None:
    prog = ms.load_program(ROOT / "examples" / "gemv.ms", N=40, K=37)
    spaces = []
    for name in ("row_lanes.py", "row_sums.ms"):
        (rule,) = rules_of_file(ROOT / "examples" / name).values()
        spaces.append(ms.space(prog, rules=[rule]))
    assert str(spaces[0][0]) == str(spaces[1][0])
    kernel = ms.compile(prog, trace=spaces[0][0].trace)
    a = np.random.default_rng(0).integers(-3, 4, (40, 37)).astype(np.float32)
    np.testing.assert_array_equal(kernel(a, a[0].copy()), a @ a[0])

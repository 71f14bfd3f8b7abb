"""What the fuzzer found, each a program and a trace: `python -m tests.property.fuzz --replay FILE` runs one alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.property.fuzz.fuzz_case import REFUSED, TARGETS, read_text, replayed_problem

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_was_wrong_once(path: Path) -> None:
    source, trace = read_text(path.read_text(encoding="utf-8"))
    # A first line that says so is for what ought not to be legal.
    wanted = REFUSED if "To be refused" in source.text.splitlines()[0] else None
    for target in dict.fromkeys(TARGETS):
        wrong = replayed_problem(source, trace, target)
        assert (wrong and wrong[0]) == wanted, wrong

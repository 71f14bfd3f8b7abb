"""The public face: arguments that do not go together, or name nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import metasched as ms
from metasched.errors import MetaschedError

PROGRAM = ms.parse_program("program twice[N=8](A: f32[N]) -> C: f32[N]:\n    C[i] = A[i] * 2\n")


def test_a_strategy_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MetaschedError, match='there is no strategy "best"; there are evolutionary, random'):
        ms.tune(PROGRAM, db=f"sqlite:///{tmp_path}/records.db", strategy="best")
    assert not list(tmp_path.iterdir())


def test_rules_and_a_module() -> None:
    with pytest.raises(MetaschedError, match="`rules` and `space` both say what to search"):
        ms.tune(PROGRAM, rules="cpu", space=lambda sch: None)

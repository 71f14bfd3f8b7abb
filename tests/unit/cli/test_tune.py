"""`metasched tune`: what ends a search, and what it begins with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import metasched as ms
from metasched.database.record import Role
from metasched.knowledge.library import cpu_of
from tests.support import command_line
from tests.support.fake_runner import LevelRunner

PROGRAM = """\
program dense[N=64, M=48, K=32](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
"""
# What was found for another size.
KNOWLEDGE = """\
metasched knowledge 1

kind y[s0, s1] sum= x0[s0, r0] * x1[r0, s1] of x0: f32, x1: f32, y: f32
cpu {}
structure
numbers
  unroll({{anchor}})/limit
found
  96x48x32 in 2.5 us: [16]
  128x48x32 in 2.5 us: [64]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program is; nothing is run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("metasched.measure.executors.local.LocalRunner", lambda _: LevelRunner())
    (tmp_path / "dense.ms").write_text(PROGRAM)
    (tmp_path / "mine.knowledge").write_text(KNOWLEDGE.format(cpu_of(ms.Target.detect())))
    return tmp_path


def tuned(db: str, *options: str) -> dict[str, Any]:
    """The last line of JSON."""
    status, out, err = command_line.run("tune", "dense.ms", "--db", db, "--strategy", "random", "--json", *options)
    assert status == 0, err
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    return result


def test_a_search_ends_after_trials_without_a_gain() -> None:
    result = tuned("sqlite:///:memory:", "--patience", "3")
    assert (result["trials"], result["since_gain"], result["out_of_patience"]) == (4, 3, True)


def test_a_search_begins_with_what_is_known_of_other_sizes() -> None:
    roles = {}
    for known in ("mine.knowledge", "none"):
        tuned(f"sqlite:///{known}.db", "--trials", "6", "--knowledge", known)
        roles[known] = set(ms.records(f"sqlite:///{known}.db")["role"])
    assert roles["mine.knowledge"] - roles["none"] == {Role.NEIGHBOUR.value}
    status, _, err = command_line.run("tune", "dense.ms", "--trials", "1", "--knowledge", "theirs.knowledge")
    assert (status, "theirs.knowledge" in err) == (2, True)

"""A package of somebody else's that ships rules: installed, it is found, documented, used and tried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.installing import install

PACKAGE = Path(__file__).parent / "packages" / "metasched_toy_rules"
PROGRAM = """\
program scale[N=64, M=48](A: f32[N, M]) -> B: f32[N, M]:
    B[i, j] = A[i, j] * 2
"""
Run = Callable[..., list[str]]
# Importing is paid for once, by all commands of a test.
SCRIPT = """
import json, sys
from metasched.cli.main import main
for command in json.loads(sys.argv[1]):
    assert main(command) == 0, command
    print("-- end of a command --")
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What commands print, which run in a folder, in an environment where the package is installed."""
    folder = tmp_path_factory.mktemp("packages")
    site = install(PACKAGE, folder)
    (folder / "scale.ms").write_text(PROGRAM)

    def metasched(*commands: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, json.dumps([command.split() for command in commands])],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split("-- end of a command --\n")[:-1]

    return metasched


def test_its_rules_are_listed_shown_and_used(run: Run) -> None:
    listed, shown, in_text, space = run(
        "rules list", "rules show toy_rows", "rules show toy_columns", "show scale.ms --space --rules toy"
    )
    lines = listed.splitlines()
    assert any(
        line.split("  ")[0] == "toy_rows" and "metasched-toy-rules 0.1.0" in line and "Run the rows" in line
        for line in lines
    )
    assert any(line.startswith("toy_columns") and "in vector lanes" in line for line in lines)
    assert any(line.startswith("toy ") and "preset: toy_rows, toy_columns" in line for line in lines)
    assert any(line.startswith("multi_level_tiling") for line in lines)
    assert "chunk=8  how many rows a thread takes at a time." in shown
    assert "def toy_rows(" in shown
    assert "module toy_columns[lanes=8](block):" in in_text
    assert "toy_rows     applied" in space


@pytest.mark.slow
def test_they_tune_and_a_rule_of_it_is_tried(run: Run) -> None:
    tuned, tried = run(
        "tune scale.ms --rules toy --trials 1 --strategy random --json",
        "rules try toy_rows scale.ms --trials 1 --pairs 2 --json",
    )
    result = json.loads(tuned.splitlines()[-1])
    assert result["best_ms"] > 0
    assert "parallel(" in result["trace"]
    assert "lanes=8" in result["trace"]
    events = [json.loads(line) for line in tried.splitlines()]
    assert [event["event"] for event in events] == ["space", *["progress"] * (len(events) - 2), "result"]
    assert events[0]["blocks"] == {"B": {"applied": events[0]["sketches_with"]}}
    assert events[-1]["rules"] == "toy_rows,cpu"
    assert events[-1]["without_ms"] > 0
    assert events[-1]["with_ms"] > 0

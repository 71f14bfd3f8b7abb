"""The section on traces of docs/schedule.md runs as it stands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_examples_of_traces_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "schedule.md").read_text(encoding="utf-8").partition("\n## Traces\n")[2]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "documented"}
    for block in blocks:
        exec(compile(block, "docs/schedule.md", "exec"), space)
    said = capsys.readouterr().out
    for promised in re.findall(r"print\(.*?# (.*?)(?:\.\.\.\))?$", text, re.MULTILINE):
        assert promised in said

"""The page about sessions: what it shows runs, with real workers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "sessions.md").read_text(encoding="utf-8")


def test_the_example_runs_and_goes_on(tmp_path: Path) -> None:
    """Started again it measures nothing."""
    code = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
    (tmp_path / "pasted.py").write_text(code + "print(kernel.origin)\n")
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "error", "pasted.py"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0].count("2 records (the guess, 1 ") == printed[0].count("), 2 of them new") == 2
    assert printed[1].count("), 0 of them new") == 2
    assert all(out.endswith("measured\n") for out in printed)

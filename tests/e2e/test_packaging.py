"""What is installed works from another folder: the mapped folders, the data files, and the command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = """
import metasched, metasched.rules, metasched.grammar
from metasched.lang import parse_program
for module in (metasched, metasched.rules, metasched.grammar):
    print(module.__file__)
print(parse_program("program f[N=4](A: f32[N]) -> B: f32[N]:\\n    B[i] = A[i] + 1\\n").key)
"""


@pytest.mark.slow
def test_a_wheel_installs_and_works_elsewhere(tmp_path: Path) -> None:
    # Built from a copy: setuptools leaves a build folder behind, and reads an old one.
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "*.db*", "tests")
    shutil.copytree(ROOT, copy, ignore=ignored)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(copy)]
    subprocess.run([*pip, *wheel], check=True, timeout=120, cwd=tmp_path)
    (built,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-compile", "--target", str(site), str(built)],
        check=True,
        timeout=120,
        cwd=tmp_path,
    )

    def python(*args: str) -> str:
        done = subprocess.run(
            [sys.executable, *args],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    *modules, key = python("-c", CODE).splitlines()
    assert [Path(module).parent for module in modules] == [
        site / "metasched",
        site / "metasched" / "rules",
        site / "metasched" / "grammar",
    ]
    assert key == "f[N=4]"
    assert "tune" in python("-m", "metasched", "--help")

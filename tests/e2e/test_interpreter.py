"""Ways to start Python: without docstrings and assertions, and in the folders of a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORK = """
import numpy as np
import metasched as ms
from metasched.cli.main import main
from metasched.cost.features import NAMES
from metasched.cost.model import CostModel
from metasched.cost.learning.task_times import TaskTimes

f = ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j])")
np.testing.assert_array_equal(f(np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)), np.full((3, 5), 4))
program = ms.parse_program("program p[N=8](A: f32[N]) -> B: f32[N]:\\n    B[i] = A[i] + 1\\n")
print(ms.space(program).explain(), ms.Schedule(program).split.__doc__, ms.guess(program))
kernel = ms.tune(program, trials=2, rules=["vectorize"], db="sqlite:///:memory:")
np.testing.assert_array_equal(kernel(np.zeros(8, np.float32)), np.ones(8))
model = CostModel()
features = np.random.default_rng(0).random((64, len(NAMES)), np.float32)
before = model.predict(features)
model.fit(TaskTimes(features, np.linspace(0.1, 1, 64)))
if len(set(model.predict(features) - before)) == 1:
    raise SystemExit("nothing was learned")
for command in (["rules", "list"], ["--help"]):
    print("---- what a command says")
    main(command)
"""
NEXT = "---- what a command says\n"
WHERE = """
import metasched as ms, metasched.grammar, metasched.rules.inline
print(ms.operator("matmul_nn", M=8, N=8, K=8).key)
for module in (ms, metasched.grammar, metasched.rules.inline): print(module.__file__)
"""


def python(folder: Path, *arguments: str, path: str = "") -> str:
    env = {**os.environ, "METASCHED_CACHE": str(folder), "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_assertions_and_docstrings(tmp_path: Path) -> None:
    space, rules, usage = python(tmp_path, "-OO", "-c", WORK).split(NEXT)
    assert "vectorize" in space
    assert "vectorize" in rules
    assert "Search" in usage


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is imported; what is compiled of it stays there."""
    path = tmp_path_factory.mktemp("checkout")
    for name in ("metasched", "rules", "grammar"):
        shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return path


@pytest.mark.parametrize("folder", [".", "metasched", "rules", "grammar"])
def test_a_checkout_that_comes_before_what_is_installed(folder: str, checkout: Path) -> None:
    key, *files = python(checkout / folder, "-c", WHERE, path=str(checkout)).splitlines()
    assert key == "matmul_nn[M=8, N=8, K=8, T=f32, U=f32, ACC=f32]"
    here = [checkout / name for name in ("metasched/__init__.py", "grammar/__init__.py", "rules/inline.py")]
    assert [Path(file) for file in files] == here

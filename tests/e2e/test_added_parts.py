"""A package of somebody else's that adds one of each: a rule, a preset, an operator, a strategy, a task scheduler, an
executor, a database and a file of knowledge. Installed with pip, each is there by name, and nothing of it is imported
before.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent / "packages" / "metasched_toy"
Run = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed, in `site`."""
    folder = tmp_path_factory.mktemp("added")
    shutil.copytree(PACKAGE, folder / "source")  # setuptools leaves its own files beside what it builds
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    subprocess.run(
        [sys.executable, *install, "--no-build-isolation", "--target", str(folder / "site"), str(folder / "source")],
        check=True,
        timeout=120,
    )
    return folder


@pytest.fixture
def run(folder: Path) -> Run:
    """Runs Python in that folder."""

    def python(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder / "site")},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return python


def test_a_preset_of_it_extends_ours_and_its_rule_asks_the_target(run: Run) -> None:
    lines = run("-m", "metasched", "rules", "list").splitlines()
    (preset,) = [line for line in lines if line.startswith("toy_cpu")]
    assert "metasched-toy 0.1.0" in preset
    assert "preset: toy_lanes, winograd, padding_terms, " in preset
    assert "stream" not in preset
    code = """
import metasched as ms
wide = ms.Target.parse("name=x threads=1 l1=1 l2=1 l3=1 cacheline=64 features=avx512f")
for target in (wide, wide.without(["avx512f"])):
    space = ms.space(ms.operator("toy_swish"), "+toy_lanes", target=target)
    print([dict(i.kwargs)["lanes"] for i in space[0].trace.instructions if i.op == "vectorize"])
"""
    assert run("-c", code).splitlines() == ["[16]", "[4]"]


def test_an_operator_of_it_is_there_with_its_trace(run: Run) -> None:
    assert "sigmoid" in run("-m", "metasched", "show", "op:toy_swish")
    shown = run("-m", "metasched", "show", "op:toy_swish", "--trace", "op:toy_swish.lanes", "--schedule")
    assert "parallel" in shown


def test_tuning_with_all_of_them(run: Run, folder: Path) -> None:
    """The preset's rules on the operator, searched by the strategy in the scheduler's order, measured by the executor,
    kept in the database.
    """
    code = """
import metasched as ms
if __name__ == "__main__":
    program = ms.operator("toy_swish")
    tasks = [ms.Task(program, "toy_cpu"), ms.Task(ms.operator("toy_swish", M=32), "toy_cpu")]
    parts = dict(db="toy:///.", runner="toy://notes.txt", strategy="toy_first", scheduler="toy_last")
    with ms.TuningSession(tasks, **parts) as session:
        print([report.best is not None for report in session.run(2)])
    kernel = ms.compile(program, db="toy:///.")
    print(kernel.origin.value)
"""
    lines = run("-c", code).splitlines()
    assert lines == ["[True, True]", "measured"]
    assert (folder / "toy.db").is_file()
    measured = (folder / "notes.txt").read_text().splitlines()
    assert list(dict.fromkeys(measured)) == ["toy_swish[M=32, N=48]", "toy_swish[M=64, N=48]"]
    more = ("--db", "toy:///.", "--strategy", "toy_first", "--trials", "1", "--rules", "+toy_lanes", "--json")
    result = json.loads(run("-m", "metasched", "tune", "op:toy_swish", *more).splitlines()[-1])
    assert result["best_ms"] > 0


def test_what_it_knows_is_where_guesses_begin(run: Run) -> None:
    code = """
import metasched as ms
from metasched.search.guesses.guess import guess
target = ms.Target.parse("name=x threads=2 l1=32768 l2=1048576 l3=33554432 cacheline=64 features=avx512f")
text = "program other(A: f32[99, 64]) -> B: f32[99, 64]:\\n    B[a, b] = A[a, b] * sigmoid(A[a, b])"
program = ms.parse_program(text)
print(guess(program, target, "cpu").neighbour.name, guess(program, target, "cpu", knowledge="none").neighbour)
"""
    assert run("-c", code) == "64x48 (16 lanes, 2 threads) None\n"


def test_nothing_of_it_is_imported_before_it_is_named(run: Run) -> None:
    code = """
import sys
import metasched as ms
from metasched import operators
from metasched.search.strategy_registry import STRATEGIES
operators.names(), STRATEGIES.names()
list(ms.space(ms.operator("softmax"), "+inline"))
print("metasched_toy" in sys.modules)
"""
    assert run("-c", code) == "False\n"


def test_a_name_that_is_misspelt_has_a_near_one(run: Run) -> None:
    code = """
import metasched as ms
program = ms.operator("toy_swish")
for asked in (dict(rules="toy_cpy"), dict(strategy="toy_frist"), dict(runner="toi://x"), dict(db="toi://x")):
    try:
        ms.tune(program, 1, **{"db": "sqlite:///:memory:", **asked})
    except ms.MetaschedError as error:
        print(error.hint)
try:
    ms.TuningSession([ms.Task(program, "cpu")], db="sqlite:///:memory:", scheduler="toy_lats")
except ms.MetaschedError as error:
    print(error.hint)
"""
    lines = run("-c", code).splitlines()
    for line, near in zip(lines, ("toy_cpu", "toy_first", "toy", "toy", "toy_last"), strict=True):
        assert f"did you mean `{near}`" in line

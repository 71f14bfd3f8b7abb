"""Operators of other packages: found by entry points, loaded when they are named."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import metasched as ms
from metasched import operators
from metasched.operators import files, library

SWISH = """\
# Swish, x * sigmoid(x).
program toy_swish[M=4, N=8](X: f32[M, N]) -> Y: f32[M, N]:
    Y[i, j] = X[i, j] * sigmoid(X[i, j])
"""
TRACE = """\
# Rows on threads.
trace 1 of toy_swish[M=4, N=8]:
    b = get_block("Y")
    i, j = get_loops(b)
    parallel(i)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with operators of its own, of which some are wrong."""
    code = "from pathlib import Path\n\nHERE = Path(__file__).parent\n"
    code += "swish = HERE / 'toy_swish.ms'\nother = HERE / 'other.ms'\nlost = HERE / 'lost.ms'\nnumber = 3\n"
    (tmp_path / "toy_operators.py").write_text(code)
    (tmp_path / "toy_swish.ms").write_text(SWISH)
    (tmp_path / "other.ms").write_text(SWISH)
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "toy_swish.rows.trace").write_text(TRACE)
    info = tmp_path / "toy_operators-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy_operators\nVersion: 1.0\n")
    points = {"toy_swish": "swish", "other": "other", "lost": "lost", "number": "number", "softmax": "swish"}
    lines = [f"{name} = toy_operators:{value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[metasched.operators]", *lines]) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    clear()
    yield tmp_path
    clear()
    sys.modules.pop("toy_operators", None)


def clear() -> None:
    files.added_names.cache_clear()
    library._definition.cache_clear()
    operators.expert.cache_clear()


def test_an_operator_of_a_package_is_there_by_name(package: Path) -> None:
    assert {"toy_swish", "matmul_nn"} <= set(operators.names())
    assert "toy_operators" not in sys.modules, "it is loaded when it is named"
    program = ms.operator("toy_swish", N=16)
    assert program.key == "toy_swish[M=4, N=16]"
    assert operators.source("toy_swish") == SWISH


def test_so_are_the_traces_beside_it(package: Path) -> None:
    expert = operators.expert("toy_swish.rows")
    assert (expert.about, expert.program().key) == ("Rows on threads.", "toy_swish[M=4, N=8]")
    assert "parallel" in str(expert.trace.apply_to(expert.program()))
    assert list(operators.expert_traces("toy_swish")) == ["rows"]
    with pytest.raises(ms.MetaschedError, match=r"no expert trace `toy_swish.row`\n  hint: did you mean .*rows`"):
        operators.expert("toy_swish.row")


def test_guesses_are_made_from_the_library_alone(package: Path) -> None:
    """What is guessed for a program is the same everywhere, whatever is installed."""
    assert "toy_swish.rows" not in operators.expert_names()
    assert "toy_swish" not in files.library_names()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("softmax", "two packages have an operator `softmax`: metasched and toy_operators 1.0\n  hint: uninstall one"),
        ("lost", "`lost` of toy_operators 1.0 (toy_operators:lost) is no operator: there is no program in "),
        ("number", "is no operator: it is 3, not the path of a program: Path(__file__).with_name('NAME.ms')"),
        ("other", "other.ms: the file of the operator `other` holds `toy_swish`, not that program alone"),
        ("toy_swich", "there is no operator `toy_swich`\n  hint: did you mean `toy_swish`?"),
    ],
)
def test_what_is_wrong_names_the_package(package: Path, name: str, message: str) -> None:
    with pytest.raises(ms.MetaschedError, match=re.escape(message)):
        ms.operator(name)

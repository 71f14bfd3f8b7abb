"""A math function is one file: it declares all that the language, both references, machine code and costs need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.cost.program.operations import count
from metasched.dtypes import DType
from metasched.functions import library
from metasched.functions import registry as of_functions
from metasched.functions.registry import functions
from metasched.ir import query
from metasched.lang import calls
from metasched.reference.compiled_loops import run_compiled
from metasched.reference.execution import reference_with_bound
from metasched.reference.interpreter import interpret
from metasched.reference.state import new_state, outputs

HYPOT1 = '''\
"""hypot1: the root of 1 + x^2."""

import math

import numpy as np

from metasched.functions.declaration import double, math_function, size
from metasched.functions.formula import Formula, Lanes


@math_function(
    f32=1.5,
    f64=1.5,
    cost=11.0,
    evaluate=lambda x: math.hypot(1.0, x),
    numpy=lambda x: np.sqrt(1.0 + x * x),
    numba="math.sqrt(1.0 + {0} * {0})",
    slopes=lambda x: (size(x) * double("rsqrt", x * x + 1.0),),
    numpy_names=("hypotenuse",),
)
def hypot1(f: Formula, x: Lanes) -> Lanes:
    return f.sqrt(x * x + 1.0)
'''
TEXT = """
program p[N=37](A: f32[N], H: f16[N]) -> (B: f32[N], C: f16[N]):
    b: B[i] = hypot1(A[i]) + hypot1(2.0)
    c: C[i] = hypot1(H[i])
"""


@pytest.fixture
def hypot1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "hypot1.py").write_text(HYPOT1)
    monkeypatch.setattr(library, "__path__", [*library.__path__, str(tmp_path)])
    functions.cache_clear()
    yield
    functions.cache_clear()
    vars(calls).pop("hypot1", None)


@pytest.fixture
def given() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal(37).astype(np.float32), rng.standard_normal(37).astype(np.float16)


@pytest.mark.usefixtures("hypot1")
def test_one_file_is_a_math_function_everywhere(given: tuple[np.ndarray, np.ndarray]) -> None:
    program = ms.parse_program(TEXT)
    assert "hypot1(A[i])" in str(program)
    assert ms.parse_program(str(program)).func == program.func

    found = []
    for run in (interpret, run_compiled):
        state = new_state(program.func, dict(zip(program.func.order, given, strict=True)), {})
        run(program.func, state)
        found.append(outputs(program.func, state))
    want = np.sqrt(1 + given[0].astype(np.float64) ** 2) + np.hypot(1.0, 2.0)
    for b, c in found:
        np.testing.assert_allclose(b, want, rtol=1e-6)
        np.testing.assert_array_equal(c, found[0][1])
    (_, bound), _ = reference_with_bound(program)(*given)
    assert np.isfinite(bound).all()

    schedule = ms.Schedule(program)
    schedule.vectorize(schedule.get_loops(schedule.get_block("b"))[0], lanes=8)
    b, c = ms.compile(program, trace=schedule.trace)(*given)
    np.testing.assert_allclose(b, want, rtol=1e-6)
    np.testing.assert_allclose(c, found[0][1], rtol=1e-3)

    (block, _) = query.blocks(program.func)
    assert count(block.store.value, None, {}).instructions == 11.0 + 1.0  # the constant is folded


@pytest.mark.usefixtures("hypot1")
def test_one_file_is_a_math_function_in_python_and_in_hints(given: tuple[np.ndarray, np.ndarray]) -> None:
    a = ms.placeholder("A", (37,))
    built = ms.program("q", [a], [ms.compute("B", (37,), lambda i: calls.hypot1(a[i]))])  # type: ignore[attr-defined]
    np.testing.assert_allclose(ms.reference(built)(given[0]), np.hypot(1.0, given[0]), rtol=1e-6)
    with pytest.raises(ms.LanguageError, match=r"write `hypot1\(x\)`"):
        ms.parse_program("program p(A: f32[4]) -> B: f32[4]:\n    B[i] = hypotenuse(A[i])\n")


@pytest.mark.usefixtures("hypot1")
def test_its_error_is_as_stated(given: tuple[np.ndarray, np.ndarray]) -> None:
    function = functions()["hypot1"]
    program = ms.parse_program("program p(A: f32[37]) -> B: f32[37]:\n    B[i] = hypot1(A[i])\n")
    want = np.sqrt(1 + given[0].astype(np.float64) ** 2)
    errors = np.abs(ms.compile(program)(given[0]) - want) / np.spacing(want.astype(np.float32))
    assert errors.max() <= function.ulp[DType.F32]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("def hypot1", "def hypot"), "hypot1 must declare exactly one math function, named `hypot1`"),
        (('"math.sqrt(1.0 + {0} * {0})"', '"math.sqrt(2.0)"'), "expression of its 1 argument"),
        (("f32=1.5", "f32=-1.5"), "its errors are at least 0 ulp"),
        (("cost=11.0", "cost=0.0"), "its cost is a number of instructions, not 0.0"),
        (("f: Formula, x: Lanes", "f: Formula"), "its formula takes the formula and the arguments"),
        (('"""hypot1: the root of 1 + x^2."""', ""), "its file begins with documentation"),
    ],
)
def test_a_file_that_says_too_little(
    wrong: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wrong[0] in HYPOT1
    (tmp_path / "hypot1.py").write_text(HYPOT1.replace(*wrong))
    monkeypatch.setattr(library, "__path__", [*library.__path__, str(tmp_path)])
    monkeypatch.delitem(__import__("sys").modules, "metasched.functions.library.hypot1", raising=False)
    with pytest.raises(TypeError, match=message.replace("(", r"\(")):
        of_functions.FILES.load()


def test_the_reference_does_not_read_formulas() -> None:
    """It shares nothing with the compiler: what it computes is stated apart from the formula."""
    folder = Path(ms.__file__).parent / "reference"
    assert not [path.name for path in folder.glob("*.py") if ".formula" in path.read_text(encoding="utf-8")]

"""An exported kernel runs with NumPy alone, and gives the bits of the kernel it came from."""

from __future__ import annotations

import os
import platform
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.errors import KernelError
from metasched.lang import parse_program
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64", reason="exports are for Linux on x86-64"
)

TEXT = """
program waves[N=65, M=70](A: f32[N, M], alpha: f32, B: f32[M, N]) -> (D: f32[N, N], S: f32[N]):
    E[i, j] = sin(A[i, j] * 1000000) + exp(A[i, j])
    C[i, k] = sum[j](E[i, j] * B[j, k])
    D[i, k] = alpha * C[i, k]
    S[i] = max[j](E[i, j])
"""
RUN = """
import sys
import numpy as np
import {name} as artefact
assert not {{"metasched", "numba", "llvmlite"}} & set(sys.modules)
given = np.load("inputs.npz")
D, S = artefact.waves(given["A"], 0.5, given["B"])
np.savez("outputs.npz", D=D, S=S)
"""


def schedule() -> Schedule:
    """A workspace, parallel loops, vector math that calls the C library, and several outputs."""
    sch = Schedule(parse_program(TEXT))
    for name in ("E", "C", "D"):
        block = sch.get_block(name)
        sch.parallel(sch.get_loops(block)[0])
    sch.vectorize(sch.get_loops(sch.get_block("E"))[1], lanes=16)
    return sch


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return Kernel(build(schedule().func, Target.detect(threads=2)))


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", f"import sys; sys.path.insert(0, '.'); {code}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_it_runs_alone_and_gives_the_same_bits(kernel: Kernel, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((65, 70)).astype(np.float32), rng.standard_normal((70, 65)).astype(np.float32)
    assert kernel.export(tmp_path / "waves_kernel.py") == tmp_path / "waves_kernel.py"
    np.savez(tmp_path / "inputs.npz", A=a, B=b)
    (tmp_path / "run.py").write_text(RUN.format(name="waves_kernel"))
    done = run("exec(open('run.py').read())", tmp_path)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "outputs.npz") as outputs:
        for name, expected in zip(("D", "S"), kernel(a, 0.5, b), strict=True):
            assert outputs[name].tobytes() == expected.tobytes()


# Parent and children call at once, with inputs of their own: the pool of two, and a child of each kind of fork.
FORKED = """
import multiprocessing, os, signal
import numpy as np
from k import waves

def given(n):
    rng = np.random.default_rng(n)
    return rng.standard_normal((65, 70)).astype("f4"), 0.5, rng.standard_normal((70, 65)).astype("f4")

def wrong(ns):
    return sum(waves(*given(n))[0].tobytes() != right[n] for n in ns)

signal.alarm(50)
numbers = range(8)
right = [waves(*given(n))[0].tobytes() for n in numbers]
child = os.fork()
if not child:
    os._exit(wrong([0, 1, 2, 3] * 75))
assert not wrong([4, 5, 6, 7] * 75)
assert os.waitpid(child, 0)[1] == 0
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert not any(pool.imap_unordered(wrong, [[n] * 25 for n in numbers]))
assert not wrong(numbers)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_has_memory_and_threads_of_its_own(threads: int, tmp_path: Path) -> None:
    Kernel(build(schedule().func, Target.detect(threads=threads))).export(tmp_path / "k.py")
    command = [sys.executable, "-c", FORKED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("k.waves(a, 0.5)", "TypeError: waves takes 3 arguments (A, alpha, B), not 2"),
        ("k.waves(a, 0.5, b, b, B=b)", "TypeError: waves takes 3 arguments (A, alpha, B), not 4"),
        (
            "k.waves(a, beta=0.5, B=b)",
            "TypeError: waves has no argument `beta`; waves takes 3 arguments (A, alpha, B)",
        ),
        ("k.waves(a, 0.5, b, A=a)", "TypeError: waves is given `A` twice: by its place, and by name"),
        (
            "k.waves(alpha=0.5)",
            "TypeError: waves is called without `A`, `B`; waves takes 3 arguments (A, alpha, B)",
        ),
        ("k.waves(a, '0.5', b)", "TypeError: `alpha` is of type str; the kernel takes a number (float32)"),
        ("k.waves(a, True, b)", "TypeError: `alpha` is of type bool; the kernel takes a number (float32)"),
        ("k.waves(a[:3], 0.5, b)", "`A` is float32(3, 70); waves takes a float32 array of shape (65, 70)"),
        ("k.waves(a.astype('f8'), 0.5, b)", "`A` is float64(65, 70)"),
        ("k.waves(np.asfortranarray(a), 0.5, b)", "`A` is not C-contiguous"),
        (
            "k.waves(np.zeros(a.nbytes + 1, 'u1')[1:].view('f4').reshape(a.shape), 0.5, b)",
            "ValueError: `A` is not aligned to its element size; copy it with `A.copy()`",
        ),
        ("k.waves(a, 0.5, b, out=(d, d))", "`S` is float32(65, 65)"),
        ("k.waves(a, 0.5, b, out=d)", "waves has 2 outputs, not 1"),
        ("k.waves(a, 0.5, b, out=(d, d[0]))", "`D` overlaps another argument"),
    ],
)
def test_wrong_arguments_are_named(kernel: Kernel, tmp_path: Path, call: str, message: str) -> None:
    kernel.export(tmp_path / "k.py")
    arrays = "a = np.zeros((65, 70), 'f4'); b = np.zeros((70, 65), 'f4'); d = np.zeros((65, 65), 'f4')"
    done = run(f"import numpy as np, k; {arrays}; {call}", tmp_path)
    assert message in done.stderr.splitlines()[-1]


def test_arguments_by_name(kernel: Kernel, tmp_path: Path) -> None:
    kernel.export(tmp_path / "k.py")
    code = """import numpy as np, k
a, b = np.ones((65, 70), 'f4'), np.ones((70, 65), 'f4')
expected = k.waves(a, 0.5, b)[0]
for given, named in (((), {'B': b, 'A': a, 'alpha': 0.5}), ((a,), {'B': b, 'alpha': np.array(0.5)})):
    assert (k.waves(*given, **named)[0] == expected).all()
"""
    (tmp_path / "run.py").write_text(code)
    done = run("exec(open('run.py').read())", tmp_path)
    assert done.returncode == 0, done.stderr


def scaled(dtype: str, folder: Path) -> Callable[..., np.ndarray[Any, Any]]:
    """An exported product of an array and a scalar."""
    select = "X[i] if n else X[i] * 0" if dtype == "bool" else "n * X[i]"
    array = "f32" if dtype == "bool" else dtype
    text = f"program scaled[N=8](X: {array}[N], n: {dtype}) -> Y: {array}[N]:\n    Y[i] = {select}\n"
    Kernel(build(parse_program(text).func, Target.detect(threads=1))).export(folder / "k.py")
    return cast(Callable[..., np.ndarray[Any, Any]], runpy.run_path(str(folder / "k.py"))["scaled"])


@pytest.mark.parametrize("dtype", [d.value for d in DType if d.is_integer and not d.is_storage])
def test_integer_scalars_are_in_range(dtype: str, tmp_path: Path) -> None:
    numpy = np.dtype(dtype[0] + str(int(dtype[1:]) // 8))
    limits, function = np.iinfo(numpy), scaled(dtype, tmp_path)
    x = np.ones(8, numpy)
    for n in (int(limits.min), int(limits.max), numpy.type(3), np.array(3, numpy)):
        np.testing.assert_array_equal(function(x, n), np.full(8, n, numpy))
    for n in (int(limits.min) - 1, int(limits.max) + 1):
        text = f"`n` is {n}, which is not in {numpy}'s range {limits.min} .. {limits.max}"
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            function(x, n=n)
    with pytest.raises(TypeError, match=rf"^`n` is of type float; the kernel takes an integer \({numpy}\)$"):
        function(x, 2.0)


@pytest.mark.parametrize(
    ("index", "value"), [("[1, 2]", 7), ("[1, 2]", -1), ("[0, 0]", 1 << 40)], ids=["behind", "before", "far"]
)
def test_indices_are_inside_what_they_index(index: str, value: int, tmp_path: Path) -> None:
    text = "program rows(T: f32[7, 2], I: i64[2, 3]) -> Y: f32[2, 3, 2]:\n    Y[i, j, k] = T[I[i, j], k]\n"
    kernel = Kernel(build(parse_program(text).func, Target.detect(threads=1)))
    rows = runpy.run_path(str(kernel.export(tmp_path / "rows_kernel.py")))["rows"]
    table, at = np.arange(14, dtype=np.float32).reshape(7, 2), np.array([[0, 6, 3], [5, 0, 2]])
    np.testing.assert_array_equal(rows(table, at), table[at])
    at[tuple(map(int, index[1:-1].split(",")))] = value
    message = f"`I{index}` is {value}, and another argument is indexed by it, of 7 elements"
    with pytest.raises(KernelError, match=re.escape(message)):
        kernel(table, at)
    with pytest.raises(ValueError, match=re.escape(message)):
        rows(table, at)


def test_bool_scalars_are_bools(tmp_path: Path) -> None:
    function, x = scaled("bool", tmp_path), np.ones(8, np.float32)
    for n in (True, False, np.True_):
        np.testing.assert_array_equal(function(x, n), np.full(8, n, np.float32))
    with pytest.raises(TypeError, match=r"^`n` is of type int; the kernel takes a bool$"):
        function(x, 2)


def test_a_cpu_without_the_instruction_sets_is_told(kernel: Kernel, tmp_path: Path) -> None:
    path = kernel.export(tmp_path / "k.py")
    text = path.read_text()
    start = text.index("FEATURES = (")
    path.write_text(text[:start] + "FEATURES = ('time_travel',) + (" + text[start + len("FEATURES = (") :])
    done = run("import k", tmp_path)
    assert "this CPU lacks time_travel, which this kernel was compiled for" in done.stderr


def test_bf16_without_its_package_says_which(tmp_path: Path) -> None:
    program = parse_program("program half[N=8](A: bf16[N]) -> B: bf16[N]:\n    B[i] = A[i] * 2\n")
    Kernel(build(program.func, Target.detect(threads=1))).export(tmp_path / "k.py")
    done = run("import sys; sys.modules['ml_dtypes'] = None; import k", tmp_path)
    assert "ImportError: arrays of bfloat16 are those of ml_dtypes: pip install ml_dtypes" in done.stderr


def test_folders_are_made(kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "some" / "folder" / "k.py"
    assert kernel.export(path) == path
    assert path.is_file()
    with pytest.raises(KernelError, match=r"k\.py/k\.py cannot be written: "):
        kernel.export(path / "k.py")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("1abc.py", r"`1abc\.py` cannot be imported: `1abc` is no name in Python\n  hint: name it by letters, digits"),
        ("my-kernel.py", r"`my-kernel\.py` cannot be imported"),
        ("class.py", r"`class\.py` cannot be imported"),
        ("numpy.py", r"`numpy\.py` would hide the module `numpy` from all that is imported beside it\n  hint: name it"),
        ("struct.py", r"`struct\.py` would hide the module `struct`"),
    ],
)
def test_a_name_that_cannot_be_imported_is_refused(kernel: Kernel, tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        kernel.export(tmp_path / "new" / name)
    assert not (tmp_path / "new").exists()


def test_a_path_of_another_kind_is_refused(kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"exported as a Python file, and `kernel\.so` is not named `\.py`"):
        kernel.export(tmp_path / "kernel.so")

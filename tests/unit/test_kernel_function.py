from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched import kernel_function
from metasched.runtime.kernel import Origin
from tests.support.kept_workers import kept_workers

MATMUL = "C[i, j] = sum[k](A[i, k] * B[k, j])"
# For what is of arguments, whatever the schedule: a guess in the smallest space is there soonest.
PLAIN: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    """One set for all searches of this file, which look at few candidates."""
    with kept_workers():
        yield


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's own database."""
    monkeypatch.setenv(kernel_function.CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def arrays(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]


def test_shapes_and_types_come_from_the_arrays() -> None:
    f = ms.kernel(MATMUL)
    assert f.arguments == ("A", "B")
    for dtype in (np.float32, np.float64, np.int32):
        a, b = arrays((5, 7), (7, 3), dtype=dtype)
        np.testing.assert_array_equal(f(a, b), a @ b)
        assert f(a, b).dtype == dtype
    assert "compiled for 3 combinations of shapes" in repr(f)
    a, b = arrays((2, 7), (7, 3))
    out = np.zeros((2, 3), np.float32)
    assert f(a, b, out=out) is out
    np.testing.assert_array_equal(out, a @ b)


def test_a_kernel_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    plain = ms.api.compile

    def counting(program: ms.Program, **kwargs: Any) -> ms.Kernel:
        if kwargs.get("db") is None:
            compiled.append(program.key)
        return plain(program, **kwargs)

    monkeypatch.setattr(ms.api, "compile", counting)
    f = ms.kernel(MATMUL)
    a, b = arrays((5, 7), (7, 3))
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: results.append(f(a, b))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled == ["kernel[I=5, J=3, K=7]"]
    assert len(results) == 6
    assert all((r == a @ b).all() for r in results)


def test_numbers() -> None:
    f = ms.kernel("T[i] = alpha * x[i]; y[i] = T[i] + beta")
    (x,) = arrays((9,))
    np.testing.assert_array_equal(f(2, x, 1.0), 2 * x + 1)
    np.testing.assert_array_equal(f(0.5, x, np.float32(3)), x / 2 + 3)
    assert f.program(0.5, x, 3).scalars[0].dtype.numpy == np.float32


def test_numbers_are_not_stored_so_none_is_a_half() -> None:
    (x,) = arrays((8,), dtype=np.float16)
    f = ms.kernel("Y[i] = f16(alpha * f32(X[i]))")
    for alpha in (2, 2.0, np.float16(2), np.float32(2)):
        np.testing.assert_array_equal(f(alpha, x), 2 * x)
    with pytest.raises(
        ms.LanguageError, match=r"`X\[i\]` is f16 where f32 is needed\n(.*\n)+  hint: .*`f32\(X\[i\]\)`"
    ):
        ms.kernel("Y[i] = alpha * X[i]")(2.0, x)


def test_two_results() -> None:
    f = ms.kernel("v[i], p[i] = argmax[k](X[i, k])")
    (x,) = arrays((5, 9))
    value, position = f(x)
    np.testing.assert_array_equal(value, x.max(axis=1))
    np.testing.assert_array_equal(position, x.argmax(axis=1))


def test_stages_on_lines() -> None:
    f = ms.kernel("""
        S[i] = sum[k](A[i, k])
        D[i, k] = A[i, k] - S[i]
    """)
    (a,) = arrays((4, 5))
    np.testing.assert_array_equal(f(a), a - a.sum(axis=1, keepdims=True))


def test_what_was_tuned_is_used_by_later_processes(cache: Path, tmp_path: Path) -> None:
    f = ms.kernel(MATMUL)
    a, b = arrays((8, 6), (6, 4))
    guessed = f.kernel_for(a, b)
    assert guessed.origin is Origin.GUESS
    assert not cache.exists(), "calling writes nothing"
    tuned = f.tune(a, b, trials=2)
    assert tuned.origin is Origin.MEASURED
    assert f.kernel_for(a, b) is tuned
    assert (cache / "kernels.db").exists()
    code = (
        "import numpy as np, metasched as ms\n"
        "a, b = np.ones((8, 6), np.float32), np.ones((6, 4), np.float32)\n"
        "f = ms.kernel('C[i,j] = sum[k](A[i,k]*B[k,j])')\n"
        "assert (f(a, b) == 6).all()\n"
        "print(f.kernel_for(a, b).origin, f.kernel_for(a, b).trace)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"measured {tuned.trace}\n"
    other = arrays((8, 6), (6, 5))
    assert f.kernel_for(*other).origin is Origin.GUESS
    elsewhere = cache.rename(tmp_path / "elsewhere") / "kernels.db"
    assert ms.kernel(MATMUL, db=f"sqlite:///{elsewhere}").kernel_for(a, b).origin is Origin.MEASURED
    assert ms.kernel(MATMUL, rules=PLAIN).kernel_for(a, b).origin is Origin.GUESS


def test_tuning_takes_a_budget_and_patience_and_says_where_other_options_are(cache: Path) -> None:
    f = ms.kernel(MATMUL)
    a, b = arrays((8, 6), (6, 4))
    assert f.tune(a, b, trials=3, budget=60, patience=2).report.records <= 3
    for options, message in (
        ({"budget": -1}, "budget is -1; it is how many seconds"),
        ({"strategy": "random"}, "has no option `strategy`\n  hint: `ms.tune(f.program(...), strategy=...)`"),
        ({"target": None}, "has no option `target`\n  hint: `ms.kernel(text, target=...)`"),
        ({"data": {}}, "has no option `data`\n  hint: `tune(..., inputs=...)`"),
        ({"inputs": 3}, "`inputs` is 3; it says by name what data an argument takes"),
        ({"inputs": {"Z": (0, 1)}}, "inputs: kernel has no argument `Z`; it has A, B"),
    ):
        with pytest.raises(ms.MetaschedError, match=re.escape(message)):
            f.tune(a, b, **options)


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({"METASCHED_CACHE": "/data/ms", "XDG_CACHE_HOME": "/x"}, "linux", "/data/ms/kernels.db"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/home/me"}, "linux", "/x/metasched/kernels.db"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/me"}, "linux", "/home/me/.cache/metasched/kernels.db"),
        ({"HOME": "/home/me"}, "linux", "/home/me/.cache/metasched/kernels.db"),
        ({"HOME": "/Users/me"}, "darwin", "/Users/me/Library/Caches/metasched/kernels.db"),
        ({"LOCALAPPDATA": "/c/Local"}, "win32", "/c/Local/metasched/kernels.db"),
    ],
)
def test_where_the_database_is(environment: dict[str, str], platform: str, expected: str) -> None:
    assert kernel_function.kernels_database(environment, platform) == f"sqlite:///{expected}"


def test_a_folder_that_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        kernel_function.kernels_database({"METASCHED_CACHE": "here"})
        == f"sqlite:///{os.fspath(tmp_path)}/here/kernels.db"
    )


A, B = arrays((4, 3), (3, 5))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((A,), "the kernel takes 2 arguments (`A` and `B`), not 1"),
        ((A, A), "`k` is 3 in A (dimension 1 of (4, 3)) and 4 in B (dimension 0 of (4, 3))"),
        ((A, B[0]), "`B` is read as `B[k, j]`, with 2 indices, and the array has 1"),
        ((A, B.tolist()), "`B` is a list, not a NumPy array\n  hint: pass `numpy.asarray(B)`"),
        ((A, 3.0), "`B` is a float, not a NumPy array"),
        ((A, B.astype(np.complex64)), "`B` has dtype <c8; kernels take float4_e2m1fn, float8_e4m3fn"),
        ((A, B.astype(">f4")), "`B` has dtype >f4; kernels take"),
        ((A, B.astype(">f4")), "\n  hint: put its bytes in this machine's order: `B.astype('float32')`"),
        ((A, B[:, :0]), "`B` has shape (3, 0); dimension 1 is empty"),
    ],
)
def test_arguments_that_do_not_go_together(inputs: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ms.KernelError, match=re.escape(message)):
        ms.kernel(MATMUL, rules=PLAIN)(*inputs)


def test_arguments_by_name() -> None:
    f = ms.kernel(MATMUL, rules=PLAIN)
    a, b = arrays((5, 7), (7, 3))
    for result in (f(a, B=b), f(B=b, A=a), f(A=a, B=b, out=np.zeros((5, 3), np.float32))):
        np.testing.assert_array_equal(result, a @ b)
    assert f.kernel_for(B=b, A=a) is f.kernel_for(a, b)
    assert str(f.program(a, B=b)) == str(f.program(a, b))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("A", "X"), r"the kernel has no argument `X`\n  hint: its arguments are `A` and `B`"),
        (("A", "B", "trails"), r"no argument `trails`\n  hint: did you mean `trials`\?"),
        (("B",), "the kernel is called without `A`\n  hint: its arguments are `A` and `B`"),
    ],
)
def test_names_that_are_wrong(names: tuple[str, ...], message: str) -> None:
    f = ms.kernel(MATMUL, rules=PLAIN)
    (a,) = arrays((4, 4))
    for method in (f, f.tune, f.program, f.kernel_for):
        with pytest.raises(ms.KernelError, match=message):
            method(**dict.fromkeys(names, a))
    with pytest.raises(ms.KernelError, match="the kernel is given `A` twice: by its place, and by name"):
        f(a, A=a)


def test_an_index_that_nobody_sums_over() -> None:
    hint = "not 2\n  hint: `k` is a number, as no stage has it as an index; to sum over it, write `sum[k](...)`"
    with pytest.raises(ms.KernelError, match=re.escape(hint)):
        ms.kernel("C[i, j] = A[i, k] * B[k, j]")(A, B)
    with pytest.raises(ms.KernelError, match=r"the kernel takes 1 argument \(`A`\), not 2$"):
        ms.kernel("C[i] = A[i]")(A, B)


def test_element_types_are_not_mixed() -> None:
    with pytest.raises(ms.LanguageError, match=re.escape("`B[k, j]` is f64 where f32 is needed")):
        ms.kernel(MATMUL, rules=PLAIN)(A, B.astype(np.float64))


@pytest.mark.parametrize("others", [[], [(5, 3)], [(5, 3), (6, 3)]])
def test_arguments_are_checked_at_every_call(others: list[tuple[int, int]]) -> None:
    f = ms.kernel(MATMUL, rules=PLAIN)
    f(A, B)
    for other in arrays(*others):
        np.testing.assert_array_equal(f(other, B), other @ B)
        np.testing.assert_array_equal(f(A, B), A @ B)
    with pytest.raises(ms.KernelError, match="`B` is a list"):
        f(A, B.tolist())
    square = np.ones((3, 3), np.float32)
    with pytest.raises(ms.KernelError, match="overlaps"):
        f(square, square, out=square)


@pytest.mark.parametrize(
    ("value", "message"),
    [("2", "`a` is a str; it takes a number"), (B, "`a` is an array of shape (3, 5); it is not indexed")],
)
def test_numbers_that_are_none(value: Any, message: str) -> None:
    with pytest.raises(ms.KernelError, match=re.escape(message)):
        ms.kernel("y[i, j] = a * x[i, j]")(value, B)

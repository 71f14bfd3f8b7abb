"""The entry that checks arrays itself takes what is plainly right, and leaves the rest to the checks in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from metasched.compiler.cpu.emit.runtime import Status
from metasched.errors import KernelError
from metasched.lang import parse_program
from metasched.runtime.compiled import CompiledKernel, build
from metasched.runtime.kernel import Kernel
from metasched.target import Target

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def compiled() -> CompiledKernel:
    program = parse_program("program add[N=3, M=5](A: f32[N, M], B: f32[N, M]) -> C: f32[N, M]:\n"
                            "    C[i, j] = A[i, j] + B[i, j]\n")  # fmt: skip
    return build(program.func, Target.detect())


def arrays() -> list[Array]:
    return [np.full((3, 5), value, np.float32) for value in (1.0, 2.0, np.nan)]


def test_plain_arrays_run_without_python_s_checks(compiled: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(compiled)
    monkeypatch.setattr(kernel, "_call_with_checks", None)
    a, b, c = arrays()
    np.testing.assert_array_equal(kernel(a, b), a + b)
    assert kernel(a, b, out=c) is c
    np.testing.assert_array_equal(c, a + b)


def test_several_outputs_run_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "program best[M=3, N=5](X: f32[M, N]) -> (V: f32[M], P: i64[M]):\n    V[i], P[i] = argmax[j](X[i, j])\n"
    kernel = Kernel(build(parse_program(text).func, Target.detect()))
    x = np.arange(15, dtype=np.float32).reshape(3, 5) % 4
    given = np.empty(3, np.float32), np.empty(3, np.int64)
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "_call_with_checks", None)
        found = kernel(x)
        assert all(a is b for a, b in zip(kernel(x, out=given), given, strict=True))
    for values, positions in (found, given):
        np.testing.assert_array_equal(values, x.max(axis=1))
        np.testing.assert_array_equal(positions, x.argmax(axis=1))
    with pytest.raises(KernelError, match=r"`out` is an ndarray; `best` has the outputs"):
        kernel(x, out=given[0])
    with pytest.raises(KernelError, match="overlaps the input `X`"):
        kernel(x, out=(x.reshape(-1)[:3], given[1]))


def strided(x: Array) -> Array:
    return np.repeat(x, 2, axis=1)[:, ::2]


def unaligned(x: Array) -> Array:
    raw = np.zeros(x.nbytes + 1, np.uint8)
    out = raw[1:].view(x.dtype).reshape(x.shape)
    out[:] = x
    return out


def read_only(x: Array) -> Array:
    x.flags.writeable = False
    return x


CHANGES: list[Callable[[Array], object]] = [
    lambda x: x.astype(np.float64),
    lambda x: x.astype(">f4"),
    lambda x: x[:2],
    lambda x: x.reshape(5, 3),
    lambda x: x.ravel(),
    strided,
    unaligned,
    lambda x: x.tolist(),
    lambda x: x.view(np.matrix),
    lambda x: None,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("position", range(3))
def test_anything_else_is_refused_and_nothing_is_written(
    compiled: CompiledKernel, position: int, change: Callable[[Array], object]
) -> None:
    given: list[Any] = arrays()
    out = given[2]
    given[position] = change(given[position])
    assert compiled.python_function(*given) == Status.NOT_PLAIN
    assert np.isnan(out).all()


def test_an_output_is_writeable_and_apart_from_the_inputs(compiled: CompiledKernel) -> None:
    a, b, c = arrays()
    assert compiled.python_function(a, a, c) == Status.OK
    assert compiled.python_function(a, b, a) == Status.NOT_PLAIN
    assert compiled.python_function(a, b, read_only(c)) == Status.NOT_PLAIN
    memory = np.zeros(46, np.float32)
    first, second, third = (memory[k : k + 15].reshape(3, 5) for k in (0, 15, 31))
    assert compiled.python_function(first, second, third) == Status.OK
    overlapping = memory[29:44].reshape(3, 5)
    assert compiled.python_function(first, second, overlapping) == Status.NOT_PLAIN

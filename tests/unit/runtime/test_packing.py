"""Weights packed ahead of time: the same bits, less to do in each call, and messages that say what to schedule."""

from __future__ import annotations

import pickle
import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.errors import KernelError
from metasched.runtime.compiled import build
from tests.support.targets import pretend_lacking

PACKED = ("dense_bias_relu.weights", "conv2d_nhwc.weights")
TEXT = """
program scores[N=5, M=37, K=9](X: f32[N, K], alpha: f32, const W: f32[K, M], const bias: f32[M]) -> Y: f32[N, M]:
    V: f32[K, M]
    S: f32[M]
    squared: V[k, j] = W[k, j] * W[k, j]
    sums: S[j] = sum[k](V[k, j])
    scaled: B[j] = bias[j] * alpha
    dense: D[i, j] = sum[k](X[i, k] * V[k, j])
    out: Y[i, j] = D[i, j] + S[j] + B[j]
"""


def arrays(program: ms.Program) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {b.name: tuple(e.value for e in b.shape) for b in program.func.inputs}
    found = [rng.standard_normal(shapes[n]).astype(np.float32) for n in program.func.order if n in shapes]
    assert all(a.ndim for a in found)
    return found


def expert(name: str, target: ms.Target | None = None) -> tuple[ms.Kernel, list[np.ndarray]]:
    found = operators.expert(name)
    program = found.program()
    return ms.compile(program, trace=found.trace, target=target), arrays(program)


def scores(*steps: str) -> ms.Kernel:
    program = ms.parse_program(TEXT)
    head = str(ms.Schedule(program).trace).strip()
    return ms.compile(program, trace=ms.parse_trace(head + "\n" + "".join(f"    {s}\n" for s in steps)))


@pytest.mark.parametrize("name", PACKED)
def test_gives_the_bits_of_the_kernel(name: str) -> None:
    kernel, (x, *weights) = expert(name)
    packed = kernel.pack(*weights)
    expected = kernel(x, *weights)
    assert packed(x).tobytes() == expected.tobytes()
    out = np.zeros_like(expected)
    assert packed(x, out=out) is out
    assert out.tobytes() == expected.tobytes()
    assert packed.workspace_bytes < kernel.workspace_bytes
    assert packed.packed_bytes >= weights[0].nbytes
    assert packed.pack_seconds > 0
    assert packed.trace == kernel.trace
    assert packed.name == kernel.name


def test_packing_is_what_the_layout_says() -> None:
    kernel, (_, b, bias) = expert("dense_bias_relu.weights")
    packed = kernel.pack(b, bias).kernel
    shapes = [p.shape for p in packed.compiled.parameters]
    assert shapes == [(64, 80), (96,), (3, 80, 32), (64, 96)]


def test_room_that_nothing_is_stored_to_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole vectors compute with it, and are slow where what happened to be in memory is denormal."""

    def dirty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        return np.full(shape, 1e-40, dtype)

    for module in ("packed", "callable_kernel"):
        monkeypatch.setattr(f"metasched.runtime.{module}.aligned_empty", dirty)
    kernel, (_, b, bias) = expert("dense_bias_relu.weights")
    panels = next(array for array in kernel.pack(b, bias).arrays if array.shape == (3, 80, 32))
    assert np.count_nonzero(panels == 0) >= 3 * 80 * 32 - b.size
    assert np.count_nonzero(panels) == b.size


def test_weights_of_a_kernel_for_a_cpu_with_more_are_packed_by_code_for_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[ms.Target] = []

    def recording_build(func: Any, target: ms.Target) -> Any:
        used.append(target)
        return build(func, target)

    monkeypatch.setattr("metasched.runtime.packed.build", recording_build)
    far = pretend_lacking(monkeypatch, "avx")
    kernel, (x, *weights) = expert("dense_bias_relu.weights", far)
    assert kernel.pack(*weights)(x).tobytes() == kernel(x, *weights).tobytes()
    assert used == [ms.Target.detect(far.threads), far], "the packing, and the kernel"


def test_weights_are_copied() -> None:
    kernel, (x, b, bias) = expert("dense_bias_relu.weights")
    packed = kernel.pack(b, bias)
    before = packed(x)
    b[:] = 0
    bias[:] = 1
    assert packed(x).tobytes() == before.tobytes()
    assert not np.array_equal(kernel.pack(b, bias)(x), before)


def test_weights_that_are_not_given_stay_arguments() -> None:
    kernel, (x, b, bias) = expert("dense_bias_relu.weights")
    packed = kernel.pack(B=b)
    assert packed(x, bias).tobytes() == kernel(x, b, bias).tobytes()
    assert packed(bias=bias, A=x).tobytes() == packed(x, bias).tobytes()
    with pytest.raises(KernelError, match="`dense_bias_relu` has no argument `B`"):
        packed(x, bias=bias, B=b)
    with pytest.raises(KernelError, match=r"takes 2 arguments \(A: f32\[64, 80\], bias: f32\[96\]\), not 1"):
        packed(x)
    with pytest.raises(KernelError, match=r"`A` has shape \(80, 64\)"):
        packed(x.T.copy(), bias)


def test_whatever_depends_on_weights_alone_is_computed_ahead() -> None:
    kernel = scores()
    x, w, bias = arrays(kernel.program)
    packed = kernel.pack(w, bias)
    assert [p.name for p in packed.kernel.compiled.parameters] == ["X", "alpha", "bias", "V", "S", "Y"]
    assert packed(x, 2.0).tobytes() == kernel(x, 2.0, w, bias).tobytes()


def test_rows_that_are_aligned_stay_so() -> None:
    kernel = scores('v = get_block("squared")', "storage_align(v, 0, 16, 3)")
    x, w, bias = arrays(kernel.program)
    packed = kernel.pack(w)
    assert {p.name: p.shape for p in packed.kernel.compiled.parameters}["V"] == (8 * 51 + 37,), "up to its last element"
    assert packed(x, 2.0, bias).tobytes() == kernel(x, 2.0, w, bias).tobytes()


def test_is_compiled_once_for_all_weights() -> None:
    kernel, (x, b, bias) = expert("dense_bias_relu.weights")
    first, second = kernel.pack(b, bias), kernel.pack(2 * b, bias)
    assert first.kernel is second.kernel
    assert second(x).tobytes() == kernel(x, 2 * b, bias).tobytes()


def test_threads_call_it_at_once() -> None:
    kernel, (x, *weights) = expert("conv2d_nhwc.weights")
    packed = kernel.pack(*weights)
    inputs = [x + n for n in range(16)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(packed, inputs))
    for given, actual in zip(inputs, found, strict=True):
        assert actual.tobytes() == kernel(given, *weights).tobytes()


@pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64", reason="exports are for Linux on x86-64"
)
def test_is_exported_with_its_weights(tmp_path: Path) -> None:
    kernel, (x, *weights) = expert("dense_bias_relu.weights")
    packed = kernel.pack(*weights)
    packed.export(tmp_path / "artefact.py")
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys; sys.path.insert(0, '.'); import numpy as np; import artefact; "
        "np.save('y.npy', artefact.dense_bias_relu(A=np.load('x.npy')))"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, check=True, timeout=60)
    assert np.load(tmp_path / "y.npy").tobytes() == packed(x).tobytes()


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        ((), {}, "no weights are given; `scores` has (W, bias)"),
        (("W", "bias", "X"), {}, "`scores` has the weights (W, bias), and 3 are given"),
        (("W",), {"W": "W"}, "`W` is given twice"),
        ((), {"X": "X"}, "`X` is no weight of `scores`, which has (W, bias): those declared `const`"),
    ],
)
def test_says_what_is_no_weight(positional: tuple[str, ...], named: dict[str, str], message: str) -> None:
    kernel = scores()
    given = dict(zip(("X", "W", "bias"), arrays(kernel.program), strict=True))
    with pytest.raises(KernelError, match=re.escape(message)):
        kernel.pack(*(given[n] for n in positional), **{n: given[v] for n, v in named.items()})


def test_where_nothing_is_computed_ahead_weights_are_held_and_a_warning_says_what_to_schedule() -> None:
    program = operators.load("conv2d_nhwc", N=1, H=4, W=4, CI=3, CO=4)
    x, w = arrays(program)
    kernel = ms.compile(program, trace=ms.Schedule(program).trace)
    packed = kernel.pack(w)
    assert "from `K` alone. Schedule a copy of it at the root: `packed = cache_" in packed.warnings[0]
    expected = kernel(x, w)
    w[:] = 0
    assert packed(x).tobytes() == expected.tobytes()
    assert pickle.loads(pickle.dumps(packed)).warnings == packed.warnings


def test_a_copy_that_is_computed_in_a_loop_is_not_ahead() -> None:
    program = operators.load("conv2d_nhwc", N=1, H=4, W=4, CI=3, CO=4)
    schedule = ms.Schedule(program)
    conv = schedule.get_block("conv")
    schedule.compute_at(schedule.cache_read(conv, "K"), schedule.get_loops(conv)[0])
    schedule.compute_at(schedule.get_block("pad"), schedule.get_loops(conv)[0])
    packed = ms.compile(program, trace=schedule.trace).pack(arrays(program)[1])
    assert "`conv.K.read` is computed inside a loop around other blocks" in packed.warnings[0]


def test_what_needs_a_scalar_is_not_ahead() -> None:
    kernel = scores()
    x, w, bias = arrays(kernel.program)
    packed = kernel.pack(bias=bias)
    assert "`scaled` needs the scalar `alpha`" in packed.warnings[0]
    assert packed(x, 2.0, w).tobytes() == kernel(x, 2.0, w, bias).tobytes()
    assert not any("alone" in warning for warning in kernel.pack(w).warnings)


def test_says_what_is_wrong_with_a_weight() -> None:
    kernel, (_, b, bias) = expert("dense_bias_relu.weights")
    with pytest.raises(KernelError, match=r"`B` has shape \(96, 80\)"):
        kernel.pack(b.T.copy(), bias)
    with pytest.raises(KernelError, match="`bias` has dtype float64"):
        kernel.pack(b, bias.astype(np.float64))


def test_a_program_without_weights_says_how_to_declare_them() -> None:
    program = operators.load("matmul_nn", M=4, N=4, K=4)
    kernel = ms.compile(program, trace=ms.Schedule(program).trace)
    with pytest.raises(KernelError, match=r"has no weights\n  hint: say in the program which of `A` and `B` are"):
        kernel.pack(np.zeros((4, 4), np.float32))

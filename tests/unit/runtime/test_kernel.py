"""The user's kernel: calls, checks with their messages, results, and forms for compiled code."""

from __future__ import annotations

import gc
import pickle
import weakref

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from metasched.compiler.lir import Array, ArrayKind, LoopProgram
from metasched.dtypes import DType
from metasched.errors import KernelError
from metasched.ir.nodes import Cast, Scalar, Select
from metasched.lang import parse_program
from metasched.runtime.addresses import aligned_empty
from metasched.runtime.compiled import CompiledKernel, KernelArgument, build, compile_func, compile_loops
from metasched.runtime.kernel import Kernel, Origin
from tests.support.lir_runner import F32, HOST, block, c, ld, loop, v, vector, write

N, M = 3, 20


def axpy() -> Kernel:
    """`Y = alpha * X + count`, with a bool that negates, and the row sums `S`."""
    at = v("i") * M + v("j")
    value = v("alpha", F32) * ld("X", at) + Cast(v("count", DType.I32), F32)
    body = loop(
        "i",
        N,
        block(
            vector("j", M, 16, write("Y", at, Select(v("negate", DType.BOOL), -value, value))),
            write("S", v("i"), c(0.0, F32)),
            loop("k", M, write("S", v("i"), ld("S", v("i")) + ld("Y", v("i") * M + v("k")))),
        ),
    )
    arrays = (
        Array("X", F32, N * M, ArrayKind.INPUT),
        Array("Y", F32, N * M, ArrayKind.OUTPUT),
        Array("S", F32, N, ArrayKind.OUTPUT),
    )
    scalars = (Scalar("alpha", F32), Scalar("count", DType.I32), Scalar("negate", DType.BOOL))
    program = LoopProgram("axpy", ("alpha", "X", "count", "negate", "Y", "S"), scalars, arrays, body)
    parameters = (
        KernelArgument("alpha", F32, None, is_output=False),
        KernelArgument("X", F32, (N, M), is_output=False),
        KernelArgument("count", DType.I32, None, is_output=False),
        KernelArgument("negate", DType.BOOL, None, is_output=False),
        KernelArgument("Y", F32, (N, M), is_output=True),
        KernelArgument("S", F32, (N,), is_output=True),
    )
    return Kernel(CompiledKernel(compile_loops(program, parameters, HOST)), trace="a < b")


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return axpy()


@pytest.fixture(scope="module")
def dense() -> Kernel:
    text = """program dense[N=5, M=7, K=3](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
        C[i, j] = sum[k](A[i, k] * B[k, j])"""
    return Kernel(build(parse_program(text).func, HOST), origin=Origin.MEASURED)


@pytest.fixture
def x() -> np.ndarray:
    return np.arange(N * M, dtype=np.float32).reshape(N, M)


def test_call(kernel: Kernel, x: np.ndarray) -> None:
    y, s = kernel(2.0, x, 3, True)
    np.testing.assert_array_equal(y, -(2 * x + 3))
    np.testing.assert_allclose(s, y.sum(1))
    assert (y.shape, y.dtype, s.shape) == ((N, M), np.float32, (N,))


def test_arguments_by_name(kernel: Kernel, x: np.ndarray) -> None:
    y, _ = kernel(2.0, x, negate=True, count=3)
    np.testing.assert_array_equal(y, -(2 * x + 3))
    with pytest.raises(KernelError, match=r"`axpy` has no argument `negated`\n  hint: did you mean `negate`\?"):
        kernel(2.0, x, 3, negated=True)
    with pytest.raises(KernelError, match="`axpy` is called without `count`\n  hint: its arguments are `alpha`, `X`, "):
        kernel(2.0, x, negate=True)
    with pytest.raises(KernelError, match="`axpy` is given `X` twice"):
        kernel(2.0, x, 3, True, X=x)


def test_numpy_scalars_are_taken(kernel: Kernel, x: np.ndarray) -> None:
    y, _ = kernel(np.float64(2), x, np.int8(3), np.bool_(False))
    np.testing.assert_array_equal(y, 2 * x + 3)
    y, _ = kernel(2, x, np.uint64(3), False)
    np.testing.assert_array_equal(y, 2 * x + 3)
    y, _ = kernel(np.array(2.0, np.float32), x, np.array(3), np.array(False))  # outputs of no dimensions are such
    np.testing.assert_array_equal(y, 2 * x + 3)


def test_out(kernel: Kernel, x: np.ndarray) -> None:
    y, s = np.zeros((N, M), np.float32), np.zeros(N, np.float32)
    results = kernel(1.0, x, 0, False, out=(y, s))
    assert results[0] is y
    assert results[1] is s
    np.testing.assert_array_equal(y, x)


def test_single_output(dense: Kernel) -> None:
    a, b = np.ones((5, 3), np.float32), np.ones((3, 7), np.float32)
    out = np.zeros((5, 7), np.float32)
    assert dense(a, b, out=out) is out
    assert dense(a, b, out=(out,)) is out
    np.testing.assert_array_equal(out, 3)


def test_output_without_dimensions_is_an_array() -> None:
    program = parse_program("program total[N=9](A: f32[N]) -> S: f32[]:\n    S[] = sum[i](A[i])")
    total = Kernel(build(program.func, HOST))
    result = total(np.ones(9, np.float32))
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result == 9
    assert total.numba(np.ones(9, np.float32)) == 9


def wrong_byte_order(x: np.ndarray) -> np.ndarray:
    return x.astype(x.dtype.newbyteorder())


def unaligned(x: np.ndarray) -> np.ndarray:
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:]
    return raw.view(x.dtype).reshape(x.shape)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda x: (1.0, x, 0), r"`axpy` takes 4 arguments \(alpha: f32, X: f32\[3, 20\], count: i32, .*\), not 3"),
        (lambda x: (1.0, x.tolist(), 0, False), r"`X` is a list, not a NumPy array\n  hint: pass `numpy.asarray\(X\)`"),
        (
            lambda x: (1.0, x.astype(np.float64), 0, False),
            r"`X` has dtype float64; .*\n  hint: .* `X.astype\('float32'\)`",
        ),
        (lambda x: (1.0, wrong_byte_order(x), 0, False), "`X` has dtype >f4"),
        (lambda x: (1.0, x.T, 0, False), r"`X` has shape \(20, 3\); this kernel was compiled for \(3, 20\)"),
        (lambda x: (1.0, x.ravel(), 0, False), r"`X` has shape \(60,\)"),
        (
            lambda x: (1.0, np.asfortranarray(x), 0, False),
            r"`X` is not C-contiguous .*\n  hint: .* `numpy.ascontiguousarray\(X\)`",
        ),
        (lambda x: (1.0, x[:, ::-1], 0, False), "`X` is not C-contiguous"),
        (lambda x: (1.0, unaligned(x), 0, False), r"`X` is not aligned .*\n  hint: .* `X.copy\(\)`"),
        (lambda x: ("2", x, 0, False), r"`alpha` is a str; the kernel takes a number \(f32\)"),
        (lambda x: (True, x, 0, False), "`alpha` is a bool; the kernel takes a number"),
        (lambda x: (1.0, x, 1.5, False), r"`count` is a float; the kernel takes an integer \(i32\)"),
        (lambda x: (1.0, x, 1 << 31, False), "`count` is 2147483648, which is not in i32's range"),
        (lambda x: (1.0, x, 0, 1), "`negate` is an int; the kernel takes a bool"),
    ],
)
def test_bad_arguments(kernel: Kernel, x: np.ndarray, arguments: object, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        kernel(*arguments(x))  # type: ignore[operator]


def read_only(a: np.ndarray) -> np.ndarray:
    a.flags.writeable = False
    return a


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (lambda x, s: x.copy(), r"`out` is an ndarray; `axpy` has the outputs \(Y: f32\[3, 20\], S: f32\[3\]\)"),
        (lambda x, s: (x.copy(),), "`out` is a tuple of 1"),
        (lambda x, s: (x.copy(), s[:2]), r"`S` has shape \(2,\)"),
        (lambda x, s: (x.astype(np.int32), s), "`Y` has dtype int32"),
        (lambda x, s: (read_only(x.copy()), s), "`out` for `Y` is read-only"),
        (lambda x, s: (x, s), "`out` for `Y` overlaps the input `X`\n  hint: pass separate memory"),
        (lambda x, s: (x.copy(), x.ravel()[-3:]), "`out` for `S` overlaps the input `X`"),
    ],
)
def test_bad_outputs(kernel: Kernel, x: np.ndarray, out: object, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        kernel(1.0, x, 0, False, out=out(x, np.zeros(N, np.float32)))  # type: ignore[operator]


def test_outputs_may_not_overlap(kernel: Kernel, x: np.ndarray) -> None:
    y = np.zeros((N, M), np.float32)
    with pytest.raises(KernelError, match="`out` for `Y` overlaps the output `S`"):
        kernel(1.0, x, 0, False, out=(y, y.ravel()[:N]))


def test_neighbours_do_not_overlap(kernel: Kernel) -> None:
    memory = np.zeros(2 * N * M + N, np.float32)
    x, y, s = memory[: N * M].reshape(N, M), memory[N * M : 2 * N * M].reshape(N, M), memory[2 * N * M :]
    kernel(1.0, x, 5, False, out=(y, s))
    np.testing.assert_array_equal(y, 5)


def test_numba_forms(kernel: Kernel, x: np.ndarray) -> None:
    allocating, into = kernel.numba, kernel.numba_into

    @numba.njit
    def caller(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y, s = allocating(2, x, 3, False)
        into(1.0, y, 0, True, x, s)
        return x, s

    y, s = caller(x.copy())
    np.testing.assert_array_equal(y, -(2 * x + 3))
    np.testing.assert_allclose(s, y.sum(1))


def test_numba_forms_are_made_once(kernel: Kernel) -> None:
    assert kernel.numba is kernel.numba
    assert kernel.numba_into is kernel.numba_into


def test_numba_form_checks_shapes_and_overlap(dense: Kernel) -> None:
    a, b, out = np.ones((5, 3), np.float32), np.ones((3, 7), np.float32), np.zeros((5, 7), np.float32)
    dense.numba_into(a, b, out)
    np.testing.assert_array_equal(out, 3)
    with pytest.raises(KernelError, match=r"another shape than this kernel was compiled for: A: f32\[5, 3\], B"):
        dense.numba_into(a, b.reshape(7, 3), out)
    with pytest.raises(KernelError, match="an output overlaps another argument"):
        dense.numba_into(out.ravel()[:15].reshape(5, 3), b, out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b, out: (a, out), "takes 3 arguments"),
        (lambda a, b, out: (a.astype(np.float64), b, out), "it takes A: f32"),
        (lambda a, b, out: (a, b.ravel(), out), "it takes B: f32"),
        (lambda a, b, out: (a, b[:, ::-1], out), "not known to be C-contiguous"),
        (lambda a, b, out: (a, b, read_only(out)), "`C` is read-only"),
    ],
)
def test_numba_form_checks_types(dense: Kernel, change: object, message: str) -> None:
    a, b, out = np.ones((5, 3), np.float32), np.ones((3, 7), np.float32), np.zeros((5, 7), np.float32)
    with pytest.raises(TypingError, match=message):
        dense.numba_into(*change(a, b, out))  # type: ignore[operator]


def test_binary_can_be_pickled_and_loaded() -> None:
    text = "program twice[N=33](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] + A[i]"
    binary = pickle.loads(pickle.dumps(compile_func(parse_program(text).func, HOST)))
    a = np.arange(33, dtype=np.float32)
    np.testing.assert_array_equal(Kernel(CompiledKernel(binary))(a), 2 * a)


def test_bound_call_keeps_its_arguments_and_its_code() -> None:
    text = "program twice[N=33](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] + A[i]"
    out = np.zeros(33, np.float32)
    call = build(parse_program(text).func, HOST).bind(np.ones(33, np.float32), out)
    gc.collect()
    call()
    np.testing.assert_array_equal(out, 2)


def test_code_is_freed() -> None:
    kernel = axpy()
    alive = weakref.ref(kernel.compiled)
    del kernel
    gc.collect()
    assert alive() is None


def test_attributes(kernel: Kernel, dense: Kernel) -> None:
    assert (kernel.name, kernel.target, kernel.workspace_bytes) == ("axpy", HOST, 0)
    assert (kernel.origin, kernel.trace, kernel.report, kernel.program) == (Origin.TRACE, "a < b", None, None)
    assert dense.origin is Origin.MEASURED
    assert "define i32 @metasched_kernel" in kernel.llvm
    assert "metasched_kernel:" in kernel.asm
    assert repr(kernel).startswith(
        "<kernel axpy(alpha: f32, X: f32[3, 20], count: i32, negate: bool) -> (Y: f32[3, 20],"
    )
    assert "C: f32[5, 7]" in repr(dense)
    assert repr(dense).endswith(", tuned>")
    assert "<pre>a &lt; b</pre>" in kernel._repr_html_()


def test_aligned_arrays() -> None:
    for shape in ((), (1,), (3, 5), (100, 100)):
        for dtype in (np.float32, np.int8):
            array = aligned_empty(shape, np.dtype(dtype))
            assert array.nbytes < 2048 or array.ctypes.data % 64 == 0
            assert (array.shape, array.dtype) == (shape, dtype)
            assert array.flags.c_contiguous
            assert array.flags.writeable

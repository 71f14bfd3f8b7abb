"""Arrays that are not C-contiguous NumPy arrays: strided ones, masked ones, and those of other libraries."""

from __future__ import annotations

import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import metasched as ms
from metasched.runtime.memory_order import memory_order

MATMUL = "C[i, j] = sum[k](A[i, k] * B[k, j])"
# Most tests are about arguments, of whatever schedule: a guess in the smallest space is there soonest.
PLAIN: list[str] = []
RNG = np.random.default_rng(0)


def small(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.integers(-4, 5, shape).astype(dtype)


# --- strides

BIG = small(12, 14)
STRIDED = {
    "transposed": small(6, 4).T,
    "fortran": np.asfortranarray(small(4, 6)),
    "slice": BIG[2:6, 3:9],
    "every second": BIG[::3, ::2][:, :6],
    "reversed": small(4, 6)[::-1],
    "reversed columns": small(4, 6)[:, ::-1],
    "broadcast": np.broadcast_to(small(6), (4, 6)),
    "broadcast number": np.broadcast_to(np.float32(2), (4, 6)),
    "unaligned": np.frombuffer(b"\0" + small(4, 6).tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 6),
    "read-only": np.broadcast_to(small(4, 6), (4, 6)),
}


@pytest.mark.parametrize("name", STRIDED)
def test_strided_arguments(name: str) -> None:
    f = ms.kernel(MATMUL, rules=PLAIN)
    a, b = STRIDED[name], small(6, 5)
    plain = np.array(a, order="C")
    for _ in range(2):
        np.testing.assert_array_equal(f(a, b), plain @ b)
        np.testing.assert_array_equal(f(plain, b), plain @ b)
        np.testing.assert_array_equal(f(A=a, B=b), plain @ b)
    np.testing.assert_array_equal(f.kernel_for(plain, b)(plain, b), plain @ b)


def test_a_square_matrix_and_its_transpose_are_told_apart() -> None:
    a, b = small(5, 5), small(5, 5)
    for order in ((a.T, a), (a, a.T)):
        f = ms.kernel(MATMUL, rules=PLAIN)
        for x in (*order, *order):
            np.testing.assert_array_equal(f(x, b), x @ b)
            np.testing.assert_array_equal(f(b, x), b @ x)
            np.testing.assert_array_equal(f(x, x), x @ x)


def test_a_transposed_array_is_read_where_it_lies() -> None:
    f = ms.kernel(MATMUL)
    a, b = small(6, 4), small(6, 5)
    assert "A[k, i] * B[k, j]" in str(f.program(a.T, b))
    kernel = f.kernel_for(a.T, b)
    np.testing.assert_array_equal(kernel(a, b), a.T @ b)
    assert f.kernel_for(a.T, b) is kernel
    with pytest.raises(ms.KernelError, match="not C-contiguous"):
        f.kernel_for(np.ascontiguousarray(a.T), b)(a.T, b)
    f(a.T, b)
    assert "copied" not in repr(f)
    f(np.ascontiguousarray(a.T)[:, ::-1], b)
    assert repr(f).endswith(f", {a.nbytes} bytes copied>")


def test_permuted_dimensions() -> None:
    f = ms.kernel("Y[n, h, w, c] = X[n, h, w, c] * s[c] + 1.0")
    x, s = small(2, 3, 4, 5), small(3)
    channels_last = x.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(f(channels_last, s), channels_last * s + 1)
    assert "X[n, c, h, w]" in str(f.program(channels_last, s))


def test_what_is_wrong_is_said_of_the_array_as_given() -> None:
    f = ms.kernel(MATMUL, rules=PLAIN)
    with pytest.raises(ms.KernelError, match=r"`k` is 3 in A \(dimension 1 of \(4, 3\)\) and 6 in B"):
        f(small(3, 4).T, small(6, 5))
    with pytest.raises(ms.LanguageError, match=r"`B\[k, j\]` is f64 where f32 is needed"):
        f(small(4, 6), small(5, 6, dtype=np.float64).T)


def test_a_transposed_argument_is_tuned_as_such(tmp_path: Any) -> None:
    f = ms.kernel(MATMUL, db=f"sqlite:///{tmp_path}/t.db")
    a, b = small(8, 4), small(8, 6)
    tuned = f.tune(a.T, b, trials=1)
    assert f.kernel_for(a.T, b) is tuned
    np.testing.assert_array_equal(f(a.T, b), a.T @ b)
    again = ms.kernel(MATMUL, db=f"sqlite:///{tmp_path}/t.db")
    assert again.kernel_for(a.T, b).origin is ms.Origin.MEASURED
    assert again.kernel_for(np.ascontiguousarray(a.T), b).origin is ms.Origin.GUESS


@pytest.mark.parametrize(
    "make", [lambda: np.zeros((5, 4), np.float32).T, lambda: np.zeros((8, 10), np.float32)[::2, ::-2]]
)
def test_a_strided_result(make: Any) -> None:
    f = ms.kernel(MATMUL, rules=PLAIN)
    a, b, out = small(4, 6), small(6, 5), make()
    assert f(a, b, out=out) is out
    np.testing.assert_array_equal(out, a @ b)


def test_several_strided_results() -> None:
    f = ms.kernel("v[i], p[i] = argmax[k](X[i, k])")
    x, v, p = small(5, 9), np.zeros(10, np.float32)[::2], np.zeros(5, np.int64)
    assert f(x, out=(v, p))[0] is v
    np.testing.assert_array_equal(v, x.max(axis=1))
    np.testing.assert_array_equal(p, x.argmax(axis=1))


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros((10, 4), np.float32)[::2], r"has shape \(5, 4\)"),
        (np.zeros((8, 5), np.float64)[::2], "has dtype float64"),
        (np.broadcast_to(np.float32(0), (4, 5)), "not C-contiguous"),
        ([0.0], "is a list, not a NumPy array"),
    ],
)
def test_a_result_that_does_not_fit(out: Any, message: str) -> None:
    with pytest.raises(ms.KernelError, match=message):
        ms.kernel(MATMUL, rules=PLAIN)(small(4, 6), small(6, 5), out=out)


def test_memory_order() -> None:
    x = np.zeros((2, 3, 4))
    assert memory_order(x.transpose(2, 0, 1)) == (1, 2, 0)
    assert memory_order(x[:, :, ::-1]) is None
    assert memory_order(x[:, 1:]) is None
    assert memory_order(np.zeros((5, 1)).T) is not None


# --- what looks like an array


def test_masked_arrays_are_refused() -> None:
    a, b = small(4, 6), small(6, 5)
    masked = np.ma.masked_array(a, mask=a > 0)
    f = ms.kernel(MATMUL, rules=PLAIN)
    f(a, b)
    for call in (f, f.kernel_for, f.kernel_for(a, b)):
        with pytest.raises(ms.KernelError, match=r"`A` is a masked array.*\n  hint: pass `A.filled\(value\)`"):
            call(masked, b)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_subclasses_are_arrays_and_the_result_is_a_plain_one(tmp_path: Any) -> None:
    a, b = small(4, 6), small(6, 5)
    memory = np.memmap(tmp_path / "a", np.float32, "w+", shape=a.shape)
    memory[...] = a
    for x in (np.asmatrix(a), memory):
        result = ms.kernel(MATMUL, rules=PLAIN)(x, b)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, a @ b)


class Table:
    """As a table of pandas: it makes arrays when asked, and lies nowhere."""

    def __array__(self, *_: object, **__: object) -> Any:
        raise AssertionError("nobody asked for a copy")


@pytest.mark.parametrize("value", [Table(), [[1.0] * 6] * 4, memoryview(b"1234")])
def test_what_would_be_copied_is_refused(value: Any) -> None:
    with pytest.raises(ms.KernelError, match=r"not a NumPy array\n  hint: pass `numpy.asarray\(A\)`"):
        ms.kernel(MATMUL, rules=PLAIN)(value, small(6, 5))


# --- other libraries


class Tensor:
    """An array of a library that NumPy knows nothing of, by DLPack."""

    device = "cpu"
    requires_grad = False

    def __init__(self, array: Any, place: tuple[int, int] = (1, 0)) -> None:
        self.array, self.place = array, place

    @property
    def dtype(self) -> str:
        return f"other.{self.array.dtype}"

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def view(self, dtype: Any) -> Tensor:
        return Tensor(self.array.view(dtype))


class Interfaced:
    """An array by NumPy's older interface."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("other")
    module.from_dlpack = Tensor  # type: ignore[attr-defined]
    module.int16, module.bfloat16 = np.int16, ml_dtypes.bfloat16  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "other", module)
    monkeypatch.setattr(Tensor, "__module__", "other.tensors")
    return module


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_arrays_of_another_library(library: types.ModuleType, dtype: Any) -> None:
    f = ms.kernel("Y[i] = f32(X[i])" if dtype == np.float16 else "Y[i] = X[i] + X[i]")
    x = small(9, dtype=dtype)
    kernel = f.kernel_for(Tensor(x))
    for call in (f, f, kernel):
        result = call(Tensor(x))
        assert type(result) is Tensor
        np.testing.assert_array_equal(result.array, x if dtype == np.float16 else x + x)
        assert type(call(x)) is np.ndarray
    out = Tensor(np.zeros_like(kernel(x)))
    for call in (f, kernel):
        out.array[...] = 99
        assert call(Tensor(x), out=out) is out
        np.testing.assert_array_equal(out.array, x if dtype == np.float16 else x + x)


def test_bfloat16_of_another_library(library: types.ModuleType) -> None:
    f = ms.kernel("Y[i] = bf16(f32(X[i]) * 2.0)")
    x = small(9).astype(ml_dtypes.bfloat16)
    result = f(Tensor(x))
    assert result.array.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(result.array, x * 2)


def test_beside_arrays_of_numpy(library: types.ModuleType) -> None:
    a, b = small(4, 6), small(6, 5)
    f = ms.kernel(MATMUL, rules=PLAIN)
    for x, y in ((Tensor(a), b), (a, Tensor(b)), (Tensor(a.T.copy().T), b), (Tensor(BIG[2:6, 3:9]), Tensor(b))):
        result = f(x, y)
        assert type(result) is Tensor
        np.testing.assert_array_equal(result.array, np.asarray(getattr(x, "array", x)) @ b)


def test_nothing_is_copied(library: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    x = small(4096)
    f = ms.kernel("Y[i] = X[i] + 1.0")
    seen: list[int] = []
    kernel = f.kernel_for(x)
    plain = kernel.compiled.function

    def function(*values: Any) -> int:
        seen.append(values[0])
        return plain(*values)

    monkeypatch.setattr(kernel.compiled, "function", function)
    np.testing.assert_array_equal(f(Tensor(x)).array, x + 1)
    np.testing.assert_array_equal(f(Interfaced(x)), x + 1)
    assert seen == [x.ctypes.data] * 2


def test_two_results_and_numbers(library: types.ModuleType) -> None:
    x = small(5, 9)
    v, p = ms.kernel("v[i], p[i] = argmax[k](X[i, k])")(Tensor(x))
    np.testing.assert_array_equal(v.array, x.max(axis=1))
    np.testing.assert_array_equal(p.array, x.argmax(axis=1))
    f = ms.kernel("Y[i, k] = alpha * X[i, k]")
    result = f(Tensor(np.full((), 2, np.float32)), x)
    assert type(result) is np.ndarray, "a number decides nothing"
    np.testing.assert_array_equal(result, 2 * x)


def test_weights_of_another_library(library: types.ModuleType) -> None:
    expert = ms.operators.expert("dense_bias_relu.weights")
    kernel = ms.compile(expert.program(), trace=expert.trace)
    x, w, bias = (np.ones(p.shape, np.float32) for p in kernel.compiled.parameters[:3])
    packed = kernel.pack(Tensor(w), Tensor(bias))
    assert type(packed(x)) is np.ndarray
    np.testing.assert_array_equal(packed(Tensor(x)).array, kernel(x, w, bias))


def test_gradients_are_refused(library: types.ModuleType) -> None:
    x = Tensor(small(9))
    x.requires_grad = True
    f = ms.kernel("Y[i] = X[i] + 1.0")
    for call in (f, f.kernel_for, f.kernel_for(small(9))):
        with pytest.raises(ms.KernelError, match=r"`X` wants gradients.*\n  hint: pass `X.detach\(\)`"):
            call(x)


def test_other_memory_is_refused(library: types.ModuleType) -> None:
    x = Tensor(small(9), place=(2, 0))
    x.device = "cuda:0"
    f = ms.kernel("Y[i] = X[i] + 1.0")
    for call in (f, f.kernel_for(small(9))):
        with pytest.raises(ms.KernelError, match="`X` is in the memory of cuda:0, and kernels run on the CPU"):
            call(x)


def test_what_cannot_be_exported_says_why(library: types.ModuleType) -> None:
    class Odd(Tensor):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("it is sparse")

    with pytest.raises(ms.KernelError, match="`X` is an Odd that cannot be read as an array: it is sparse"):
        ms.kernel("Y[i] = X[i] + 1.0")(Odd(small(9)))


# --- PyTorch itself, where it is installed


@pytest.mark.peers
def test_pytorch() -> None:
    torch = pytest.importorskip("torch")
    f = ms.kernel(MATMUL)
    a, b = torch.randn(4, 6), torch.randn(5, 6)
    for x in (a, a[:, ::1], torch.randn(6, 4).T, torch.randn(8, 12)[::2, ::2]):
        result = f(x, b.T)
        assert isinstance(result, torch.Tensor)
        torch.testing.assert_close(result, x @ b.T)
    out = torch.zeros(4, 5)
    assert f(a, b.T, out=out) is out
    torch.testing.assert_close(out, a @ b.T)
    kernel = f.kernel_for(a, b.T.contiguous())
    torch.testing.assert_close(kernel(a, b.T.contiguous()), out)
    assert kernel(a, b.T.contiguous(), out=out) is out
    half = ms.kernel("Y[i, k] = bf16(f32(A[i, k]) * 2.0)")(a.bfloat16())
    assert half.dtype is torch.bfloat16
    torch.testing.assert_close(half, a.bfloat16() * 2)
    assert ms.kernel("Y[i, k] = f16(f32(A[i, k]) * 2.0)")(a.half()).dtype is torch.float16
    assert ms.kernel("Y[i, k] = A[i, k] < 0.0")(a).dtype is torch.bool
    with pytest.raises(ms.KernelError, match="detach"):
        f(torch.nn.Parameter(a), b.T)
    assert isinstance(f(torch.nn.Parameter(a).detach(), b.T), torch.Tensor)
    with pytest.raises(ms.KernelError, match="cannot be read as an array"):
        f(a.to("meta"), b.T)
    with pytest.raises(ms.KernelError, match="cannot be read as an array"):
        f(a.to_sparse(), b.T)

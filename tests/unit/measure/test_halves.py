"""Checking programs over f16 and bf16: their data between processes, and how far off a result may be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.lang import parse_program
from metasched.measure.checking.archive import read_arrays, write_arrays
from metasched.measure.checking.check import Cases, mismatch, prepare
from metasched.measure.checking.inputs import given_inputs
from metasched.measure.checking.tolerance import DataKind, exact_magnitude, roundings

MATMUL = """
program matmul[M=4, N=5, K=300, T=bf16](A: T[M, K], B: T[K, N]) -> (C: T[M, N], S: f32[M, N]):
    S[i, j] = sum[k](f32(A[i, k]) * f32(B[k, j]))
    C[i, j] = T(S[i, j])
"""


def test_every_element_type_goes_through_a_file(tmp_path: Path) -> None:
    arrays = {str(d): np.arange(6).reshape(2, 3).astype(d.numpy) for d in DType}
    write_arrays(tmp_path / "a.npz", arrays)
    found = read_arrays(tmp_path / "a.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name].view(np.uint8), array.view(np.uint8))


def test_an_array_may_have_the_name_of_an_argument_of_numpys(tmp_path: Path) -> None:
    arrays = {name: np.arange(3) for name in ("file", "allow_pickle", "args", "kwds")}
    write_arrays(tmp_path / "a.npz", arrays)
    assert read_arrays(tmp_path / "a.npz").keys() == arrays.keys()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_rounding_once_is_allowed_and_a_dropped_term_is_seen(dtype: str, tmp_path: Path) -> None:
    func = parse_program(MATMUL, T=dtype).func
    prepare(func, given_inputs(func, None, seed=0), seed=0).save(tmp_path / "cases.npz")
    case = Cases.load(tmp_path / "cases.npz").random
    a, b = (array.astype(np.float32) for array in case.inputs)
    kind = DType(dtype).numpy
    rounded, exact = (a @ b).astype(kind), a @ b
    assert mismatch(rounded, case.expected[0], case.tolerance[0]) is None
    assert mismatch(exact, case.expected[1], case.tolerance[1]) is None
    # What is summed in f32 is held to f32's precision, whatever its terms are stored in.
    short = a[:, 1:] @ b[1:]
    assert mismatch(short, case.expected[1], case.tolerance[1]) is not None


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_storage], ids=str)
def test_every_type_of_storage_is_drawn_and_checked(dtype: DType) -> None:
    wide = dtype.compute if dtype.is_float else DType.I32
    text = (
        f"program p[T={dtype}](A: T[8, 8], B: T[8, 8]) -> (C: {wide}[8, 8], D: T[8, 8]):\n"
        f"    C[i, j] = sum[k]({wide}(A[i, k]) * {wide}(B[k, j]))\n    D[i, j] = T({wide}(A[i, j]))\n"
    )
    func = parse_program(text).func
    cases = prepare(func, given_inputs(func, None, seed=0), seed=0)
    for case in (cases.integers, cases.random):
        for array in case.inputs:
            assert array.dtype == dtype.numpy
            assert np.isfinite(array.astype(np.float64)).all()
        for found, tolerance in zip(case.expected, case.tolerance, strict=True):
            assert mismatch(found, found, tolerance) is None


def test_roundings_count_by_type() -> None:
    counts = roundings(parse_program(MATMUL).func, DataKind.GIVEN)
    assert counts[DType.BF16] == 1
    assert 300 < counts[DType.F32] < 310


def test_integers_are_exact_up_to_the_significand() -> None:
    func = parse_program("program p(A: bf16[4], B: bf16[4]) -> C: bf16[4]:\n    C[i] = A[i] * B[i]").func
    sixteen = np.full(4, 16).astype(DType.BF16.numpy)
    assert exact_magnitude(func, {"A": sixteen, "B": sixteen})
    assert not exact_magnitude(func, {"A": sixteen, "B": sixteen * 2})

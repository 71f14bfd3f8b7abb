"""Every operation on every dtype, as scalars, as full vectors and in masked tails, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.errors import BuildError
from metasched.functions.registry import functions
from metasched.ir.nodes import Binary, BinOp, Call, Cast, Expr, Scalar, Select, Unary, UnOp
from tests.support.lir_runner import F32, c, ld, loop, program, run, v, vector, write

INTEGERS = [DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.I64]
FLOATS = [DType.F32, DType.F64]
NUMBERS = INTEGERS + FLOATS
N = 127


def evaluate(expr: Expr, lanes: int, **arrays: np.ndarray) -> np.ndarray:
    """The value of an expression of `i` for i in range(N)."""
    body = write("out", v("i"), expr)
    stmt = vector("i", N, lanes, body) if lanes else loop("i", N, body)
    inputs = {name: (_dtype(a), a.size) for name, a in arrays.items()}
    return run(program(stmt, inputs, {"out": (expr.dtype, N)}), arrays)["out"]


def _dtype(array: np.ndarray) -> DType:
    return next(d for d in DType if d.numpy == array.dtype)


def samples(dtype: DType, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.random(N) < 0.5
    if dtype.is_float:
        special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-30, 1.5, -2.5]
        values = np.concatenate([special, rng.standard_normal(N - len(special)) * 100])
        return rng.permutation(values).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    special = [limits.min, limits.max, 0, 1, 2, limits.min + 1]
    values = np.concatenate([special, rng.integers(-20 if limits.min else 0, 20, N - len(special))])
    return rng.permutation(values).astype(dtype.numpy)


LANES = pytest.mark.parametrize("lanes", [0, 16])


@LANES
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize(("op", "expected"), [(BinOp.ADD, np.add), (BinOp.SUB, np.subtract), (BinOp.MUL, np.multiply)])
def test_arithmetic(op: BinOp, expected: Callable[..., np.ndarray], dtype: DType, lanes: int) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    got = evaluate(Binary(op, ld("a", v("i"), dtype), ld("b", v("i"), dtype)), lanes, a=a, b=b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, expected(a, b))


@LANES
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(("op", "expected"), [(BinOp.FLOORDIV, np.floor_divide), (BinOp.MOD, np.remainder)])
def test_integer_division_floors_and_never_traps(
    op: BinOp, expected: Callable[..., np.ndarray], dtype: DType, lanes: int
) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    b[::5] = 0
    if not dtype.is_unsigned:
        b[1::5] = -1
        a[1::5] = np.iinfo(dtype.numpy).min
    got = evaluate(Binary(op, ld("a", v("i"), dtype), ld("b", v("i"), dtype)), lanes, a=a, b=b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, expected(a, b))


@LANES
@pytest.mark.parametrize("divisor", [3, -3, 1, -1, 16, 0])
@pytest.mark.parametrize(("op", "expected"), [(BinOp.FLOORDIV, np.floor_divide), (BinOp.MOD, np.remainder)])
def test_integer_division_by_a_constant(
    op: BinOp, expected: Callable[..., np.ndarray], divisor: int, lanes: int
) -> None:
    a = samples(DType.I32, 1)
    got = evaluate(Binary(op, ld("a", v("i"), DType.I32), c(divisor, DType.I32)), lanes, a=a)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, expected(a, np.int32(divisor)))


@LANES
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_division(dtype: DType, lanes: int) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    got = evaluate(Binary(BinOp.DIV, ld("a", v("i"), dtype), ld("b", v("i"), dtype)), lanes, a=a, b=b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, a / b)


@LANES
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize(("op", "expected"), [(BinOp.MAX, np.maximum), (BinOp.MIN, np.minimum)])
def test_extrema_propagate_nan(op: BinOp, expected: Callable[..., np.ndarray], dtype: DType, lanes: int) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    with np.errstate(all="ignore"):
        got = evaluate(Binary(op, ld("a", v("i"), dtype), ld("b", v("i"), dtype)), lanes, a=a, b=b)
        np.testing.assert_array_equal(got, expected(a, b))
        for left in (True, False):
            sides = (ld("a", v("i"), dtype), c(1, dtype))
            got = evaluate(Binary(op, *(sides if left else sides[::-1])), lanes, a=a)
            np.testing.assert_array_equal(got, expected(a, dtype.numpy.type(1)))


@LANES
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
@pytest.mark.parametrize("op", [op for op in BinOp if op.is_comparison])
def test_comparison(op: BinOp, dtype: DType, lanes: int) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    a[::4] = b[::4]
    got = evaluate(Binary(op, ld("a", v("i"), dtype), ld("b", v("i"), dtype)), lanes, a=a, b=b)
    np.testing.assert_array_equal(got, eval(f"a {op.value} b", {"a": a, "b": b}))  # noqa: S307


@LANES
def test_logic_and_bools_in_memory(lanes: int) -> None:
    a, b = samples(DType.BOOL, 1), samples(DType.BOOL, 2)
    x, y = ld("a", v("i"), DType.BOOL), ld("b", v("i"), DType.BOOL)
    np.testing.assert_array_equal(evaluate(Binary(BinOp.AND, x, y), lanes, a=a, b=b), a & b)
    np.testing.assert_array_equal(evaluate(Binary(BinOp.OR, x, y), lanes, a=a, b=b), a | b)
    np.testing.assert_array_equal(evaluate(Unary(UnOp.NOT, x), lanes, a=a), ~a)
    np.testing.assert_array_equal(evaluate(Select(x, c(1.0, F32), c(2.0, F32)), lanes, a=a), np.where(a, 1, 2))


@LANES
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_negation(dtype: DType, lanes: int) -> None:
    a = samples(dtype, 1)
    got = evaluate(Unary(UnOp.NEG, ld("a", v("i"), dtype)), lanes, a=a)
    np.testing.assert_array_equal(got, -a)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(-a))


@pytest.mark.parametrize("lanes", [0, 16])
@pytest.mark.parametrize("to", [*NUMBERS, DType.BOOL], ids=str)
@pytest.mark.parametrize("dtype", [*NUMBERS, DType.BOOL], ids=str)
def test_cast(dtype: DType, to: DType, lanes: int) -> None:
    a = samples(dtype, 1)
    if dtype.is_float:
        a[~np.isfinite(a)] = 3.7
        a = np.clip(a, 0 if to.is_unsigned else -100, 100).astype(dtype.numpy)
    got = evaluate(Cast(ld("a", v("i"), dtype), to), lanes, a=a)
    np.testing.assert_array_equal(got, a.astype(to.numpy))


@pytest.mark.parametrize("lanes", [0, 8])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", sorted(functions()))
def test_function(name: str, dtype: DType, lanes: int) -> None:
    function = functions()[name]
    x = np.linspace(0.05, 3, N).astype(dtype.numpy)
    args = tuple(ld("a", v("i"), dtype) for _ in range(function.arity))
    got = evaluate(Call(name, args, dtype), lanes, a=x)
    expected = [function.evaluate(*[float(value)] * function.arity) for value in x]
    np.testing.assert_allclose(got, expected, rtol=1e-6 if dtype is F32 else 1e-13)


@LANES
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_absolute_value_of_integers(dtype: DType, lanes: int) -> None:
    a = samples(dtype, 1)
    np.testing.assert_array_equal(evaluate(Call("abs", (ld("a", v("i"), dtype),), dtype), lanes, a=a), np.abs(a))


@LANES
def test_loop_variables_as_data(lanes: int) -> None:
    i = v("i")
    np.testing.assert_array_equal(evaluate(Cast(i, F32), lanes), np.arange(N, dtype=np.float32))
    np.testing.assert_array_equal(evaluate(i * 3 - 7, lanes), np.arange(N) * 3 - 7)
    np.testing.assert_array_equal(evaluate((i - 5) // 3, lanes), (np.arange(N) - 5) // 3)
    np.testing.assert_array_equal(evaluate((i - 5) % 3, lanes), (np.arange(N) - 5) % 3)
    np.testing.assert_array_equal(evaluate(Binary(BinOp.CEILDIV, i, c(4)), lanes), -(-np.arange(N) // 4))
    np.testing.assert_array_equal(evaluate(Binary(BinOp.MIN, i * 2, c(50)), lanes), np.minimum(np.arange(N) * 2, 50))


@LANES
@pytest.mark.parametrize("op", [op for op in BinOp if op.is_comparison])
@pytest.mark.parametrize("side", ["i", "-i", "2i"])
def test_conditions_on_loop_variables(op: BinOp, side: str, lanes: int) -> None:
    i = v("i")
    n = np.arange(N)
    left, value = {"i": (i, n), "-i": (40 - i, 40 - n), "2i": (i * 2, n * 2)}[side]
    for bound in (-200, 0, 30, 63, 500):
        got = evaluate(Select(Binary(op, left, c(bound)), c(1.0, F32), c(0.0, F32)), lanes)
        np.testing.assert_array_equal(got, eval(f"value {op.value} bound", {"value": value, "bound": bound}))  # noqa: S307


@pytest.mark.parametrize("lanes", [0, 16])
@pytest.mark.parametrize("dtype", [*NUMBERS, DType.BOOL], ids=str)
def test_scalar_arguments(dtype: DType, lanes: int) -> None:
    value = True if dtype.is_bool else 1.5 if dtype.is_float else 100
    body = write("out", v("i"), v("s", dtype))
    stmt = vector("i", N, lanes, body) if lanes else loop("i", N, body)
    kernel = program(stmt, {}, {"out": (dtype, N)}, scalars=(Scalar("s", dtype),))
    np.testing.assert_array_equal(run(kernel, {}, {"s": value})["out"], np.full(N, value, dtype.numpy))


def test_scalar_argument_in_an_index() -> None:
    a = np.arange(N, dtype=np.float32)
    kernel = program(
        loop("i", 10, write("out", v("i"), ld("a", v("i") + v("s")))),
        {"a": (F32, N)},
        {"out": (F32, 10)},
        scalars=(Scalar("s", DType.I64),),
    )
    np.testing.assert_array_equal(run(kernel, {"a": a}, {"s": 60})["out"], a[60:70])


@LANES
def test_constants_are_exact(lanes: int) -> None:
    for value in (0.1, -0.0, math.pi, 1e-45, 3e38, math.inf):
        got = evaluate(c(value, F32), lanes)
        np.testing.assert_array_equal(got, np.full(N, value, np.float32))
        np.testing.assert_array_equal(np.signbit(got), np.full(N, math.copysign(1, value) < 0))
    np.testing.assert_array_equal(evaluate(c(200, DType.U8), lanes), np.full(N, 200))


def test_floor_division_of_floats_is_refused() -> None:
    with pytest.raises(BuildError, match="floor division and modulo are for integers"):
        evaluate(Binary(BinOp.FLOORDIV, c(1.0, F32), c(2.0, F32)), 0)


def test_unknown_function_is_refused() -> None:
    with pytest.raises(BuildError, match="function `gamma`"):
        evaluate(Call("gamma", (c(1.0, F32),), F32), 0)


@pytest.mark.parametrize("short", [DType.U8, DType.I8, DType.I16], ids=str)
def test_vectors_of_short_integers_are_brought_into_range_in_vectors(short: DType) -> None:
    text = f"program p(A: f32[64]) -> Y: {short}[64]:\n    Y[i] = {short}(A[i])\n"
    schedule = ms.Schedule(ms.parse_program(text))
    schedule.vectorize(schedule.get_loops(schedule.get_block("Y"))[0], lanes=16)
    kernel = ms.compile(ms.parse_program(text), trace=schedule.trace)
    assert "fptosi <16 x float>" in kernel.llvm
    assert ".sat" not in kernel.llvm


@pytest.mark.parametrize("dtype", [F32, DType.F64], ids=str)
def test_vectors_of_floats_become_whole_numbers_of_32_bits_in_vectors(dtype: DType) -> None:
    program = ms.parse_program(f"program p(A: {dtype}[16]) -> Y: i32[16]:\n    Y[i] = i32(A[i])\n")
    schedule = ms.Schedule(program)
    schedule.vectorize(schedule.get_loops(schedule.get_block("Y"))[0], lanes=16)
    kernel = ms.compile(program, trace=schedule.trace)
    assert ".sat" not in kernel.llvm
    ends = [np.nan, np.inf, -np.inf, 2.0**31, 2.0**31 - 1, -(2.0**31), -(2.0**31) - 1, 2147483520, 7.9, -7.9, 3e9, -3e9]
    values = np.array(ends + [0.0] * 4, dtype.numpy)
    assert np.array_equal(kernel(values), ms.reference(program)(values))

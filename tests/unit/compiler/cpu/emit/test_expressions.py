"""Every operation on every dtype, as scalars, as full vectors and in masked tails, against NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.errors import BuildError
from metasched.functions.registry import functions
from metasched.ir.nodes import Binary, BinOp, Call, Cast, Expr, Scalar, Select, Unary, UnOp
from tests.support.lir_runner import F32, block, c, ld, loop, program, run, v, vector, write
from tests.support.math_domains import domain_of

INTEGERS = [DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.I64]
FLOATS = [DType.F32, DType.F64]
NUMBERS = INTEGERS + FLOATS
COMPARISONS = [op for op in BinOp if op.is_comparison]
N = 127


def evaluate(expr: Expr, lanes: int, **arrays: np.ndarray) -> np.ndarray:
    """The value of an expression of `i` for i in range(N)."""
    (out,) = evaluate_all([expr], lanes, **arrays)
    return out


def evaluate_all(exprs: Sequence[Expr], lanes: int, **arrays: np.ndarray) -> list[np.ndarray]:
    """The values of each of these expressions, which have a loop each in one kernel."""
    bodies = {f"out{n}": write(f"out{n}", v("i"), expr) for n, expr in enumerate(exprs)}
    stmts = [vector("i", N, lanes, body) if lanes else loop("i", N, body) for body in bodies.values()]
    inputs = {name: (_dtype(a), a.size) for name, a in arrays.items()}
    outputs = {name: (expr.dtype, N) for name, expr in zip(bodies, exprs, strict=True)}
    found = run(program(block(*stmts), inputs, outputs), arrays)
    return [found[name] for name in bodies]


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
def test_arithmetic(dtype: DType, lanes: int) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    x, y = ld("a", v("i"), dtype), ld("b", v("i"), dtype)
    meant = {BinOp.ADD: np.add, BinOp.SUB: np.subtract, BinOp.MUL: np.multiply}
    found = evaluate_all([Binary(op, x, y) for op in meant], lanes, a=a, b=b)
    with np.errstate(all="ignore"):
        for op, got in zip(meant, found, strict=True):
            np.testing.assert_array_equal(got, meant[op](a, b), op.value)


@LANES
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_division_floors_and_never_traps(dtype: DType, lanes: int) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    b[::5] = 0
    if not dtype.is_unsigned:
        b[1::5] = -1
        a[1::5] = np.iinfo(dtype.numpy).min
    x, y = ld("a", v("i"), dtype), ld("b", v("i"), dtype)
    quotients, rests = evaluate_all([Binary(BinOp.FLOORDIV, x, y), Binary(BinOp.MOD, x, y)], lanes, a=a, b=b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(quotients, np.floor_divide(a, b))
        np.testing.assert_array_equal(rests, np.remainder(a, b))


@LANES
def test_integer_division_by_a_constant(lanes: int) -> None:
    a = samples(DType.I32, 1)
    x, divisors = ld("a", v("i"), DType.I32), (3, -3, 1, -1, 16, 0)
    meant = {BinOp.FLOORDIV: np.floor_divide, BinOp.MOD: np.remainder}
    ways = [(op, divisor) for op in meant for divisor in divisors]
    found = evaluate_all([Binary(op, x, c(divisor, DType.I32)) for op, divisor in ways], lanes, a=a)
    with np.errstate(all="ignore"):
        for (op, divisor), got in zip(ways, found, strict=True):
            np.testing.assert_array_equal(got, meant[op](a, np.int32(divisor)), f"{op.value} {divisor}")


@LANES
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_division(dtype: DType, lanes: int) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    got = evaluate(Binary(BinOp.DIV, ld("a", v("i"), dtype), ld("b", v("i"), dtype)), lanes, a=a, b=b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, a / b)


@LANES
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_extrema_propagate_nan(dtype: DType, lanes: int) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    x, y, one = ld("a", v("i"), dtype), ld("b", v("i"), dtype), c(1, dtype)
    meant = {BinOp.MAX: np.maximum, BinOp.MIN: np.minimum}
    exprs = [Binary(op, *sides) for op in meant for sides in ((x, y), (x, one), (one, x))]
    found = iter(evaluate_all(exprs, lanes, a=a, b=b))
    with np.errstate(all="ignore"):
        for op, expected in meant.items():
            for other in (b, dtype.numpy.type(1), dtype.numpy.type(1)):
                np.testing.assert_array_equal(next(found), expected(a, other), op.value)


@LANES
@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_comparison(dtype: DType, lanes: int) -> None:
    a, b = samples(dtype, 1), samples(dtype, 2)
    a[::4] = b[::4]
    x, y = ld("a", v("i"), dtype), ld("b", v("i"), dtype)
    found = evaluate_all([Binary(op, x, y) for op in COMPARISONS], lanes, a=a, b=b)
    for op, got in zip(COMPARISONS, found, strict=True):
        np.testing.assert_array_equal(got, eval(f"a {op.value} b", {"a": a, "b": b}), op.value)  # noqa: S307


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
@pytest.mark.parametrize("dtype", [*NUMBERS, DType.BOOL], ids=str)
def test_cast(dtype: DType, lanes: int) -> None:
    targets = [*NUMBERS, DType.BOOL]
    a = samples(dtype, 1)
    if dtype.is_float:
        a[~np.isfinite(a)] = 3.7
        a = np.clip(a, -100, 100).astype(dtype.numpy)
    positive = np.maximum(a, 0) if dtype.is_float else a
    given = {to: "positive" if to.is_unsigned else "a" for to in targets}
    exprs = [Cast(ld(name, v("i"), dtype), to) for to, name in given.items()]
    found = evaluate_all(exprs, lanes, a=a, positive=positive)
    for to, got in zip(targets, found, strict=True):
        np.testing.assert_array_equal(got, (positive if to.is_unsigned else a).astype(to.numpy), str(to))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", sorted(functions()))
def test_function(name: str, dtype: DType) -> None:
    """In vectors and their tail: that scalars have the same bits is tests/unit/functions/test_library.py's."""
    function = functions()[name]
    x = np.linspace(*domain_of(name), N).astype(dtype.numpy)
    args = tuple(ld("a", v("i"), dtype) for _ in range(function.arity))
    got = evaluate(Call(name, args, dtype), 8, a=x)
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
@pytest.mark.parametrize("side", ["i", "-i", "2i"])
def test_conditions_on_loop_variables(side: str, lanes: int) -> None:
    i = v("i")
    n = np.arange(N)
    left, value = {"i": (i, n), "-i": (40 - i, 40 - n), "2i": (i * 2, n * 2)}[side]
    ways = [(op, bound) for op in COMPARISONS for bound in (-200, 0, 30, 63, 500)]
    found = evaluate_all([Select(Binary(op, left, c(bound)), c(1.0, F32), c(0.0, F32)) for op, bound in ways], lanes)
    for (op, bound), got in zip(ways, found, strict=True):
        wanted = eval(f"value {op.value} bound", {"value": value, "bound": bound})  # noqa: S307
        np.testing.assert_array_equal(got, wanted, f"{op.value} {bound}")


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
    with pytest.raises(BuildError, match="floor division, modulo, bits and shifts are for integers"):
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

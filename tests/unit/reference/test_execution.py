from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.errors import KernelError
from metasched.functions.registry import functions
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Block,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Func,
    Load,
    Reducer,
    Scalar,
    Select,
    Store,
    Unary,
    UnOp,
    Var,
    seq,
)
from metasched.lang import parse_program
from metasched.reference import compiled_loops
from metasched.reference.compiled_loops import run_compiled
from metasched.reference.execution import Precision, reference, reference_with_bound
from metasched.reference.interpreter import interpret
from metasched.reference.machine_code import Optimisation
from metasched.reference.state import ExecutionError, State, new_state, outputs
from metasched.reference.work import INTERPRETED_WORK, count_nodes
from tests.support.math_domains import domain_of
from tests.support.nests import (
    F32,
    ZERO,
    block,
    both,
    buf,
    c,
    conv,
    dense,
    func,
    ld,
    loops,
    random_inputs,
    select,
    serial,
    v,
)

EXECUTORS: tuple[Callable[[Func, State], None], ...] = (
    interpret,
    *(partial(run_compiled, optimisation=one) for one in Optimisation),
)


def both_ways(f: Func, inputs: list[np.ndarray], **scalars: float) -> np.ndarray:
    """Interpreted and compiled, with little work for LLVM and with much, which must agree."""
    results = []
    for executor in EXECUTORS:
        arrays = {b.name: np.asarray(a) for b, a in zip(f.inputs, inputs, strict=True)}
        state = new_state(f, arrays, {s.name: s.dtype.numpy.type(scalars[s.name]) for s in f.scalars})
        executor(f, state)
        results.append(outputs(f, state)[0])
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)
        assert results[0].dtype == result.dtype
    return results[0]


def elementwise(value: Expr, n: int = 8, dtype: DType = F32) -> Func:
    body = serial(block("b", {"i": (n, c(0))}, Store("Y", (v("i"),), value)))
    return func("f", [buf("X", n, dtype=dtype)], [buf("Y", n, dtype=value.dtype)], [], body)


def test_dense_matches_numpy() -> None:
    f = dense(5, 7, 3)
    a, b = random_inputs(f)
    np.testing.assert_array_equal(both_ways(f, [a, b]), np.maximum(a @ b, 0))


def test_convolution_reads_its_padding_lazily() -> None:
    f = conv(5, 4, 3, 2)
    x, k = random_inputs(f)
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    expected = np.zeros((5, 4, 2), np.float32)
    for r in range(3):
        for s in range(3):
            expected += padded[r : r + 5, s : s + 4] @ k[r, s]
    np.testing.assert_array_equal(both_ways(f, [x, k]), expected)


def test_large_programs_are_compiled_and_agree_with_numpy() -> None:
    f = dense(64, 64, 64)
    a, b = random_inputs(f)
    assert count_nodes(f.body) > 2 * INTERPRETED_WORK
    np.testing.assert_array_equal(reference(f)(a, b), np.maximum(a @ b, 0))


def test_only_what_runs_for_long_is_optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def load(text: str, arguments: int, optimisation: Optimisation) -> Callable[..., int]:
        seen.append(optimisation)
        return lambda *_: 0

    monkeypatch.setattr(compiled_loops, "_load_nest", load)
    for f in (dense(64, 63, 62), dense(300, 299, 298)):
        run_compiled(f, new_state(f, {b.name: np.zeros((1, 1), np.float32) for b in f.inputs}, {}))
    assert seen == [Optimisation.NONE, Optimisation.NONE, Optimisation.FULL, Optimisation.NONE]


def test_scheduled_nest_with_guards_and_reduction_outermost() -> None:
    mm = block(
        "dense",
        {"vi": (7, v("i0") * 4 + v("i1")), "vj": (5, v("j")), "vk": (9, v("k0") * 4 + v("k1"))},
        Store("C", (v("vi"), v("vj")), ld("A", v("vi"), v("vk")) * ld("B", v("vk"), v("vj"))),
        guards=(v("i0") * 4 + v("i1") < 7, v("k0") * 4 + v("k1") < 9),
        reduce=("vk",),
    )
    f = func(
        "mm",
        [buf("A", 7, 9), buf("B", 9, 5)],
        [buf("C", 7, 5)],
        [],
        loops([("k0", 3), ("i0", 2), ("k1", 4), ("j", 5), ("i1", 4)], mm),
    )
    a, b = random_inputs(f)
    np.testing.assert_array_equal(both_ways(f, [a, b]), a @ b)


def test_elements_recomputed_by_overlapping_tiles_start_afresh() -> None:
    """Each tile of Y computes the three sums it needs, two of which the tile before has computed as well."""
    sums = block(
        "sums",
        {"vi": (6, v("t") + v("x")), "vk": (3, v("k"))},
        Store("S", (v("vi"),), ld("A", v("vi"), v("vk"))),
        reduce=("vk",),
    )
    use = block(
        "use",
        {"vt": (4, v("t"))},
        Store("Y", (v("vt"),), ld("S", v("vt")) + ld("S", v("vt") + 1) + ld("S", v("vt") + 2)),
    )
    body = For(
        "t",
        c(4),
        seq([loops([("x", 3), ("k", 3)], sums), use]),
    )
    f = func("overlap", [buf("A", 6, 3)], [buf("Y", 4)], [buf("S", 6)], body)
    (a,) = random_inputs(f)
    s = a.sum(1)
    np.testing.assert_array_equal(both_ways(f, [a]), s[:4] + s[1:5] + s[2:6])


def test_an_empty_reduction_is_its_initial_value() -> None:
    """The inner factor exceeds the extent, so some partial sums have no terms."""
    partial = block(
        "partial",
        {"vk1": (4, v("k1")), "vk0": (1, v("k0"))},
        Store("P", (v("vk1"),), ld("A", v("vk0") * 4 + v("vk1"))),
        guards=(v("k0") * 4 + v("k1") < 3,),
        reduce=("vk0",),
    )
    f = func("rf", [buf("A", 3)], [buf("P", 4)], [], loops([("k1", 4), ("k0", 1)], partial))
    np.testing.assert_array_equal(both_ways(f, [np.array([1, 2, 3], np.float32)]), [1, 2, 3, 0])


@pytest.mark.parametrize("dtype", [DType.I8, DType.U8, DType.I16, DType.I32, DType.I64, DType.F32, DType.F64])
def test_arithmetic_stays_in_its_type(dtype: DType) -> None:
    """A row of the result for each operation."""
    x = ld("X", v("i"), dtype=dtype)
    data = np.random.default_rng(0).integers(0, 250, 8).astype(dtype.numpy)
    other = np.array(100).astype(dtype.numpy)
    constant = Const(float(other) if dtype.is_float else int(other), dtype)
    operations = {
        BinOp.ADD: np.add,
        BinOp.SUB: np.subtract,
        BinOp.MUL: np.multiply,
        BinOp.MIN: np.minimum,
        BinOp.MAX: np.maximum,
    }
    value: Expr = x
    for n, op in enumerate(operations):
        value = Select(Binary(BinOp.EQ, v("o"), c(n)), Binary(op, x, constant), value)
    body = serial(block("b", {"o": (5, c(0)), "i": (8, c(0))}, Store("Y", (v("o"), v("i")), value)))
    got = both_ways(func("f", [buf("X", 8, dtype=dtype)], [buf("Y", 5, 8, dtype=dtype)], [], body), [data])
    np.testing.assert_array_equal(got, [ufunc(data, other) for ufunc in operations.values()])


def test_division_and_remainder_round_down() -> None:
    x = ld("X", v("i"), dtype=DType.I32)
    data = np.array([-7, -6, -1, 0, 1, 5, 6, 7], np.int32)
    three = Const(3, DType.I32)
    np.testing.assert_array_equal(both_ways(elementwise(x // three, dtype=DType.I32), [data]), data // 3)
    np.testing.assert_array_equal(both_ways(elementwise(x % three, dtype=DType.I32), [data]), data % 3)
    np.testing.assert_array_equal(
        both_ways(elementwise(Binary(BinOp.CEILDIV, x, three), dtype=DType.I32), [data]), -(-data // 3)
    )


def test_casts_conditions_and_negation() -> None:
    x = ld("X", v("i"), dtype=DType.I32)
    data = np.arange(-4, 4, dtype=np.int32)
    value = select(Unary(UnOp.NOT, both(x > -2, x < 2)), Unary(UnOp.NEG, Cast(x, F32)))
    expected = np.where(~((data > -2) & (data < 2)), -data, 0).astype(np.float32)
    np.testing.assert_array_equal(both_ways(elementwise(value, dtype=DType.I32), [data]), expected)
    wraps = Cast(x * Const(100, DType.I32), DType.I8)
    np.testing.assert_array_equal(both_ways(elementwise(wraps, dtype=DType.I32), [data]), (data * 100).astype(np.int8))


def test_maximum_propagates_nan() -> None:
    data = np.array([1, np.nan, -1, 5, np.inf, -np.inf, np.nan, 0], np.float32)
    x = ld("X", v("i"))
    np.testing.assert_array_equal(both_ways(elementwise(Binary(BinOp.MAX, x, ZERO)), [data]), np.maximum(data, 0))
    peak = block(
        "m",
        {"k": (8, c(0))},
        Store("Y", (), ld("X", v("k"))),
        reduce=("k",),
        reducer=Reducer.MIN,
        init=Const(math.inf, F32),
    )
    assert np.isnan(both_ways(func("f", [buf("X", 8)], [buf("Y")], [], serial(peak)), [data]))


def test_every_math_function() -> None:
    """A row of the result for each function."""
    x = ld("X", v("i"))
    data = np.linspace(0.125, 0.875, 8).astype(np.float32)
    value: Expr = x

    def shift(name: str) -> float:
        return 0.0 if domain_of(name)[0] < 1 else 1.0

    for n, function in enumerate(functions().values()):
        given = x + shift(function.name)
        value = Select(Binary(BinOp.EQ, v("o"), c(n)), Call(function.name, (given,) * function.arity, F32), value)
    rows = len(functions())
    body = serial(block("b", {"o": (rows, c(0)), "i": (8, c(0))}, Store("Y", (v("o"), v("i")), value)))
    f = func("f", [buf("X", 8)], [buf("Y", rows, 8)], [], body)
    expected = [[fn.evaluate(*[float(d) + shift(fn.name)] * fn.arity) for d in data] for fn in functions().values()]
    np.testing.assert_allclose(both_ways(f, [data]), np.array(expected, np.float32), rtol=2e-7)
    ((result, bound),) = reference_with_bound(f)(data)
    assert np.all(bound >= np.abs(result) * (1 - 1e-12))


def test_scalars_are_arguments() -> None:
    f = elementwise(ld("X", v("i")) * Var("alpha", F32))
    f = replace(f, scalars=(Scalar("alpha", F32),), order=("alpha", "X"))
    data = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(both_ways(f, [data], alpha=2.5), data * 2.5)
    np.testing.assert_array_equal(reference(f)(2.5, data), data * 2.5)


def test_several_outputs_are_a_tuple() -> None:
    a = serial(block("a", {"i": (4, c(0))}, Store("P", (v("i"),), ld("X", v("i")) + 1.0)))
    b = serial(block("b", {"i": (4, c(0))}, Store("Q", (v("i"),), ld("P", v("i")) * 2.0)))
    f = func("two", [buf("X", 4)], [buf("P", 4), buf("Q", 4)], [], a, b)
    p, q = reference(f)(np.arange(4, dtype=np.float32))
    np.testing.assert_array_equal(p, [1, 2, 3, 4])
    np.testing.assert_array_equal(q, [2, 4, 6, 8])


def drop_guarded(f: Func) -> Block:
    (b,) = [s for s in f.body.walk() if isinstance(s, Block)]
    return b


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_is_never_written_is_an_error(executor: object) -> None:
    f = elementwise(ld("X", v("i")))
    b = replace(drop_guarded(f), guards=(v("i_b") < 7,))
    f = replace(f, body=For("i_b", c(8), b))
    state = new_state(f, {"X": np.zeros(8, np.float32)}, {})
    executor(f, state)  # type: ignore[operator]
    with pytest.raises(ExecutionError, match=r"output `Y\[7\]` is never written"):
        outputs(f, state)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_reading_before_writing_is_an_error(executor: object) -> None:
    f = dense(2, 2, 2)
    first, second = f.body.stmts  # type: ignore[attr-defined]
    f = replace(f, body=replace(f.body, stmts=(second, first)))  # type: ignore[type-var]
    state = new_state(f, {"A": np.zeros((2, 2), np.float32), "B": np.zeros((2, 2), np.float32)}, {})
    with pytest.raises(ExecutionError, match="read before it is written"):
        executor(f, state)  # type: ignore[operator]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_leaving_a_buffer_is_an_error(executor: object) -> None:
    f = elementwise(ld("X", v("i") - 1))
    with pytest.raises(ExecutionError, match="outside"):
        executor(f, new_state(f, {"X": np.zeros(8, np.float32)}, {}))  # type: ignore[operator]


def test_arithmetic_on_indices_wraps_at_64_bits() -> None:
    f = elementwise((v("i") * c(2**62) + c(2**62)) * c(3))
    expected = (np.arange(8, dtype=np.int64) * 2**62 + 2**62) * 3
    np.testing.assert_array_equal(both_ways(f, [np.zeros(8, np.float32)]), expected)


def test_storing_outside_a_buffer_is_an_error() -> None:
    f = func(
        "f", [], [buf("Y", 8)], [], For("i", c(8), block("b", {"vi": (9, v("i") + 1)}, Store("Y", (v("vi"),), ZERO)))
    )
    with pytest.raises(ExecutionError, match=r"`Y\[8\]` is outside its shape \(8,\)"):
        interpret(f, new_state(f, {}, {}))


def test_nests_and_expressions_may_be_deeper_than_python_s() -> None:
    value: Expr = ld("X", v("vi"))
    index, n = v("i0") * 2 + v("i59"), 60
    for depth in range(1, n):
        value = select(v("vi") > depth, -value + 1.0, ld("X", c(depth % 16)))
    nest = [("i0", 8), *((f"i{depth}", 1) for depth in range(1, n - 1)), (f"i{n - 1}", 2)]
    stage = block("b", {"vi": (16, index)}, Store("Y", (v("vi"),), value))
    f = func("f", [buf("X", 16)], [buf("Y", 16)], [], loops(nest, stage))
    x = np.arange(16, dtype=np.float32)
    expected = x.copy()
    for depth in range(1, n):
        expected = np.where(np.arange(16) > depth, 1 - expected, x[depth % 16])
    state = new_state(f, {"X": x}, {})
    interpret(f, state)
    np.testing.assert_array_equal(outputs(f, state)[0], expected)


def test_arguments_are_checked() -> None:
    f = dense(2, 2, 2)
    a = np.zeros((2, 2), np.float32)
    with pytest.raises(KernelError, match="takes 2 arguments"):
        reference(f)(a)
    with pytest.raises(KernelError, match=r"takes 1 argument \(A\), not 2"):
        reference(replace(f, order=("A",)))(a, a)
    with pytest.raises(KernelError, match=r"`B` is f32\[2, 2\], got float64\[2, 2\]"):
        reference(f)(a, a.astype(np.float64))


def test_arguments_may_be_given_by_name() -> None:
    f = dense(2, 3, 2)
    a, b = np.arange(4, dtype=np.float32).reshape(2, 2), np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(reference(f)(B=b, A=a), reference(f)(a, b))
    with pytest.raises(KernelError, match="has no argument `C`"):
        reference(f)(a, C=b)


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        (DType.I32, 1.9, r"`k` is a float; f takes an integer \(i32\)"),
        (DType.I32, "7", r"`k` is a str; f takes an integer \(i32\)"),
        (DType.I32, np.array([3]), r"`k` is an ndarray; f takes an integer \(i32\)"),
        (DType.I32, 2**40, "`k` is 1099511627776, which is not in i32's range"),
        (DType.U8, -1, "`k` is -1, which is not in u8's range"),
        (DType.BOOL, 2, "`k` is an int; f takes a bool"),
        (DType.F32, 10**400, "`k` is larger than any number of f32"),
        (DType.F32, True, r"`k` is a bool; f takes a number \(f32\)"),
    ],
)
def test_scalars_are_refused_as_kernels_refuse_them(dtype: DType, value: object, message: str) -> None:
    f = replace(elementwise(ld("X", v("i"))), name="f", scalars=(Scalar("k", dtype),), order=("k", "X"))
    with pytest.raises(KernelError, match=message):
        reference(f)(value, np.zeros(8, np.float32))


def test_double_precision_keeps_what_float32_loses() -> None:
    total = block("t", {"k": (3, c(0))}, Store("Y", (), ld("X", v("k"))), reduce=("k",))
    f = func("f", [buf("X", 3)], [buf("Y")], [], serial(total))
    data = np.array([1e8, 1, -1e8], np.float32)
    assert reference(f)(data) == 0
    exact = reference(f, Precision.DOUBLE)(data)
    assert isinstance(exact, np.ndarray)
    assert exact == 1
    assert exact.dtype == np.float64


def test_bound_is_the_sum_of_absolute_terms_through_stages() -> None:
    f = dense(4, 5, 6)
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((4, 6), (6, 5)))
    ((expected, bound),) = reference_with_bound(f)(a, b)
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(expected, np.maximum(a64 @ b64, 0), rtol=1e-13)
    np.testing.assert_allclose(bound, np.abs(a64) @ np.abs(b64), rtol=1e-13)


def test_bound_covers_the_other_side_of_a_select() -> None:
    x = ld("X", v("i")) + 1.0
    ((_, bound),) = reference_with_bound(elementwise(select(x > 0.0, x)))(np.array([-3, 2] * 4, np.float32))
    np.testing.assert_array_equal(bound, [4, 6] * 4)


def test_bound_of_what_is_chosen_by_arguments_as_they_are_is_that_of_the_side() -> None:
    x = ld("X", v("i"))
    ((_, bound),) = reference_with_bound(elementwise(select(x > 0.0, x)))(np.array([-3, 2] * 4, np.float32))
    np.testing.assert_array_equal(bound, [0, 2] * 4)


def test_integers_have_no_bound() -> None:
    x = ld("X", v("i"), dtype=DType.I64)
    data = np.full(8, 2**60 + 1, np.int64)
    ((expected, bound),) = reference_with_bound(elementwise(x + 1, dtype=DType.I64))(data)
    np.testing.assert_array_equal(expected, data + 1)
    np.testing.assert_array_equal(bound, np.zeros(8))


def test_a_bound_of_max_ignores_the_infinite_start() -> None:
    peak = block(
        "m",
        {"k": (8, c(0))},
        Store("Y", (), ld("X", v("k"))),
        reduce=("k",),
        reducer=Reducer.MAX,
        init=Const(-math.inf, F32),
    )
    f = func("f", [buf("X", 8)], [buf("Y")], [], serial(peak))
    ((expected, bound),) = reference_with_bound(f)(-np.arange(1, 9, dtype=np.float32))
    np.testing.assert_array_equal((expected, bound), (-1, 8))


def partly_written(last: int) -> Func:
    """Writes 6 of 8 elements of T, and reads those up to `last`."""
    fill = block("fill", {"i": (6, v("x"))}, Store("T", (v("i"),), ld("X", v("i")) + 1.0))
    use = block("use", {"i": (last, v("y"))}, Store("Y", (v("i"),), ld("T", v("i"))))
    return func("f", [buf("X", 8)], [buf("Y", last)], [buf("T", 8)], loops([("x", 6)], fill), loops([("y", last)], use))


def test_elements_that_nobody_reads_need_not_be_written() -> None:
    np.testing.assert_array_equal(both_ways(partly_written(6), [np.arange(8, dtype=np.float32)]), np.arange(1, 7))


def test_a_read_of_what_an_earlier_nest_left_out_is_an_error() -> None:
    f = partly_written(7)
    with pytest.raises(ExecutionError, match="read before it is written"):
        run_compiled(f, new_state(f, {"X": np.zeros(8, np.float32)}, {}))


def test_rounding_follows_the_order_of_the_program() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((4, 50), np.float32), rng.standard_normal((50, 4), np.float32)
    both_ways(dense(4, 4, 50), [a, b])


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_powers_of_special_values_are_those_of_c(executor: Callable[[Func, State], None], dtype: DType) -> None:
    inf, nan = math.inf, math.nan
    table = [
        *[
            (-inf, 0.5, inf),
            (-inf, 3.0, -inf),
            (-inf, -3.0, -0.0),
            (-inf, -0.5, 0.0),
            (-inf, 2.0, inf),
            (inf, -1.0, 0.0),
        ],
        *[
            (-0.0, 0.5, 0.0),
            (-0.0, 3.0, -0.0),
            (-0.0, -3.0, -inf),
            (0.0, -3.0, inf),
            (-0.0, -2.0, inf),
            (0.0, -0.5, inf),
        ],
        *[
            (-8.0, 0.5, nan),
            (-8.0, 1 / 3, nan),
            (-2.0, 3.0, -8.0),
            (-2.0, -2.0, 0.25),
            (nan, 0.0, 1.0),
            (1.0, nan, 1.0),
        ],
        *[(-1.0, inf, 1.0), (-1.0, -inf, 1.0), (0.5, inf, 0.0), (2.0, -inf, 0.0), (nan, 1.0, nan), (2.0, nan, nan)],
        *[(inf, 0.0, 1.0), (-inf, -inf, 0.0), (-inf, inf, inf), (0.0, inf, 0.0), (0.0, -inf, inf), (4.0, 0.5, 2.0)],
    ]
    n, at = len(table), (v("i"),)
    value = Call("pow", (Load("X", at, dtype), Load("P", at, dtype)), dtype)
    body = serial(block("b", {"i": (n, c(0))}, Store("Y", at, value)))
    f = func("f", [buf("X", n, dtype=dtype), buf("P", n, dtype=dtype)], [buf("Y", n, dtype=dtype)], [], body)
    bases, powers, expected = (np.array(column).astype(dtype.numpy) for column in zip(*table, strict=True))
    state = new_state(f, {"X": bases, "P": powers}, {})
    executor(f, state)
    result, right = (x.astype(np.float64) for x in (outputs(f, state)[0], expected))
    np.testing.assert_array_equal(result, right)
    numbers = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(right[numbers]))


def test_the_bound_of_a_program_with_an_argument_of_no_dimensions() -> None:
    program = parse_program("program p(A: f32[2], c: f32[]) -> Y: f32[2]:\n    Y[i] = max(A[i], c[])\n")
    ((value, bound),) = reference_with_bound(program.func)(np.array([-3, 2], np.float32), np.array(-1, np.float32))
    assert value.tolist() == [-1, 2]
    assert bound.tolist() == [3, 2]

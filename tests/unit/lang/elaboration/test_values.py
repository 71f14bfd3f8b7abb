"""Expressions of a stage: their types, and the elements that they read."""

from __future__ import annotations

import pytest

from metasched.dtypes import DType
from metasched.ir.nodes import Call, Cast, Const, Expr, Load, Select
from metasched.lang import parse_program
from tests.support.stages import SIGNATURE, blocks, mistakes, of_stages

# --- bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "A[i, j - 1] if j > 0 else 0",
        "A[i, j - 1] if not j < 1 else 0",
        "0 if j < 1 else A[i, j - 1]",
        "0 if j < 1 or i > 3 else A[i + 4, j - 1]",
        "A[i + j, j] if i + j < 8 else 0",
        "A[i + j, j] if 7 >= j + i else 0",
        "A[i - j, j] if i >= j else 0",
        "A[2 * i - j, j] if 2 * i >= j and 2 * i < j + 8 else 0",
        "A[i, (i - j) // 2] if i >= j and i - j < 8 else 0",
        "A[i, j % 4]",
        "A[i, (i + j) % 4]",
        "A[i // 2 * 2, j]",
        "A[i, min(i, 3)]",
        "A[i, max(j - 2, 0)]",
        "A[i, j + 1] if j == 2 else 0",
        "A[7 - i, 3 - j]",
        "A[i, j + 9] if 1 > 2 else 0",
        "A[i, j - 1] if j >= 1 and B[i] > 0 else 0",
    ],
)
def test_reads_inside(value: str) -> None:
    of_stages(f"C[i, j] = {value} + B[i]")


@pytest.mark.parametrize(
    ("read", "told"),
    [
        ("A[i, j - 1]", "1 below"),
        ("A[i + 1, j]", "1 above"),
        ("A[i, i - 1]", "1 below and 3 above"),
        ("A[i, j - 1] if i > 0 else 0", "1 below"),
        ("A[i, j - 1] if j > 0 or i > 0 else 0", "1 below"),
        ("A[i, j - 1] if j < 1 else 0", "1 below"),
        ("A[i, j * j]", "6 above"),
        ("A[i, (i + j) // 2]", "2 above"),
        ("A[i, j + 1] if B[i] > 0 else 0", "1 above"),
    ],
)
def test_reads_outside(read: str, told: str) -> None:
    (message,) = mistakes(f"C[i, j] = ({read}) + B[i]")
    assert f"by {told}" in message


def test_a_scalar_is_not_bounded() -> None:
    (message,) = mistakes("C[i, j] = A[i, n]", signature="A: f32[8, 4], n: i64) -> C: f32[8, 4]")
    assert "any amount below and any amount above" in message
    of_stages("C[i, j] = A[i, n] if n >= 0 and n < 4 else 0", signature="A: f32[8, 4], n: i64) -> C: f32[8, 4]")


# --- types -----------------------------------------------------------------------------------------------

_MIXED = "A: f32[8, 4], B: i32[8]) -> C: f32[8, 4]"


def value_of(value: str, signature: str = SIGNATURE) -> Expr:
    return blocks(of_stages(f"C[i, j] = {value}", signature=signature))["C"].store.value


def test_literals_take_the_type_of_the_context() -> None:
    for text, constant in [("0", 0.0), ("0.5", 0.5), ("(2 * 3)", 6.0), ("(1 / 4)", 0.25), ("sqrt(4)", 2.0)]:
        total = value_of(f"A[i, j] * {text} + B[i]")
        assert Const(constant, DType.F32) in total.walk()


def test_sizes_are_numbers_too() -> None:
    program = parse_program("program p[N=4](A: f32[N]) -> C: f32[N]:\n  C[i] = A[i] / N + 1 / sqrt(N)\n")
    constants = {n.value for n in blocks(program)["C"].store.value.walk() if isinstance(n, Const) and n.type.is_float}
    assert constants == {4.0, 0.5}


def test_conditionals_of_literals() -> None:
    value = value_of("A[i, j] + B[i] if i == j else (1 if i < 3 else 0)")
    assert isinstance(value, Select)
    assert isinstance(value.otherwise, Select)
    assert value.otherwise.dtype is DType.F32


def test_a_condition_known_now_leaves_one_side() -> None:
    assert isinstance(value_of("A[i, j] if 2 > 1 else B[i]", "A: f32[8, 4], B: f32[8]) -> C: f32[8, 4]"), Load)


def test_casts() -> None:
    value = value_of("A[i, j] * f32(B[i]) + f32(i)", _MIXED)
    assert {n.type for n in value.walk() if isinstance(n, Cast)} == {DType.F32}
    assert not [n for n in value_of("f32(A[i, j]) + B[i]").walk() if isinstance(n, Cast)]


def test_integer_programs() -> None:
    signature = "X: u8[4], Y: i8[4]) -> s: i32[]"
    program = of_stages("s[] = sum[k](i32(X[k]) * i32(Y[k]))", signature=signature)
    assert blocks(program)["s"].init == Const(0, DType.I32)


def test_math_functions() -> None:
    value = value_of("exp(A[i, j]) + pow(B[i], 2)")
    calls = [n for n in value.walk() if isinstance(n, Call)]
    assert [(c.func, c.type) for c in calls] == [("exp", DType.F32), ("pow", DType.F32)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("A[i, j] + B[i]", "`B[i]` is i32 where f32 is needed"),
        ("A[i, j] + f32(B[i] + 0.5)", "`0.5` is not a whole number where i32 is needed"),
        ("A[i, j] + f32(B[i] / 2)", "`/` is not defined on i32, in `B[i] / 2`"),
        ("A[i, j] // 2 + f32(B[i])", "`//` is not defined on f32, in `A[i, j] // 2`"),
        ("A[i, j] + i", "`i` is i64 where f32 is needed"),
        ("A[i, j] if B[i] else 0", "`B[i]` is i32 where bool is needed"),
        ("A[i, j] > 0", "`A[i, j] > 0` is bool where f32 is needed"),
        ("A[i, j] + (B[i] > 0)", "`B[i] > 0` is bool where f32 is needed"),
        ("exp(B[i]) + A[i, j]", "`exp` is not defined on i32"),
        ("exp(A[i, j], 2)", "`exp` takes 1 argument, not 2"),
        ("max(A[i, j])", "`max` takes 2 arguments, not 1"),
        ("expp(A[i, j])", "`expp` is not a function"),
        ("sum(A[i, j])", "`sum` is not a function"),
        ("A(i, j)", "`A` is not a function"),
        ("A + f32(B[i])", "`A` is a tensor and needs its indices"),
        ("A[i] + f32(B[i])", "`A[i]` has 1 index, and `A` has 2 dimensions: [8, 4]"),
        ("C[i, j] + 1", "`C` is read by the stage that defines it"),
        ("Q[i] + 1", "`Q` is not declared"),
        ("q + 1", "`q` is not declared"),
        ("A[i, i32(B[i])]", "nothing says that `i32(B[i])` stays inside `A`, whose dimension 1 has 4 elements"),
        ("A[i, j // (i + 1)]", "the index `j // (i + 1)` divides by what may not be positive"),
        ("A[i, j] * (1 // 0)", "`1 // 0` divides by zero"),
        ("A[i, j] * log(0)", "`log(0)` has no value: outside the function's domain"),
        ("f32(B[i] + 3000000000)", "3000000000 does not fit in i32, which goes from -2147483648 to 2147483647"),
        ("-(i < 3)", "`-(i < 3)` negates a bool"),
    ],
)
def test_wrong_expressions(value: str, message: str) -> None:
    assert message in mistakes(f"C[i, j] = {value}", signature=_MIXED)

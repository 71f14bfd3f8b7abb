"""Parameters that are element types: `program p[N=4, T=f32, ACC=T](A: T[N]) -> ...`."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.ir.nodes import Cast

MATMUL = """\
program matmul[M=4, N=5, K=6, T=f32, U=T, ACC=T](A: T[M, K], B: U[K, N], alpha: ACC) -> C: ACC[M, N]:
    C[i, j] = sum[k](ACC(A[i, k]) * ACC(B[k, j]) * alpha)
"""
COPY = "program copy[N=4, T=f32](A: T[N]) -> C: T[N]:\n    C[i] = A[i]\n"


def casts(program: ms.Program) -> list[Cast]:
    return [node for node in program.func.body.walk() if isinstance(node, Cast)]


def test_defaults_follow_earlier_parameters() -> None:
    program = ms.parse_program(MATMUL, T="f64")
    assert program.params == (("M", 4), ("N", 5), ("K", 6), ("T", "f64"), ("U", "f64"), ("ACC", "f64"))
    assert [b.dtype for b in (*program.inputs, *program.outputs)] == [DType.F64] * 3
    assert program.scalars[0].dtype is DType.F64


def test_a_cast_to_the_type_it_has_is_none() -> None:
    assert not casts(ms.parse_program(MATMUL))
    assert [c.type for c in casts(ms.parse_program(MATMUL, T="i8", ACC="i32"))] == [DType.I32] * 2


def test_a_program_is_that_of_the_types_written_out() -> None:
    plain = ms.parse_program(
        "program matmul[M=4, N=5, K=6](A: i8[M, K], B: u8[K, N], alpha: i32) -> C: i32[M, N]:\n"
        "    C[i, j] = sum[k](i32(A[i, k]) * i32(B[k, j]) * alpha)\n"
    )
    assert ms.parse_program(MATMUL, T="i8", U="u8", ACC="i32").func == plain.func


def test_prints_and_parses_back() -> None:
    program = ms.parse_program(MATMUL, T="i8", ACC="i32")
    assert str(program) == MATMUL
    assert ms.parse_program(str(program), **dict(program.params)) == program
    assert program.key == "matmul[M=4, N=5, K=6, T=i8, U=i8, ACC=i32]"


def test_traces_name_the_types() -> None:
    program = ms.parse_program(MATMUL, T="i8", ACC="i32")
    trace = ms.Schedule(program).trace
    assert str(trace).startswith("trace 1 of matmul[M=4, N=5, K=6, T=i8, U=i8, ACC=i32]:")
    assert ms.parse_trace(str(trace)) == trace
    with pytest.raises(ms.ScheduleError, match="T=i8"):
        trace.apply_to(ms.parse_program(MATMUL))


def test_element_types_are_given_by_name_or_as_such() -> None:
    assert ms.parse_program(COPY, T=str(DType.F64)) == ms.parse_program(COPY, T=DType.F64)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("program p[T=f33](A: T[4]) -> C: T[4]:\n    C[i] = A[i]", "`f33` is not an element type"),
        ("program p[U=T, T=f32](A: U[4]) -> C: T[4]:\n    C[i] = T(A[i])", "`T` is not an element type"),
        ("program p[T=f32](A: f32[4]) -> C: f32[4]:\n    C[i] = A[i]", "the parameter `T` is never used"),
        ("program p[exp=f32](A: exp[4]) -> C: exp[4]:\n    C[i] = A[i]", "`exp` is a function"),
        ("program p[T=f32](A: T[T]) -> C: T[4]:\n    C[i] = A[i]", "`T` is not a size"),
        ("program p[T=f32](A: V[4]) -> C: T[4]:\n    C[i] = A[i]", "`V` is not an element type"),
    ],
)
def test_mistakes_in_a_program(text: str, message: str) -> None:
    with pytest.raises(ms.LanguageError, match=message):
        ms.parse_program(text)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"T": "f3"}, "the parameter `T` is an element type, not 'f3'"),
        ({"T": 3}, "the parameter `T` is an element type, not 3"),
        ({"N": "f32"}, "the parameter `N` is a whole number, not 'f32'"),
    ],
)
def test_mistakes_in_settings(params: dict[str, int | str], message: str) -> None:
    with pytest.raises(ms.LanguageError, match=message):
        ms.parse_program(COPY, **params)

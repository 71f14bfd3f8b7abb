"""Stages with two targets, and indices that are data: what they become, and what is wrong with them."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.dtypes import DType
from metasched.errors import LanguageError
from metasched.ir import query
from metasched.ir.printer import print_func
from metasched.ir.program import Program
from metasched.ir.validate import validate
from metasched.lang.load import parse_program


def program(*stages: str, signature: str = "X: f32[6, 8, 5]) -> (V: f32[6], P: i64[6]") -> Program:
    closing = ")" if "-> (" in signature else ""
    return parse_program(f"program p({signature}{closing}:\n" + "".join(f"    {s}\n" for s in stages))


def mistake(*stages: str, signature: str = "X: f32[6, 8, 5]) -> (V: f32[6], P: i64[6]") -> str:
    with pytest.raises(LanguageError) as caught:
        program(*stages, signature=signature)
    return str(caught.value)


def test_a_position_is_row_major_over_the_axes_as_written() -> None:
    made = program("lab: V[i], P[i] = argmax[h, w](X[i, h, w])")
    assert "lab: V[i], P[i] argmax= X[i, h, w], h*5 + w  init -inf" in print_func(made.func)
    validate(made.func)
    assert str(made) == str(parse_program(str(made)))
    (block,) = query.blocks(made.func)
    assert query.written_buffers(block) == ("V", "P")
    turned = program("V[i], P[i] = argmin[w, h](X[i, h, w])")
    assert "argmin= X[i, h, w], h + w*8  init inf" in print_func(turned.func)
    assert turned.structural_hash() != made.structural_hash()


def test_positions_are_of_the_declared_type() -> None:
    made = program("V[i], P[i] = argmax[h, w](X[i, h, w])", signature="X: f32[6, 8, 5]) -> (V: f32[6], P: i32[6]")
    assert query.blocks(made.func)[0].index.value.dtype is DType.I32  # type: ignore[union-attr]
    inner = program("V[i], Q[i] = argmax[h, w](X[i, h, w])", signature="X: f32[6, 8, 5]) -> V: f32[6]")
    assert inner.func.buffer("Q").dtype is DType.I64


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        ("P[i] = argmax[h, w](X[i, h, w])", "name both: `P_value[i], P[i] = argmax[h, w](X[i, h, w])`"),
        ("V[i], P[i] = sum[h, w](X[i, h, w])", "computed by one stage, which has one result"),
        ("V[i], P[j] = argmax[h, w](X[i, h, w])", "`V` and `P` have different indices"),
        ("V[i], P[i] = argmax[h, w](X[i, h, w]) + 1", "is a stage's whole right-hand side"),
        ("V[i], P[i] = argmax[h, w](X[i, h, w] > 0)", "`argmax` is not defined on bool"),
        ("V[i], V[i] = argmax[h, w](X[i, h, w])", "`V` is computed twice"),
    ],
)
def test_mistakes(stage: str, message: str) -> None:
    dtype = "bool" if ">" in stage else "f32"
    assert message in mistake(stage, signature=f"X: f32[6, 8, 5]) -> (V: {dtype}[6], P: i64[6]")


def test_positions_are_integers_that_fit() -> None:
    stage = "V[i], P[i] = argmax[h, w](X[i, h, w])"
    found = mistake(stage, signature="X: f32[6, 8, 5]) -> (V: f32[6], P: f32[6]")
    assert "`P` holds positions, and is declared as f32" in found
    found = mistake(stage, signature="X: f32[6, 80, 5]) -> (V: f32[6], P: i8[6]")
    assert "there are 400 positions, more than i8 can hold" in found
    found = mistake(stage, signature="X: f32[6, 8, 5]) -> (V: f32[6], P: i64[7]")
    assert "`P` is declared with another shape than `V`" in found


# --- indices that are data -------------------------------------------------------------------------------

GATHER = "T: f32[50, 4], I: i32[9]) -> Y: f32[9, 4]"


def test_an_input_that_is_an_index_has_its_range() -> None:
    made = program("Y[i, j] = T[I[i], j]", signature=GATHER)
    assert "I: i32[9] < 50" in print_func(made.func)
    validate(made.func)


def test_the_smallest_of_what_is_indexed_counts() -> None:
    made = program("Y[i] = T[I[i]] + U[I[i]]", signature="T: f32[50], U: f32[40], I: i64[9]) -> Y: f32[9]")
    assert "I: i64[9] < 40" in print_func(made.func)


def test_conditions_and_positions_say_what_data_is() -> None:
    guarded = program("Y[i, j] = T[I[i], j] if I[i] >= 0 and I[i] < 50 else 0", signature=GATHER)
    assert guarded.func.buffer("I").below is None
    picked = program(
        "V[i], P[i] = argmax[k](X[i, k])", "Y[i] = X[i, P[i]] - V[i]", signature="X: f32[6, 8]) -> Y: f32[6]"
    )
    validate(picked.func)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (
            "Y[i, j] = T[I[i] + 1, j]",
            "nothing says that `I[i] + 1` stays inside `T`, whose dimension 0 has 50 elements",
        ),
        ("Y[i, j] = T[I[i] + 1, j]", "keep the index inside by `clamp(I[i] + 1, 0, 49)`, or guard the read"),
        ("Y[i, j] = T[i8(I[i]), j]", "nothing says that `i8(I[i])` stays inside `T`"),
        ("Y[I[i], j] = T[i, j]", "`I[i]` would say by data where to write"),
        ("Y[I[i], j] = T[i, j]", "`Y[j] = sum[i](X[i] if i64(I[i]) == j else 0)`"),
    ],
)
def test_mistakes_of_gathers(stage: str, message: str) -> None:
    assert message in mistake(stage, signature=GATHER)


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_what_the_hint_for_a_scatter_says_is_a_program(dtype: str) -> None:
    program("Y[j] = sum[i](X[i] if i64(I[i]) == j else 0)", signature=f"X: f32[9], I: {dtype}[9]) -> Y: f32[5]")


def test_positions_are_known_to_be_inside() -> None:
    made = program(
        "V[i], P[i] = argmax[h, w](X[i, h, w])",
        "Y[i] = X[i, P[i] // 5, P[i] % 5] - V[i]",
        signature="X: f32[6, 8, 5]) -> Y: f32[6]",
    )
    validate(made.func)
    found = mistake(
        "V[i], P[i] = argmax[h, w](X[i, h, w])", "Y[i] = X[i, P[i], 0]", signature="X: f32[6, 8, 5]) -> Y: f32[6]"
    )
    assert "leaves `X`" in found or "stays inside `X`" in found


def test_programs_from_python_are_those_of_the_text() -> None:
    n, k = ms.param("N", 6), ms.param("K", 8)
    x = ms.placeholder("X", (n, k))
    v, p = ms.compute_arg("V", "P", (n,), lambda i: ms.argmax(lambda k: x[i, k], k), label="best", dtype="i32")
    y = ms.compute("Y", (n,), lambda i: x[i, p[i]] - v[i])
    made = ms.program("best", [x], [y, p])
    text = """
    program best[N=6, K=8](X: f32[N, K]) -> (Y: f32[N], P: i32[N]):
        best: V[i], P[i] = argmax[k](X[i, k])
        Y[i] = X[i, P[i]] - V[i]
    """
    assert made == parse_program(text)

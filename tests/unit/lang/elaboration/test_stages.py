"""Stages: how far their indices go, what reductions start from, and what is no stage."""

from __future__ import annotations

import math

import pytest

from metasched.dtypes import DType
from metasched.errors import LanguageError
from metasched.ir.nodes import Const
from metasched.ir.validate import validate
from metasched.lang import parse_program
from tests.support.stages import SIGNATURE, blocks, mistakes, of_stages, shape

# --- extents ---------------------------------------------------------------------------------------------


def test_an_extent_from_a_range() -> None:
    program = of_stages("T[i, k < 6] = A[i, k] if k < 4 else 0", "C[i, j] = T[i, j + 2] + B[i]", signature=SIGNATURE)
    assert shape(program, "T") == [8, 6]


def test_an_extent_from_a_guarded_read_where_nothing_else_says() -> None:
    program = of_stages("T[i, k] = A[i, k] if k < 3 else 0", "C[i, j] = T[i, j] + B[i]")
    assert shape(program, "T") == [8, 4]


def test_a_guarded_read_does_not_overrule_a_declaration() -> None:
    program = of_stages("T: f32[8, 6]", "T[i, k] = A[i, k] if k < 4 else 0", "C[i, j] = T[i, j + 2] + B[i]")
    assert shape(program, "T") == [8, 6]


def test_a_guard_about_other_indices_does_not_matter() -> None:
    assert mistakes("T[i, k < 6] = A[i, k] if i < 4 else 0", "C[i, j] = T[i, j] + B[i]") == [
        "`A[i, k]` leaves `A` in dimension 1, by 2 above: `k` goes from 0 to 5, and valid are 0 to 3"
    ]


@pytest.mark.parametrize(
    "stencil",
    [
        "Y[i < N - 2, j < N - 2] = X[i, j+1] + X[i+2, j+1]",
        "Y[i, j] = X[i, j+1] + X[i+2, j+1]",
        "Y[i, j] = X[i, j] + X[i+2, j]",
        "Y[i, j] = sum[k < 3](X[i, k] * X[k, j])",
        "Y[i, j] = sum[k < 3](X[i, k] * X[j, k] if k > 1 else X[k, k])",
    ],
)
def test_what_is_written_wins_over_what_is_inferred(stencil: str) -> None:
    program = parse_program(f"program p[N=16](X: f32[N, N]) -> Y: f32[N - 2, N - 2]:\n  {stencil}\n")
    validate(program.func)
    assert [it.extent for it in blocks(program)["Y"].iters][:2] == [Const(14), Const(14)]
    temporary = parse_program(
        "program p[N=16](X: f32[N]) -> Y: f32[N - 4]:\n  T: f32[N - 2]\n"
        "  T[i] = X[i] + X[i + 2]\n  Y[i] = T[i] + T[i + 2]\n"
    )
    assert shape(temporary, "T") == [14]


def test_what_is_written_twice_agrees() -> None:
    (message,) = mistakes("C[i < 7, j] = A[i, j] + B[i]")
    assert message == "the index `i` goes to 7 in `i < 7` and to 8 in the declaration of `C`"


def test_extents_that_do_not_agree_have_a_way_out() -> None:
    with pytest.raises(LanguageError, match=r"or the range is written, `k < 4` where the reduction names it"):
        of_stages("C[i, j] = sum[k](A[i, k] * A[k, j] * B[i])")
    with pytest.raises(LanguageError, match=r"or the range is written, `i < 4` on the left-hand side"):
        of_stages("T[i] = A[i, 0] + A[0, i]", "C[i, j] = T[0] + A[i, j] + B[i]")


def test_a_read_outside_by_what_is_written() -> None:
    with pytest.raises(LanguageError, match=r"`i` goes as far as its range or a declaration says"):
        of_stages("C[i, j] = A[j, i] + B[i]")


def test_ranges_of_reductions() -> None:
    program = of_stages("C[i, j] = sum[r < 3](A[i, 1 + (j + r) % 3]) ", signature="A: f32[8, 4]) -> C: f32[8, 4]")
    assert [int(iv.extent.value) for iv in blocks(program)["C"].iters if isinstance(iv.extent, Const)] == [8, 4, 3]


@pytest.mark.parametrize(
    ("reducer", "dtype", "init"),
    [
        ("sum", "f32", 0.0),
        ("prod", "f64", 1.0),
        ("max", "f32", -math.inf),
        ("min", "f32", math.inf),
        ("sum", "i32", 0),
        ("prod", "i64", 1),
        ("max", "i8", -128),
        ("min", "i8", 127),
        ("max", "u8", 0),
        ("min", "u8", 255),
    ],
)
def test_reductions_start_from_what_changes_nothing(reducer: str, dtype: str, init: float) -> None:
    program = of_stages(f"s[] = {reducer}[k](A[k])", signature=f"A: {dtype}[5]) -> s: {dtype}[]")
    block = blocks(program)["s"]
    assert block.init == Const(init, DType(dtype))
    assert block.store.indices == ()


def test_nested_reductions_show_two_stages() -> None:
    with pytest.raises(LanguageError) as caught:
        of_stages("l: C[i, j] = max(sum[k](A[i, k] * B[i]), A[i, j])")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.hint.splitlines()[1:] == [
        "    C_sum[i] = sum[k](A[i, k] * B[i])",
        "    l: C[i, j] = max(C_sum[i], A[i, j])",
    ]
    of_stages(*(line.strip() for line in diagnostic.hint.splitlines()[1:]))


# --- definitions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["C[i, j] = A[i, j]", "C[i, j] = A[i, j]"], "`C` is computed twice: first on line 2"),
        (["l: T[i] = B[i]", "l: C[i, j] = A[i, j] + T[i]"], "two stages are named `l`: first on line 2"),
        (["A[i, j] = 1", "C[i, j] = A[i, j]"], "`A` is an input and cannot be computed"),
        (["C[i, j] = T[i] + A[i, j]", "T[i] = B[i]"], "`T` is read before the stage that defines it"),
        (["T[i] = B[i]", "C[i, j] = A[i, j]"], "`T` is computed and never used"),
        (["T[i] = B[i]"], "no stage computes the output `C`"),
        (["T: f32[8]", "C[i, j] = A[i, j]"], "no stage computes the buffer `T`"),
        (["T: f32[0]", "T[i] = B[i]", "C[i, j] = A[i, j] + T[i]"], "an extent of `T` is 0"),
        (["T: f32[8, 4]", "T[i] = B[i]", "C[i, j] = A[i, j] + T[i, j]"], "`T` is declared with 2 dimensions"),
        (["let Z = 3", "C[i, j] = A[i, j]"], "the size `Z` is never used"),
        (["let Z = Q + 1", "C[i, j] = A[i, j] * Z"], "`Q` is not a size"),
        (["let Z = 1 / 2", "C[i, j] = A[i, j] * Z"], "a size is a whole number, and `1 / 2` is 0.5"),
        (["let A = 3", "C[i, j] = A[i, j]"], "`A` is defined twice: first on line 1"),
        (["let sum = 3", "C[i, j] = A[i, j] * sum"], "`sum` is a word of the language"),
        (["C[i, i] = A[i, i]"], "the index `i` appears twice"),
        (["C[i, B] = A[i, 0]"], "`B` is an index here and something else in the program"),
        (["C[i, j + 1] = A[i, j]"], "an iteration variable belongs here"),
        (["C[i, j] = sum[i](A[i, j])"], "the index `i` appears twice"),
        (["C[i, j] = sum[](A[i, j])"], "`sum[]` reduces over nothing"),
        (["C[i, j] = sum[k](A[i, k], B[i])"], "a reduction has one operand, not 2"),
        (["C[i, j] = total[k](A[i, k])"], "`total` is not a reduction"),
        (["C[i, j] = sum[k](A[i, j])"], "nothing says how far the index `k` goes"),
        (["T[i, k] = B[i]", "C[i, j] = T[i, j]"], "nothing says how far the index `k` goes"),
        (["T[i < 8] = 1", "C[i, j] = T[i]"], "nothing says which element type `T` has"),
        (["T[i < 8] = 3 if i == 0 else 1", "C[i, j] = T[i]"], "nothing says which element type `T` has"),
        (["T[i < 4] = 3 if B[i] > 0 else 1", "C[i, j] = T[i]"], "nothing says which element type `T` has"),
        (["C[i, j] = A[j, i]"], "`A[j, i]` leaves `A` in dimension 1, by 4 above: `i` goes from 0 to 7, and "),
        (["C[i, j] = sum[k](A[k, k])"], "the index `k` goes to 8 in `A[k, k]` and to 4 in `A[k, k]`"),
    ],
)  # fmt: skip
def test_wrong_definitions(lines: list[str], message: str) -> None:
    assert any(found.startswith(message) for found in mistakes(*lines))

from __future__ import annotations

import re

import pytest

from metasched.dtypes import DType
from metasched.errors import KernelError, LanguageError
from metasched.lang import parse_program
from metasched.lang.shorthand import read_shorthand
from metasched.lang.shorthand_shapes import ArgumentType, ScalarType, TensorType

MATMUL = "C[i, j] = sum[k](A[i, k] * B[k, j])"
NUMBER = ScalarType(DType.F64, fixed=False)


def t(*shape: int, dtype: DType = DType.F32) -> TensorType:
    return TensorType(dtype, shape)


def written(text: str, **types: ArgumentType) -> str:
    """The program, which its own text says again."""
    program = read_shorthand(text).program(types)
    assert parse_program(str(program)).func == program.func
    return str(program)


def test_one_stage() -> None:
    assert written(MATMUL, A=t(4, 5), B=t(5, 6)) == (
        "program kernel[I=4, J=6, K=5](A: f32[I, K], B: f32[K, J]) -> C: f32[I, J]:\n"
        "    C[i, j] = sum[k](A[i, k] * B[k, j])\n"
    )


def test_arguments_are_in_order_of_appearance() -> None:
    text = "T[i] = sum[k](W[i, k] * x[k]); y[i] = max(T[i], low) * scale[i]"
    assert read_shorthand(text).arguments == ("W", "x", "low", "scale")


def test_a_reduction_in_the_wrong_place() -> None:
    text = read_shorthand("y[i] = sum[k](W[i, k] * x[k]) + 1")
    assert text.arguments == ("W", "x")
    with pytest.raises(LanguageError, match="is a stage's whole right-hand side"):
        text.program({"W": t(2, 3), "x": t(3)})


def test_several_stages_and_an_index_in_a_sum() -> None:
    """A convolution in the usual shorthand: `h` goes as far as the windows stay inside."""
    text = """
        T[h, w, o] = sum[r, s, c](X[2*h + r, w + s, c] * K[r, s, c, o])  # strided in h
        Y[h, w, o] = max(T[h, w, o], 0)
    """
    assert written(text, X=t(15, 9, 3), K=t(3, 2, 3, 8)) == (
        "program kernel[H=7, W=8, O=8, C=3, R=3, S=2](X: f32[15, 9, C], K: f32[R, S, C, O]) -> Y: f32[H, W, O]:\n"
        "    T[h < 7, w < 8, o] = sum[r, s, c](X[2 * h + r, w + s, c] * K[r, s, c, o])\n"
        "    Y[h, w, o] = max(T[h, w, o], 0)\n"
    )


def test_the_range_of_a_reduction_from_a_sum() -> None:
    assert "sum[r < 4](" in written("y[i < 3] = sum[r](x[i + r])", x=t(6))


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("y[i] = a * x[i]", DType.F32),
        ("y[i] = x[i] if x[i] > a else 0", DType.F32),
        ("y[i] = max(x[i], a)", DType.F32),
        ("y[i] = exp(x[i]) + (1 - a)", DType.F32),
        ("y[i] = x[i] + f32(a)", DType.F64),
    ],
)
def test_a_number_takes_the_type_of_what_it_meets(text: str, dtype: DType) -> None:
    program = read_shorthand(text).program({"x": t(4), "a": NUMBER})
    assert [s.dtype for s in program.scalars] == [dtype]


def test_a_typed_number_keeps_its_type() -> None:
    with pytest.raises(LanguageError, match="`a` is f64 where f32 is needed"):
        read_shorthand("y[i] = x[i] + a").program({"x": t(4), "a": ScalarType(DType.F64, fixed=True)})


def test_a_number_whose_own_type_is_the_mistake_is_named() -> None:
    half, whole = ScalarType(DType.F64, fixed=True), ScalarType(DType.I64, fixed=True)
    shorthand = read_shorthand("y[i] = a * x[i] + b * x[i]")
    with pytest.raises(LanguageError, match=r"hint: `b` is f64 by its own type; pass `float\(b\)`: a number of Python"):
        shorthand.program({"x": t(4), "a": ScalarType(DType.F32, fixed=True), "b": half})
    with pytest.raises(LanguageError, match=r"`a` is i64 .* and `b` is f64 .*; pass `int\(a\)` and `float\(b\)`"):
        shorthand.program({"x": t(4), "a": whole, "b": half})
    with pytest.raises(LanguageError) as caught:  # another mistake
        read_shorthand("y[i] = (x[i] and True) * a").program({"x": t(4), "a": half})
    assert "own type" not in str(caught.value)


def test_a_position_is_an_output_too() -> None:
    assert "(X: f32[I, K]) -> (v: f32[I], p: i64[I]):" in written("v[i], p[i] = argmax[k](X[i, k])", X=t(5, 9))


def test_sizes_do_not_take_the_names_of_tensors() -> None:
    assert "kernel[I_=3, K=4](I: f32[I_, K])" in written("S[i] = sum[k](I[i, k])", I=t(3, 4))


@pytest.mark.parametrize(
    ("text", "types", "message"),
    [
        (MATMUL, {"A": t(4, 3), "B": t(4, 6)}, "`k` is 3 in A (dimension 1 of (4, 3)) and 4 in B (dimension 0"),
        (MATMUL, {"A": t(4, 5, 1), "B": t(5, 6)}, "`A` is read as `A[i, k]`, with 2 indices, and the array has 3"),
        (MATMUL, {"A": t(4, 5), "B": t(5)}, "`B` is read as `B[k, j]`, with 2 indices, and the array has 1"),
        ("C[i] = A[i]; D[i] = C[i, i]", {"A": t(4)}, "`C` is read as `C[i, i]`, with 2 indices, and it has 1"),
        ("y[i] = sum[r](x[i + r] * w[r])", {"x": t(4), "w": t(5)}, "`i` has no value that stays inside `x[i + r]`"),
        ("y[i, j] = x[i]", {"x": t(4)}, "nothing says how far the index `j` of `y` goes"),
        ("y[i] = x[i - 1] if i >= 1 else 0", {"x": t(4)}, "nothing says how far the index `i` of `y` goes"),
        ("y[i < 4] = 1", {}, "nothing says which element type `y` has"),
        ("y[i] = x[i] + z[i]", {"x": t(4), "z": t(3)}, "is 4 in x (dimension 0 of (4,)) and 3 in z"),
        ("y[i] = x[i] + z[i]", {"x": t(4), "z": t(3)}, "write its range, `i < 3`"),
    ],
)  # fmt: skip
def test_types_that_do_not_go_together(text: str, types: dict[str, ArgumentType], message: str) -> None:
    with pytest.raises(KernelError, match=re.escape(message)):
        read_shorthand(text).program(types)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("C[i] = A[i] +* 2", (1, 14), "expected an expression"),
        ("\n\n   T[i] = A[i];\n   C[i] = exq(T[i])", (4, 11), "`exq`"),
        ("T[i] = A[i]; C[i] = T[i] +* 2", (1, 27), "expected an expression"),
        ("C[i] = (A[i]\n  +* 2)", (2, 4), "expected an expression"),
        ("C[i] = A[i]; C[i] = A[i] + 1", (1, 14), "two stages are named `C`"),
        ("C[i] = A[i]; D[i] = A[i]", (1, 1), "`C` is computed and never used"),
        ("let N = 3; C[i] = A[i]", (1, 5), "a kernel's text has stages only"),
        ("  \n# nothing", (1, 1), "there are no stages"),
    ],
)
def test_mistakes_are_placed_in_the_text_that_was_given(text: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(LanguageError, match=re.escape(message)) as caught:
        read_shorthand(text).program({"A": t(4)})
    first = caught.value.diagnostics[0]
    assert (first.line, first.column) == place


def test_a_stage_that_is_not_used_is_told_how_to_have_several_results() -> None:
    with pytest.raises(LanguageError, match=r"a kernel's result is its last stage; for several, write a program"):
        read_shorthand("S[i] = sum[k](X[i, k]); M[i] = max[k](X[i, k])")


def test_only_texts_are_read() -> None:
    with pytest.raises(LanguageError, match="a kernel is a text, not an int"):
        read_shorthand(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        (
            "C[i,j] = sum[k](A[i,k] * B[k,j)",
            (1, 31),
            "`)` does not close the `[` of line 1, column 27",
            "write `]`",
        ),
        (
            "\n  T[i] = x[i]; C[i,j] = sum[k](\n    T[i] *\n      B[k,j)",
            (4, 12),
            "`)` does not close the `[` of line 4, column 8",
            "write `]`",
        ),
    ],
)
def test_places_in_messages_are_in_the_text_that_was_given(
    text: str, place: tuple[int, int], message: str, hint: str
) -> None:
    with pytest.raises(LanguageError) as info:
        read_shorthand(text)
    (only,) = info.value.diagnostics
    assert ((only.line, only.column), only.message, only.hint) == (place, message, hint)


def mistakes(text: str, **types: ArgumentType) -> list[tuple[int, int, str, str]]:
    with pytest.raises(LanguageError) as info:
        read_shorthand(text).program(types)
    return [(d.line, d.column, d.message, d.hint) for d in info.value.diagnostics]


def test_places_in_messages_about_other_stages() -> None:
    label = "choose another name"
    assert mistakes("a: T[i] = x[i]; a: y[i] = T[i]", x=t(4)) == [
        (1, 17, "two stages are named `a`: first on line 1, column 1", label)
    ]
    assert mistakes("# names\n\na: T[i] = x[i]\na: y[i] = T[i]", x=t(4)) == [
        (4, 1, "two stages are named `a`: first on line 3", label)
    ]
    assert mistakes("y[i] = T[i] + x[i]\n\n# x\nT[i] = y[i]; z[i] = T[i]", x=t(4)) == [
        (
            *(1, 8, "`T` is read before the stage that defines it"),
            "stages run in order: move the stage of `T` (line 4) up",
        )
    ]


def test_a_mistake_is_told_once_and_where_it_is() -> None:
    """Outputs and arguments stand in the stages only."""
    said = "`for` is a word of the language", "choose another name"
    assert mistakes("for[i] = x[i]", x=t(4)) == [(1, 1, *said)]
    assert mistakes("T[i] = x[i]; for[i] = T[i]", x=t(4)) == [(1, 14, *said)]
    assert mistakes("y[i] = x[i] + for[i]", x=t(4), **{"for": t(4)}) == [(1, 15, *said)]
    assert mistakes("y[i] = x[i] * for", x=t(4), **{"for": NUMBER}) == [(1, 15, *said)]


def test_a_written_range_wins_over_what_arrays_show() -> None:
    assert written("y[i < 2] = x[i] + x[i + 2]", x=t(4)).splitlines()[1].strip() == "y[i < 2] = x[i] + x[i + 2]"

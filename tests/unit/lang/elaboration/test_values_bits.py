"""The bits of integers: what the language says of them, and what compiled code and both references make of that."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.lang import parse_program

EVERY = """program every[N=64, T=i32](A: T[N], B: T[N], S: T[N]
            ) -> (Y: T[N], O: T[N], X: T[N], L: T[N], R: T[N], I: T[N]):
    Y[i] = A[i] & B[i]
    O[i] = A[i] | B[i]
    X[i] = A[i] ^ B[i]
    L[i] = A[i] << S[i]
    R[i] = A[i] >> S[i]
    I[i] = ~A[i]
"""


def integers(dtype: np.dtype, size: int, seed: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    found = np.random.default_rng(seed).integers(limits.min, limits.max, size, dtype, endpoint=True)
    found[:3] = limits.min, limits.max, 0
    return found


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("size", [12, 640])
def test_values_are_those_of_numpy(dtype: str, size: int) -> None:
    """Both references: a small program is interpreted, and a large one compiled."""
    program = parse_program(EVERY, N=size, T=dtype)
    numpy = np.dtype(dtype.replace("i", "int").replace("u", "uint"))
    a, b = integers(numpy, size, 0), integers(numpy, size, 1)
    bits = 8 * numpy.itemsize
    places = np.resize(np.array([0, 1, bits - 1, bits, bits + 1, 3, -1], np.int64).astype(numpy), size)
    expected = a & b, a | b, a ^ b, np.left_shift(a, places), np.right_shift(a, places), ~a
    for run in (ms.reference(program), ms.compile(program)):
        for found, right in zip(run(a, b, places), expected, strict=True):
            np.testing.assert_array_equal(found, right)


def test_numbers_of_four_bits_are_unpacked() -> None:
    program = parse_program("""program unpack[N=5, K=64](Q: u32[N, K // 8], s: f32[N]) -> Y: f32[N, K]:
    Y[n, k] = s[n] * f32(i32((Q[n, k // 8] >> 4 * (k % 8)) & 15) - 8)
""")
    q = integers(np.dtype(np.uint32), 40, 2).reshape(5, 8)
    s = np.linspace(1, 2, 5, dtype=np.float32)
    whole = (q[:, :, None] >> np.array([0, 4, 8, 12, 16, 20, 24, 28], np.uint32)) & 15
    expected = s[:, None] * (whole.reshape(5, 64).astype(np.float32) - 8)
    np.testing.assert_array_equal(ms.compile(program)(q, s), expected)


def test_a_butterfly_reads_the_element_with_one_bit_changed() -> None:
    program = parse_program(
        """program walsh[N=16](X: f32[N]) -> Y: f32[N]:
    A[i < N] = X[i ^ 1] - X[i] if i & 1 == 1 else X[i] + X[i ^ 1]
    Y[i < N] = A[i ^ 8] - A[i] if (i >> 3) & 1 == 1 else A[i] + A[i ^ 8]
""".replace("if i & 1 == 1 else", "if i & 1 == 1 else")
    )
    x = np.random.default_rng(3).normal(size=16).astype(np.float32)
    pairs = x.reshape(8, 2)
    a = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).reshape(2, 8)
    np.testing.assert_array_equal(ms.compile(program)(x), np.concatenate([a[0] + a[1], a[0] - a[1]]))


@pytest.mark.parametrize(
    ("bits", "arithmetic"),
    [("X[i >> 1]", "X[i // 2]"), ("X[i & 3]", "X[i % 4]"), ("X[(i << 1) - i]", "X[i]"), ("X[7 & i]", "X[i % 8]")],
)
def test_shifts_and_masks_of_indices_are_what_primitives_know(bits: str, arithmetic: str) -> None:
    text = "program p(X: f32[16]) -> Y: f32[16]:\n    Y[i] = {}\n"
    assert parse_program(text.format(bits)).func == parse_program(text.format(arithmetic)).func


@pytest.mark.parametrize(
    ("bits", "logic"),
    [
        ("A[i] & B[i]", "A[i] and B[i]"),
        ("A[i] | B[i] & (i > 2)", "A[i] or B[i] and i > 2"),
        ("A[i] ^ B[i]", "A[i] != B[i]"),
        ("~A[i] | B[i]", "not A[i] or B[i]"),
    ],
)
def test_of_bools_they_are_conditions(bits: str, logic: str) -> None:
    text = "program p(A: bool[4], B: bool[4]) -> Y: bool[4]:\n    Y[i] = {}\n"
    assert parse_program(text.format(bits)).func == parse_program(text.format(logic)).func


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("A[i] & 3 == 1 and i < 2", "(A[i] & 3) == 1 and i < 2"),
        ("A[i] ^ A[i] & 1 == 0", "(A[i] ^ (A[i] & 1)) == 0"),
        ("A[i] | 1 | 2 > 1 + A[i] << 2", "(A[i] | 1 | 2) > (1 + A[i] << 2)"),
    ],
)
def test_they_bind_as_in_python_and_are_printed_in_parentheses(text: str, printed: str) -> None:
    program = parse_program(f"program p(A: i32[4]) -> Y: bool[4]:\n    Y[i] = {text}\n")
    assert f"Y[i] = {printed}\n" in f"{program}\n"
    assert parse_program(str(program)).func == program.func


def test_sizes_may_be_shifted_and_masked() -> None:
    program = parse_program("""program p[N=13](X: f32[N]) -> Y: f32[M]:
    let M = N & ~3 | 1 << 1
    Y[i] = X[i % N]
""")
    assert (
        program.func.buffer("Y").shape
        == parse_program("program p(X: f32[13]) -> Y: f32[14]:\n    Y[i] = X[i % 13]\n").func.buffer("Y").shape
    )


def test_python_builds_them() -> None:
    a, b = ms.placeholder("A", (8,), "i32"), ms.placeholder("B", (8,), "i32")
    y = ms.compute("Y", (8,), lambda i: ms.where((a[i] > 0) & ~(b[i] > 1), (a[i] ^ 3) << 1, 5 & ~b[i] | 1 >> i % 2))
    assert "Y[i] = (A[i] ^ 3) << 1 if A[i] > 0 and not B[i] > 1 else (5 & ~B[i]) | (1 >> i % 2)" in str(
        ms.program("p", [a, b], [y])
    )


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("A[i] << 40", "`A[i] << 40` shifts 32 bits by 40", "a number of i32 is shifted by 0 to 31 places"),
        (
            "A[i] >> i",
            "`i` is i64 where i32 is needed, as it may not be from 0 to 31",
            "types are never converted silently; cast it: `i32(i)`",
        ),
        ("i32(B[i] ^ 2)", "`^` is not defined on f32, in `B[i] ^ 2`",
         "`^` is for the bits of integers; a power is written `x * x`, or `pow(x, y)`"),
        ("i32(B[i] << 2)", "`<<` is not defined on f32, in `B[i] << 2`", "`<<` is for the bits of integers"),
        ("i32(~B[i])", "`~` is not defined on f32, in `~B[i]`", "write `-` for what is subtracted from 0"),
        (
            "A[i] & B[i]",
            "`B[i]` is f32 where i32 is needed",
            "types are never converted silently; cast it: `i32(B[i])`",
        ),
        ("left_shift(A[i], 2)", "`left_shift` is not a function", "write `x << y`"),
        ("1 << 64", "`1 << 64` does not fit in 64 bits", ""),
        ("i32(2.5 & 1)", "`&` is for the bits of integers, in `2.5 & 1`", ""),
        ("i32(~2.5)", "`~` is for the bits of integers, in `~2.5`", ""),
    ],
)  # fmt: skip
def test_mistakes(value: str, message: str, hint: str) -> None:
    text = f"program p(A: i32[64], B: f32[64]) -> Y: i32[64]:\n    Y[i] = {value} + A[i] + i32(B[i])\n"
    with pytest.raises(ms.LanguageError) as caught:
        parse_program(text.replace(f"{value} +", f"({value}) +"))
    first = caught.value.diagnostics[0]
    assert (first.message, first.hint) == (message, hint)

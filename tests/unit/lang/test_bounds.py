"""Index arithmetic fits in 64 bits, or is refused where it stands; data wraps, and proofs know it."""

from __future__ import annotations

import pytest

from metasched.errors import LanguageError
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.lang.build import compute, param, placeholder, program, where

TOP = 2**63 - 1


def of(value: str, signature: str = "X: f32[4]", out: str = "f32") -> Program:
    return parse_program(f"program p({signature}) -> Y: {out}[4]:\n  Y[i < 4] = {value}\n")


def mistakes(text: str, **sizes: int) -> list[str]:
    with pytest.raises(LanguageError) as caught:
        parse_program(text, **sizes)
    return [d.message for d in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (f"X[i*{2**62 + 1000}] if i*{2**62 + 1000} < 4 else 7", f"i * {2**62 + 1000}"),
        (f"X[i*{2**62 + 250_000_000} % 4]", f"i * {2**62 + 250_000_000}"),
        ("X[(i*6364136223846793005 + 1442695040888963407) % 4]", "i * 6364136223846793005"),
        (f"f32(i*{2**62})", f"i * {2**62}"),
        (f"X[i] if i*{2**62} > 7 else 0", f"i * {2**62}"),
        (f"X[i] if i < 1 and i*{2**62} > 7 else 0", f"i * {2**62}"),
        (f"X[i] if i + {TOP} > 7 else 0", f"i + {TOP}"),
        (f"X[i] if 0 - i - {TOP} < 7 else 0", f"0 - i - {TOP}"),
        (f"X[i] if i*{2**61} * (i*2) > 7 else 0", f"i * {2**61} * (i * 2)"),
        (f"X[i] if -(-{2**63} + i) > 7 else 0", f"-(-{2**63} + i)"),
    ],
)
def test_what_leaves_64_bits_is_refused_where_it_stands(value: str, place: str) -> None:
    with pytest.raises(LanguageError) as caught:
        of(value)
    found = [d for d in caught.value.diagnostics if d.message.startswith(f"`{place}` leaves 64 bits")]
    assert found, caught.value
    assert found[0].hint.startswith("index arithmetic must fit in i64 for every `i < 4`")


@pytest.mark.parametrize(
    "value",
    [
        f"X[i*{TOP // 3}] if i*{TOP // 3} < 4 else 7",
        f"X[i] if i + {TOP - 3} > 7 else 0",
        f"X[i] if 0 - i - {2**63 - 3} < 0 - 7 else 0",
        f"f32(i*{TOP // 3} // 1000) + f32(i*{TOP // 3} % 1000)",
        f"f32((i*{TOP // 3} - {TOP}) + i*{TOP // 6})",
    ],
)
def test_what_just_fits_is_legal(value: str) -> None:
    of(value + " + X[i]")


def test_a_program_built_in_python_takes_the_same_path() -> None:
    stride = param("B", 2**62 + 1000)
    x = placeholder("X", (4,))
    y = compute("Y", (4,), lambda i: where(i * stride < 4, x[i * stride], 7))
    with pytest.raises(LanguageError, match=r"`i \* B` leaves 64 bits: it goes from 0 to"):
        program("p", [x], [y])


@pytest.mark.parametrize(("value", "divisor"), [("i // i", "i"), ("7 % (i - 2)", "i - 2"), ("i // (i % 2)", "i % 2")])
def test_an_index_divides_by_what_is_positive(value: str, divisor: str) -> None:
    (message,) = mistakes(f"program p(X: i64[4]) -> Y: i64[4]:\n  Y[i < 4] = ({value}) + X[i]\n")
    assert message == f"`{value}` divides by `{divisor}`, which may be zero or less"


@pytest.mark.parametrize("value", ["i // max(i, 1)", "(i // i if i > 0 else 0)", "i // (i + 1)", "X[i] // (X[i] - i)"])
def test_what_is_positive_where_it_divides_is_legal(value: str) -> None:
    of(value + " + X[i]", "X: i64[4]", "i64")


@pytest.mark.parametrize("size", [2**63, 2**70, -(2**63) - 1])
def test_a_parameter_fits_in_64_bits(size: int) -> None:
    text = "program p[N=4](X: f32[4]) -> Y: f32[4]:\n  Y[i] = X[i] if i < N else 0\n"
    (message,) = mistakes(text, N=size)
    assert message == f"the parameter `N` is {size}, which does not fit in 64 bits"


def test_loops_that_64_bits_do_not_count_are_refused() -> None:
    text = "program p(X: f32[4]) -> Y: f32[4]:\n  Y[i] = sum[k < 4611686018427387904](X[i] if k == 3 else 0)\n"
    assert mistakes(text) == [f"the loops of `Y` would run {2**64} times"]


def test_tensors_that_no_address_reaches_are_refused() -> None:
    text = "program p[N=16777216](X: i8[4]) -> Y: i8[N, N, 2]:\n  Y[i, j, k] = X[0]\n"
    assert mistakes(text) == ["`Y` has more elements than memory can hold"]


# --- data wraps

I = "I: i64[4], X: f32[4]"  # noqa: E741


@pytest.mark.parametrize(
    "value",
    [
        "X[I[i]] if I[i] >= 0 and I[i] < 4 else 5",
        "X[I[i] - 1] if I[i] >= 1 and I[i] <= 4 else 5",
        "X[I[i] - 1] if I[i] - 1 >= 0 and I[i] - 1 < 4 else 5",
        "X[I[i]*4611686018427387904] if I[i]*4611686018427387904 >= 0 and I[i]*4611686018427387904 < 4 else 9",
        "X[I[i]*I[i]] if I[i]*I[i] < 4 and I[i]*I[i] >= 0 else 5",
        "X[max(min(I[i]*3, 3), 0)]",
        "X[(I[i]*7 + 5) % 4]",
    ],
)
def test_a_condition_about_the_same_data_guards_a_read(value: str) -> None:
    of(value, I)


@pytest.mark.parametrize(
    "value",
    [
        "X[I[i]] if I[i]*2 >= 0 and I[i] < 4 else 9",
        "X[I[i] - 1] if I[i] - 1 >= 0 and I[i] <= 4 else 9",
        "X[I[i] + 1] if I[i] + 2 >= 1 and I[i] + 1 < 4 else 9",
        "X[(I[i]*4) // 4] if I[i] >= 0 and I[i]*4 < 16 else 9",
    ],
)
def test_a_condition_that_wraps_guards_nothing_else(value: str) -> None:
    """`I` is computed, so that no call checks it."""
    with pytest.raises(LanguageError, match="nothing says that"):
        parse_program(f"program p(J: i64[4], X: f32[4]) -> Y: f32[4]:\n  I[i] = J[i] * 3\n  Y[i] = {value}\n")


def test_a_condition_on_a_scalar_that_wraps_guards_nothing_else() -> None:
    with pytest.raises(LanguageError, match="by any amount below"):
        of("X[s] if s*2 >= 0 and s < 4 else 9", "s: i64, X: f32[4]")
    of("X[i + s] if i + s >= 0 and i + s < 4 else 9", "s: i64, X: f32[4]")

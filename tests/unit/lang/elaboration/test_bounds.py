"""Index arithmetic fits in 64 bits, or is refused where it stands; data wraps, and proofs know it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metasched.dtypes import DType
from metasched.errors import LanguageError
from metasched.ir.nodes import Binary, BinOp, Const, Load, Var
from metasched.ir.program import Program
from metasched.lang import parse_program
from metasched.lang.build import compute, param, placeholder, program, where
from metasched.lang.elaboration.bounds import Assumptions

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
        "X[I[i] - 1 + 1] if I[i] - 1 >= 0 and I[i] - 1 < 3 else 5",
        "X[I[i] - 1] if I[i] + 3 >= 4 and I[i] + 3 <= 7 else 5",
        "X[I[i] + I[3 - i]] if I[i] + I[3 - i] - 2 >= 0 and I[i] + I[3 - i] - 2 < 2 else 5",
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
        "X[I[i]] if I[i] - 1 >= 0 and I[i] <= 3 else 9",
        "X[I[i] - 1 + 1] if I[i] - 1 >= 0 and I[i] - 1 < 4 else 9",
        "X[I[i]] if I[i]*2 - 1 >= 0 and I[i]*2 - 1 < 4 else 9",
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


@pytest.mark.parametrize(
    ("index", "condition", "size"),
    [
        ("(2*i + r - 1) // 2", "2*i + r >= 1", 4),
        ("7*i + 7*((r + 1) // 2) - 7", "2*i + r - 1 >= 0", 22),
        ("(3*i + r + 4) // 3", "3*i + r < 8", 4),
        ("(4 - i - r) // 2", "i + r <= 4", 3),
    ],
)
def test_a_condition_on_a_dividend_guards_a_read_at_the_quotient(index: str, condition: str, size: int) -> None:
    def text(condition: str, size: int) -> str:
        value = f"X[{index}] if {condition} else 0"
        return f"program p(X: f32[{size}]) -> Y: f32[4]:\n  Y[i < 4] = sum[r < 3]({value})\n"

    parse_program(text(condition, size))
    for wrong in (text("i >= 0", size), text(condition, size - 1)):
        (message,) = mistakes(wrong)
        assert "leaves `X` in dimension 0" in message


def test_conditions_on_three_dimensions_guard_a_read_where_they_are_one() -> None:
    places = {"a + r": 2, "b + s": 3, "c + u": 5}
    inside = " and ".join(f"{place} >= 1 and {place} <= {extent}" for place, extent in places.items())
    text = f"""program p(X: f32[30]) -> Y: f32[2, 3, 5]:
  Y[a, b, c] = sum[r < 3, s < 3, u < 3](X[15*(a + r - 1) + 5*(b + s - 1) + c + u - 1] if {inside} else 0)
"""
    parse_program(text)
    (message,) = mistakes(text.replace("c + u <= 5", "c + u <= 6"))
    assert "by 1 above" in message


# --- numbers without a sign, of which i64 does not hold all

UNSIGNED = "U: u64[4], X: f32[4]"


@pytest.mark.parametrize(
    "value",
    [
        "X[U[i]] if U[i] < 4 else 5",
        "X[i64(U[i])] if i64(U[i]) >= 0 and i64(U[i]) < 4 else 5",
        "X[i64(U[i])] if U[i] < 4 else 5",
        "X[U[i] - 1] if U[i] - 1 < 4 else 5",
        "X[min(U[i] * 3, 3)]",
        "X[i64(U[i] % 4)]",
        "X[i] if U[i] < 18446744073709551615 else 2",
        "X[i64(u64(i))] + f32(U[i])",
        "X[i64(u64(i) * 12345678901234567890 % 4)] + f32(U[i])",
    ],
)
def test_a_condition_guards_a_read_at_a_number_without_a_sign(value: str) -> None:
    of(value, UNSIGNED)


@pytest.mark.parametrize(
    "value",
    [
        "X[i64(U[i])] if i64(U[i]) < 4 else 9",  # 2**63 is -2**63
        "X[i64(U[i]) - 1] if i64(U[i]) < 5 and U[i] >= 1 else 9",
        "X[i64(U[i] // 2)] if i64(U[i]) >= 0 and i64(U[i]) < 8 and i64(U[i] * 2) < 16 and U[i] > 0 else 9",
        "X[U[i] - 1] if U[i] < 5 else 9",
    ],
)
def test_a_condition_that_another_type_wraps_guards_nothing_else(value: str) -> None:
    """`U` is computed, so that no call checks it."""
    with pytest.raises(LanguageError, match="nothing says that"):
        parse_program(f"program p(V: u64[4], X: f32[4]) -> Y: f32[4]:\n  U[i] = V[i] * 3\n  Y[i] = {value}\n")


NARROW = "V: i32[4], X: f32[12]"


@pytest.mark.parametrize(
    "place",
    [
        "min(max(V[i], 0), 8) + 3",
        "3 - min(max(V[i], 0), 3)",
        "-min(max(V[i], -5), 0) * 2 + 1",
        "max(min(V[i], 3), 0) * 3 + min(max(V[i], 0), 2)",
        "(V[i] + 3) % 12",
    ],
)
def test_what_is_kept_inside_is_inside_when_it_is_moved_mirrored_or_scaled(place: str) -> None:
    """In a type narrower than 64 bits, too, where it cannot wrap."""
    of(f"X[{place}]", NARROW)


@pytest.mark.parametrize(
    "value",
    [
        "X[V[i] + 3] if V[i] >= -3 and V[i] < 9 else 0",
        "X[V[i] + 3] if V[i] >= -9 and V[i] < 99 and V[i] + 3 >= 0 and V[i] + 3 < 12 else 0",
        "X[V[i] * 2] if V[i] >= 0 and V[i] < 6 else 0",
    ],
)
def test_a_condition_guards_a_read_at_a_sum_in_a_narrow_type(value: str) -> None:
    of(value, NARROW)


@pytest.mark.parametrize(
    "place",
    [
        "min(max(V[i], 0), 8) + 4",
        "2 - min(max(V[i], 0), 3)",
        "max(V[i], 0) + 2147483647",  # may wrap
        "min(max(V[i], 0), 8) * 536870912 * 8 + 1",  # is 1 each time, since it wraps
    ],
)
def test_what_may_be_outside_or_wrap_is_refused(place: str) -> None:
    with pytest.raises(LanguageError, match="nothing says that"):
        of(f"X[{place}]", NARROW)


def wrapped(number: int) -> int:
    """In eight bits, with a sign."""
    return (number + 128) % 256 - 128


@given(st.integers(-9, 9), st.integers(-128, 127), st.integers(-128, 127), st.integers(0, 60))
def test_bounds_of_a_narrow_sum_hold_where_it_wraps(factor: int, shift: int, low: int, width: int) -> None:
    high = min(low + width, 127)
    number = Load("X", (), DType.I8)
    clamped = Binary(BinOp.MIN, Binary(BinOp.MAX, number, Const(low, DType.I8)), Const(high, DType.I8))
    scaled = Binary(BinOp.MUL, clamped, Const(factor, DType.I8))
    first, last = Assumptions({}).range(Binary(BinOp.ADD, scaled, Const(shift, DType.I8)))
    values = [wrapped(wrapped(n * factor) + shift) for n in range(low, high + 1)]
    assert first <= min(values)
    assert max(values) <= last
    exact = [n * factor for n in range(low, high + 1)]
    if all(-128 <= n <= 127 and -128 <= n + shift <= 127 for n in exact):
        assert (first, last) == (min(values), max(values))


def test_what_a_cast_may_wrap_is_any_index() -> None:
    (message,) = mistakes("program p() -> Y: i64[4]:\n  Y[i < 4] = i64(u64(i) * 4000000000000000000) + 1\n")
    assert message.startswith("`i64(u64(i) * 4000000000000000000) + 1` leaves 64 bits")


@pytest.mark.parametrize(("value", "fits"), [(2**64 - 1, True), (2**64, False)])
def test_a_literal_fits_the_type_of_its_context(value: int, fits: bool) -> None:
    text = f"program p(U: u64[4]) -> Y: u64[4]:\n  Y[i] = U[i] + {value}\n"
    if fits:
        parse_program(text)
        assert "does not fit in i64" in mistakes(text.replace("u64", "i64"))[0]
    else:
        assert mistakes(text) == ["this number does not fit in 64 bits"]


@given(st.integers(-4, 4), st.integers(-4, 4), st.integers(-9, 9), st.integers(1, 5), st.integers(-9, 9), st.booleans())
def test_bounds_of_a_quotient_under_a_condition_hold_wherever_the_condition_does(
    a: int, b: int, c: int, divisor: int, shift: int, below: bool
) -> None:
    i, r = Var("i"), Var("r")
    linear = a * i + b * r
    known = Assumptions({"i": 5, "r": 4}).assume(linear + shift >= 0 if below else linear + shift <= 0, True)
    low, high = known.range((linear + c) // divisor + r)
    for x in range(5):
        for y in range(4):
            value = a * x + b * y
            if value + shift >= 0 if below else value + shift <= 0:
                assert low <= (value + c) // divisor + y <= high

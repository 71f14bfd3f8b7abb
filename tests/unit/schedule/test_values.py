"""Integer variables: they have no value in a module, and combine with integers alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched.schedule.values import Int
from tests.support.schedules import loops_of, schedule


def an_int() -> Int:
    sch = schedule()
    drawn: list[Int] = sch.sample_tile(loops_of(sch, "dense")[0], parts=2)
    return drawn[1]


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (bool, "branch on"),
        (int, "take the value of"),
        (range, "count or index with"),
        (lambda t: [1, 2, 3][t], "count or index with"),
        (lambda t: t == 4, "compare"),
        (lambda t: t != 4, "compare"),
        (lambda t: t < 4, "compare"),
        (lambda t: t <= 4, "compare"),
        (lambda t: t > 4, "compare"),
        (lambda t: max(t, 4), "compare"),
        (lambda t: (t * 2 + 1) < 3, "compare"),
        (lambda t: t == 4.0, "compare"),
        (lambda t: t == "4", "compare"),
        (lambda t: t == t * 2, "compare"),
        (lambda t: t in (4, 8), "compare"),
        (lambda t: t in {4, 8}, "hash"),
        (lambda t: {4: 1}.get(t, 2), "hash"),
        (lambda t: {4: 1}[t], "hash"),
        (lambda t: f"b{t}", "format"),
        (lambda t: f"b{t:02}", "format"),
    ],
)
def test_an_integer_variable_has_no_value_in_a_module(use: Any, what: str) -> None:
    with pytest.raises(TypeError) as info:
        use(an_int())
    message, hint = str(info.value).splitlines()
    assert message.startswith(f"cannot {what} the random variable `t1")
    assert message.endswith("inside a module: its value differs between candidates")
    assert hint.startswith("  hint: for a structural decision write `how = sch.choose(")


def test_integer_variables_of_one_name_are_equal() -> None:
    """They are, whatever they take; and None is none."""
    assert an_int() == an_int()
    assert an_int() * 2 + 1 == an_int() * 2 + 1
    assert an_int() != None  # noqa: E711
    assert f"{an_int()!s} {an_int()!r} {an_int() * 2!s}" == "t1 t1 t1*2"


def test_a_comparison_says_how_to_take_the_smaller_of_two() -> None:
    with pytest.raises(TypeError, match=r"take `ms\.minimum\(a, b\)` or `ms\.maximum\(a, b\)`"):
        min(an_int(), 4)


@pytest.mark.parametrize(
    ("combine", "text"),
    [
        (lambda t: t * np.int64(2), "t1*2"),
        (lambda t: np.int32(2) * t, "2*t1"),
        (lambda t: np.uint8(8) - t, "8 - t1"),
        (lambda t: t // np.int64(2), "t1 // 2"),
        (lambda t: ms.minimum(t, np.int64(8)), "min(t1, 8)"),  # type: ignore[arg-type]
    ],
)
def test_numbers_of_numpy_are_numbers(combine: Any, text: str) -> None:
    assert str(combine(an_int())) == text


@pytest.mark.parametrize("other", [1.5, np.float32(2), True, None, "a", np.ones(2, np.int64)])
@pytest.mark.parametrize("combine", [lambda t, x: t * x, lambda t, x: x + t, lambda t, x: t % x, ms.ceildiv])
def test_anything_else_is_refused_where_it_is_combined(combine: Any, other: Any) -> None:
    """A trace could not be read back."""
    with pytest.raises(TypeError, match="a random variable cannot be combined with"):
        combine(an_int(), other)


@pytest.mark.parametrize("combine", [lambda t: t // 0, lambda t: t % 0, lambda t: ms.ceildiv(t, 0)])
def test_nothing_is_divided_by_zero(combine: Any) -> None:
    with pytest.raises(ZeroDivisionError, match="divides by zero"):
        combine(an_int())


def test_a_quotient_is_an_integer() -> None:
    with pytest.raises(TypeError, match=r"`t1 / 2` is no integer: write `//`, which rounds down, or `ms.ceildiv`"):
        an_int() / 2

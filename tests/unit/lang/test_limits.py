"""Programs that are too large are refused at once, with a sentence."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import metasched as ms


def program(value: str) -> str:
    return f"program p[N=64](X: f32[N]) -> Y: f32[N]:\n    Y[i] = {value}\n"


@pytest.mark.parametrize(
    "value",
    [" + ".join(["X[i]"] * 1000), "-" * 100_000 + "X[i]", " ".join(["X[i] if i < 5 else"] * 1000) + " 0"],
    ids=["terms", "signs", "cases"],
)
def test_depth(value: str) -> None:
    with pytest.raises(ms.LanguageError, match="nested more than 200 levels deep") as caught:
        ms.parse_program(program(value))
    assert "hint: split it into several stages" in str(caught.value)
    assert max(map(len, str(caught.value).splitlines())) < 250


def test_terms_that_are_allowed() -> None:
    terms = " + ".join(["X[i]"] * 180)
    assert ms.compile(ms.parse_program(program(terms))).program.flops == 64 * 179


def doubled(value: ms.Value) -> ms.Value:
    for _ in range(60):
        value = value + value
    return value


N, A = ms.param("N", 64), ms.placeholder("A", (ms.param("N", 64),))


@pytest.mark.parametrize(
    "build",
    [
        lambda: ms.compute("Y", (64,), lambda i: doubled(A[i])),
        lambda: ms.let("M", doubled(N)),
        lambda: ms.placeholder("B", (doubled(N),)),
    ],
)
def test_values_that_python_shares(build: Callable[[], object]) -> None:
    with pytest.raises(ms.LanguageError, match="more than 10000 operations, reads, names and numbers"):
        build()


def test_rank() -> None:
    axes = ", ".join(f"i{k}" for k in range(33))
    sizes = ", ".join(["1"] * 33)
    with pytest.raises(ms.LanguageError, match="`Y` runs over 33 variables; at most 32 are allowed"):
        ms.parse_program(f"program p(X: f32[{sizes}]) -> Y: f32[{sizes}]:\n    Y[{axes}] = X[{axes}]\n")


def test_the_place_in_a_long_line_is_shown_with_what_is_around_it() -> None:
    with pytest.raises(ms.LanguageError) as caught:
        ms.parse_program(program(" + ".join(["X[i]"] * 90) + " + Q[i] + " + " + ".join(["X[i]"] * 90)))
    _, shown, caret, *_ = str(caught.value).splitlines()
    assert shown[caret.index("^")] == "Q"
    assert len(shown) < 250

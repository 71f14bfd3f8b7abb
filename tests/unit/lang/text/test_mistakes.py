"""Syntax errors: every example of a mistake gets its own hint, and right texts have none."""

from __future__ import annotations

import threading

import pytest

from metasched.errors import LanguageError
from metasched.lang import parse_definitions, parse_program, parse_trace
from metasched.lang.text.mistakes import catalogue

EXAMPLES = [(mistake.hint, example) for mistake in catalogue() for example in mistake.examples]
SYMBOLS = [(mistake.hint, symbol) for mistake in catalogue() for symbol in mistake.symbols]


def error_of(text: str) -> LanguageError:
    with pytest.raises(LanguageError) as caught:
        (parse_trace if text.startswith("trace") else parse_definitions)(text)
    assert len(caught.value.diagnostics) == 1
    return caught.value


@pytest.mark.parametrize(("hint", "example"), EXAMPLES)
def test_examples(hint: str, example: str) -> None:
    assert error_of(example).diagnostics[0].hint == hint


@pytest.mark.parametrize(("hint", "symbol"), SYMBOLS)
def test_symbols(hint: str, symbol: str) -> None:
    diagnostic = error_of(f"program p(A: f32[4]) -> B: f32[4]:\n    B[i] = A[i] {symbol} 2\n").diagnostics[0]
    assert (diagnostic.line, diagnostic.column, diagnostic.hint) == (2, 17, hint)


def stage(line: str) -> str:
    return f"program p(A: f32[4]) -> B: f32[4]:\n    {line}\n"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", (1, 1), "expected `module` or `program`, found the end of the text"),
        ("   # nothing\n", (1, 1), "expected `module` or `program`, found the end of the text"),
        ("program", (1, 8), "expected a name, found the end of the line"),
        (stage("B[i] = "), (2, 11), "expected an expression, found the end of the line"),
        (stage("B[i] = A[i] +"), (2, 18), "expected an expression, found the end of the line"),
        (stage("B[i] = A[i] B[i]"), (2, 17), "expected the end of the line or an operator, found `B`"),
        (stage("B[i] = max(A[i] 0)"), (2, 21), "expected `)`, `,` or an operator, found `0`"),
        (stage("B[i] = (A[i]\n    C[i] = A[i]"), (2, 12), "`(` is never closed"),
        (stage("B[i] = (A[i]\n  A[i])"), (3, 3), "expected `)` or an operator, found `A`"),
        ("program p(\n  A: f32[4],,\n) -> B: f32[4]:", (2, 13), "expected `)`, `const` or a name, found `,`"),
        (stage("B[i] = (A[i] # )\n C[i] = 1"), (2, 12), "`(` is never closed"),
        (stage("B[i] = A[i"), (2, 13), "`[` is never closed"),
        (stage("B[i] = A[i])"), (2, 16), "`)` closes nothing"),
        (stage("B[i] = (A[i]]"), (2, 17), "`]` does not close the `(` of line 2, column 12"),
        (stage("\tB[i] = A[i]"), (2, 5), "a tab in the indentation"),
        (
            stage("B[i] = A[i]\n  C[i] = A[i]"),
            (3, 3),
            "this line is indented like none of the lines it could belong to",
        ),
        ("program p(A: f32[4]) -> B: f32[4]:", (1, 35), "expected an indented line, found the end of the text"),
        ("trace 1 of p:\n    f(1\n    g(2)", (2, 6), "`(` is never closed"),
        ("trace 1 of p:\n    a ~ f() := ", (2, 15), "expected an expression, found"),
    ],
)
def test_messages(text: str, place: tuple[int, int], message: str) -> None:
    diagnostic = error_of(text).diagnostics[0]
    assert (diagnostic.line, diagnostic.column) == place
    assert diagnostic.message.startswith(message)


def test_one_grammar_serves_several_threads() -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(10):
                (definition,) = parse_definitions(f"program p{number}(A: f32[4]) -> B: f32[4]:\n  B[i] = A[i]\n")
                assert definition.name == f"p{number}"
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("np.maximum(A[i], 0)", "write `max(x, y)`"),
        ("A[i] + np.exp(A[i])", "functions are called by their names alone: write `exp(x)`"),
        ("math.sqrt(A[i])", "write `sqrt(x)`"),
        ("torch.relu(A[i])", "write `max(x, 0)`"),
        ("A.T[i]", "write `A[j, i]` for the transpose of `A[i, j]`"),
        ("A.sum()", "write `sum[k](A[i, k])`"),
        ("A.shape[0]", "a parameter"),
        ("A[i].astype(f64)", "write `f32(x)`"),
        ("np.somethingelse(A[i])", "names have no parts"),
        ("A @ A", "a product of matrices is a reduction"),
        ("A[i] ** 2", "write `x * x`, or `pow(x, y)`"),
        ("lambda x: x", "there is no `lambda`"),
        ("sum(A[k] for k in range(4))", "a reduction names its indices in brackets"),
        ("maximum(A[i], 0)", "write `max(x, y)`"),
        ("relu(A[i])", "write `max(x, 0)`"),
        ("where(A[i] > 0, A[i], 0)", "write `x if c else y`"),
        ("float32(A[i])", "write `f32(x)`"),
    ],
)
def test_what_numpy_has(value: str, hint: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_program(f"program p(A: f32[4]) -> B: f32[4]:\n    B[i < 4] = {value}\n")
    assert any(hint in d.hint for d in caught.value.diagnostics)
    assert "split" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("A[i] * 0x10", "numbers are decimal, without `_`: write `16`"),
        ("0b101 + A[i]", "numbers are decimal, without `_`: write `5`"),
        ("A[i] if i < 0o17 else 0", "numbers are decimal, without `_`: write `15`"),
        ("max(1_000, A[i])", "numbers are decimal, without `_`: write `1000`"),
        ("2A[i]", "multiply with `*`"),
        ("0x_ * A[i]", "multiply with `*`"),
    ],
)
def test_numbers_as_python_has_them(value: str, hint: str) -> None:
    assert error_of(stage(f"B[i] = {value}")).diagnostics[0].hint == hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (stage("B[i] = A[i] if i < 2 els 0"), "did you mean `else`?"),
        (stage("B[i] = A[i] if i < 2 adn i > 0 else 0"), "did you mean `and`?"),
        ("progam p(A: f32[4]) -> B: f32[4]:\n    B[i] = A[i]\n", "did you mean `program`?"),
        (stage("B[i] = A[i] i"), "an operator is missing, or parentheses: `A[i] * B[i]`, `sum[k](A[i, k])`"),
    ],
)
def test_misspelt_words(text: str, hint: str) -> None:
    assert error_of(text).diagnostics[0].hint == hint

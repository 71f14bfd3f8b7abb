"""Reductions over some terms, `sum[k if c](...)`: what they mean, in text and in Python, and mistakes with them."""

from __future__ import annotations

import numpy as np
import pytest

import metasched as ms
from metasched.errors import LanguageError
from metasched.ir import query
from metasched.ir.validate import validate
from metasched.lang.build import compute, max, placeholder, program, sum  # noqa: A004
from metasched.lang.load import parse_program
from metasched.lang.python_values import Value
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target

A = np.arange(1, 37, dtype=np.float32).reshape(6, 6)


def made(value: str, shape: str = "f32[6, 6]", result: str = "f32[6]") -> ms.Program:
    return parse_program(f"program p(A: {shape}) -> B: {result}:\n    B[i] = {value}\n")


ROW, TERM = np.indices((6, 6))
CONDITIONS = {
    "k <= i": TERM <= ROW,
    "(i + k) % 2 == 0 and k > 0": ((ROW + TERM) % 2 == 0) & (TERM > 0),
    "A[i, k] > 20": A > 20,
    "not k == i or i > 4": (TERM != ROW) | (ROW > 4),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_sum_has_the_terms_that_meet_its_condition(condition: str) -> None:
    prog = made(f"sum[k if {condition}](A[i, k])")
    validate(prog.func)
    assert str(parse_program(str(prog))) == str(prog)
    assert f"sum[k if {condition}](A[i, k])" in str(prog)
    expected = np.where(CONDITIONS[condition], A, 0).sum(1)
    np.testing.assert_array_equal(ms.reference(prog)(A), expected)
    np.testing.assert_array_equal(ms.compile(prog)(A), expected)


def test_an_absent_term_is_not_computed() -> None:
    """No zero times infinity, and no read of what is not there."""
    prog = made("sum[k < 9 if k + 1 < i](A[i, k] * A[i, k + 1])")
    data = A.copy()
    data[:2], data[2:, 5] = np.inf, np.nan
    found = ms.reference(prog)(data)
    assert found[0] == found[1] == 0
    assert np.isfinite(found[2:]).all()
    np.testing.assert_array_equal(ms.compile(prog)(data), found)


@pytest.mark.parametrize(
    ("reducer", "dtype", "empty"),
    [("sum", "i32", 0), ("prod", "f64", 1), ("max", "f32", -np.inf), ("min", "f32", np.inf), ("max", "u8", 0),
     ("min", "i8", 127), ("max", "i64", -(2**63)), ("max", "bf16", -np.inf)],
)  # fmt: skip
def test_of_no_terms_the_result_is_the_identity(reducer: str, dtype: str, empty: float) -> None:
    prog = made(f"{reducer}[k if k < i](A[i, k])", f"{dtype}[6, 6]", f"{dtype}[6]")
    data = A.astype(prog.func.inputs[0].dtype.numpy)
    kernel = ms.compile(prog)
    assert float(ms.reference(prog)(data)[0]) == empty
    assert float(kernel(data)[0]) == empty


def test_a_condition_that_always_holds_leaves_nothing_of_itself() -> None:
    plain, always = made("sum[k](A[i, k])"), made("sum[k if 2 > 1](A[i, k])")
    assert plain.structural_hash() == always.structural_hash()
    np.testing.assert_array_equal(ms.reference(made("sum[k if k > 7](A[i, k])"))(A), [0] * 6)


def test_in_python() -> None:
    x = placeholder("A", (6, 6))
    sums = compute("B", (6,), lambda i: sum(lambda k: x[i, k], 6, where=lambda k: k <= i))
    assert str(program("p", [x], [sums])) == str(made("sum[k if k <= i](A[i, k])"))
    highest = compute("B", (6,), lambda i: max(lambda k: x[i, k], 6, where=lambda k: k <= i))
    assert "max[k if k <= i](A[i, k])" in str(program("p", [x], [highest]))


def test_mistakes_in_python() -> None:
    x = placeholder("A", (6, 6))
    with pytest.raises(LanguageError, match="names other variables than its terms"):
        compute("B", (6,), lambda i: sum(lambda k: x[i, k], 6, where=lambda q: q <= i))
    with pytest.raises(LanguageError, match="of two values has no where="):
        compute("B", (6,), lambda i: max(x[i, 0], x[i, 1], where=lambda: i > 3))

    def of_k(k: Value) -> Value:
        return k < 3

    with pytest.raises(LanguageError, match="takes 1 argument"):
        compute("B", (6,), lambda i: sum(lambda k, q: x[i, k], 6, 2, where=of_k))


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("sum[k if k % 2](A[i, k])", "`k % 2` is i64 where bool is needed", "compare it"),
        ("sum[k if q < 2](A[i, k])", "`q` is not declared", ""),
        ("sum[k if k < i, r](A[i, k])", "found `,`", "comes last, once, and is one condition"),
        ("sum[k if k < i if k > 2](A[i, k])", "found `if`", "comes last, once, and is one condition"),
        ("sum[k](A[i, k] if k < 2)", "expected `else`", "both sides"),
        ("A[i, 2 if i < 2]", "a condition without `else` belongs to a reduction", "`sum[k if c](...)`"),
        ("1 + sum[k if k < 2](A[i, k])", "whole right-hand side", "A_sum[i] = sum[k if k < 2](A[i, k])"),
        ("sum[k < 9 if k < 7](A[i, k])", "leaves `A` in dimension 1", ""),
        ("sum[k < 9](A[i, k])", "leaves `A` in dimension 1", ""),
    ],
)
def test_mistakes(value: str, message: str, hint: str) -> None:
    with pytest.raises(LanguageError) as caught:
        made(value)
    assert message in str(caught.value)
    assert hint.replace("A_sum", "B_sum") in str(caught.value)


@pytest.mark.parametrize(("op", "worst"), [("argmax", -np.inf), ("argmin", np.inf)])
@pytest.mark.parametrize(("position", "none"), [("i64", 2**63 - 1), ("i32", 2**31 - 1)])
def test_an_arg_reduction_over_some_terms(op: str, worst: float, position: str, none: int) -> None:
    text = (
        f"program p(A: f32[6, 20]) -> (V: f32[6], P: {position}[6]):\n    V[i], P[i] = {op}[k if k % 7 < i](A[i, k])\n"
    )
    program = parse_program(text)
    a = np.random.default_rng(0).integers(-3, 4, (6, 20)).astype(np.float32)
    a[2] = worst  # a term that is there wins over those that are not, though their values are equal
    a[3, 5:9] = np.nan
    found = [[k for k in range(20) if k % 7 < i] for i in range(6)]
    best = [found[i][int(getattr(np, op)(a[i, found[i]]))] if found[i] else none for i in range(6)]
    values = [a[i, best[i]] if found[i] else worst for i in range(6)]
    results = [reference(program)(a)]
    for step in ("as written", "in parts", "in lanes", "across rows"):
        sch = Schedule(program, seed=0)
        row, term = sch.get_loops(sch.get_block(sch.block_names()[0]))
        if step == "in parts":
            sch.rfactor(sch.split(term, [None, 8])[1])
        elif step == "in lanes":
            sch.vectorize(term, lanes=8)
        elif step == "across rows":
            sch.reorder(term, row)
            sch.vectorize(row, lanes=4)
        results.append(Kernel(build(sch.func, Target.detect(threads=2)))(a))
    for value, at in results:
        np.testing.assert_array_equal(value, values)
        np.testing.assert_array_equal(at, best)


def test_a_position_that_may_be_none_is_no_index_without_a_condition() -> None:
    text = """\
program p(A: f32[6, 8], T: f32[8]) -> Y: f32[6]:
    V[i], P[i] = argmax[k if k < i](A[i, k])
    Y[i] = {} + V[i]
"""
    with pytest.raises(LanguageError, match=r"nothing says that `P\[i\]` stays inside `T`"):
        parse_program(text.format("T[P[i]]"))
    program = parse_program(text.format("(T[P[i]] if P[i] >= 0 and P[i] < 8 else 0)"))
    assert reference(program)(np.ones((6, 8), np.float32), np.ones(8, np.float32)).tolist() == [-np.inf] + [2.0] * 5  # type: ignore[union-attr]


def test_the_index_of_a_term_takes_its_range_from_reads_under_the_condition() -> None:
    (block,) = query.blocks(made("sum[k if k <= i](A[i, k])").func)
    assert [str(it.extent.value) for it in block.iters] == ["6", "6"]  # type: ignore[attr-defined]
    with pytest.raises(LanguageError):
        made("sum[k if k <= i](A[i, k + 1])")


def test_in_short() -> None:
    kernel = ms.kernel("C[i] = sum[k if k <= i](A[i, k])")
    np.testing.assert_array_equal(kernel(A), np.tril(A).sum(1))

"""Programs as values."""

from __future__ import annotations

import pickle
import re

import pytest

from metasched.ir.work import Work
from metasched.lang import parse_program

DENSE = """program dense_relu[N=16, M=8, K=4](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu: D[i, j] = max(C[i, j], 0)
"""


def test_a_program_is_a_value() -> None:
    program = parse_program(DENSE)
    assert program == parse_program(DENSE)
    assert hash(program) == hash(parse_program(DENSE))
    assert program != parse_program(DENSE, N=8)
    assert str(program) == DENSE
    assert program.name == "dense_relu"
    assert program.key == "dense_relu[N=16, M=8, K=4]"
    assert [b.name for b in program.inputs] == ["A", "B"]
    assert [b.name for b in program.outputs] == ["D"]


def test_it_travels_in_a_pickle() -> None:
    program = parse_program(DENSE)
    copy = pickle.loads(pickle.dumps(program))
    assert copy == program
    assert copy.structural_hash() == program.structural_hash()
    assert copy.flops == program.flops


def test_renaming_does_not_change_the_structural_hash() -> None:
    text = DENSE
    words = {"dense_relu": "p", "A": "X", "B": "Y", "C": "T", "D": "Z", "i": "a", "j": "b", "k": "c"}
    words |= {"dense": "first", "relu": "second", "N": "P", "M": "Q", "K": "R"}
    renamed = re.sub(r"[A-Za-z_]+", lambda m: words.get(m.group(), m.group()), text)
    assert parse_program(renamed).structural_hash() == parse_program(text).structural_hash()
    assert len(parse_program(text).structural_hash()) == 64


@pytest.mark.parametrize(
    ("old", "new"), [("relu:", "act:"), ("dense_relu", "d"), ("i,", "u,"), ("K", "Q"), ("C[", "T[")]
)
def test_a_trace_applies_to_programs_of_the_same_names_only(old: str, new: str) -> None:
    program, renamed = parse_program(DENSE), parse_program(DENSE.replace(old, new))
    assert renamed.structural_hash() == program.structural_hash()
    assert renamed.named_hash() != program.named_hash()
    assert parse_program(DENSE).named_hash() == program.named_hash()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("N=16", "N=17"),
        ("max(", "min("),
        (", 0)", ", 1)"),
        ("f32", "f64"),
        ("A[i, k] * B[k, j]", "B[k, j] * A[i, k]"),
        ("sum", "prod"),
        ("B: f32", "const B: f32"),
    ],
)
def test_any_other_change_does(old: str, new: str) -> None:
    assert parse_program(DENSE.replace(old, new)).structural_hash() != parse_program(DENSE).structural_hash()


@pytest.mark.parametrize(
    ("value", "each"),
    [
        ("A[i]", 0),
        ("A[i] + 1", 1),
        ("-A[i]", 0),
        ("exp(A[i]) * A[i] / 2", 3),
        ("max(A[i], 0)", 1),
        ("A[i] + 1 if A[i] > 0 and i < 3 else A[i] * A[i] - 2", 2),
        ("A[i] if i + 1 < 3 else 0", 0),
    ],
)
def test_floating_point_operations(value: str, each: int) -> None:
    assert parse_program(f"program p(A: f32[5]) -> C: f32[5]:\n  C[i] = {value}\n").flops == 5 * each


def test_a_multiply_add_counts_two() -> None:
    assert parse_program(DENSE).flops == 2 * 16 * 8 * 4 + 16 * 8


def test_integers_do_not_count() -> None:
    assert parse_program("program p(A: i32[5]) -> s: i32[]:\n  s[] = sum[k](A[k] * A[k])\n").flops == 0


@pytest.mark.parametrize(
    ("stages", "floats", "integers"),
    [
        ("s: s[] = sum[k](A[k] * B[k])", 20, 0),
        ("s: s[] = sum[k](i32(X[k]) * i32(W[k]))", 0, 20),
        ("s: s[k] = i32(X[(k * 3 + 1) % 10])", 0, 0),
        ("s: s[k] = i32(X[k]) * i32(k + 1) + i32(k * 2)", 0, 20),
        ("s: s[k] = f32(i32(X[k]) * i32(W[k])) * A[k]", 10, 10),
        ("s: s[k] = i32(X[k]) if k % 2 == 0 else i32(W[k]) * i32(X[k])", 0, 10),
    ],
)
def test_work_on_floats_and_on_integers(stages: str, floats: int, integers: int) -> None:
    given = ", ".join(f"{name}: {'f32' if name in 'AB' else 'i8'}[10]" for name in "ABXW" if f"{name}[" in stages)
    result = f"{'f32' if floats else 'i32'}[{'' if 's[]' in stages else '10'}]"
    text = f"program p({given}) -> s: {result}:\n  {stages}\n"
    work = parse_program(text).work
    assert (work.floats, work.integers) == (floats, integers)


def test_the_unit_is_that_of_the_work() -> None:
    assert Work(2 * 10**9, 0).speed(1.0) == "2.0 GFLOP/s"
    assert Work(0, 2 * 10**9).speed(1.0) == "2.0 GOP/s"
    assert Work(10**9, 10**9).speed(1.0) == "2.0 GOP/s"
    assert Work().speed(1.0) == ""

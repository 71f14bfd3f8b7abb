"""Scattered loops in the low-level program: one iteration, at the place of a term."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.errors import BuildError
from metasched.ir import query
from metasched.ir.nodes import Select
from metasched.lang import parse_program
from metasched.reference.execution import reference
from metasched.runtime.compiled import build
from metasched.runtime.kernel import Kernel
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.lir_interpreter import run_lir

HERE = Target.detect(threads=1)
TEXT = """
program cells[H=6, W=9, Z=5](X: f32[H, W], V: i64[H, W]) -> C: f32[2, Z]:
    fill: C[c < 2, z < Z] = sum[i, j if V[i, j] % 7 == z + 1](X[i, j] if c == 0 else 1.0)
"""


def scattered(**sizes: int) -> Schedule:
    sch = Schedule(parse_program(TEXT, **sizes))
    c, z, i, j = sch.get_loops(sch.get_block("fill"))
    sch.reorder(i, j, z, c)
    sch.scatter(z)
    return sch


def test_the_place_is_found_once_and_its_elements_are_neighbours_in_straight_code() -> None:
    sch = scattered()
    sch.annotate(sch.get_block("fill"), "unroll_limit", 16)
    text = print_kernel(lower(sch.func, HERE))
    assert "at z = V[j + i*9] % 7 - 1 of 5:" in text.replace("i*9 + j", "j + i*9")
    assert "unrolled c in range(2):" in text
    assert "acc" not in text, "sums at places that data says are in memory"


@pytest.mark.parametrize("inner", [None, 32])
def test_all_places_begin_in_vectors_whatever_order_terms_are_taken_in(inner: int | None) -> None:
    """The order is that of terms, where places are anywhere: it would be one element at a time, or a column."""
    text = "program p(K: i64[9, 40], X: f32[9, 40]) -> S: f32[50, 40]:\n"
    sch = Schedule(parse_program(f"{text}    S[v, j] = sum[t < 9 if K[t, j] == v](X[t, j])"))
    v, j, t = sch.get_loops(sch.get_block("S"))
    outer, within = (j, j) if inner is None else sch.split(j, [None, inner])
    sch.reorder(*dict.fromkeys([outer, t, within] if inner else [t, j]), v)
    sch.scatter(v)
    lowered = lower(sch.func, HERE)
    start = print_kernel(lowered).split(" = 0")[0].splitlines()[-2]
    assert re.search(r"vector\S* j", start), start
    rng = np.random.default_rng(0)
    values, places = rng.integers(-4, 5, (9, 40)).astype(np.float32), rng.integers(0, 50, (9, 40))
    np.testing.assert_array_equal(Kernel(build(sch.func, HERE))(places, values), reference(sch.program)(places, values))


def test_places_outside_are_left_out() -> None:
    sch = scattered()
    rng = np.random.default_rng(0)
    values = rng.integers(-4, 5, (6, 9)).astype(np.float32)
    places = rng.integers(-(2**62), 2**62, (6, 9))
    places[0, :2] = -(2**63), 2**63 - 1
    expected = reference(sch.program)(values, places)
    np.testing.assert_array_equal(Kernel(build(sch.func, HERE))(values, places), expected)
    interpreted = run_lir(lower(sch.func, HERE), [values, places]).data["C"]
    np.testing.assert_array_equal(interpreted.reshape(expected.shape), expected)


def test_long_sums_in_blocks_have_partial_sums_at_all_places() -> None:
    sch = scattered(H=40)
    sch.annotate(sch.get_block("fill"), "blocked_sum", 64)
    values, places = np.ones((40, 9), np.float32), np.arange(360).reshape(40, 9) % 8
    np.testing.assert_array_equal(Kernel(build(sch.func, HERE))(values, places), reference(sch.program)(values, places))


def test_of_one_term_every_element_is_written() -> None:
    sch = scattered(H=1, W=1)
    values, places = np.ones((1, 1), np.float32), np.full((1, 1), 3)
    np.testing.assert_array_equal(Kernel(build(sch.func, HERE))(values, places), reference(sch.program)(values, places))


def test_a_condition_that_is_not_there_any_more() -> None:
    sch = scattered()
    block = query.find_block(sch.func, "fill")
    assert isinstance(block.store.value, Select)
    every = replace(block, store=replace(block.store, value=block.store.value.then))
    with pytest.raises(BuildError, match="scattered loop without a place"):
        lower(query.replace_stmt(sch.func, block, every), HERE)


@pytest.mark.parametrize("condition", ["r >= 1", "r > 3", "r // 2 >= 7", "2*r >= 7"])
def test_a_loop_that_begins_later_moves_the_places_inside(condition: str) -> None:
    text = f"program late[R=40](I: i64[R]) -> T: i64[9]:\n    T[i < 9] = sum[r < R if {condition} and i == I[r]](r)\n"
    sch = Schedule(parse_program(text))
    i, r = sch.get_loops(sch.get_block("T"))
    sch.reorder(r, i)
    sch.scatter(i)
    places = np.arange(40) * 5 % 9
    expected = reference(sch.program)(places)
    np.testing.assert_array_equal(Kernel(build(sch.func, HERE))(places), expected)
    np.testing.assert_array_equal(run_lir(lower(sch.func, HERE), [places]).data["T"], expected)


NEWEST = """
program newest[N=40, M=9](I: i64[N]) -> P: i32[M]:
    P[p] = max[r < N if I[r] == p](i32(r))
"""


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        (NEWEST, False),
        (NEWEST.replace("max", "min"), True),
        (NEWEST.replace("i32(r)", "i32(r * 3)"), True),
        (NEWEST.replace("i32", "i8").replace("N=40", "N=300"), True),  # numbers that wrap
        (NEWEST.replace("r < N if I[r] == p", "q < 2, r < N if I[r] == p + q").replace("[M]", "[M - 1]"), True),
    ],
)
def test_rising_numbers_take_the_place_of_those_before(text: str, looks: bool) -> None:
    """The largest number of an update is that of the last one, which is written without a look at the others."""
    sch = Schedule(parse_program(text))
    p, *terms = sch.get_loops(sch.get_block("P"))
    sch.reorder(*terms, p)
    sch.scatter(p)
    assert ("max" in print_kernel(lower(sch.func, HERE)) or "min" in print_kernel(lower(sch.func, HERE))) == looks
    places = np.random.default_rng(0).integers(-2, 9, sch.program.func.inputs[0].shape[0].value)
    expected = reference(sch.program)(places)
    np.testing.assert_array_equal(Kernel(build(sch.func, HERE))(places), expected)


def test_numbers_that_come_in_another_order_are_compared() -> None:
    sch = Schedule(parse_program(NEWEST))
    p, r = sch.get_loops(sch.get_block("P"))
    outer, inner = sch.split(r, [None, 8])
    sch.reorder(inner, outer, p)
    sch.scatter(p)
    places = np.random.default_rng(0).integers(-2, 9, 40)
    np.testing.assert_array_equal(Kernel(build(sch.func, HERE))(places), reference(sch.program)(places))

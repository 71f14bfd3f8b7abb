"""Terms of a reduction that are not there become conditions of its update, as far out as they are known."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.errors import BuildError
from metasched.schedule.trace import Schedule
from tests.support.agreement import check_kernel
from tests.support.targets import AVX512

EVEN = """program even[N=12, K=8, M=32](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k if (i + k) % 2 == 0](A[i, k] * B[k, j])"""
EVEN_PRODUCTS = 2 * 8 // 2
LOWER = """program lower[N=12, M=20](A: f32[N, N], B: f32[N, M]) -> C: f32[N, M]:
    C[i, j] = sum[k if k <= i](A[i, k] * B[k, j])"""


def code(sch: Schedule) -> str:
    check_kernel(ms.compile(sch.program, trace=sch.trace), sch.program)
    return print_kernel(lower(sch.func, AVX512))


def products(sch: Schedule) -> int:
    """How many there are in the machine code."""
    return ms.compile(sch.program, trace=sch.trace).llvm.count(" fmul ")


def test_a_bound_on_terms_shortens_their_loop() -> None:
    sch = ms.Schedule(ms.parse_program(LOWER))
    assert "for k in range(min(12, i + 1)):" in code(sch)


def test_a_condition_goes_to_the_outermost_loop_that_decides_it() -> None:
    sch = ms.Schedule(ms.parse_program(EVEN))
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, k, j)
    sch.vectorize(j, lanes=16)
    lines = [line.strip() for line in code(sch).splitlines()]
    (at,) = (n for n, line in enumerate(lines) if line.startswith("if "))
    assert lines[at - 1].startswith("for k")
    assert lines[at + 1].startswith("vector")


def test_what_is_known_in_unrolled_code_is_left_out_of_it() -> None:
    """Half of the products: which ones is known when the code is made."""
    sch = ms.Schedule(ms.parse_program(EVEN))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 2])
    k0, k1 = sch.split(k, [None, 2])
    sch.reorder(i0, j, k0, i1, k1)
    for loop in (k0, i1, k1):
        sch.unroll(loop)
    assert "if (i_1 + k_1) % 2 == 0:" in code(sch)
    assert products(sch) == EVEN_PRODUCTS


def test_conditions_that_differ_between_lanes_are_choices() -> None:
    sch = ms.Schedule(ms.parse_program(EVEN.replace("(i + k)", "(j + k)")))
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, k, j)
    sch.vectorize(j, lanes=16)
    text = code(sch)
    assert " if " in text
    assert "\n        if" not in text


def test_zero_is_nothing_to_a_sum_and_something_to_a_maximum() -> None:
    text = "program p[N=6](A: f32[N, N]) -> B: f32[N]:\n    B[i] = {}[k](A[i, k] if k <= i else {})"
    clipped = "for k in range(min(6, i + 1)):"
    for reducer, other, nothing in (
        ("sum", "0", True),
        ("max", "0", False),
        ("max", "-inf", True),
        ("sum", "1", False),
    ):
        sch = ms.Schedule(ms.parse_program(text.format(reducer, other)))
        assert (clipped in code(sch)) is nothing, (reducer, other)


def test_elements_without_terms_are_written() -> None:
    """Accumulators are started and stored whether a term is there or not."""
    sch = ms.Schedule(ms.parse_program(EVEN.replace("(i + k) % 2 == 0", "i < 7 and k < 3")))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i, j0, k, j1)
    sch.vectorize(j1, lanes=16)
    sch.rfactor(k)
    code(sch)


def test_decomposed() -> None:
    sch = ms.Schedule(ms.parse_program(LOWER))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    sch.reorder(i, k, j)
    sch.decompose_reduction(block, k)
    assert "for k in range(min(12, i + 1)):" in code(sch)


def test_copies_that_are_left_out_do_not_count() -> None:
    """Of 12 x 8 x 96 copies a 96th is made."""
    sch = ms.Schedule(ms.parse_program(EVEN.replace("% 2", "% 48"), N=12, K=8, M=96))
    for loop in sch.get_loops(sch.get_block("C")):
        sch.unroll(loop)
    assert products(sch) == 96
    sch = ms.Schedule(ms.parse_program(EVEN.replace("% 2 == 0", "< 999"), N=12, K=8, M=96))
    for loop in sch.get_loops(sch.get_block("C")):
        sch.unroll(loop)
    with pytest.raises(BuildError, match="unroll too large"):
        lower(sch.func, AVX512)


def test_multiples_of_a_divisor_in_other_loops_do_not_matter() -> None:
    """Of 16 x 32 x 16 copies a 16th is made, wherever the loop around them is."""
    sch = ms.Schedule(ms.parse_program(EVEN.replace("% 2", "% 16"), N=32, K=16, M=32))
    i, j, k = sch.get_loops(sch.get_block("C"))
    i0, i1 = sch.split(i, [None, 16])
    sch.reorder(i0, i1, j, k)
    for loop in (i1, j, k):
        sch.unroll(loop)
    assert products(sch) == 16 * 32

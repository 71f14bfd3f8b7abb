"""What is run once for constant arguments: not in the features and cycles of a call, and shown apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.cost.expectation import expectation_of, least_cycles
from metasched.cost.features import NAMES, FeatureProgram, features_of
from metasched.ir.prologue import main_part
from tests.support.targets import AVX512

TEXT = """
program product[M=64, N=128, K=96](A: f32[M, K], const B: f32[K, N]) -> C: f32[M, N]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""
PLAIN = TEXT.replace("const ", "")


def packed(sch: ms.Schedule) -> ms.BlockRV:
    copy = sch.cache_read(sch.get_block("C"), "B")
    sch.transform_layout(copy, "k, j -> j//16, k, j%16")
    return copy


def in_the_main_part(sch: ms.Schedule) -> None:
    sch.compute_at(packed(sch), sch.get_loops(sch.get_block("C"))[0])


def scheduled(text: str, change: Callable[[ms.Schedule], object]) -> ms.Schedule:
    sch = ms.Schedule(ms.parse_program(text))
    change(sch)
    return sch


def test_a_copy_of_a_constant_at_the_root_costs_nothing_in_a_call() -> None:
    ahead = expectation_of(scheduled(TEXT, packed).func, AVX512)
    plain = expectation_of(scheduled(PLAIN, packed).func, AVX512)
    assert ahead.prologue_cycles > 0
    assert plain.prologue_cycles == 0
    assert ahead.cycles < plain.cycles
    assert "once for constant arguments" in str(ahead)
    assert "once" not in str(plain)


def test_a_copy_in_the_main_part_is_paid_in_every_call() -> None:
    under = expectation_of(scheduled(TEXT, in_the_main_part).func, AVX512)
    assert under.prologue_cycles == 0
    assert under == expectation_of(scheduled(PLAIN, in_the_main_part).func, AVX512)
    assert under.cycles > expectation_of(scheduled(TEXT, packed).func, AVX512).cycles


def test_features_are_those_of_the_main_part() -> None:
    func = scheduled(TEXT, packed).func
    found = features_of(func, AVX512)
    np.testing.assert_array_equal(found, features_of(main_part(func), AVX512))
    assert found[NAMES.index("all.statements")] == 1
    assert features_of(scheduled(PLAIN, packed).func, AVX512)[NAMES.index("all.statements")] > 1


def test_where_nothing_is_ahead_const_changes_nothing() -> None:
    constant, plain = (scheduled(text, lambda sch: None).func for text in (TEXT, PLAIN))
    np.testing.assert_array_equal(features_of(constant, AVX512), features_of(plain, AVX512))


def test_no_schedule_has_to_compute_what_depends_on_constants_alone() -> None:
    text = """
program squares[M=64, N=64, K=256](A: f32[M, N], {const}W: f32[N, K]) -> C: f32[M, N]:
    S[j] = sum[k](W[j, k] * W[j, k])
    C[i, j] = A[i, j] * S[j]
"""
    constant, plain = (ms.parse_program(text.replace("{const}", word)).func for word in ("const ", ""))
    assert least_cycles(constant, AVX512) < least_cycles(plain, AVX512) / 2


def test_the_features_of_a_row_are_those_of_the_program_with_its_numbers() -> None:
    def change(sch: ms.Schedule) -> None:
        loop = sch.get_loops(packed(sch))[0]
        sch.split(loop, sch.sample_tile(loop, parts=2))
        i, j, k = sch.get_loops(sch.get_block("C"))
        i0, i1 = sch.split(i, sch.sample_tile(i, parts=2))
        j0, j1 = sch.split(j, sch.sample_tile(j, parts=2))
        sch.reorder(i0, j0, k, i1, j1)
        sch.vectorize(j1, lanes=16)

    program = ms.parse_program(TEXT)
    space = ms.space(program, change, target=AVX512)
    sketch = space[0]
    rng = np.random.default_rng(0)
    rows = sketch.sample(rng, 8)
    found = FeatureProgram(sketch.func, sketch.columns, AVX512)(rows)
    for row, features in zip(rows, found, strict=True):
        func = sketch.trace_of(row).apply_to(program).func
        np.testing.assert_allclose(features, features_of(func, AVX512), rtol=1e-5)


@pytest.mark.parametrize("name", ["dense_bias_relu.weights", "conv2d_nhwc.weights"])
def test_expert_traces_for_packed_weights_have_a_prologue(name: str) -> None:
    found = operators.expert(name)
    func = found.trace.apply_to(found.program()).func
    assert main_part(func) != func

"""Batched forms of an operator: what is a batch, and the operator's traces carried over to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.errors import ScheduleError
from metasched.measure.checking.check import mismatch, prepare
from metasched.measure.checking.inputs import given_inputs
from metasched.operators.batched_trace import for_batch
from metasched.operators.batches import batch_of_one, batches, transpose_operands
from metasched.operators.matching import Fit, fits
from metasched.operators.structure import structure_digest
from metasched.search.guesses.guess import guess
from tests.support.targets import AVX512

HEADS = """
program heads[B=2, H=3, M=7, N=9, K=5](A: f32[B, M, H, K], C: f32[B, H, K, N]) -> D: f32[B, H, M, N]:
    D[b, h, i, j] = sum[k](A[b, i, h, k] * C[b, h, k, j])
"""
SOFTMAX = """
program attention[B=2, H=3, N=5, M=70](X: f32[B, H, N, M]) -> Y: f32[B, H, N, M]:
    m[b, h, i] = max[j](X[b, h, i, j])
    e[b, h, i, j] = exp(X[b, h, i, j] - m[b, h, i])
    s[b, h, i] = sum[j](e[b, h, i, j])
    Y[b, h, i, j] = e[b, h, i, j] / s[b, h, i]
"""
DENSE = """
program dense[B=3, M=13, N=70, K=20](A: f32[B, M, K], const W: f32[K, N]) -> D: f32[B, M, N]:
    D[b, i, j] = sum[k](A[b, i, k] * W[k, j])
"""
LOOKUP = """
program lookup(A: f32[4, 5], I: i32[4, 5], T: f32[9, 5]) -> Y: f32[4, 5]:
    Y[i, j] = A[i, j] * (T[I[i, j], j] if I[i, j] < 9 else 0)
"""


def batched(program: ms.Program) -> dict[str, Fit]:
    return {fit.expert.name: fit for fit in fits(program) if fit.batch is not None}


def test_a_batch_is_the_leading_dimensions_of_the_result() -> None:
    one, two, *_ = batches(ms.parse_program(HEADS))
    assert one.dims == {"A": (0,), "C": (0,), "D": (0,)}
    assert two.dims == {"A": (0, 2), "C": (0, 1), "D": (0, 1)}
    assert two.loops == {"b", "h"}
    assert [b.name for b in two.element.func.buffers()] == ["A", "C", "D"]
    assert str(two.element.func.buffer("A").shape) == str(operators.load("matmul_nn", M=7, K=5).func.buffer("A").shape)


@pytest.mark.parametrize(
    "stage",
    [
        "D[b < 4, i] = A[b + 2, i] * A[b + 1, i]",  # another element
        "D[b < 4, i] = A[2 * b, i]",
        "D[b < 4, i] = A[b, i] if b < 2 else 0",  # which element it is decides
    ],
)
def test_elements_that_are_not_computed_alike_are_no_batch(stage: str) -> None:
    program = ms.parse_program(f"program f[N=8](A: f32[9, N]) -> D: f32[4, N]:\n    {stage}\n")
    assert list(batches(program)) == []


TYPES = [{}, {"T": "f64"}, {"T": "bf16", "ACC": "f32"}, {"T": "u8", "U": "i8", "ACC": "i32"}]
SHAPES = [{"BATCH": 3, "M": 37, "N": 77, "K": 40}, {"BATCH": 2, "M": 64, "N": 96, "K": 64}, {"M": 8, "N": 64, "K": 16}]


# Every type at the shape that tiles fill, one with each number of bytes or so elsewhere.
@pytest.mark.parametrize(
    ("shape", "types"),
    [(SHAPES[0], TYPES[0]), (SHAPES[0], TYPES[2]), *((SHAPES[1], types) for types in TYPES), (SHAPES[2], TYPES[0])],
    ids=str,
)
def test_every_trace_of_matmul_serves_its_batched_form(shape: dict[str, int], types: dict[str, Any]) -> None:
    """Where the trace is legal for an element, it is legal for the batch, and does the same."""
    program = operators.load("batch_matmul_nn", **shape, **types)
    one = operators.load("matmul_nn", **{k: v for k, v in shape.items() if k != "BATCH"}, **types)
    found = batched(program)
    assert found.keys() == {fit.expert.name for fit in fits(one)}
    for name, fit in found.items():
        try:
            operators.expert(name).trace.apply_to(one, ms.Policy.REPAIR)
        except ScheduleError:
            with pytest.raises(ScheduleError):
                fit.trace_for(program)
            continue
        trace = fit.trace_for(program)
        trace.apply_to(program)  # strictly: it is a trace of this program
        written = sum(i.op == "parallel" for i in fit.expert.trace.instructions)
        assert sum(i.op == "parallel" for i in trace.instructions) == written
        over_batch = sum(i.op == "parallel" and "batch" in str(i.args[0]) for i in trace.instructions)
        assert over_batch == (written if shape.get("BATCH", 1) > 1 else 0), str(trace)


def agrees(program: ms.Program, trace: ms.Trace) -> None:
    kernel = ms.compile(program, trace=trace)
    cases = prepare(program.func, given_inputs(program.func, None, seed=0), seed=0)
    for case in (cases.integers, cases.random):
        result = kernel(*(a.item() if a.shape == () else a for a in case.inputs))
        assert mismatch(np.asarray(result), case.expected[0], case.tolerance[0]) is None


@pytest.mark.parametrize("name", ["aligned", "blocked", "goto", "odd", "odd_columns", "packed", "small"])
@pytest.mark.parametrize(("text", "sizes"), [(HEADS, {"M": 37, "N": 77, "K": 40}), (DENSE, {})])
def test_batches_compute_what_they_should(name: str, text: str, sizes: dict[str, int]) -> None:
    program = ms.parse_program(text, **sizes)
    agrees(program, batched(program)[f"matmul_nn.{name}"].trace_for(program))


OPERANDS = {"nt": "with B transposed", "tn": "with A transposed", "tt": "with A and B transposed"}


@pytest.mark.parametrize(
    ("way", "batch", "name"),
    [
        *((way, 3, name) for way in OPERANDS for name in ("blocked", "goto", "odd_columns", "packed", "small")),
        *(("nt", 0, "goto"), ("tn", 0, "odd_columns"), ("tt", 0, "packed")),
    ],
)
def test_operands_may_lie_the_other_way(way: str, batch: int, name: str) -> None:
    sizes = {"M": 37, "N": 140, "K": 40, **({"BATCH": batch} if batch else {})}
    program = operators.load(f"{'batch_' if batch else ''}matmul_{way}", **sizes)
    fit = batched(program)[f"matmul_nn.{name}"]
    assert str(fit.batch) == ("for each element of a batch, " if batch else "") + OPERANDS[way]
    agrees(program, fit.trace_for(program, threads=2))


def test_transposing_operands_leaves_the_digest_of_a_structure() -> None:
    element = batch_of_one(ms.parse_program(LOOKUP))
    ways = list(transpose_operands(element))
    assert [sorted(way.turned) for way in ways] == [
        ["A"],
        ["I"],
        ["T"],
        ["A", "I"],
        ["A", "T"],
        ["I", "T"],
        ["A", "I", "T"],
    ]
    assert {structure_digest(way.element.func) for way in ways} == {structure_digest(element.element.func)}


def test_a_program_of_many_matrices_that_is_no_operator_is_not_tried_in_all_their_ways() -> None:
    names = [f"A{n}" for n in range(40)]  # 2^40 ways: they would take years
    arguments, total = ", ".join(f"{name}: f32[4, 4]" for name in names), " + ".join(f"{name}[i, j]" for name in names)
    assert fits(ms.parse_program(f"program f({arguments}) -> Y: f32[4, 4]:\n    Y[i, j] = {total}\n")) == ()


def test_a_transposed_operand_is_copied_to_how_the_trace_has_it() -> None:
    """Rows of the copy, which the product's tiles read as vectors, are rows of the written operand."""
    program = operators.load("batch_matmul_nt", BATCH=2, M=64, N=128, K=64)
    trace = str(batched(program)["matmul_nn.goto"].trace_for(program))
    assert 'transform_layout(C_B_read, "batch0, j, k -> batch0, j // 64, k, j % 64")' in trace
    assert "reorder(k_of_C_B_read, j_of_C_B_read)" in trace
    trace = str(batched(program)["matmul_nn.aligned"].trace_for(program))
    assert 'transform_layout(C_B_read, "batch0, d1, d0 -> batch0, d0, d1")' in trace
    assert "storage_align(C_B_read, 1, 512, 16)" in trace


@pytest.mark.parametrize(
    ("types", "variant", "run"),
    [
        ({}, "goto", "k_of_C_B_read"),
        ({"T": "u8", "U": "i8", "ACC": "i32"}, "vnni_tiles", "k_C_B_read_0"),
    ],
)
def test_copies_of_transposed_operands_read_runs(types: dict[str, str], variant: str, run: str) -> None:
    """Iterations that read neighbours are unrolled around vectors whose lanes are far apart, four at a time."""
    program = operators.load("batch_matmul_nt", BATCH=2, M=64, N=128, K=64, **types)
    trace = batched(program)[f"matmul_nn.{variant}"].trace_for(program)
    assert f"{run}_0, {run}_1 = split({run}, [None, 4])" in str(trace)
    assert f"unroll({run}_1)" in str(trace)
    agrees(program, trace)


def test_rows_that_are_no_runs_are_read_by_element() -> None:
    program = operators.load("batch_matmul_nt", BATCH=2, M=64, N=128, K=61)
    trace = batched(program)["matmul_nn.goto"].trace_for(program)
    assert "unroll(k_of" not in str(trace)
    agrees(program, trace)


@pytest.mark.parametrize(
    ("types", "variant"), [({"T": "u8", "U": "i8", "ACC": "i32"}, "vnni"), ({"T": "bf16", "ACC": "f32"}, "amx_bf16")]
)
def test_tensor_instructions_serve_them_too(types: dict[str, str], variant: str) -> None:
    program = operators.load("batch_matmul_nt", BATCH=2, M=64, N=96, K=128, **types)
    assert "tensorize(" in str(batched(program)[f"matmul_nn.{variant}"].trace_for(program).apply_to(program).trace)


def test_any_operator_has_batched_forms() -> None:
    program = ms.parse_program(SOFTMAX)
    found = batched(program)
    assert {"softmax.fast", "softmax.long"} <= found.keys()
    agrees(program, found["softmax.fast"].trace_for(program))
    taken = guess(program, AVX512, knowledge="none")
    assert taken.expert is not None
    assert taken.expert.startswith("softmax.")
    assert taken.carried_over == "for each element of a batch"


def test_a_step_that_cannot_be_carried_over_is_named() -> None:
    program = ms.parse_program(SOFTMAX)
    with pytest.raises(ScheduleError, match="rfactor: it is not carried over to a batch"):
        batched(program)["softmax.rows"].trace_for(program)


def test_threads_share_elements_where_these_keep_them_busy() -> None:
    program = ms.parse_program(HEADS)  # six elements
    fit = batched(program)["matmul_nn.blocked"]
    for threads in (1, 2, 4, 6):
        trace = str(fit.trace_for(program, threads))
        assert "reorder(k0, i0, j0, k1, i1, j1)" in trace
        assert "b_h = fuse(batch_b, batch_h)\n    parallel(b_h)" in trace
        assert "parallel(i0)" not in trace
    for threads in (5, 16):
        trace = str(fit.trace_for(program, threads))
        assert "fuse(" not in trace
        assert "parallel(i0)" in trace


def merged_stages(of: ms.Program) -> ms.Trace:
    """Every stage on threads over its outermost loop, all in one region."""
    sch = ms.Schedule(of)
    rows = [sch.get_loops(sch.get_block(name))[0] for name in sch.block_names()]
    for loop in rows:
        sch.parallel(loop)
    sch.merge_parallel(*rows)
    return sch.trace


def test_what_threads_share_in_place_of_loops_shares_their_region() -> None:
    program = ms.parse_program(SOFTMAX)  # six elements of five rows
    batch = batched(program)["softmax.fast"].batch
    assert batch is not None
    trace = for_batch(merged_stages(batch.element), batch, program, 2)
    assert "merge_parallel(b_h, b_e_h_e, b_s_h_s, b_Y_h_Y)" in str(trace)
    agrees(program, trace)
    # Parts of an element: its nests are in loops over the batch of their own.
    with pytest.raises(ScheduleError, match="do not stand beside one another"):
        for_batch(merged_stages(batch.element), batch, program, 5)


def test_a_program_that_is_no_batch_is_compared_as_before() -> None:
    program = operators.load("matmul_nn", M=8, N=8, K=8)
    assert batched(program) == {}

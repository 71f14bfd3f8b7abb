"""What the runs of lowered code say is what the code does, counted by hand on small nests."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from benchmarks.yardstick.code_runs import CodeRun, InstructionKind, _Walk, code_runs
from metasched.compiler.lower import lower
from metasched.lang import parse_program
from metasched.schedule.trace import Schedule
from metasched.target import Target
from tests.support.targets import AVX512

PRODUCT = """program product[N=64, M=64, K=32](A: f32[N, K], B: f32[K, M]) -> C: f32[N, M]:
    C[i, j] = sum[k](A[i, k] * B[k, j])
"""


def tiled(rows: int, columns: int, limit: int = 256, **sizes: int) -> Schedule:
    """A product with a register tile, whose columns are vectors."""
    schedule = Schedule(parse_program(PRODUCT, **sizes), seed=0)
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    (i0, i1), (j0, j1) = schedule.split(i, [None, rows]), schedule.split(j, [None, columns])
    schedule.reorder(i0, j0, k, i1, j1)
    schedule.vectorize(j1, lanes=16)
    schedule.annotate(block, "unroll_limit", limit)
    return schedule


def runs_of(schedule: Schedule, target: Target = AVX512) -> list[CodeRun]:
    return code_runs(lower(schedule.func, target), target)


def executed(runs: list[CodeRun]) -> Counter[InstructionKind]:
    total: Counter[InstructionKind] = Counter()
    for run in runs:
        for kind, count in run.counts.items():
            total[kind] += run.executions * count
    return total


def heaviest(runs: list[CodeRun]) -> CodeRun:
    return max(runs, key=lambda run: run.executions * sum(run.counts.values()))


def test_the_body_of_a_register_tile() -> None:
    run = heaviest(runs_of(tiled(8, 32)))
    assert run.executions == 8 * 2 * 32
    assert run.counts[InstructionKind.MULTIPLY_ADD] == 16
    assert run.counts[InstructionKind.BROADCAST] == 8
    assert run.counts[InstructionKind.VECTOR_LOAD] == 2
    assert InstructionKind.VECTOR_STORE not in run.counts
    assert run.chain == 1
    assert run.stored_chain == 0


def test_unrolled_terms_of_a_sum_wait_for_one_another() -> None:
    schedule = tiled(4, 16, limit=64)
    _, _, k, i1, j1 = schedule.get_loops(schedule.get_block("C"))
    k0, k1 = schedule.split(k, [None, 8])
    schedule.reorder(k0, k1, i1, j1)
    run = heaviest(runs_of(schedule))
    assert run.counts[InstructionKind.MULTIPLY_ADD] == 32
    assert run.counts[InstructionKind.VECTOR_LOAD] == 8
    assert run.chain == 8


def test_sums_in_memory_wait_where_the_loop_stays_at_one_of_them() -> None:
    schedule = Schedule(parse_program(PRODUCT), seed=0)
    block = schedule.get_block("C")
    i, j, k = schedule.get_loops(block)
    schedule.reorder(i, k, j)
    schedule.vectorize(j, lanes=16)
    moving = heaviest(runs_of(schedule))
    assert moving.counts[InstructionKind.VECTOR_STORE] == 1
    assert moving.stored_chain == 0


@pytest.mark.parametrize(("rows", "columns"), [(8, 32), (6, 16), (5, 48)])
@pytest.mark.parametrize("sizes", [{}, {"N": 61}, {"N": 61, "M": 45}, {"N": 7, "M": 100}])
def test_every_term_is_counted_whatever_is_left_of_tiles(rows: int, columns: int, sizes: dict[str, int]) -> None:
    total = executed(runs_of(tiled(rows, columns, **sizes)))
    n, m = sizes.get("N", 64), sizes.get("M", 64)
    least = n * -(-m // 16) * 32
    # Tails are of whole vectors, and how often cases of tiles are taken is from a sample.
    assert least * 0.85 <= total[InstructionKind.MULTIPLY_ADD] <= least * 2.1


def test_tails_have_masks_where_they_touch_memory() -> None:
    whole, masked = executed(runs_of(tiled(8, 16))), executed(runs_of(tiled(8, 16, M=60)))
    assert whole[InstructionKind.MASK] == 0
    assert masked[InstructionKind.MASK] > 0
    assert masked[InstructionKind.MASK] < masked[InstructionKind.MULTIPLY_ADD]


def test_threads_share_a_parallel_loop_as_evenly_as_it_goes() -> None:
    def work(tasks: int) -> float:
        schedule = tiled(8, 16, N=8 * tasks)
        schedule.parallel(schedule.get_loops(schedule.get_block("C"))[0])
        return executed(runs_of(schedule))[InstructionKind.MULTIPLY_ADD]

    each = 8 * 4 * 32
    assert AVX512.threads == 2
    assert [work(tasks) / each for tasks in (2, 3, 4)] == [1, 2, 2]


def test_equal_code_has_equal_runs() -> None:
    assert runs_of(tiled(6, 48, N=61, M=45)) == runs_of(tiled(6, 48, N=61, M=45))


def test_a_strided_vector_loads_its_lanes_one_by_one() -> None:
    text = "program columns[N=64, M=32](A: f32[M, N]) -> B: f32[N, M]:\n    B[i, j] = A[j, i] * 2"
    schedule = Schedule(parse_program(text), seed=0)
    schedule.vectorize(schedule.get_loops(schedule.get_block("B"))[1], lanes=16)
    total = executed(runs_of(schedule))
    assert total[InstructionKind.LANE_LOAD] == 64 * 32
    assert total[InstructionKind.VECTOR_STORE] == 64 * 2


def test_conditions_that_depend_on_data_are_taken_half_of_the_time() -> None:
    text = "program kept[N=64](A: f32[N]) -> B: f32[N]:\n    B[i] = exp(A[i]) / A[i] if A[i] > 0 else 0"
    total = executed(runs_of(Schedule(parse_program(text), seed=0)))
    assert total[InstructionKind.CHOICE] == total[InstructionKind.SPECIAL] == total[InstructionKind.DIVISION] == 64


def test_a_loop_that_cannot_be_walked_leaves_no_variable_behind() -> None:
    walk = _Walk(lower(tiled(2, 16).func, AVX512), AVX512)
    with walk._with_values("i", np.zeros(4)):
        with pytest.raises(RuntimeError, match="inside"), walk._with_values("i", np.ones(4)):
            raise RuntimeError("inside")
        assert not walk._env["i"].any()
    assert "i" not in walk._env

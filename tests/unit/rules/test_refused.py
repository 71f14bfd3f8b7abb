"""Rules ask the primitives whether their steps are legal, and take others, or skip, where they are not."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.space.conditions import space_of
from tests.support.rulework import apply, correct, rule

PADDED = """
program padded[N=8, M=3](A: f32[N + M - 1], B: f32[M]) -> C: f32[(N + 1 - 3) // 2 + 1]:
    sums:   S[i < N] = sum[r < M](A[i + r] * B[r])
    padded: P[i < N + 1] = S[i] if i >= 0 and i < N else 0
    window: C[i < (N + 1 - 3) // 2 + 1] = sum[r < 3](P[2*i + r])
"""

TRANSPOSED = """
program transposed[N=5, M=4](A: f32[N, N], B: f32[M, M]) -> C: f32[M, M, N]:
    sums:  S[i < M, j < M, k < N] = sum[r < N]((A[k, r] - B[i, j]))
    mixed: C[i < M, j < M, k < N] = (min(S[i, j, k], S[j, i, k]) - S[i, j, k])
"""

LATER = """
program later[N=6](A: f32[N, N]) -> D: f32[N, N]:
    sums:   S[i, j] = sum[k](A[i, k] * A[k, j])
    others: O[i, j] = sum[k](A[i, k] + A[j, k])
    both:   D[i, j] = S[i, j] + O[i, j]
"""


def fusions(text: str, block: str) -> list[str]:
    space = space_of(ms.parse_program(text), None, max_sketches=64, seed=0)
    address = f"multi_level_tiling({block})/fusion"
    found = [str(sketch.structure[address]) for sketch in space if address in sketch.structure]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("text", "block"), [(PADDED, "sums"), (TRANSPOSED, "sums"), (LATER, "sums")])
def test_a_consumer_that_cannot_be_fused_leaves_the_write_cache(text: str, block: str) -> None:
    assert fusions(text, block) == ["cache at level 1", "cache at level 2", "none"]


def test_a_consumer_that_can_be_fused_is() -> None:
    assert fusions(LATER, "others") == ["consumer at level 1", "consumer at level 2", "none"]


@pytest.mark.parametrize("text", [PADDED, TRANSPOSED, LATER])
@pytest.mark.parametrize("seed", range(3))
def test_the_results_are_right(text: str, seed: int) -> None:
    sch, _ = apply(text, "inline", "multi_level_tiling", "compute_location", "parallelize", "vectorize", seed=seed)
    correct(sch)


COPY = """
program copy[N=300, M=300](A: f32[N, M]) -> C: f32[N, M]:
    C[i, j] = A[i, j]
"""


def skip_reason(sch: ms.Schedule, name: str) -> str:
    skipped = rule(name)(sch, sch.get_block("C"))
    assert isinstance(skipped, ms.Skip)
    return skipped.reason


def test_a_loop_that_prefetches_is_not_vectorized() -> None:
    sch = ms.Schedule(ms.parse_program(COPY))
    sch.annotate(sch.get_loops(sch.get_block("C"))[1], "prefetch", 2)
    assert "is about iterations" in skip_reason(sch, "vectorize")


def test_threads_are_not_given_out_twice() -> None:
    sch = ms.Schedule(ms.parse_program(COPY))
    sch.parallel(sch.get_loops(sch.get_block("C"))[1])
    assert "of the same nest is parallel" in skip_reason(sch, "parallelize")

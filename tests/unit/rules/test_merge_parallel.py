"""The rule that has nests on threads share a region."""

from __future__ import annotations

import metasched as ms
from metasched.ir import query
from tests.support.programs import DENSE_RELU, TRANSPOSED
from tests.support.rulework import apply, correct, reasons, rule

THREADS = rule("parallelize")(small=0, tiny=0)
# A sum that stays serial between.
TOTAL = """
program total[N=6, K=4](A: f32[N, K]) -> D: f32[N, K]:
    rows:  S[i] = sum[k](A[i, k])
    whole: T[] = sum[i](S[i])
    out:   D[i < N, k] = A[N - 1 - i, k] * T[]
"""
FIVE = """
program five[N=5](A: f32[N, N]) -> Z: f32[N, N]:
    a: V[i, j] = A[j, i]
    b: W[i, j] = V[j, i]
    c: X[i, j] = W[j, i]
    d: Y[i, j] = X[j, i]
    e: Z[i, j] = Y[j, i]
"""


def regions(sch: ms.Schedule) -> list[str]:
    return [loop.region for loop in query.loops(sch.func) if loop.region]


def test_all_nests_share_one_region() -> None:
    for text, nests in ((DENSE_RELU, 2), (TRANSPOSED, 4), (TOTAL, 2)):
        sch, outcomes = apply(text, THREADS, "merge_parallel")
        assert outcomes[-1].reason is None
        assert regions(sch) == ["region"] * nests
        correct(sch)


def test_a_loop_on_threads_inside_a_serial_one_is_between_two_regions() -> None:
    sch = ms.Schedule(ms.parse_program(FIVE))
    names = sch.block_names()
    for name in names:
        loops = sch.get_loops(sch.get_block(name))
        sch.parallel(loops[1] if name == "c" else loops[0])
    assert rule("merge_parallel").apply(sch, sch.get_block(names[0])) is None
    assert regions(sch) == ["region", "region", "region_1", "region_1"]


def test_it_says_why_not() -> None:
    assert reasons(DENSE_RELU, "merge_parallel") == {
        "dense": "no two nests that follow one another are on threads",
        "relu": "the first block of the program decides for all",
    }


def test_no_choice_comes_with_it() -> None:
    """A space has as many sketches with the rule as without."""
    program = ms.parse_program(TRANSPOSED)
    without, with_it = (len(ms.space(program, rules=["cpu", *more])) for more in ([], ["merge_parallel"]))
    assert without == with_it

"""The rule that is text."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.measure.compiling import lower_candidate
from metasched.space.registry import resolve
from metasched.space.source import FromRules
from metasched.support.stopwatch import Stopwatch
from tests.support.programs import DENSE_RELU
from tests.support.rulework import apply, correct, reasons, rule
from tests.support.schedules import vars_of
from tests.support.targets import AVX512

NAME = "tile_transposition"
MANY = """
program permute[N=3, H=7, W=5](A: f32[H, W, N], B: f32[N, H]) -> C: f32[N, H, W]:
    C[n, h, w] = A[h, w, n] + B[n, h]
"""
PLAIN = """
program transpose[N=13, M=9](A: f32[M, N]) -> C: f32[N, M]:
    C[i, j] = A[j, i] * 2
"""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("text", "loops"), [(PLAIN, "i_0 j_0 i_1 j_1"), (MANY, "h n_0 w_0 n_1 w_1")])
def test_tiles_of_the_two_innermost_loops(text: str, loops: str, seed: int) -> None:
    sch, outcomes = apply(text, NAME, seed=seed)
    assert outcomes[0].reason is None
    assert vars_of(sch, "C") == loops.split()
    correct(sch)


def test_its_largest_tile() -> None:
    sch, _ = apply(PLAIN, rule(NAME)(innermost=4))
    assert str(sch.trace).count("sample_tile") == str(sch.trace).count("innermost=4") == 1


def test_its_tiles_are_unrolled_and_shared_by_threads() -> None:
    """Loops inside a tile are no part of what threads share, and read runs of rows instead of an element each."""
    sch = ms.Schedule(ms.parse_program(PLAIN, N=1024, M=512), AVX512)
    FromRules(resolve("cpu")).run(sch)
    info = sch.describe(sch.get_block("C"))
    assert info.kinds == (ms.LoopKind.PARALLEL, ms.LoopKind.UNROLLED, ms.LoopKind.VECTORIZED)
    assert "masked.gather" not in lower_candidate(sch.func, AVX512, Stopwatch())[2]


def test_it_says_why_not() -> None:
    assert reasons(DENSE_RELU, NAME) == {
        "relu": "it reads along the dimension that it writes",
        "dense": "it is a reduction",
    }
    diagonal = "program d[N=6](A: f32[N, N]) -> C: f32[N]:\n    C[i] = A[i, 0]\n"
    assert reasons(diagonal, NAME) == {"C": "it has one dimension only"}
    sch, _ = apply(PLAIN, NAME)
    assert [o.reason for o in FromRules((rule(NAME),)).run(sch)] == ["it is scheduled already"]


def test_the_preset_tiles_threads_and_vectors() -> None:
    (sketch,) = ms.space(ms.parse_program(PLAIN, N=1024, M=512))
    loops = [line.strip().split()[0] for line in str(sketch).splitlines()[1:4]]
    assert loops == ["parallel", "unrolled", "vectorized(t3)"]
    for seed in range(2):
        sch = ms.Schedule(ms.parse_program(PLAIN), seed=seed)
        FromRules(resolve("cpu")).run(sch)
        correct(sch)

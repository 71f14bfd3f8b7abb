"""What guards are left clip loops, let them begin later, or become conditions."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.compiler.lir_printer import print_kernel
from metasched.compiler.lower import lower
from metasched.schedule.trace import Schedule
from tests.support.agreement import check_kernel
from tests.support.targets import AVX512

PADDED = """program padded[N=6, W=10, C=3](A: f32[N, W, C], F: f32[5]) -> B: f32[N, W]:
    P: f32[N, W + 4, C]
    pad: P[n, w, c] = A[n, w - 2, c] if w >= 2 and w < W + 2 else 0
    B[n, w] = sum[r, c](P[n, w + r, c] * F[r])"""


def padded() -> Schedule:
    """The padding under a loop over tiles of which there is one, so that its bound is one on their sum."""
    sch = ms.Schedule(ms.parse_program(PADDED))
    block = sch.get_block("B")
    _, w, *_ = sch.get_loops(block)
    tiles, _ = sch.split(w, [None, 10])
    pad = sch.get_block("pad")
    sch.compute_at(pad, tiles)
    sch.decompose_padding(pad, sch.get_loops(pad)[-2])
    return sch


def code(sch: Schedule) -> str:
    check_kernel(ms.compile(sch.program, trace=sch.trace), sch.program)
    return print_kernel(lower(sch.func, AVX512))


def test_a_loop_begins_where_its_condition_holds() -> None:
    text = code(padded())
    assert "for w_pad in range(10):" in text
    assert "if" not in text


def test_a_bound_on_a_quotient_is_one_on_what_is_divided() -> None:
    """Pixels and channels as one loop: the interior is one run."""
    sch = padded()
    pad = sch.get_block("pad")
    run = sch.fuse(*sch.get_loops(pad)[-2:])
    sch.vectorize(run, lanes=16)
    text = code(sch)
    assert "vector(16) w_pad_c_pad in range(30):" in text
    assert "if" not in text
    assert "//" not in text


@pytest.mark.parametrize("first", [0, 1, 9])
def test_loops_of_any_start(first: int) -> None:
    text = f"program rest[N=4, M=10](A: f32[N, M]) -> C: f32[N]:\n    C[i] = sum[k if k >= {first}](A[i, k])"
    found = code(ms.Schedule(ms.parse_program(text)))
    assert "if" not in found
    assert f"for k in range({10 - first}):" in found or (first == 9 and "A[i*10 + 9]" in found)


def test_an_unrolled_loop_keeps_its_iterations() -> None:
    sch = ms.Schedule(ms.parse_program("program rest[M=6](A: f32[M]) -> C: f32[M]:\n    C[i] = sum[k if k >= 2](A[k])"))
    sch.unroll(sch.get_loops(sch.get_block("C"))[-1])
    assert "unrolled k in range(6):" in code(sch)


def test_a_clip_that_is_known_is_the_extent() -> None:
    text = "program rest[N=4, M=10](A: f32[N, M]) -> C: f32[N]:\n    C[i] = sum[k if k < 7](A[i, k])"
    assert "for k in range(7):" in code(ms.Schedule(ms.parse_program(text)))

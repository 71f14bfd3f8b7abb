"""The schedule of a task for which nothing was tuned."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.errors import NoRecord
from metasched.graph.code import default_choice
from metasched.graph.code.choices import ScheduleOrigin

TEXT = "program wide[N=100000](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] + 1\n"


def test_where_no_schedule_can_be_run_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise NoRecord("none can be run")

    monkeypatch.setattr("metasched.search.guesses.guess.guess", none)
    choice = default_choice.default_choice(ms.parse_program(TEXT), ms.Target.detect())
    assert (choice.trace, choice.told) == (None, "as written: none can be run")


SUMS = "program sums[N=49, C=240](X: f32[N, C]) -> Y: f32[C]:\n    Y[c] = sum[n](X[n, c])\n"


def test_a_small_program_has_its_sums_in_vectors_and_a_tiny_one_runs_as_it_is_written() -> None:
    small, tiny = (
        default_choice.default_choice(ms.parse_program(SUMS, C=columns), ms.Target.detect()) for columns in (240, 2)
    )
    assert "vectorize" in str(small.trace)
    assert small.told.startswith("guess: ")
    assert (tiny.trace, tiny.origin, tiny.told) == (None, ScheduleOrigin.AS_WRITTEN, "as written")
    assert small.trace is not None
    assert small.func == small.trace.apply_to(ms.parse_program(SUMS)).func


GATES = "program gates[N=128](X: f32[N], C: f32[N]) -> Y: f32[N]:\n    Y[i] = tanh(C[i] * sigmoid(X[i]))\n"


def test_a_few_math_functions_are_no_tiny_program() -> None:
    many, few = (default_choice.default_choice(ms.parse_program(GATES, N=n), ms.Target.detect()) for n in (128, 4))
    assert "vectorize" in str(many.trace)
    assert few.trace is None


PRODUCT = """
program product[N=24, K=64](A: f32[1, K], const B: f32[{shape}]) -> Y: f32[1, N]:
    Y[i, j] = sum[k](A[i, k] * B[{at}])
"""


@pytest.mark.parametrize(("shape", "at", "packed"), [("N, K", "j, k", True), ("K, N", "k, j", False)])
def test_constants_of_a_small_product_are_packed_where_its_vectors_would_gather_them(
    shape: str, at: str, packed: bool
) -> None:
    choice = default_choice.default_choice(ms.parse_program(PRODUCT.format(shape=shape, at=at)), ms.Target.detect())
    assert ("cache_read" in str(choice.trace)) is packed
    assert "vectorize" in str(choice.trace)


@pytest.mark.parametrize(("rows", "columns"), [(32, 1024), (1024, 32)])
def test_a_small_transposition_is_in_tiles(rows: int, columns: int) -> None:
    text = f"program turned(A: f32[{rows}, {columns}]) -> Y: f32[{columns}, {rows}]:\n    Y[i, j] = A[j, i]\n"
    choice = default_choice.default_choice(ms.parse_program(text), ms.Target.detect())
    assert "tile_transposition" in str(choice.trace)


def test_rows_of_a_small_running_sum_go_on_from_one_another() -> None:
    text = "program run(A: f32[24, 48]) -> Y: f32[24, 48]:\n    Y[i < 24, j] = sum[k < 24 if k <= i](A[k, j])\n"
    assert "carry" in str(default_choice.default_choice(ms.parse_program(text), ms.Target.detect()).trace)


def test_a_tiny_program_that_a_loop_runs_often_is_in_vectors() -> None:
    tiny, target = ms.parse_program(SUMS, C=16), ms.Target.detect()
    once, often = (default_choice.default_choice(tiny, target, runs) for runs in (1, 100))
    assert (once.origin, often.origin) == (ScheduleOrigin.AS_WRITTEN, ScheduleOrigin.GUESS)
    few = ms.parse_program(SUMS, C=2, N=10)
    assert default_choice.default_choice(few, target, 1000).origin is ScheduleOrigin.AS_WRITTEN


def test_a_small_program_has_several_short_rows_in_a_vector_and_stores_nothing_between() -> None:
    text = """program both(A: f32[2, 512]) -> Y: f32[512, 2]:
    L: f32[512]
    L[i] = min(A[0, i], A[1, i])
    Y[i, h] = L[i] if h == 0 else max(A[0, i], A[1, i])
"""
    choice = default_choice.default_choice(ms.parse_program(text), ms.Target.detect())
    assert "compute_inline" in str(choice.trace)
    assert "rows of a vector" in str(choice.trace)

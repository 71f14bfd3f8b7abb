"""Primitives on blocks that write values and their positions, and on reads that data decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from metasched.errors import ScheduleError
from metasched.ir.printer import print_func
from metasched.ir.validate import validate
from metasched.lang.load import parse_program
from metasched.schedule.trace import Schedule


def best() -> Schedule:
    return Schedule(
        parse_program(
            "program best[N=6, K=12](X: f32[N, K]) -> Y: f32[N]:\n"
            "    V[i], P[i] = argmax[k](X[i, k])\n"
            "    Y[i] = V[i] + f32(P[i])"
        )
    )


def gather() -> Schedule:
    return Schedule(
        parse_program(
            "program gather[N=6, V=9, D=4](T: f32[V, D], I: i64[N]) -> Y: f32[N, D]:\n"
            "    S[v, d] = T[v, d] * 2\n"
            "    Y[i, d] = S[I[i], d] + 1"
        )
    )


def text(schedule: Schedule) -> str:
    validate(schedule.func)
    return print_func(schedule.func)


def test_rfactor_makes_partial_values_and_positions() -> None:
    schedule = best()
    _, k = schedule.get_loops(schedule.get_block("V"))
    _, inner = schedule.split(k, [None, 4])
    schedule.rfactor(inner)
    found = text(schedule)
    assert "temp V_rf: f32[4, 6]" in found
    assert "temp P_rf: i64[4, 6]" in found
    assert "V.rf: V_rf[k_1, i], P_rf[k_1, i] argmax= X[i, k_0*4 + k_1], k_0*4 + k_1  init -inf" in found
    assert "V: V[i], P[i] argmax= V_rf[k_1, i], P_rf[k_1, i]  init -inf" in found


def test_decompose_reduction_starts_both() -> None:
    schedule = best()
    block = schedule.get_block("V")
    i, k = schedule.get_loops(block)
    schedule.reorder(k, i)
    schedule.decompose_reduction(block, k)
    assert "V.init: V[i], P[i] = -inf, 9223372036854775807" in text(schedule)


def test_compute_at_serves_readers_of_either() -> None:
    schedule = best()
    (i,) = schedule.get_loops(schedule.get_block("Y"))
    schedule.compute_at(schedule.get_block("V"), i)
    schedule.set_scope(schedule.get_block("V"), "local")
    found = text(schedule)
    assert "temp V: f32[6] local" in found
    assert "temp P: i64[6] local" in found


@pytest.mark.parametrize("op", ["cache_write", "compute_inline", "reverse_compute_inline", "store_at"])
def test_what_takes_one_result(op: str) -> None:
    schedule = best()
    _, k = schedule.get_loops(schedule.get_block("V"))
    factored = schedule.rfactor(k)  # a term each: it is no reduction
    attempts: dict[str, Callable[[], object]] = {
        "cache_write": lambda: schedule.cache_write(schedule.get_block("V"), "local"),
        "compute_inline": lambda: schedule.compute_inline(factored),
        "reverse_compute_inline": lambda: schedule.reverse_compute_inline(factored),
        "store_at": lambda: schedule.store_at(factored, "root"),
    }
    with pytest.raises(ScheduleError, match=r"writes values and their positions, `V(_rf)?` and `P(_rf)?`"):
        attempts[op]()


# --- reads that data decides -----------------------------------------------------------------------------


def test_inlined_where_data_says() -> None:
    schedule = gather()
    schedule.compute_inline(schedule.get_block("S"))
    assert "Y: Y[i, d] = T[I[i], d] * 2.0 + 1.0" in text(schedule)


def test_all_of_the_dimension_is_needed() -> None:
    schedule = gather()
    i, d = schedule.get_loops(schedule.get_block("Y"))
    schedule.reorder(d, i)
    schedule.compute_at(schedule.get_block("S"), d)
    assert "for v_S, d_S in grid(9, 1):" in text(schedule)


def test_what_a_loop_completes_is_not_what_data_reads() -> None:
    schedule = gather()
    v, _ = schedule.get_loops(schedule.get_block("S"))
    with pytest.raises(ScheduleError, match="reads elements of `S` that other iterations of loop `v` complete"):
        schedule.reverse_compute_at(schedule.get_block("Y"), v)


def test_a_cache_of_what_is_gathered() -> None:
    schedule = gather()
    schedule.cache_read(schedule.get_block("Y"), "S", "local")
    schedule.cache_read(schedule.get_block("Y"), "I", "local")
    assert "Y: Y[i, d] = S_local[I_local[i], d] + 1.0" in text(schedule)

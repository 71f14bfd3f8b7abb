from __future__ import annotations

import pytest

import metasched as ms
from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.schedule.handlers import DrawFromPrior, Symbolic
from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, fails, loops_of, schedule, vars_of
from tests.support.structural import at_values, body

ROW = """
program row[N=127](A: f32[N]) -> C: f32[N]:
    twice: C[i] = A[i] * 2
"""


def test_a_prime_extent() -> None:
    sch = schedule(ROW)
    (i,) = loops_of(sch, "twice")
    outer, inner = sch.split(i, [None, 8])
    assert (outer.label, inner.label) == ("i_0", "i_1")
    assert (
        body(sch.func)
        == """
for i_0, i_1 in grid(16, 8):
    twice: C[i] = A[i] * 2.0  with i = i_0*8 + i_1  if i < 127
"""
    )
    checked(sch)


def test_a_divisor_needs_no_guard_on_paper() -> None:
    """The guard stays in the block, as with another tile it may be needed; it is not printed where it always holds."""
    sch = schedule(ROW, N=24)
    (i,) = loops_of(sch, "twice")
    sch.split(i, [3, 8])
    assert (
        body(sch.func)
        == """
for i_0, i_1 in grid(3, 8):
    twice: C[i] = A[i] * 2.0  with i = i_0*8 + i_1
"""
    )
    (block,) = query.blocks(sch.func)
    assert len(block.guards) == 1
    checked(sch)


@pytest.mark.parametrize(
    ("extent", "factors", "extents"),
    [
        (1, [None, 8], [1, 8]),
        (1, [1, 1, 1], [1, 1, 1]),
        (7, [2, None], [2, 4]),
        (7, [None, 7], [1, 7]),
        (7, [100, 1], [100, 1]),
        (13, [2, None, 3], [2, 3, 3]),
        (127, [None, 4, 2, 3], [6, 4, 2, 3]),
        (1009, [4, 16, 16], [4, 16, 16]),
    ],
)
def test_any_extent_and_any_factors(extent: int, factors: list[int | None], extents: list[int]) -> None:
    sch = schedule(ROW, N=extent)
    (i,) = loops_of(sch, "twice")
    sch.split(i, factors)
    assert [as_int(x.extent) for x in query.loops(sch.func)] == extents
    checked(sch)


def test_the_tile_of_an_empty_loop() -> None:
    """What a sampled tile gives for a loop that never runs: its outermost part is empty."""
    sch = schedule("program never[N=8, K=0](A: f32[N]) -> C: f32[N]:\n    C[i] = A[i] if i < K else 0.0\n")
    sch.decompose_padding(sch.get_block("C"), *loops_of(sch, "C"))
    (loop,) = loops_of(sch, "C")
    sch.split(loop, sch.sample_tile(loop, decision=[None, 1]))
    assert [as_int(x.extent) for x in query.loops_above(sch.func, "C")] == [0, 1]
    checked(sch)


def test_a_reduction_loop() -> None:
    sch = schedule()
    k0, k1 = sch.split(loops_of(sch, "dense")[2], [2, 4])
    assert "init 0.0" in body(sch.func)
    assert vars_of(sch, "dense") == ["i", "j", "k_0", "k_1"]
    sch.split(k1, [None, 3])
    sch.reorder(sch.get_loops(sch.get_block("dense"))[0], k0)
    checked(sch)


def test_a_loop_around_several_blocks() -> None:
    sch = schedule()
    i, *_ = loops_of(sch, "dense")
    sch.reverse_compute_at(sch.get_block("relu"), i)
    sch.split(i, [None, 4])
    assert vars_of(sch, "relu")[:2] == vars_of(sch, "dense")[:2] == ["i_0", "i_1"]
    checked(sch)


def test_notes_stay_with_the_outermost() -> None:
    sch = schedule(ROW)
    (i,) = loops_of(sch, "twice")
    sch.annotate(i, "unroll_limit", 4)
    sch.split(i, [None, 8])
    outer, inner = query.loops(sch.func)
    assert [a.key for a in outer.annotations] == ["unroll_limit"]
    assert not inner.annotations


def test_with_free_tiles_it_is_what_it_is_with_numbers() -> None:
    open_, closed = schedule(handler=Symbolic(DrawFromPrior(0))), schedule()
    for sch, tile in ((open_, None), (closed, 4)):
        i, *_ = loops_of(sch, "dense")
        if tile is None:
            t0, t1 = sch.sample_tile(i)
            sch.split(i, [t0, t1])
        else:
            sch.split(i, [None, tile])
    assert not open_.context.constraints
    assert at_values(open_.func, {"t1": 4}) == at_values(closed.func, {})


def test_factors_that_may_not_cover_are_a_constraint() -> None:
    sch = schedule(handler=Symbolic(DrawFromPrior(0)))
    i, *_ = loops_of(sch, "dense")
    _, t = sch.sample_tile(i)
    sch.split(i, [3, t])
    (constraint,) = sch.context.constraints
    assert constraint.reason == "split: the factors cover less than the extent of `i`"


@pytest.mark.parametrize(
    ("factors", "message", "hint"),
    [
        ([], "fewer than two factors", "give at least two, such as [None, 8]"),
        ([11], "fewer than two factors", "give at least two, such as [None, 8]"),
        ([None, 0], "a factor is less than 1", "every factor is at least 1"),
        ([None, -2], "a factor is less than 1", "every factor is at least 1"),
        ([None, None], "more than one factor is None", "leave only one open"),
        ([2, 5], "the factors cover less than the extent of `i`", "leave one factor None"),
    ],
)
def test_factors_that_do_not_fit(factors: list[int | None], message: str, hint: str) -> None:
    sch = schedule(DENSE_RELU)
    with fails(f"split: {message}", hint):
        sch.split(loops_of(sch, "dense")[0], factors)


def test_a_loop_that_is_decided() -> None:
    sch = schedule(DENSE_RELU)
    i, *_ = loops_of(sch, "dense")
    sch.parallel(i)
    with fails("split: loop `i` is parallel", "split it before deciding how it runs"):
        sch.split(i, [None, 2])


def test_a_chain_of_splits_ends_with_a_sentence() -> None:
    lines = "".join(f"    m{k}, l{k + 1} = split(l{k}, [1, None])\n" for k in range(200))
    trace = ms.parse_trace(f'trace 1 of p:\n    Y = get_block("Y")\n    l0 = get_loops(Y)\n{lines}')
    program = ms.parse_program("program p(X: f32[64]) -> Y: f32[64]:\n    Y[i] = X[i]\n")
    with pytest.raises(ScheduleError, match="split: the nest would be 65 loops deep; at most 64 are allowed"):
        trace.apply_to(program)


def test_unit_loops_end_with_a_sentence() -> None:
    sch = ms.Schedule(ms.parse_program("program p(X: f32[64]) -> Y: f32[64]:\n    Y[i] = X[i]\n"))
    block = sch.get_block("Y")
    for _ in range(63):
        sch.add_unit_loop(block)
    with pytest.raises(ScheduleError, match="add_unit_loop: the nest would be 65 loops deep"):
        sch.add_unit_loop(block)

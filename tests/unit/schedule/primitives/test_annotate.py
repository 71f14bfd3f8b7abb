from __future__ import annotations

import pytest

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Annotation
from metasched.schedule.handlers import DrawFromPrior, Symbolic
from tests.support.programs import DENSE_RELU, RELU_PAD_MATMUL
from tests.support.schedules import checked, fails, lines, loops_of, schedule

OUTER = "split it first, and give the outer loop"


def test_on_a_loop_and_on_a_block() -> None:
    sch = schedule(DENSE_RELU)
    i, *_ = loops_of(sch, "dense")
    sch.annotate(i, "unroll_limit", 16)
    sch.annotate(sch.get_block("dense"), "unroll_limit", 64)
    assert query.find_loop(sch.func, "i").annotations == (Annotation("unroll_limit", const(16)),)
    assert query.find_block(sch.func, "dense").annotations == (Annotation("unroll_limit", const(64)),)
    checked(sch)


def test_a_note_of_the_same_key_is_replaced() -> None:
    sch = schedule(DENSE_RELU)
    dense = sch.get_block("dense")
    sch.annotate(dense, "unroll_limit", 16)
    sch.annotate(dense, "unroll_limit", sch.sample_categorical([2, 4]))
    (note,) = query.find_block(sch.func, "dense").annotations
    assert note.value in (const(2), const(4))
    assert lines(sch.trace)[-1] == 'annotate(dense, "unroll_limit", t0)'
    checked(sch)


def test_a_key_that_no_backend_knows() -> None:
    sch = schedule(DENSE_RELU)
    with fails('annotate: there is no annotation "unrol"', None):
        sch.annotate(sch.get_block("dense"), "unrol", 4)


def test_a_block_that_is_gone() -> None:
    sch = schedule(RELU_PAD_MATMUL)
    relu = sch.get_block("relu")
    i, _ = sch.get_loops(relu)
    sch.compute_inline(relu)
    hint = "an earlier step inlined, split, fused or moved it; use the handles that step returned"
    for gone in (relu, i):
        with fails(f"annotate: there is no block or loop `{sch.name_of(gone)}` any more", hint):
            sch.annotate(gone, "unroll_limit", 4)


def test_true_is_one() -> None:
    sch = schedule(DENSE_RELU)
    sch.annotate(sch.get_block("dense"), "fastmath", True)
    assert query.find_block(sch.func, "dense").annotations == (Annotation("fastmath", const(1)),)
    assert lines(sch.trace)[-1] == 'annotate(dense, "fastmath", True)'
    checked(sch)


@pytest.mark.parametrize("key", ["fastmath", "flush_denormals"])
def test_notes_of_a_block_that_are_on(key: str) -> None:
    sch = schedule(DENSE_RELU)
    i, *_ = loops_of(sch, "dense")
    with fails(f'annotate: "{key}" is about a block, and `i` is a loop', "give a block inside it"):
        sch.annotate(i, key, True)
    with pytest.raises(ScheduleError, match=f'"{key}" is on'):
        sch.annotate(sch.get_block("dense"), key, 2)


def test_permission_for_an_instruction_is_no_choice() -> None:
    sch = schedule(DENSE_RELU)
    with fails('annotate: "flush_denormals" is on where it is left: its value is True', "leave it out for off"):
        sch.annotate(sch.get_block("dense"), "flush_denormals", False)


def test_notes_may_be_searched_for() -> None:
    sch = schedule(DENSE_RELU, handler=Symbolic(DrawFromPrior(0)))
    relu = sch.get_block("relu")
    i, j = sch.get_loops(relu)
    sch.vectorize(j, lanes=4)
    sch.annotate(relu, "non_temporal", sch.sample_categorical([0, 1], name="streams"))
    sch.annotate(i, "prefetch", sch.sample_categorical([0, 2, 8], name="ahead"))
    assert [str(c.reason) for c in sch.context.constraints] == [
        'annotate: "non_temporal" is on or off: its value is neither 1 nor 0'
    ]
    with fails('annotate: "fastmath" is on or off: its value is neither 1 nor 0', "give True"):
        sch.annotate(relu, "fastmath", -1)


def test_only_what_leaves_the_program_in_vectors_is_stored_past_the_caches() -> None:
    sch = schedule(DENSE_RELU)
    dense, relu = sch.get_block("dense"), sch.get_block("relu")
    with fails(
        "annotate: `dense` writes the intermediate `C`, which is read again: it would come from memory",
        "store only what leaves the program past the caches: an output",
    ):
        sch.annotate(dense, "non_temporal", True)
    hint = "vectorize the loop over its last dimension first"
    with fails("annotate: `relu` does not store vectors of neighbours in `D`", hint):
        sch.annotate(relu, "non_temporal", True)
    i, j = sch.get_loops(relu)
    sch.vectorize(i, lanes=4)
    with fails("annotate: `relu` does not store vectors of neighbours in `D`", hint):
        sch.annotate(relu, "non_temporal", True)
    with fails('annotate: "non_temporal" is about a block, and `j_relu` is a loop', "give a block inside it"):
        sch.annotate(j, "non_temporal", True)
    sch = schedule(DENSE_RELU)
    relu = sch.get_block("relu")
    sch.vectorize(sch.get_loops(relu)[1], lanes=4)
    sch.annotate(relu, "non_temporal", True)
    checked(sch)


def test_an_output_that_is_read_again_is_not_stored_past_the_caches() -> None:
    sch = schedule("""program twice[N=8](X: f32[N]) -> (Y: f32[N], Z: f32[N]):
        Y[i] = X[i] + 1
        Z[i] = Y[i] * 2""")
    y = sch.get_block("Y")
    sch.vectorize(sch.get_loops(y)[0], lanes=4)
    hint = "leave it in the caches, or compute into a buffer of its own with cache_write"
    with fails("annotate: `Z` reads `Y` again: it would come from memory", hint):
        sch.annotate(y, "non_temporal", True)


def test_prefetch_is_of_a_loop_that_runs() -> None:
    sch = schedule(DENSE_RELU)
    i, j, _ = loops_of(sch, "dense")
    with fails('annotate: "prefetch" is about a loop, and `dense` is a block'):
        sch.annotate(sch.get_block("dense"), "prefetch", 4)
    with fails('annotate: "prefetch" counts iterations of the loop, and is less than 0', "0 is for none"):
        sch.annotate(i, "prefetch", -1)
    sch.annotate(i, "prefetch", 4)
    checked(sch)
    sch.vectorize(j, lanes=4)
    with fails('annotate: "prefetch" means nothing on `j`, which is vectorized: its iterations are lanes', OUTER):
        sch.annotate(j, "prefetch", 4)

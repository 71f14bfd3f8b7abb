from __future__ import annotations

from programs import DENSE_RELU, RELU_PAD_MATMUL
from schedules import checked, fails, lines, loops_of, schedule

from metasched.ir import query
from metasched.ir.affine import const
from metasched.ir.nodes import Annotation


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
    with fails('annotate: there is no annotation "unrol"', 'known are "unroll_limit"'):
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

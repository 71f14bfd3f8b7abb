from __future__ import annotations

import numpy as np

import metasched as ms
from metasched.measure.checking.arithmetic import AS_WRITTEN, Computation, arithmetic_of
from metasched.measure.checking.check import prepare
from metasched.measure.checking.inputs import given_inputs
from metasched.operators import load

QUOTIENTS = ms.parse_program("program q[N=40](A: f32[N], B: f32[N]) -> C: f32[N]:\n    c: C[i] = A[i] / B[i]\n")


def test_what_needs_no_permission_is_computed_as_written() -> None:
    sch = ms.Schedule(QUOTIENTS)
    sch.vectorize(sch.get_loops(sch.get_block("c"))[0], lanes=8)
    assert arithmetic_of(str(sch.trace)) == AS_WRITTEN
    assert arithmetic_of("no trace, with fastmath") == AS_WRITTEN
    assert AS_WRITTEN.computation_of(QUOTIENTS) == Computation(QUOTIENTS.func)


def test_quotients_may_be_further_off_with_fastmath() -> None:
    sch = ms.Schedule(QUOTIENTS)
    sch.annotate(sch.get_block("c"), "fastmath", True)
    given = given_inputs(QUOTIENTS.func, None, seed=0)
    (near,) = prepare(QUOTIENTS.func, given, 0).random.tolerance
    (far,) = prepare(
        QUOTIENTS.func, given, 0, by=arithmetic_of(str(sch.trace)).computation_of(QUOTIENTS)
    ).random.tolerance
    assert near is not None
    assert far is not None
    assert 1.2 < float(np.median(far / near)) < 4


def test_only_the_steps_to_the_last_transform_are_replayed() -> None:
    program = load("conv1d_nlc", N=1, L=12, CI=2, CO=3, R=3, S=1, P=1)
    sch = ms.Schedule(program, seed=0)
    block = sch.get_block("conv")
    sch.winograd(block, 2)
    short = arithmetic_of(str(sch.trace))
    sch.parallel(sch.get_loops(block)[0])
    assert arithmetic_of(str(sch.trace)) == short
    by = short.computation_of(program)
    assert by.amplification > by.amplification_of_drawn > 1

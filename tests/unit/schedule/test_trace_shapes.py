"""A trace of one shape on another: inner tiles are kept, outer ones follow, and what was mended is told."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import metasched as ms
from metasched.lang.instructions import HOLE
from metasched.operators.library import load
from metasched.reference.execution import reference
from metasched.schedule.handlers import Repair, Repairs

FROM = {
    "matmul_nn": {"M": 64, "N": 64, "K": 64},
    "conv2d_nhwc": {"H": 14, "W": 14, "CI": 16, "CO": 16},
    "softmax": {"M": 64, "N": 64},
}
TO = {
    "matmul_nn": ({"M": 7, "N": 7, "K": 7}, {"M": 127, "N": 7, "K": 3}, {"M": 3, "N": 127, "K": 127}),
    "conv2d_nhwc": ({"H": 7, "W": 5, "CI": 3, "CO": 7}, {"H": 1, "W": 1, "CI": 7, "CO": 127}),
    "softmax": ({"M": 7, "N": 127}, {"M": 127, "N": 7}, {"M": 1, "N": 1}),
}


@cache
def traces(operator: str) -> list[ms.Trace]:
    """A few candidates of every sketch, as a database would have them: without their program."""
    rng = np.random.default_rng(0)
    out: list[ms.Trace] = []
    for sketch in ms.space(load(operator, **FROM[operator]), max_sketches=4):
        rows = sketch.repair(sketch.sample(rng, 16))
        out += [ms.parse_trace(str(sketch.trace_of(row))) for row in rows[sketch.mask(rows)][:2]]
    return out


@pytest.mark.parametrize("operator", FROM)
def test_inner_tiles_are_kept_where_they_fit(operator: str) -> None:
    """Every decision that is not reported is as it was, and every one that is does not fit."""
    for trace in traces(operator):
        for sizes in TO[operator]:
            sch = trace.apply_to(load(operator, **sizes), ms.Policy.REPAIR)
            mended = {repair.address: repair for repair in sch.repairs}
            for address, after in sch.trace.decisions.items():
                before = trace.decisions[address]
                assert (before != after) is (address in mended)
                if address in mended:
                    assert mended[address] == Repair(address, before, after)
            assert sch.trace.apply_to(sch.program).repairs == [], "what it gave is a trace of the new shape"
            assert not sch.trace.diff(trace).changed


TINY = {
    "matmul_nn": {"M": 7, "N": 5, "K": 3},
    "conv2d_nhwc": {"H": 3, "W": 2, "CI": 3, "CO": 5},
    "softmax": {"M": 3, "N": 7},
}


@pytest.mark.parametrize("operator", FROM)
def test_the_result_is_that_of_the_new_shape(operator: str) -> None:
    prog = load(operator, **TINY[operator])
    rng = np.random.default_rng(0)
    arrays = [rng.random([int(n.value) for n in b.shape], np.float32) for b in prog.inputs]  # type: ignore[attr-defined]
    expected = ms.reference(prog)(*arrays)
    for trace in traces(operator)[::3]:
        sch = trace.apply_to(prog, ms.Policy.REPAIR)
        np.testing.assert_allclose(reference(sch.func)(*arrays), expected, rtol=1e-5)


def test_the_report_names_what_and_why(golden: object) -> None:
    sch = traces("matmul_nn")[0].apply_to(load("matmul_nn", M=7, N=7, K=7), ms.Policy.REPAIR)
    golden("schedule/repairs", str(Repairs(sch.repairs)))  # type: ignore[operator]
    assert all(repair.reason for repair in sch.repairs)
    assert str(Repairs()) == "nothing had to be repaired"


def test_perfect_tiles_are_mended_to_divisors() -> None:
    prog = load("matmul_nn", M=12, N=8, K=8)
    sch = ms.Schedule(prog)
    i, *_ = sch.get_loops(sch.get_block(sch.block_names()[0]))
    sch.split(i, sch.sample_tile(i, perfect=True, decision=[None, 6]))
    moved = sch.trace.apply_to(load("matmul_nn", M=7, N=8, K=8), ms.Policy.REPAIR)
    assert [(r.before, r.after) for r in moved.repairs] == [((HOLE, 6), (HOLE, 1))]


def test_another_program_of_the_same_name_and_sizes() -> None:
    text = "program p[N=8](A: f32[N]) -> B: f32[N]:\n    b: B[i] = A[i] {}\n"
    first, second = (ms.parse_program(text.format(end)) for end in ("+ 1", "* 2"))
    trace = ms.Schedule(first).trace
    with pytest.raises(ms.ScheduleError, match=r"it was made for another program of the name p\[N=8\]"):
        trace.apply_to(second)
    trace.apply_to(second, ms.Policy.REPAIR)
    trace.apply_to(ms.parse_program(text.format("+ 1")))

"""Parallel regions that several loops share: what is a phase of which, and what is not well-formed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metasched.ir import query
from metasched.ir.integers.affine import const
from metasched.ir.nodes import For, Func, LoopKind, Seq
from metasched.ir.regions import Starts, phases, region_violations, starts
from metasched.ir.validate import InvalidProgram, validate
from metasched.lang import parse_program
from tests.support.programs import TRANSPOSED

NESTS = ("plus", "twice", "three", "all")


def program(*regions: str | None) -> Func:
    """Four nests, each in the region of that name: '' for a parallel loop of its own, None for a serial one."""
    func = parse_program(TRANSPOSED).func
    assert isinstance(func.body, Seq)
    kinds = [LoopKind.SERIAL if name is None else LoopKind.PARALLEL for name in regions]
    stmts = [
        replace(stmt, kind=kind, region=name or "")
        for stmt, kind, name in zip(func.body.stmts, kinds, regions, strict=True)
        if isinstance(stmt, For)
    ]
    return replace(func, body=Seq(tuple(stmts)))


def grouped(func: Func) -> list[tuple[str, int]]:
    assert isinstance(func.body, Seq)
    return [(name, len(stmts)) for name, stmts in phases(func.body)]


def test_all_that_stands_between_is_a_phase() -> None:
    assert grouped(program("a", None, None, "a")) == [("a", 4)]
    assert grouped(program(None, "a", None, "a")) == [("", 1), ("a", 3)]
    assert grouped(program("a", "a", "b", "b")) == [("a", 2), ("b", 2)]
    assert grouped(program("a", "", "", None)) == [("", 1)] * 4


def begun(regions: int, barriers: int) -> Starts:
    return Starts(const(regions), const(barriers))


def test_a_loop_around_starts_threads_in_each_iteration() -> None:
    inside = program("a", "a", None, "")
    outer = For("n", const(250), inside.body)
    assert starts(replace(inside, body=outer)) == begun(500, 250)


def test_starts_and_barriers() -> None:
    assert starts(program(None, None, None, None)) == begun(0, 0)
    assert starts(program("", "", None, "")) == begun(3, 0)
    assert starts(program("a", None, "a", "")) == begun(2, 2)
    assert starts(program("a", "a", "b", "b")) == begun(2, 2)
    assert starts(program("a", "", None, None)) == begun(2, 0)


def test_well_formed() -> None:
    validate(program("a", None, "a", "a"))
    validate(program("a", None, None, None))


def test_a_serial_loop_in_a_region() -> None:
    func = program("a", "a", None, None)
    loop = query.loops(func)[0]
    serial = query.replace_stmt(func, loop, replace(loop, kind=LoopKind.SERIAL))
    with pytest.raises(InvalidProgram, match="`i` is in parallel region `a`, and is not parallel"):
        validate(serial)


def test_loops_that_are_not_beside_one_another() -> None:
    func = program("a", None, None, None)
    inner = query.loops(func)[3]
    apart = query.replace_stmt(func, inner, replace(inner, kind=LoopKind.PARALLEL, region="a"))
    with pytest.raises(InvalidProgram, match=f"`{inner.var}` is not beside the other loops of parallel region `a`"):
        validate(apart)


def test_loops_of_two_sequences() -> None:
    """Each inside a loop of its own, the only statement there."""
    func = program(None, None, None, None)
    for loop in query.loops(func)[1:4:2]:
        func = query.replace_stmt(func, loop, replace(loop, kind=LoopKind.PARALLEL, region="a"))
    assert len(list(region_violations(func))) == 1


def test_another_parallel_loop_between() -> None:
    for other in ("", "b"):
        with pytest.raises(InvalidProgram, match="stands between loops of parallel region `a`, and is not in it"):
            validate(program("a", other, "a", None))


def test_a_parallel_loop_inside_a_phase_that_one_thread_runs() -> None:
    func = program("a", None, "a", None)
    inner = query.loops(func)[3]
    nested = query.replace_stmt(func, inner, replace(inner, kind=LoopKind.PARALLEL))
    with pytest.raises(InvalidProgram, match=f"`{inner.var}` is inside a phase of parallel region `a` that one thread"):
        validate(nested)


def test_names_of_regions_are_in_use() -> None:
    assert {"a", "b"} <= query.names(program("a", "a", "b", "b"))

"""Parallel loops that share a region: which statements are its phases, and what is required of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from metasched.ir.integers.affine import ONE, ZERO, const, simplify
from metasched.ir.nodes import Binary, BinOp, Expr, For, Func, LoopKind, Seq, Stmt
from metasched.ir.query import walk_stmts
from metasched.support.data_classes import dataclass


def region_of(stmt: Stmt) -> str:
    """The region that a statement names, '' for none."""
    return stmt.region if isinstance(stmt, For) else ""


def spans(seq: Seq) -> dict[str, tuple[int, int]]:
    """The regions of a sequence: the positions of the first and of the last loop of each."""
    found: dict[str, tuple[int, int]] = {}
    for n, stmt in enumerate(seq.stmts):
        name = region_of(stmt)
        if name:
            found[name] = (found[name][0] if name in found else n, n)
    return found


def region_at(seq: Seq, position: int) -> str:
    """The region that the statement at a position of a sequence is a phase of, '' for none."""
    return next((name for name, (first, last) in spans(seq).items() if first <= position <= last), "")


def phases(seq: Seq) -> list[tuple[str, tuple[Stmt, ...]]]:
    """The statements of a sequence in order, those that run in one region together with its name, '' for none."""
    numbered = ((region_at(seq, n), stmt) for n, stmt in enumerate(seq.stmts))
    groups = ((name, [stmt for _, stmt in group]) for name, group in groupby(numbered, key=lambda pair: pair[0]))
    out: list[tuple[str, tuple[Stmt, ...]]] = []
    for name, stmts in groups:
        out += [(name, tuple(stmts))] if len(stmts) > 1 and name else [("", (stmt,)) for stmt in stmts]
    return out


@dataclass(frozen=True)
class Starts:
    """How often a run of a program starts threads, and how often running threads wait for one another."""

    regions: Expr
    barriers: Expr


def starts(func: Func) -> Starts:
    """What a program's parallel loops cost besides their work, each as often as the loops around it iterate."""
    return _count_starts(func.body)


def _count_starts(stmt: Stmt) -> Starts:
    if isinstance(stmt, For):
        if is_parallel(stmt):
            return Starts(ONE, ZERO)
        inside = _count_starts(stmt.body)
        return Starts(*(simplify(Binary(BinOp.MUL, stmt.extent, n)) for n in (inside.regions, inside.barriers)))
    total = Starts(ZERO, ZERO)
    if isinstance(stmt, Seq):
        for _, stmts in phases(stmt):
            one = Starts(ONE, const(len(stmts) - 1)) if len(stmts) > 1 else _count_starts(stmts[0])
            total = Starts(_sum(total.regions, one.regions), _sum(total.barriers, one.barriers))
    return total


def _sum(a: Expr, b: Expr) -> Expr:
    return simplify(Binary(BinOp.ADD, a, b))


def is_parallel(stmt: Stmt) -> bool:
    """Whether a statement is a parallel loop."""
    return isinstance(stmt, For) and stmt.kind is LoopKind.PARALLEL


def parallel_inside(stmt: Stmt) -> For | None:
    """A parallel loop inside a statement that is not itself a parallel loop."""
    if is_parallel(stmt):
        return None
    return next((s for s in walk_stmts(stmt) if isinstance(s, For) and s.kind is LoopKind.PARALLEL), None)


def region_violations(func: Func) -> Iterator[str]:
    """What is wrong with the regions that loops share, a sentence each."""
    members: dict[str, list[tuple[Seq | None, For]]] = {}
    for seq, loop in _members(func.body, None):
        members.setdefault(loop.region, []).append((seq, loop))
        if loop.kind is not LoopKind.PARALLEL:
            yield f"loop `{loop.var}` is in parallel region `{loop.region}`, and is not parallel"
    for name, found in members.items():
        (first, _), *others = found
        for seq, loop in others:
            if seq is None or seq is not first:
                yield f"loop `{loop.var}` is not beside the other loops of parallel region `{name}`"
    for stmt in walk_stmts(func.body):
        if isinstance(stmt, Seq):
            yield from _sequence_violations(stmt)


def _members(stmt: Stmt, seq: Seq | None) -> Iterator[tuple[Seq | None, For]]:
    """The loops of all regions, with the sequence that each is directly in."""
    if isinstance(stmt, Seq):
        for child in stmt.stmts:
            yield from _members(child, stmt)
    elif isinstance(stmt, For):
        if stmt.region:
            yield seq, stmt
        yield from _members(stmt.body, None)


def _sequence_violations(seq: Seq) -> Iterator[str]:
    for name, (first, last) in spans(seq).items():
        for stmt in seq.stmts[first : last + 1]:
            inside = parallel_inside(stmt)
            if inside is not None:
                yield f"parallel loop `{inside.var}` is inside a phase of parallel region `{name}` that one thread runs"
            elif is_parallel(stmt) and region_of(stmt) != name:
                assert isinstance(stmt, For)
                yield f"parallel loop `{stmt.var}` stands between loops of parallel region `{name}`, and is not in it"

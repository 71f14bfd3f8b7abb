"""A limit on iteration counts, so that they and index arithmetic fit in 64 bits."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import MAX_ITERATIONS, For, Func, Seq, Stmt
from metasched.support.messages import listing


def require_countable(op: str, func: Func) -> None:
    """Raise ScheduleError where the loops around a block would run too often; tile variables count as 1.

    Cost: a walk over the loops.
    """
    _require(op, func.body, 1, ())


def _require(op: str, stmt: Stmt, iterations: int, loops: tuple[str, ...]) -> None:
    if isinstance(stmt, For):
        iterations *= max(as_int(stmt.extent) or 1, 1)
        loops = (*loops, stmt.var)
        if iterations > MAX_ITERATIONS:
            names = listing(loops)
            message = f"the loops {names} would run {iterations} times"
            hint = f"at most {MAX_ITERATIONS} fit in 64 bits; make factors smaller"
            raise ScheduleError(op, message, (stmt.var,), hint)
        _require(op, stmt.body, iterations, loops)
    elif isinstance(stmt, Seq):
        for child in stmt.stmts:
            _require(op, child, iterations, loops)

"""The invariants of shared parallel regions."""

from __future__ import annotations

from metasched.errors import ScheduleError
from metasched.ir.nodes import For, Func
from metasched.ir.regions import region_violations


def require_regions(op: str, changed: Func, loop: For) -> None:
    """Raise where a step on `loop` would break up a shared parallel region."""
    violation = next(region_violations(changed), None)
    if violation is not None:
        raise ScheduleError(
            op, f"a shared parallel region would break up: {violation}", (loop.var,), f"{op} before merge_parallel"
        )

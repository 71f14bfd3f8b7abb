"""How many iterations outside are enough for the threads of a target."""

from __future__ import annotations

import metasched as ms

FEWEST, PER_THREAD = 8, 4


def enough_tasks(sch: ms.Schedule, tasks: int | None) -> int:
    """The setting `tasks` of a rule, or by default four for each thread of the target, and eight at least.

    Shares of a few iterations are even only where there are several for each thread: nine of eight threads take twice
    as long as eight.
    """
    return max(FEWEST, PER_THREAD * sch.target.threads) if tasks is None else tasks

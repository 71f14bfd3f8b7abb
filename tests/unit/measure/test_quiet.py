"""Work and timing take turns: whatever the threads do, nobody works while one times."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest

from metasched.measure.quiet import TimingTurns

_S = 10.0  # the most that a test waits for what must come


def test_nobody_works_while_one_times() -> None:
    turns = TimingTurns()
    lock = threading.Lock()
    under_way = {"working": 0, "timing": 0}
    seen: set[tuple[int, int]] = set()
    together = threading.Barrier(2)

    def enter(what: str, turn: AbstractContextManager[None]) -> None:
        with turn:
            with lock:
                under_way[what] += 1
                seen.add((under_way["working"], under_way["timing"]))
            with lock:
                under_way[what] -= 1

    def work_together() -> None:
        with turns.working():
            together.wait(_S)

    with ThreadPoolExecutor(8) as pool:
        found = [pool.submit(enter, *args) for _ in range(200) for args in (("working", turns.working()),)]
        found += [pool.submit(enter, "timing", turns.timing()) for _ in range(200)]
        for future in found:
            future.result(_S)
        for future in [pool.submit(work_together), pool.submit(work_together)]:
            future.result(_S)
    assert all(timing <= 1 and not (timing and working) for working, timing in seen)


def test_who_wants_to_time_goes_before_further_work() -> None:
    turns = TimingTurns()
    order: list[str] = []
    first, release = threading.Event(), threading.Event()

    def early() -> None:
        with turns.working():
            first.set()
            release.wait(_S)
            order.append("early work")

    def time_it() -> None:
        with turns.timing():
            order.append("timing")

    def late() -> None:
        with turns.working():
            order.append("late work")

    with ThreadPoolExecutor(3) as pool:
        working = pool.submit(early)
        assert first.wait(_S)
        timing = pool.submit(time_it)
        while not turns.is_wanted:
            pass
        further = pool.submit(late)
        release.set()
        for future in (working, timing, further):
            future.result(_S)
    assert order == ["early work", "timing", "late work"]


def test_what_raises_lets_others_go_on() -> None:
    turns = TimingTurns()
    for turn in (turns.working, turns.timing):
        with pytest.raises(ZeroDivisionError), turn():
            raise ZeroDivisionError
    with turns.timing():
        pass

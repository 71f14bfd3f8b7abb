"""Sides of a comparison, in processes of their own."""

from __future__ import annotations

import sys

import pytest

from benchmarks.sides import SideEnded, SideProcess

# Nobody reads what is written to it while it still runs, so that the pipe is known to be broken.
CLOSED = "import os, time; os.close(0); print('1', flush=True); time.sleep(0.2); raise SystemExit(3)"


def test_a_side_that_does_not_read_any_longer_has_ended() -> None:
    with SideProcess("one", [sys.executable, "-S", "-c", CLOSED], 1) as side:
        assert side.answer() == 1
        with pytest.raises(SideEnded, match="the side `one` ended with status 3"):
            side.ask("measure")


def test_a_side_answers_within_a_time_or_ends() -> None:
    code = "import time; input(); time.sleep(60)"
    with SideProcess("slow", [sys.executable, "-S", "-c", code], 1) as side:
        with pytest.raises(SideEnded, match="the side `slow` ended with status -9"):
            side.ask_within("measure", 0.3)
        assert side.took_too_long

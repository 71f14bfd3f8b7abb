"""Tests that leave threads or processes running are named."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from tests.support import leftovers
from tests.support.leftovers import Leftovers, children


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.05)


def test_a_thread_is_named_with_the_test_that_began_it_once() -> None:
    watch, stop = Leftovers(), threading.Event()
    thread = threading.Thread(target=stop.wait, name="waits", daemon=True)
    try:
        thread.start()
        watch.look("the first test")
        watch.look("the second test")
        assert watch.found() == ["the thread waits, which began in the first test"]
        assert watch.found() == []
    finally:
        stop.set()
        thread.join()


def test_what_was_there_or_has_ended_is_not_left() -> None:
    stop = threading.Event()
    before = threading.Thread(target=stop.wait, daemon=True)
    before.start()
    try:
        watch = Leftovers()
        during = threading.Thread(target=lambda: None)
        during.start()
        watch.look("a test")
        during.join()
        assert watch.found() == []
    finally:
        stop.set()
        before.join()


def test_a_process_is_named_by_its_command() -> None:
    watch = Leftovers()
    with subprocess.Popen([sys.executable, "-c", "input()  # stays"], stdin=subprocess.PIPE) as process:
        watch.look("a test")
        assert process.pid in children()
        (line,) = watch.found()
        assert line.startswith(f"the process {process.pid} (")
        assert line.endswith("which began in a test")
        process.communicate(b"\n")
    assert process.pid not in children()

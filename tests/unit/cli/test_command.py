"""What a signal does to a command."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading

import pytest

from metasched.cli.command import (
    INTERRUPTED,
    TERMINATED,
    Command,
    Console,
    Implementation,
    Terminated,
    ending_at_once,
    ending_by_signal,
)
from metasched.cli.main import main
from metasched.support import interrupts


def test_sigterm_is_as_ctrl_c_inside() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with ending_by_signal() as ending:
        assert ending.status == INTERRUPTED
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert ending.status == TERMINATED
    assert signal.getsignal(signal.SIGTERM) is before


def test_it_is_told_from_ctrl_c_where_nothing_takes_it() -> None:
    with pytest.raises(Terminated), ending_by_signal():
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt) as caught, ending_by_signal():
        signal.raise_signal(signal.SIGINT)
    assert not isinstance(caught.value, Terminated)


def test_it_waits_for_what_must_be_whole() -> None:
    done: list[str] = []

    def change() -> None:
        with interrupts.put_off():
            signal.raise_signal(signal.SIGTERM)
            done.append("all of it")

    with ending_by_signal(), pytest.raises(KeyboardInterrupt):
        change()
    assert done


def test_it_ends_what_was_started_without_ctrl_c() -> None:
    """A shell starts what runs in the background so."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(Terminated), ending_by_signal():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


ENDED_AT_ONCE = """
import io, signal, sys
from metasched.cli.command import Console, ending_at_once

with ending_at_once(Console()):
    try:
        signal.raise_signal(signal.SIGINT)
    except BaseException as error:
        raise ImportError("as NumPy makes of it") from error
"""


def test_ctrl_c_while_modules_are_imported_ends_the_process_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", ENDED_AT_ONCE], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "interrupted\n")


def test_ctrl_c_is_what_it_was_after_arguments_are_read() -> None:
    with ending_at_once(Console()):
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with ending_at_once(Console()):
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_get_no_signals() -> None:
    found: list[int] = []

    def run() -> None:
        with ending_by_signal() as ending:
            found.append(ending.status)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [INTERRUPTED]


def test_the_status_of_what_sigterm_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(_: Command) -> Implementation:
        raise Terminated

    err = io.StringIO()
    monkeypatch.setattr(Command, "load", ended)
    assert main(["db", "stats"], Console(io.StringIO(), err)) == TERMINATED
    assert err.getvalue() == "terminated\n"

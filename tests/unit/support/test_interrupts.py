"""Ctrl-C put off while a change that must be whole is made."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

import pytest

from metasched.support import interrupts


def _press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def _run_whole(*steps: Callable[[], None]) -> None:
    with interrupts.put_off():
        for step in steps:
            step()


def _fail() -> None:
    raise ValueError("of the body")


def test_an_interrupt_is_acted_on_at_the_end() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _run_whole(_press_ctrl_c, lambda: done.append("the rest of the body"))
    assert done


def test_without_one_nothing_happens_and_the_next_is_acted_on_at_once() -> None:
    _run_whole()
    with pytest.raises(KeyboardInterrupt):
        _press_ctrl_c()


def test_nested_it_waits_for_the_outer_end() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        _run_whole(lambda: _run_whole(_press_ctrl_c), lambda: done.append("after the inner one"))
    assert done


def test_an_error_of_the_body_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        _run_whole(_press_ctrl_c, _fail)
    assert isinstance(caught.value.__context__, ValueError)
    with pytest.raises(ValueError, match="of the body"):
        _run_whole(_fail)


def test_a_handler_of_the_user_is_called_and_put_back() -> None:
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        with interrupts.put_off():
            _press_ctrl_c()
            assert not pressed
        _press_ctrl_c()
        assert pressed == [signal.SIGINT] * 2
    finally:
        signal.signal(signal.SIGINT, before)


def test_elsewhere_than_in_the_main_thread_nothing_is_done() -> None:
    here = signal.getsignal(signal.SIGINT)
    seen: list[object] = []
    thread = threading.Thread(target=_run_whole, args=(lambda: seen.append(signal.getsignal(signal.SIGINT)),))
    thread.start()
    thread.join()
    assert seen == [here]


def test_interrupts_at_any_moment_leave_a_change_whole() -> None:
    first: list[int] = []
    second: list[int] = []

    def change_until_interrupted(timer: threading.Timer) -> None:
        timer.start()
        while True:
            _run_whole(lambda: first.append(0), lambda: time.sleep(0), lambda: second.append(0))

    main = threading.main_thread().ident
    assert main is not None
    for _ in range(100):
        timer = threading.Timer(0.0002, signal.pthread_kill, (main, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            change_until_interrupted(timer)
        timer.join()
        assert len(first) == len(second)

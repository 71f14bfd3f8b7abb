"""A forked child does not wait for threads that it has not."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

from metasched.runtime.child_locks import lock_of_calls


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_lock_that_is_held_is_free_in_a_child_and_held_in_the_parent() -> None:
    lock, other = lock_of_calls(), lock_of_calls()
    with lock:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a fork of a process with threads
            child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(not (lock.acquire() and other.acquire()))
        assert os.waitpid(child, 0)[1] == 0
        assert lock.locked()
    assert not lock.locked()
    assert not other.locked()

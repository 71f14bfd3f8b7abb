"""Which CPUs a process's threads run on, while the system takes some away."""

from __future__ import annotations

import errno
import os

import pytest

from metasched.measure.workers import cores


@pytest.mark.parametrize("number", [errno.ESRCH, errno.EINVAL])
def test_threads_that_ended_and_cpus_that_were_taken_away_are_passed_over(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(thread: int, cpus: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    cores.pin(os.getpid(), {0})


def test_another_refusal_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: int, cpus: object) -> None:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with pytest.raises(PermissionError, match="not yours"):
        cores.pin(os.getpid(), {0})


def test_a_process_that_ended_is_passed_over() -> None:
    process = os.fork()
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)
    cores.pin(process, os.sched_getaffinity(0))

"""Who measures what: processes that tune one task at once claim code before they build it.

A claim is void once the process that made it has ended, however it ended, and in any case after `EXPIRY_S`: a process
on another machine cannot be asked.
"""

from __future__ import annotations

import os
import platform
import time

import psutil

from metasched.support.data_classes import dataclass

EXPIRY_S = 600.0


@dataclass(frozen=True)
class Claimant:
    """A process: its machine, its number, and when it started, since numbers come again."""

    host: str
    pid: int
    started: float

    @staticmethod
    def this_process() -> Claimant:
        return Claimant(platform.node(), os.getpid(), psutil.Process().create_time())

    def is_gone(self, claimed_at: float) -> bool:
        """Whether a claim that it made at `claimed_at`, seconds since the epoch, is void."""
        if time.time() - claimed_at > EXPIRY_S:
            return True
        if self.host != platform.node():
            return False
        try:
            return bool(psutil.Process(self.pid).create_time() != self.started)
        except psutil.Error:
            return True

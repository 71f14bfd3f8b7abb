"""What checks look at: the target, and how Linux describes the machine."""

from __future__ import annotations

import os
from pathlib import Path

from metasched.support.data_classes import dataclass
from metasched.target import Target


@dataclass(frozen=True)
class Examined:
    """The machine that is examined.

    Attributes:
        target: what kernels are compiled for.
        root: the folder that stands for `/` where files of the system are read; a test has one of its own.
    """

    target: Target
    root: Path = Path("/")

    def text(self, path: str) -> str | None:
        """A file of the system such as `proc/cpuinfo`, without surrounding space; None where there is none to read."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def cores(self) -> int:
        """Logical cores that this process may run on."""
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1

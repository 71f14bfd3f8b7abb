"""Which CPU it is."""

from __future__ import annotations

import platform
import re

from metasched.doctor.examined import Examined
from metasched.doctor.finding import Finding, Standing


def check(examined: Examined) -> Finding:
    """The CPU's name and caches; nothing about them can be wrong."""
    target = examined.target
    said = re.search(r"^model name\s*:\s*(.+)$", examined.text("proc/cpuinfo") or "", re.MULTILINE)
    name = said[1] if said else platform.processor() or platform.machine()
    caches = f"{_size(target.l1)} first and {_size(target.l2)} second cache a core, {_size(target.l3)} last cache"
    facts = {"cpu": name, "llvm": target.name, "l1": target.l1, "l2": target.l2, "l3": target.l3}
    return Finding(Standing.GOOD, f"{name} (LLVM's name: {target.name}); {caches}", facts=facts)


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"

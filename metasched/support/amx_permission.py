"""Whether the system permits a process to use AMX, which the CPU may have and the system refuse."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache

NO_TILES = (
    "this system does not give the process AMX's tile registers (arch_prctl with ARCH_REQ_XCOMP_PERM). Linux has them "
    "from 5.16 on, and containers and virtual machines may be without; use a trace without intrinsics on tiles"
)
# arch_prctl(ARCH_GET_XCOMP_SUPP) writes a mask of what may be asked for; bit 18 is for AMX's tile registers.
_SYS_ARCH_PRCTL, _ARCH_GET_XCOMP_SUPP, _XTILEDATA = 158, 0x1021, 18


@cache
def tiles_are_given() -> bool:
    """Whether the system gives AMX's tile registers to a process that asks. Asks for nothing."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return False
    mask = ctypes.c_uint64(0)
    status = ctypes.CDLL(None).syscall(_SYS_ARCH_PRCTL, _ARCH_GET_XCOMP_SUPP, ctypes.byref(mask))
    return status == 0 and bool(mask.value >> _XTILEDATA & 1)

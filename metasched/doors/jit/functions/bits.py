"""Bits of bytes, apart and together."""

from __future__ import annotations

from typing import Any

import numpy as np

from metasched.doors.jit.functions.movement import axis_of
from metasched.doors.jit.registry import traces
from metasched.doors.jit.trace import ArrayTrace
from metasched.graph.errors import Unsupported


def _places(bitorder: str) -> Any:
    """How far each bit of a byte is shifted, in their order."""
    if bitorder not in ("big", "little"):
        raise Unsupported(f"bitorder={bitorder!r} is neither 'big' nor 'little'")
    return np.arange(8, dtype=np.uint8)[:: -1 if bitorder == "big" else 1]


@traces("unpackbits")
def unpackbits(
    trace: ArrayTrace, a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    if a.dtype != np.uint8:
        raise Unsupported(f"np.unpackbits takes an array of uint8, and this is of {a.dtype}")
    x = np.ravel(a) if axis is None else np.moveaxis(a, axis_of(axis, a.ndim), -1)
    bits = np.reshape((x[..., None] >> _places(bitorder)) & np.uint8(1), (*x.shape[:-1], -1))
    wanted = bits.shape[-1] if count is None else count if count >= 0 else bits.shape[-1] + count
    missing = max(wanted - bits.shape[-1], 0)
    bits = np.pad(bits, (*((0, 0),) * (bits.ndim - 1), (0, missing)))[..., :wanted]
    return bits if axis is None else np.moveaxis(bits, -1, axis)


@traces("packbits")
def packbits(trace: ArrayTrace, a: Any, /, axis: int | None = None, bitorder: str = "big") -> Any:
    if a.dtype.kind not in "biu":
        raise Unsupported(f"np.packbits takes an array of integers or bools, and this is of {a.dtype}")
    x = np.ravel(a) if axis is None else np.moveaxis(a, axis_of(axis, a.ndim), -1)
    missing = -x.shape[-1] % 8
    bits = np.pad(np.not_equal(x, 0).astype(np.uint8), (*((0, 0),) * (x.ndim - 1), (0, missing)))
    groups = np.reshape(bits, (*x.shape[:-1], -1, 8)) << _places(bitorder)
    made: Any = np.sum(groups, axis=-1, dtype=np.uint8)
    return made if axis is None else np.moveaxis(made, -1, axis)

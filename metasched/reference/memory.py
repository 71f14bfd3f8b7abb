"""Where the temporaries of a large program lie while it runs: those never needed at one time share memory.

A program of many stages over a large image has many times as much of temporaries as a machine has memory, and few of
them are needed at one time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from metasched.ir.nodes import Buffer, Func, Load, Seq, Stmt, Store
from metasched.reference.state import Array, State, concrete_shape, outputs_state
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE


@dataclass(frozen=True)
class TemporaryPlace:
    """A temporary's bytes, and the last nest that needs them."""

    begin: int
    end: int
    last: int


def compact_state(func: Func, inputs: dict[str, Array], scalars: dict[str, Any]) -> State:
    """A state whose temporaries share memory: what one holds before the first nest that needs it is another's."""
    state = outputs_state(func, inputs, scalars)
    placed = places(func)
    memory = np.zeros(max((place.end for place in placed.values()), default=0) + CACHE_LINE, np.uint8)
    memory = memory[-int(memory.ctypes.data) % CACHE_LINE :]
    for buffer in func.temps:
        begin, (values, flags), shape = placed[buffer.name].begin, _buffer_bytes(buffer), concrete_shape(buffer)
        size = math.prod(shape)
        state.arrays[buffer.name] = memory[begin : begin + values].view(buffer.dtype.numpy)[:size].reshape(shape)
        state.written[buffer.name] = memory[begin + values :][:flags].view(np.bool_)[:size].reshape(shape)
    return state


def places(func: Func) -> dict[str, TemporaryPlace]:
    """The places of a program's temporaries in one piece of memory."""
    found: dict[str, TemporaryPlace] = {}
    needed = lifetimes(func)
    for buffer in sorted(func.temps, key=lambda b: needed[b.name]):
        first, last = needed[buffer.name]
        begin, end = _find_free_bytes(
            sum(_buffer_bytes(buffer)), [place for place in found.values() if place.last >= first]
        )
        found[buffer.name] = TemporaryPlace(begin, end, last)
    return found


@lru_cache(maxsize=32)
def lifetimes(func: Func) -> Mapping[str, tuple[int, int]]:
    """The numbers of the first and the last outer nest that read or write each temporary."""
    found = {buffer.name: (0, 0) for buffer in func.temps}
    seen = set[str]()
    for number, nest in enumerate(outer_nests(func)):
        for node in nest.walk():
            if isinstance(node, Load | Store) and node.buffer in found:
                first = found[node.buffer][0] if node.buffer in seen else number
                seen.add(node.buffer)
                found[node.buffer] = (first, number)
    return found


def outer_nests(func: Func) -> tuple[Stmt, ...]:
    """The nests that run one after another."""
    return func.body.stmts if isinstance(func.body, Seq) else (func.body,)


def _buffer_bytes(buffer: Buffer) -> tuple[int, int]:
    """The bytes of a buffer's values and of its flags, each up to where the next may begin."""
    size = math.prod(concrete_shape(buffer))
    return _align_size(size * buffer.dtype.numpy.itemsize), _align_size(size)


def _align_size(size: int) -> int:
    return -(-size // CACHE_LINE) * CACHE_LINE


def _find_free_bytes(size: int, others: list[TemporaryPlace]) -> tuple[int, int]:
    """The first bytes between others that are enough."""
    begin = 0
    for place in sorted(others, key=lambda p: p.begin):
        if begin + size <= place.begin:
            break
        begin = max(begin, place.end)
    return begin, begin + size

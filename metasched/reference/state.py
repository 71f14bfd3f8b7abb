"""What both executors of the reference share: the arrays of one run, and its errors."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from metasched.errors import MetaschedError
from metasched.ir import query
from metasched.ir.integers.affine import as_int, free_vars
from metasched.ir.nodes import Block, Buffer, Expr, Func, IterKind
from metasched.support.data_classes import dataclass

Array = np.ndarray[Any, Any]


class ExecutionError(MetaschedError):
    """A program read an element before it was written, left its buffers' bounds, or left an output unwritten."""


def concrete_shape(buffer: Buffer) -> tuple[int, ...]:
    """The shape of a buffer as numbers. Raises ExecutionError when a dimension is not a constant."""
    sizes = []
    for extent in buffer.shape:
        size = as_int(extent)
        if size is None:
            raise ExecutionError(f"`{buffer.name}` has a shape that is not constant; only concrete programs run")
        sizes.append(size)
    return tuple(sizes)


def initialisation(block: Block) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """When a reduction block's `init` applies: bindings that must all be 0, and guards that must hold.

    An element starts at the instance whose reduction iterations are all 0, which every nest of split, fused and
    reordered loops visits first. A guard over a loop that only the reduction uses does not count: an element
    whose instances are all guarded away is an empty reduction, whose value is `init`.
    """
    pairs = zip(block.iters, block.bindings, strict=True)
    reduction = tuple(b for v, b in pairs if v.kind is IterKind.REDUCE)
    own = query.reduced_loops(block) - query.spatial_loops(block)
    return reduction, tuple(g for g in block.guards if own.isdisjoint(free_vars(g)))


@dataclass
class State:
    """One run's arrays by buffer name; `written` flags each element of what is not an input."""

    arrays: dict[str, Array]
    scalars: dict[str, Any] = field(default_factory=dict)
    written: dict[str, Array] = field(default_factory=dict)


def new_state(func: Func, inputs: dict[str, Array], scalars: dict[str, Any]) -> State:
    """A state in which every buffer has memory of its own."""
    state = outputs_state(func, inputs, scalars)
    for buffer in func.temps:
        _add_buffer(state, buffer)
    return state


def outputs_state(func: Func, inputs: dict[str, Array], scalars: dict[str, Any]) -> State:
    """A state of inputs and outputs, to which temporaries are to be added."""
    state = State(arrays=dict(inputs), scalars=scalars)
    for buffer in func.outputs:
        _add_buffer(state, buffer)
    return state


def _add_buffer(state: State, buffer: Buffer) -> None:
    shape = concrete_shape(buffer)
    state.arrays[buffer.name] = np.zeros(shape, buffer.dtype.numpy)
    state.written[buffer.name] = np.zeros(shape, np.bool_)


def outputs(func: Func, state: State) -> tuple[Array, ...]:
    """The outputs, all of whose elements must have been written."""
    for buffer in func.outputs:
        missing = np.argwhere(~state.written[buffer.name])
        if len(missing):
            where = ", ".join(str(i) for i in missing[0])
            raise ExecutionError(f"output `{buffer.name}[{where}]` is never written ({len(missing)} elements are not)")
    return tuple(state.arrays[buffer.name] for buffer in func.outputs)

"""The oracle: runs any concrete program, scheduled or not, in the plainest way.

It shares nothing with lowering. Loops of every kind run in order, one iteration after another; blocks evaluate
their bindings, test their guards, and store. Reading an element that nothing has written is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

import numpy as np

from metasched.dtypes import DType
from metasched.errors import KernelError
from metasched.ir.integers.affine import as_int
from metasched.ir.nodes import Func
from metasched.ir.program import require_program
from metasched.lang.call_arguments import order_arguments, scalar
from metasched.reference.bounds import bound_name, underflow_bound
from metasched.reference.error_bounds import add_bounds, contests, convert_to_f64, rival_name
from metasched.reference.interpreter import interpret
from metasched.reference.memory import compact_state, outer_nests
from metasched.reference.state import Array, concrete_shape, new_state, outputs
from metasched.reference.work import INTERPRETED_WORK, count_nodes
from metasched.support.messages import counted


class Precision(Enum):
    """What floats are computed in."""

    DECLARED = "declared"  # each operation in its own dtype
    DOUBLE = "double"  # everything in float64; float outputs are float64


class HasFunc(Protocol):
    """A program: something with a `Func`."""

    @property
    def func(self) -> Func: ...


def reference(
    program: HasFunc | Func, precision: Precision = Precision.DECLARED
) -> Callable[..., Array | tuple[Array, ...]]:
    """A callable that runs a program in the simplest way: slow, and right. What is compiled is compared with it.

        >>> ms.reference(prog)(np.zeros((4, 8), np.float32), np.zeros(8, np.float32)).shape
        (4, 8)

    The callable takes the arguments as kernels do, in order or by name, and returns the output, or a tuple when there
    are several. Inputs are arrays of the declared shapes and dtypes, scalars numbers that their types hold; none is
    changed. It raises KernelError for an argument that does not fit, and ExecutionError when the program itself is
    wrong.
    """
    func = _program_func(program)
    executed = convert_to_f64(func) if precision is Precision.DOUBLE else func

    def run(*args: Any, **named: Any) -> Array | tuple[Array, ...]:
        given = order_arguments(f"`{func.name}`", func.order, args, named) if named else args
        results = _execute(executed, *_arguments(func, executed, given))
        return results[0] if len(results) == 1 else results

    return run


def reference_with_bound(program: HasFunc | Func) -> Callable[..., list[tuple[Array, Array]]]:
    """A callable giving `(expected, bound)` for each output, in order.

    Floats are computed in float64, and `bound` (float64, same shape) is the sum of the absolute values of the
    terms, as `metasched.reference.error_bounds` defines it. Integer and boolean outputs are exact in their own
    dtype, and their bound is 0; that of the position of an arg-reduction over floats is twice the bound of the value
    over what the next best value is short of it: positions may differ where rounding is as much as 1 over it.
    """
    func = _program_func(program)
    contested = contests(func)
    executed = add_bounds(func)

    def run(*args: Any) -> list[tuple[Array, Array]]:
        inputs, scalars = _arguments(func, convert_to_f64(func), args)
        floats = [b.name for b in func.inputs if b.dtype.is_float]
        results = _execute(executed, inputs | {bound_name(n): _input_bound(inputs[n]) for n in floats}, scalars)
        found = dict(zip((b.name for b in executed.outputs), results, strict=True))
        pairs = []
        for buffer in func.outputs:
            value = found[buffer.name]
            contest = contested.get(buffer.name)
            if contest is not None:
                bound = _storage_bound(func.buffer(contest).dtype, found[contest], found[bound_name(contest)])
                with np.errstate(divide="ignore", invalid="ignore"):
                    gap = np.abs(found[contest] - found[rival_name(contest)])
                    pairs.append((value, 2.0 * bound / gap))
                continue
            pairs.append((value, found.get(bound_name(buffer.name), np.zeros(value.shape))))
        return pairs

    return run


def _input_bound(values: Array) -> Array:
    """`|x|`, and 0 of infinities and NaN, which are exact."""
    return np.where(np.isfinite(values), np.abs(values), 0.0)


def _storage_bound(kind: DType, value: Array, bound: Array) -> Array:
    """The bound of values that are kept in a type: beyond its largest number and below its smallest normal one, several
    are the same there."""
    reached = np.abs(value)
    lost = np.where(reached < kind.smallest_normal, underflow_bound(kind), 0.0)
    return np.where((reached > kind.largest) & np.isfinite(value), np.inf, bound + lost)


def _program_func(program: HasFunc | Func) -> Func:
    if not isinstance(program, Func) and not hasattr(program, "func"):
        require_program(program)
    return program if isinstance(program, Func) else program.func


def _arguments(func: Func, executed: Func, args: tuple[Any, ...]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Arguments by name, checked against `func` and converted to the types of `executed`."""
    if len(args) != len(func.order):
        takes = f"{counted(len(func.order), 'argument')} ({', '.join(func.order)})"
        raise KernelError(f"{func.name} takes {takes}, not {len(args)}")
    given = dict(zip(func.order, args, strict=True))
    inputs = {}
    for buffer, target in zip(func.inputs, executed.inputs, strict=True):
        array = np.asarray(given[buffer.name])
        shape = concrete_shape(buffer)
        if array.shape != shape or array.dtype != buffer.dtype.numpy:
            raise KernelError(
                f"{func.name}: `{buffer.name}` is {buffer.dtype}{list(shape)}, got {array.dtype}{list(array.shape)}"
            )
        below = None if buffer.below is None else as_int(buffer.below)
        if below is not None and array.size and not 0 <= int(array.min()) <= int(array.max()) < below:
            wrong = array.min() if array.min() < 0 else array.max()
            raise KernelError(f"{func.name}: `{buffer.name}` holds the index {wrong}; valid are 0 to {below - 1}")
        inputs[buffer.name] = np.ascontiguousarray(array, target.dtype.numpy).reshape(shape)
    scalars = {}
    for declared, taken in zip(func.scalars, executed.scalars, strict=True):
        number = scalar(declared.name, declared.dtype, given[declared.name], func.name)
        with np.errstate(over="ignore"):
            scalars[declared.name] = taken.dtype.numpy.type(number)
    return inputs, scalars


def _execute(func: Func, inputs: Mapping[str, Array], scalars: Mapping[str, Any]) -> tuple[Array, ...]:
    if count_nodes(func.body) <= INTERPRETED_WORK * len(outer_nests(func)):
        state = new_state(func, dict(inputs), dict(scalars))
        interpret(func, state)
    else:
        # It imports llvmlite.
        from metasched.reference.compiled_loops import run_compiled

        state = compact_state(func, dict(inputs), dict(scalars))
        run_compiled(func, state)
    return outputs(func, state)

"""Machine code of steps in this process, and the table by which compiled code calls them one after another."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from metasched.compiler.cpu.emit import runtime
from metasched.compiler.cpu.emit.steps import STATUSES, STEP, STEPS, STEPS_MODULE, TIMED_STEPS
from metasched.compiler.cpu.first_use import import_code_generator
from metasched.errors import KernelError
from metasched.graph.execution_plan import RootOffset
from metasched.graph.step_code import StepCode
from metasched.runtime import threads
from metasched.runtime.amx_permission import NO_TILES
from metasched.target import Target

_POINTER = ctypes.c_void_p


class LoadedStep:
    """Machine code of a step in memory. It is freed with this object."""

    def __init__(self, code: StepCode, target: Target) -> None:
        import_code_generator()
        from metasched.compiler.cpu.codegen import LoadedCode, ObjectCode

        self.code = code
        self._loaded = LoadedCode(ObjectCode(target, code.data, ""))
        if code.parallel:
            threads.state.load()
        _POINTER.from_address(self._loaded.address(runtime.STATE)).value = threads.state.address
        self.address = self._loaded.address(STEP)


class StepTable:
    """Steps with their arguments: one call runs them all, in order. Several threads may run one table at once.

    Each of `places` says where the arguments of a step are, in its order, and then its workspace where it has one.
    """

    def __init__(self, steps: Sequence[LoadedStep], places: Sequence[Sequence[RootOffset]], target: Target) -> None:
        self._steps = tuple(steps)
        self._functions = _functions(target.with_threads(1))
        self._parallel = any(step.code.parallel for step in steps)
        flat = [number for step in places for place in step for number in place]
        self._arguments = (ctypes.c_int64 * max(len(flat), 1))(*flat)
        at = ctypes.addressof(self._arguments)
        entries: list[int] = []
        for step, given in zip(steps, places, strict=True):
            entries += (step.address, at)
            at += 16 * len(given)
        self._table = (ctypes.c_int64 * max(len(entries), 1))(*entries)

    def __len__(self) -> int:
        return len(self._steps)

    def run(self, roots: ctypes.Array[ctypes.c_int64]) -> int:
        """Run every step on these addresses of roots. Returns 0, or what `require_success` explains."""
        self._prepare()
        return self._functions.run(self._table, len(self._steps), roots)

    def run_timed(self, roots: ctypes.Array[ctypes.c_int64], times: ctypes.Array[ctypes.c_int64]) -> int:
        """The same, with the clock in nanoseconds before the first step and after each in `times`."""
        self._prepare()
        return self._functions.run_timed(self._table, len(self._steps), roots, times)

    def _prepare(self) -> None:
        if self._parallel:
            threads.state.follow_numba()


def require_success(result: int, names: Sequence[str]) -> None:
    """Raise the KernelError of a result that is not 0; `names` are those of the steps."""
    if not result:
        return
    step, status = divmod(result, STATUSES)
    if status == runtime.Status.NO_TILES:
        raise KernelError(f"`{names[step]}`: {NO_TILES}")
    raise KernelError(f"`{names[step]}`: the kernel returned an unknown status {status}")


class _Functions(NamedTuple):
    code: object
    run: Callable[..., int]
    run_timed: Callable[..., int]


@lru_cache(maxsize=4)
def _functions(target: Target) -> _Functions:
    import_code_generator()
    from metasched.compiler.cpu.codegen import LoadedCode, compile_text

    code = LoadedCode(compile_text(STEPS_MODULE, target))
    given = (_POINTER, ctypes.c_int64, _POINTER)
    return _Functions(
        code,
        ctypes.CFUNCTYPE(ctypes.c_int64, *given)(code.address(STEPS)),
        ctypes.CFUNCTYPE(ctypes.c_int64, *given, _POINTER)(code.address(TIMED_STEPS)),
    )

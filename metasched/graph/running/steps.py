"""Machine code of steps in this process, and the table by which compiled code calls them one after another."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from metasched.compiler.cpu.emit import runtime, step_actions
from metasched.compiler.cpu.emit.steps import (
    CALL,
    CALL_FIELDS,
    LOOPS_MODULE,
    STATUSES,
    STEP,
    STEPS_MODULE,
    TIMED_STEPS,
    TIMED_STEPS_MODULE,
)
from metasched.compiler.cpu.first_use import import_code_generator
from metasched.errors import KernelError
from metasched.graph.code.step_code import StepCode
from metasched.graph.ir import Array
from metasched.graph.loop_node import ENDLESS
from metasched.graph.running.execution_plan import RootOffset, TableAction
from metasched.runtime import threads
from metasched.runtime.addresses import pointer_place
from metasched.support.amx_permission import NO_TILES
from metasched.target import Target

if TYPE_CHECKING:
    from metasched.compiler.cpu.codegen import LoadedCode

_POINTER = ctypes.c_void_p
# Where the most steps of a loop are among what a call is given.
_MOST_STEPS_FIELD = CALL_FIELDS.index("most")


# By what an entry does, the function that does it; a loop has none.
ACTION_FUNCTIONS = {
    TableAction.LOOP: "",
    TableAction.COPY: step_actions.COPY,
    TableAction.STORE: step_actions.STORE,
    TableAction.POINT: step_actions.POINT,
    TableAction.ADVANCE: step_actions.ADVANCE,
    TableAction.SWAP: step_actions.SWAP,
    TableAction.PLACE: step_actions.PLACE,
}


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


class TableEntry(NamedTuple):
    """A kernel, or what is done between kernels; where its arguments are, in its order, and then the workspace of a
    kernel that has one; and numbers that it takes.
    """

    step: LoadedStep | TableAction
    places: Sequence[RootOffset]
    numbers: Sequence[int] = ()


class StepTable:
    """Steps with their arguments: one call runs them all, in order. Several threads may run one table at once."""

    def __init__(self, entries: Sequence[TableEntry], target: Target) -> None:
        self._entries = tuple(entries)
        self._target = target.with_threads(1)
        has_actions = any(isinstance(entry.step, TableAction) for entry in entries)
        self._functions = _loop_functions(self._target) if has_actions else _functions(self._target)
        kernels = [entry.step for entry in entries if isinstance(entry.step, LoadedStep)]
        self._parallel = any(step.code.parallel for step in kernels)
        flat = [n for entry in entries for n in (*(n for place in entry.places for n in place), *entry.numbers)]
        self._arguments = (ctypes.c_int64 * max(len(flat), 1))(*flat)
        at = ctypes.addressof(self._arguments)
        table: list[int] = []
        for step, places, numbers in entries:
            table += (step.address if isinstance(step, LoadedStep) else self._functions.actions[step], at)
            at += 8 * (2 * len(places) + len(numbers))
        self._table = (ctypes.c_int64 * max(len(table), 1))(*table)

    def __len__(self) -> int:
        return len(self._entries)

    def call(self, roots: ctypes.Array[ctypes.c_int64], first: int, arrays: int) -> TableCall:
        """A way to run it on these addresses of roots, of which so many, from the first on, are those of arrays."""
        at = ctypes.addressof(roots)
        fields = {
            "steps": ctypes.addressof(self._table),
            "count": len(self),
            "roots": at,
            "most": ENDLESS,
            "first": at + first * ctypes.sizeof(ctypes.c_int64),
            "arrays": arrays,
        }
        return TableCall(
            (ctypes.c_int64 * (len(CALL_FIELDS) + arrays))(*(fields[name] for name in CALL_FIELDS)),
            self._functions.call,
            (self, roots),
            is_parallel=self._parallel,
        )

    def run(self, roots: ctypes.Array[ctypes.c_int64], most: int = ENDLESS) -> int:
        """Run every entry on these addresses of roots, and of each loop so many steps at most.

        Returns 0, or what `require_success` explains.
        """
        return self.call(roots, 0, 0).run((), most)

    def run_timed(
        self,
        roots: ctypes.Array[ctypes.c_int64],
        times: ctypes.Array[ctypes.c_int64],
        runs: ctypes.Array[ctypes.c_int64],
        most: int = ENDLESS,
    ) -> int:
        """Run every entry as `run` does, and add the nanoseconds of each to `times`, and how often it ran to `runs`."""
        if self._parallel:
            threads.state.follow_numba()
        return _timed_functions(self._target).run(self._table, len(self), roots, most, times, runs)


class TableCall:
    """Runs a table on roots of its own, again and again, in little time. One call at a time may run on it."""

    def __init__(
        self,
        given: ctypes.Array[ctypes.c_int64],
        function: Callable[[int], int],
        kept: object,
        *,
        is_parallel: bool,
    ) -> None:
        """`given` is what the function takes, and has the addresses of what is `kept`."""
        self._given, self._address = given, ctypes.addressof(given)
        self._function = function
        self._kept = kept
        self._is_parallel = is_parallel

    def run(self, arrays: Iterable[Array], most: int = ENDLESS) -> int:
        """Run every entry, and of each loop so many steps at most, on arrays which the caller keeps until the end.

        Returns 0, or what `require_success` explains.
        """
        given, place = self._given, len(CALL_FIELDS)
        given[_MOST_STEPS_FIELD] = most
        for array in arrays:
            given[place] = pointer_place(array)
            place += 1
        if self._is_parallel:
            threads.state.follow_numba()
        return self._function(self._address)


def require_success(result: int, names: Sequence[str]) -> None:
    """Raise the KernelError of a result that is not 0; `names` are those of the steps."""
    if not result:
        return
    step, status = divmod(result, STATUSES)
    if status == runtime.Status.NO_TILES:
        raise KernelError(f"`{names[step]}`: {NO_TILES}")
    raise KernelError(f"`{names[step]}`: the kernel returned an unknown status {status}")


class _Functions(NamedTuple):
    """What runs tables, in a piece of code that is there as long as this; and what is done between kernels."""

    code: object
    call: Callable[[int], int]
    actions: Mapping[TableAction, int] = MappingProxyType({})


_CALL = ctypes.CFUNCTYPE(ctypes.c_int64, _POINTER)


@lru_cache(maxsize=4)
def _functions(target: Target) -> _Functions:
    """For tables of kernels alone."""
    code = _load_code(STEPS_MODULE, target)
    return _Functions(code, _CALL(code.address(CALL)))


@lru_cache(maxsize=4)
def _loop_functions(target: Target) -> _Functions:
    """For any table."""
    code = _load_code(LOOPS_MODULE, target)
    actions = {action: code.address(name) if name else 0 for action, name in ACTION_FUNCTIONS.items()}
    return _Functions(code, _CALL(code.address(CALL)), actions)


class _TimedFunctions(NamedTuple):
    """What runs tables with the clock, in a piece of code that is there as long as this."""

    code: object
    run: Callable[..., int]


@lru_cache(maxsize=4)
def _timed_functions(target: Target) -> _TimedFunctions:
    """For any table."""
    code = _load_code(TIMED_STEPS_MODULE, target)
    taken = (_POINTER, ctypes.c_int64, _POINTER, ctypes.c_int64, _POINTER, _POINTER)
    return _TimedFunctions(code, ctypes.CFUNCTYPE(ctypes.c_int64, *taken)(code.address(TIMED_STEPS)))


def _load_code(text: str, target: Target) -> LoadedCode:
    import_code_generator()
    from metasched.compiler.cpu.codegen import LoadedCode, compile_text

    return LoadedCode(compile_text(text, target))

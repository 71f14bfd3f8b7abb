"""A network that runs: one call of compiled code for all kernels, over one arena.

Inputs are read where they are, outputs are written to arrays that nobody else has, weights lie packed in memory of
their own, and everything between is in an arena by `plan`. A call takes an arena of its own, so that several threads
may run one network at once; the GIL is released.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from metasched.graph.ir import Array
from metasched.graph.loop_node import ENDLESS
from metasched.graph.running.execution_plan import (
    FIRST,
    ExecutionPlan,
    KeptState,
    ResultCount,
    StepInfo,
    TableAction,
)
from metasched.graph.running.memory import MappedMemory
from metasched.graph.running.output_memory import OutputMemory
from metasched.graph.running.plan import Arena
from metasched.graph.running.steps import LoadedStep, StepTable, TableCall, TableEntry, require_success
from metasched.graph.running.weights import Weights
from metasched.runtime.addresses import data_pointer
from metasched.runtime.machine_check import lacking_here, refusal
from metasched.target import Target

Roots = ctypes.Array[ctypes.c_int64]


class _CallMemory(NamedTuple):
    """What a call has while it runs, and the next one after it: an arena, the addresses of all roots, and what runs the
    kernels on these.
    """

    arena: MappedMemory
    roots: Roots
    call: TableCall


class RunTimes(NamedTuple):
    """The nanoseconds of all calls of each kernel of a run together, and how many calls there were."""

    nanoseconds: Array
    runs: Array


class Executable:
    """A network compiled: `run(inputs)` gives its outputs.

    States are inputs that a run changes to what they are next; outputs that they are next are not among the results.

    `plan` is what it runs, `weights` what it holds between calls.
    """

    def __init__(self, plan: ExecutionPlan, weights: Weights, target: Target) -> None:
        self.plan = plan
        self.weights = weights
        loaded = [LoadedStep(code, target) for code in plan.codes]
        entries = zip(plan.steps, plan.places, plan.numbers, strict=True)
        self._table = StepTable(
            [
                TableEntry(TableAction(step) if step < 0 else loaded[step], places, numbers)
                for step, places, numbers in entries
            ],
            target,
        )
        self._names = plan.nodes
        self._free: list[_CallMemory] = []
        self._memories = [OutputMemory(result.type) for result in plan.results]
        pairs = zip(plan.results, self._memories, strict=True)
        self._written = [memory for result, memory in pairs if result.written is not None]
        # Whether what is written is what a call returns, just so.
        self._is_plain = all(result.written is not None and result.count is None for result in plan.results)
        self._overwritten = {state.root for state in plan.kept}
        self._target = target
        self._runs_here = not lacking_here(target)

    @property
    def arena(self) -> Arena:
        """The plan of the memory between inputs and outputs."""
        return self.plan.arena

    @property
    def steps(self) -> tuple[StepInfo, ...]:
        """The kernels of a run, in order."""
        return tuple(self.plan.infos[n] for n in self.plan.kernels)

    def run(self, inputs: Sequence[Array], most: int = ENDLESS) -> list[Array]:
        """The outputs for arrays of the inputs' types; each loop takes so many steps at most.

        Raises KernelError where a kernel fails, and on a machine that lacks instructions of the target.
        """
        self._require_machine()
        taken, memory = [_readable_array(array) for array in inputs], self._take_memory()
        try:
            new = self._new_outputs(memory.roots, taken)
            failed = memory.call.run((*taken, *new), most)
            if failed:
                require_success(failed, self._names)
            # A result may be what a state was before this call.
            results = new if self._is_plain else self._outputs(memory.roots, new)
            if self.plan.kept:
                self._keep_states(memory.roots)
            return results
        finally:
            self._free.append(memory)

    def run_timed(self, inputs: Sequence[Array], most: int = ENDLESS) -> RunTimes:
        """The times of the kernels of one run, in order; each loop takes so many steps at most."""
        self._require_machine()
        times, runs = ((ctypes.c_int64 * max(len(self._table), 1))() for _ in range(2))
        taken, memory = [_readable_array(array) for array in inputs], self._take_memory()
        try:
            arrays = [*taken, *self._new_outputs(memory.roots, taken)]
            memory.roots[FIRST : FIRST + len(arrays)] = list(map(data_pointer, arrays))
            require_success(self._table.run_timed(memory.roots, times, runs, most), self._names)
        finally:
            self._free.append(memory)
        kernels = list(self.plan.kernels)
        return RunTimes(*(np.array(each, np.int64)[kernels] for each in (times, runs)))

    def _new_outputs(self, roots: Roots, inputs: Sequence[Array]) -> list[Array]:
        """The new arrays of one call, behind its inputs among the roots; addresses of parts of these are set here.

        Kernels read and write all of these in place: the caller keeps them until the end.
        """
        new = [memory.array() for memory in self._written]
        if self.plan.moved:
            begin = FIRST + len(inputs) + len(new)
            roots[begin : begin + len(self.plan.moved)] = [part.address(inputs) for part in self.plan.moved]
        return new

    def _take_memory(self) -> _CallMemory:
        """Take the memory that one call has for itself: that of an earlier call that has ended, or new memory."""
        try:
            return self._free.pop()
        except IndexError:
            plan, arena = self.plan, MappedMemory(self.plan.arena.nbytes, "intermediates")
            own = (arena.address, self.weights.memory.address)
            assert len(own) == FIRST
            others = len(plan.inputs) + len(self._written) + len(plan.moved) + plan.moving
            roots = (ctypes.c_int64 * (FIRST + others))(*own)
            return _CallMemory(arena, roots, self._table.call(roots, FIRST, len(plan.inputs) + len(self._written)))

    def _require_machine(self) -> None:
        if not self._runs_here:
            raise refusal(self._target, "the network", "load it for this machine, without `target`")

    def _keep_states(self, roots: Roots) -> None:
        """Copy what states are next to where they are, as far as it was not computed there.

        What lies in another state, which is overwritten, too, is read before any of them is.
        """
        found = [self._find_next(roots, state) for state in self.plan.kept]
        for state, source in zip(self.plan.kept, found, strict=True):
            ctypes.memmove(roots[state.root], source, state.nbytes)

    def _find_next(self, roots: Roots, state: KeptState) -> int | bytes:
        """The address of what a state is next; the bytes themselves, where they lie in a state that is copied to."""
        address = roots[state.found.root] + state.found.offset
        if state.found.root not in self._overwritten:
            return address
        return bytes((ctypes.c_char * state.nbytes).from_address(address))

    def _outputs(self, roots: Roots, new: list[Array]) -> list[Array]:
        found: list[Array] = []
        for result, memory in zip(self.plan.results, self._memories, strict=True):
            if result.written is not None:
                made = new[result.written - FIRST - len(self.plan.inputs)]
            else:
                assert result.copied is not None
                made = _copy_output(memory, roots[result.copied.root] + result.copied.offset)
            found.append(made if result.count is None else _first_elements(made, roots, result.count))
        return found


def _readable_array(array: Array) -> Array:
    """The array, or a copy that kernels can read, where this one is not contiguous or not aligned."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.require(array, requirements=("C", "A"))


def _first_elements(array: Array, roots: Roots, count: ResultCount) -> Array:
    """The elements along a dimension that there are, contiguous."""
    (root, offset), axis = count
    number = ctypes.c_int64.from_address(roots[root] + offset).value
    return np.ascontiguousarray(array[(*(slice(None),) * axis, slice(number))])


def _copy_output(memory: OutputMemory, address: int) -> Array:
    """An array with what lies at an address."""
    array = memory.array()
    ctypes.memmove(data_pointer(array), address, array.nbytes)
    return array

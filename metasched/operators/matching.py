"""Which expert traces were written for what a program computes, whatever its shape and its names.

A program is an operator where its definition is the operator's, or where it has the same stages: the same loops,
reductions and operations, on tensors that are indexed by the same loops. Numbers may differ: sizes, strides, constants.
A trace of one can then be replayed on the other, which checks whether each step is legal there. A program
that is an operator for each element of a batch takes its traces, too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from metasched.ir.nodes import Buffer, Func
from metasched.ir.program import Program
from metasched.lang.instructions import Instruction, Value
from metasched.operators.batched_trace import for_batch
from metasched.operators.batches import Batch, batch_of_one, batches, transpose_operands
from metasched.operators.digests import variants_of
from metasched.operators.experts import Expert, expert, expert_names
from metasched.operators.files import library_names
from metasched.operators.library import load
from metasched.operators.structure import Names, names_between, structure_digest
from metasched.schedule.kinds import Named
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Trace
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Fit:
    """An expert trace for a program of the same structure, whose names for the operator's `names` has.

    If only each element of a batch has that structure, or only with operands transposed, `batch` says how.
    """

    expert: Expert
    names: Names
    batch: Batch | None = None

    @property
    def written(self) -> Program:
        """The operator at the shape that the trace was written for."""
        return _header(self.expert.name)

    def tensors(self, program: Program) -> list[tuple[Buffer, Buffer]]:
        """The tensors that the trace was written for, each with the program's, or with an element of a batch of it."""
        given = (program if self.batch is None else self.batch.element).func
        return [(b, given.buffer(self.names.tensors.get(b.name, b.name))) for b in self.written.func.buffers()]

    def trace_for(self, program: Program, threads: int = 1) -> Trace:
        """The expert's trace in the program's names. It is to be replayed with `Policy.REPAIR`.

        What `threads` share of a batch depends on how many they are.

        Raises ScheduleError for a trace that cannot be carried over to a batch.
        """
        data = self.expert.trace.data
        instructions = tuple(self._rename_instruction(i) for i in data.instructions)
        trace = Trace(replace(data, program=program.name, params=program.params, instructions=instructions))
        return trace if self.batch is None else for_batch(trace, self.batch, program, threads)

    def _rename_instruction(self, instruction: Instruction) -> Instruction:
        args: list[Value] = list(instruction.args)
        for place, named in registry()[instruction.op].naming.items():
            renamed = self.names.blocks if named is Named.BLOCK else self.names.tensors
            written = args[place] if place < len(args) else None
            if isinstance(written, str):
                args[place] = renamed.get(written, written)
        return replace(instruction, args=tuple(args))


def fits(program: Program) -> tuple[Fit, ...]:
    """The expert traces for what a program computes, sorted by name; none for a program that is no operator.

    Where nothing fits a program as it is, nor an element of a batch of it, operands that are matrices are transposed.
    A program that was not loaded from the library is compared with those operators that have the digest of its
    structure, which are read at the first such call: that takes some 10 ms for each.
    """
    found = [Fit(expert(name), renamed) for operator, renamed in _operator_of(program) for name in _traces(operator)]
    several = list(batches(program))
    found += [fit for batch in several for fit in _fits_of_element(batch)]
    if not found:
        # Transposing an operand leaves the digest: without an operator of it, none of the 2^operands ways is one.
        alike = [batch for batch in (batch_of_one(program), *several) if _variants(batch.element.func)]
        ways = (way for batch in alike for way in transpose_operands(batch))
        found = next((fits for way in ways if (fits := _fits_of_element(way))), [])
    return tuple(sorted(found, key=lambda fit: fit.expert.name))


def _fits_of_element(batch: Batch) -> list[Fit]:
    operators = _match_structure(batch.element.func)
    return [Fit(expert(name), renamed, batch) for operator, renamed in operators for name in _traces(operator)]


def _operator_of(program: Program) -> list[tuple[str, Names]]:
    """The operator that a program is, and its names for the operator's; none or one."""
    if program.name in library_names() and _usual(program.name).definition == program.definition:
        return [(program.name, Names())]
    return _match_structure(program.func)


def _match_structure(func: Func) -> list[tuple[str, Names]]:
    """The operator that a function is by its structure, and its names for the operator's; none or one."""
    for variant in _variants(func):
        renamed = names_between(_written_program(variant).func, func)
        if renamed is not None:
            return [(_operator(variant), renamed)]
    return []


def _variants(func: Func) -> tuple[str, ...]:
    """Operators, or their forms in traces, that have the digest of a function's structure."""
    return variants_of(structure_digest(func))


def _traces(operator: str) -> list[str]:
    return [name for name in expert_names() if _operator(name) == operator]


@cache
def _usual(operator: str) -> Program:
    return load(operator)


def _written_program(variant: str) -> Program:
    """An operator with its own parameters, or as one of its traces was written for it: some have another structure."""
    return _header(variant) if "." in variant else _usual(variant)


def _operator(variant: str) -> str:
    return variant.partition(".")[0]


@cache
def _header(name: str) -> Program:
    return expert(name).program()

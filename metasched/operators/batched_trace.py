"""A trace for one element of a batch, carried over to the whole: loops over the batch stay outside of all others.

Threads share the elements if there are enough of them to keep all threads busy, and otherwise the parts of each
element, as in the trace. (One loop over both would be balanced as well, but its quotients and remainders keep lowering
from telling whole tiles from partial ones, which made products slow.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.nodes import Buffer, For, Func, IndexMap, Var
from metasched.ir.printer import print_index_map
from metasched.ir.program import Program
from metasched.lang.instructions import Instruction, Ref, Value
from metasched.operators.batches import Batch
from metasched.operators.transposed_copies import transpose_copies
from metasched.schedule.handlers import DrawFromPrior, Policy, Replay
from metasched.schedule.primitive import registry
from metasched.schedule.primitives.fuse import OP as FUSE
from metasched.schedule.primitives.transform_layout import OP as TRANSFORM_LAYOUT
from metasched.schedule.trace import Schedule, Trace
from metasched.schedule.values import BlockRV, LoopRV

# The smallest utilisation at which threads share the elements rather than each element's parts.
_BUSY = 0.75


def for_batch(trace: Trace, batch: Batch, program: Program, threads: int) -> Trace:
    """The trace of `batch.element` as one of the whole program, for so many threads.

    Raises ScheduleError for a step that is not legal there, or that cannot be carried over.
    """
    rounds = ceil(batch.elements / threads)
    carried = _Lockstep(trace, batch, program, batch.elements >= _BUSY * rounds * threads)
    for instruction in trace.instructions:
        carried.step(instruction)
    return carried.finished_trace


class _Lockstep:
    """The schedules of an element and of the whole program, run in lockstep, with the same names for blocks and loops.

    `share_elements`: whether threads share elements, where the trace has them share parts of one. How an instruction
    is carried over, its primitive declares; this is the `Batching` that it works on.
    """

    def __init__(self, trace: Trace, batch: Batch, program: Program, share_elements: bool) -> None:
        self._element, self._whole = (
            Schedule(of, handler=Replay(trace.decisions, Policy.REPAIR, DrawFromPrior(0)))
            for of in (batch.element, program)
        )
        self._dims = dict(batch.dims)
        self._turned = set(batch.turned)
        self._taken = {label for i in trace.instructions for label in i.outputs}
        self._over_batch: dict[str, str] = {}  # the label of each loop over the batch, by name
        self._on_threads: dict[str, Ref] = {}  # what threads share in place of each loop, by label
        self.share_elements = share_elements

    def step(self, instruction: Instruction) -> None:
        """Run a step on both."""
        self._element.execute(instruction)
        carry_over = registry()[instruction.op].in_batches
        if carry_over is None:
            raise ScheduleError(instruction.op, "it is not carried over to a batch")
        carry_over(self, instruction)

    @property
    def finished_trace(self) -> Trace:
        transpose_copies(self._whole, self._turned)
        return self._whole.trace

    @property
    def whole(self) -> Func:
        return self._whole.func

    def run(self, instruction: Instruction) -> None:
        self._whole.execute(instruction)

    def fresh_label(self, name: str) -> str:
        label, number = name, 1
        while label in self._taken:
            label, number = f"{name}_{number}", number + 1
        self._taken.add(label)
        return label

    # --- loops

    def loop(self, label: str) -> str:
        return self._whole.name_of(LoopRV(label))

    def own_loop(self, label: str) -> str:
        return self._element.name_of(LoopRV(label))

    def over_batch(self, loop: str) -> str:
        return self._over_batch.get(loop, "")

    def add_over_batch(self, loop: str, label: str) -> None:
        self._over_batch[loop] = label

    def shared_loop(self, label: str) -> Ref:
        return self._on_threads[label]

    def set_shared_loop(self, label: str, loop: Ref) -> None:
        self._on_threads[label] = loop

    def fuse_loops(self, loops: Sequence[For]) -> Ref:
        handles = [Ref(self._over_batch[loop.var]) for loop in loops]
        if len(handles) == 1:
            return handles[0]
        label = self.fresh_label("_".join(loop.var for loop in loops))
        self.run(Instruction(FUSE, tuple(handles), outputs=(label,)))
        self._over_batch[self.loop(label)] = label
        return Ref(label)

    # --- tensors

    def block(self, instruction: Instruction) -> str:
        ref = instruction.args[0]
        assert isinstance(ref, Ref)
        return self._whole.name_of(BlockRV(ref.name))

    def written_buffer(self, instruction: Instruction) -> tuple[Buffer, tuple[int, ...]]:
        block = self.block(instruction)
        buffer, own = (_written_buffer(schedule.func, block) for schedule in (self._whole, self._element))
        added = tuple(range(len(buffer.shape) - len(own.shape)))
        return buffer, self._dims.get(buffer.name, added)

    def note_copy(self, source: str, block: str) -> bool:
        copy = _written_buffer(self.whole, self._whole.name_of(BlockRV(block)))
        self._dims[copy.name] = self._dims[source]
        if source in self._turned:
            self._turned.add(copy.name)
        return source in self._turned

    def lay_out(self, instruction: Instruction, index_map: IndexMap, *sizes: Value) -> None:
        buffer, dims = self.written_buffer(instruction)
        names = [f"batch{n}" for n in range(len(dims))]
        others = iter(index_map.names[::-1] if buffer.name in self._turned else index_map.names)
        of_batch = dict(zip(dims, names, strict=True))
        inputs = tuple(of_batch[n] if n in of_batch else next(others) for n in range(len(buffer.shape)))
        outputs = (*(Var(name) for name in names), *index_map.outputs)
        args = (instruction.args[0], print_index_map(IndexMap(inputs, outputs)), *sizes)
        self.run(Instruction(TRANSFORM_LAYOUT, args))


def _written_buffer(func: Func, block: str) -> Buffer:
    return func.buffer(query.find_block(func, block).store.buffer)

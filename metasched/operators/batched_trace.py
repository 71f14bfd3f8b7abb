"""A trace for one element of a batch, carried over to the whole: loops over the batch stay outside of all others.

Threads share the elements where these are enough to keep all of them busy, and the parts of each element where not, as
the trace has it. (One loop over both would be balanced as well, but its quotients and remainders keep lowering from
telling whole tiles from partial ones, which made products slow.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, prod

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.affine import as_int
from metasched.ir.nodes import Buffer, For, Func, IndexMap, LoopKind, Var
from metasched.ir.printer import print_index_map
from metasched.ir.program import Program
from metasched.lang import parse_index_map
from metasched.lang.instructions import Instruction, Ref, Value
from metasched.operators.batches import Batch
from metasched.schedule.handlers import Policy, Prior, Replay
from metasched.schedule.primitive import registry
from metasched.schedule.trace import Schedule, Trace
from metasched.schedule.values import BlockRV, LoopRV

# Threads may idle for a quarter of the time before it is better that they share each element.
_BUSY = 0.75


def for_batch(trace: Trace, batch: Batch, program: Program, threads: int) -> Trace:
    """The trace of `batch.element` as one of the whole program, for so many threads.

    Raises ScheduleError for a step that is not legal there, or that cannot be carried over.
    """
    rounds = ceil(batch.elements / threads)
    carried = _Carried(trace, batch, program, batch.elements >= _BUSY * rounds * threads)
    for instruction in trace.instructions:
        carried.step(instruction)
    return carried.whole.trace


class _Carried:
    """Two schedules side by side, of an element and of the whole, in which blocks and loops are called the same.

    `share_elements`: whether threads share elements, where the trace has them share parts of one.
    """

    def __init__(self, trace: Trace, batch: Batch, program: Program, share_elements: bool) -> None:
        self.element, self.whole = (
            Schedule(of, handler=Replay(trace.decisions, Policy.REPAIR, Prior(0))) for of in (batch.element, program)
        )
        self._dims = dict(batch.dims)
        self._turned = set(batch.turned)
        self._taken = {label for i in trace.instructions for label in i.outputs}
        self._share_elements = share_elements
        self._over_batch: dict[str, str] = {}  # the label of each loop over the batch, by name
        self._on_threads: dict[str, Ref] = {}  # what threads share in place of each loop, by label
        self._steps: Mapping[str, Callable[[Instruction], None]] = {
            "get_loops": self._get_loops,
            "parallel": self._parallel,
            "merge_parallel": self._merge_parallel,
            "cache_read": self._cache_read,
            "transform_layout": self._transform_layout,
            "storage_align": self._storage_align,
            "pad_einsum": self._pad_einsum,
        }

    def step(self, instruction: Instruction) -> None:
        """Run a step on both."""
        self.element.execute(instruction)
        if instruction.op in self._steps:
            self._steps[instruction.op](instruction)
        elif registry()[instruction.op].in_batches:
            self.whole.execute(instruction)
        else:
            raise ScheduleError(instruction.op, "it is not carried over to a batch")

    def _fresh(self, name: str) -> str:
        label, number = name, 1
        while label in self._taken:
            label, number = f"{name}_{number}", number + 1
        self._taken.add(label)
        return label

    # --- loops

    def _get_loops(self, instruction: Instruction) -> None:
        block = self._block(instruction)
        own = dict(zip(self._own_loops(instruction), instruction.outputs, strict=True))
        here = [loop.var for loop in query.loops_above(self.whole.func, block)]
        if missing := [name for name in own if name not in here]:
            raise ScheduleError("get_loops", f"for a batch, `{block}` has no loop `{missing[0]}`", (block,))
        for name in here:
            if name not in own and name not in self._over_batch:
                self._over_batch[name] = self._fresh(f"batch_{name}")
        labels = tuple(own[name] if name in own else self._over_batch[name] for name in here)
        self.whole.execute(replace(instruction, outputs=labels))
        # Loops over an operand that lies the other way.
        swapped = [b for a, b in zip((name for name in here if name in own), own, strict=True) if a != b]
        if swapped:
            self.whole.execute(Instruction("reorder", tuple(Ref(own[name]) for name in swapped)))

    def _own_loops(self, instruction: Instruction) -> list[str]:
        return [self.element.name_of(LoopRV(label)) for label in instruction.outputs]

    def _parallel(self, instruction: Instruction) -> None:
        (loop,) = instruction.args
        assert isinstance(loop, Ref)
        outside = query.loops_above_loop(self.whole.func, self.whole.name_of(LoopRV(loop.name)))
        over = [outer for outer in outside if outer.var in self._over_batch]
        if not self._share_elements or prod(as_int(outer.extent) or 1 for outer in over) == 1:
            self._on_threads[loop.name] = loop
            self.whole.execute(instruction)
        elif all(outer.kind is LoopKind.SERIAL for outer in over):
            self._on_threads[loop.name] = self._fused(over)
            self.whole.execute(replace(instruction, args=(self._on_threads[loop.name],)))
        else:
            shared = next(outer for outer in over if outer.kind is LoopKind.PARALLEL)
            self._on_threads[loop.name] = Ref(self._over_batch[shared.var])

    def _merge_parallel(self, instruction: Instruction) -> None:
        """The same of what threads share in place of the loops; nothing where that is one loop."""
        labels = [arg.name for arg in instruction.args if isinstance(arg, Ref)]
        loops = tuple(dict.fromkeys(self._on_threads[label] for label in labels))
        if len(loops) > 1:
            self.whole.execute(replace(instruction, args=loops))

    def _fused(self, over: Sequence[For]) -> Ref:
        """One loop of loops over the batch."""
        handles = [Ref(self._over_batch[outer.var]) for outer in over]
        if len(handles) == 1:
            return handles[0]
        label = self._fresh("_".join(outer.var for outer in over))
        self.whole.execute(Instruction("fuse", tuple(handles), outputs=(label,)))
        self._over_batch[self.whole.name_of(LoopRV(label))] = label
        return Ref(label)

    # --- tensors

    def _block(self, instruction: Instruction) -> str:
        ref = instruction.args[0]
        assert isinstance(ref, Ref)
        return self.whole.name_of(BlockRV(ref.name))

    def _written(self, instruction: Instruction) -> tuple[Buffer, tuple[int, ...]]:
        """What the step's block writes, and which of its dimensions are the batch's: the leading ones, if it is new."""
        block = self._block(instruction)
        buffer, own = (_written(schedule.func, block) for schedule in (self.whole, self.element))
        added = tuple(range(len(buffer.shape) - len(own.shape)))
        return buffer, self._dims.get(buffer.name, added)

    def _cache_read(self, instruction: Instruction) -> None:
        self.whole.execute(instruction)
        copy = _written(self.whole.func, self.whole.name_of(BlockRV(instruction.outputs[0])))
        source = str(instruction.args[1])
        self._dims[copy.name] = self._dims[source]
        if source in self._turned:
            self._turned.add(copy.name)
            names = ("d0", "d1")
            block = Ref(instruction.outputs[0])
            self._lay_out(replace(instruction, args=(block,)), IndexMap(names, tuple(Var(name) for name in names)))

    def _transform_layout(self, instruction: Instruction) -> None:
        text = instruction.args[1]
        assert isinstance(text, str)
        self._lay_out(instruction, parse_index_map(text))

    def _lay_out(self, instruction: Instruction, written: IndexMap) -> None:
        buffer, dims = self._written(instruction)
        names = [f"batch{n}" for n in range(len(dims))]
        others = iter(written.names[::-1] if buffer.name in self._turned else written.names)
        of_batch = dict(zip(dims, names, strict=True))
        inputs = tuple(of_batch[n] if n in of_batch else next(others) for n in range(len(buffer.shape)))
        outputs = (*(Var(name) for name in names), *written.outputs)
        args = (instruction.args[0], print_index_map(IndexMap(inputs, outputs)))
        self.whole.execute(Instruction("transform_layout", args))

    def _storage_align(self, instruction: Instruction) -> None:
        buffer, dims = self._written(instruction)
        if buffer.layout is None and dims != tuple(range(len(dims))):
            names = tuple(f"d{n}" for n in range(len(buffer.shape) - len(dims)))
            self._lay_out(instruction, IndexMap(names, tuple(Var(name) for name in names)))
        block, axis, *others = instruction.args
        assert isinstance(axis, int)
        self.whole.execute(replace(instruction, args=(block, axis + len(dims), *others)))

    def _pad_einsum(self, instruction: Instruction) -> None:
        block, padding = instruction.args
        assert isinstance(padding, tuple)
        iters = query.find_block(self.whole.func, self._block(instruction)).iters
        ones: tuple[Value, ...] = (1,) * (len(iters) - len(padding))
        self.whole.execute(replace(instruction, args=(block, (*ones, *padding))))


def _written(func: Func, block: str) -> Buffer:
    return func.buffer(query.find_block(func, block).store.buffer)

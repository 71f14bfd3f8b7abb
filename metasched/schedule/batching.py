"""What a primitive works on when a trace for one element of a batch is carried over to the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from metasched.ir.nodes import Buffer, For, Func, IndexMap
from metasched.lang.instructions import Instruction, Ref, Value


class Batching(Protocol):
    """Two schedules, of an element and of the whole batch, in which blocks and loops are called the same.

    An instruction has been run on the element when it is carried over. `share_elements`: whether threads share
    elements, where the trace has them share parts of one.
    """

    @property
    def share_elements(self) -> bool: ...

    @property
    def whole(self) -> Func:
        """The program of the whole batch, as it is now."""
        ...

    def run(self, instruction: Instruction) -> None:
        """Run an instruction on the whole. Raises ScheduleError where it is not legal."""
        ...

    def fresh_label(self, name: str) -> str:
        """A label that the trace does not have, after a name."""
        ...

    # --- loops

    def loop(self, label: str) -> str:
        """The whole's name of the loop that a label stands for."""
        ...

    def own_loop(self, label: str) -> str:
        """The element's name of the loop that a label stands for."""
        ...

    def over_batch(self, loop: str) -> str:
        """The label of a loop over the batch, by its name; '' for a loop that the element has, too."""
        ...

    def add_over_batch(self, loop: str, label: str) -> None:
        """Say that a loop of that name is over the batch."""
        ...

    def fuse_loops(self, loops: Sequence[For]) -> Ref:
        """One loop of loops over the batch."""
        ...

    def shared_loop(self, label: str) -> Ref:
        """The loop that threads share in place of one."""
        ...

    def set_shared_loop(self, label: str, loop: Ref) -> None:
        """Have threads share another loop in place of one."""
        ...

    # --- tensors

    def block(self, instruction: Instruction) -> str:
        """The name of the block that is the first argument."""
        ...

    def written_buffer(self, instruction: Instruction) -> tuple[Buffer, tuple[int, ...]]:
        """The buffer that the step's block writes, and which of its dimensions are the batch's.

        These are the leading ones, if the buffer is new.
        """
        ...

    def note_copy(self, source: str, block: str) -> bool:
        """Say that a block, by its label, writes a copy of a buffer; whether that is stored the other way round."""
        ...

    def lay_out(self, instruction: Instruction, index_map: IndexMap, *sizes: Value) -> None:
        """Give what the step's block writes an element's layout, with the batch's dimensions outside of it; `sizes` are
        those of the map."""
        ...


# How an instruction is carried over to a batch.
InBatches = Callable[[Batching, Instruction], None]


def unchanged(batching: Batching, instruction: Instruction) -> None:
    """It says the same of an element and of the batch: it names blocks, buffers and loops, none of which is the
    batch's."""
    batching.run(instruction)

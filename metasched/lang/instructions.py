"""A trace as plain data, which its text is parsed to and printed from.

Instructions only have structure here; `metasched.schedule` runs them.
"""

from __future__ import annotations

from metasched.ir.nodes import Expr
from metasched.ir.source import Setting
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Ref:
    """A handle (block, loop, buffer location or integer variable) by its label in the trace."""

    name: str


@dataclass(frozen=True)
class Hole:
    """`_` in a decision: a part that follows from the others."""


HOLE = Hole()

# An argument: a handle, arithmetic over integer variables (`Var`s named by label), a literal, or a list of these.
Value = Ref | Expr | str | bool | None | int | float | tuple["Value", ...]
# The decision of a random variable: `[_, 8]` -> (HOLE, 8); `"outer"`; `16`; a loop's label -> Ref; root -> Ref("root").
Decision = Ref | Hole | str | bool | int | float | tuple["Decision", ...]


@dataclass(frozen=True)
class Instruction:
    """One line of a trace.

    `x, y ~ sample_tile(i, parts=2) @ "tile(dense)/i" := [_, 8]` has outputs ("x", "y"), op "sample_tile",
    args (Ref("i"),), kwargs (("parts", 2),), address "tile(dense)/i", decision (HOLE, 8). A sampling line has
    `random=True` (written `~`); its decision is None when left open. `split@2(...)` has version 2.
    """

    op: str
    args: tuple[Value, ...] = ()
    kwargs: tuple[tuple[str, Value], ...] = ()
    outputs: tuple[str, ...] = ()
    random: bool = False
    address: str | None = None
    decision: Decision | None = None
    version: int = 1

    def with_outputs(self, outputs: tuple[str, ...]) -> Instruction:
        """The line with other names of its results: each step of a schedule is written so."""
        if outputs == self.outputs:
            return self
        return Instruction(
            self.op, self.args, self.kwargs, outputs, self.random, self.address, self.decision, self.version
        )


@dataclass(frozen=True)
class TraceData:
    """`trace 1 of conv2d[H=14]:` and its lines. `format` is the version of the text format."""

    program: str
    params: tuple[tuple[str, Setting], ...]
    instructions: tuple[Instruction, ...]
    format: int = 1

"""How a pass is declared, and what it is given.

A pass is a file of this folder, with a function of its name under `@graph_pass`:

    @graph_pass(after=("dead_code",))
    def constant_folding(graph: Graph, context: PassContext) -> Graph:
        "What depends on constants alone is computed once, before anything runs."

It returns a graph that computes the same outputs; its docstring's first line says what it does. It is run on the bodies
of loops as well, each as a graph of its own: to a pass, a loop is a node that it can not look into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from metasched.graph.ir import Graph
from metasched.graph.precision.choice import ProductPrecision
from metasched.support.data_classes import dataclass
from metasched.support.declared_files import Declarations
from metasched.target import Target


@dataclass(frozen=True)
class PassOptions:
    """What passes go by.

    Attributes:
        target: the CPU that the network is to run on.
        without: names of passes that are left out.
        precision: what products are computed from.
        faster_in_strips: chains of reductions that were measured to be faster as one program: its structural hash.
        slower_in_strips: those that were measured to be slower.

    """

    target: Target
    without: frozenset[str] = frozenset()
    precision: ProductPrecision = ProductPrecision.F32
    faster_in_strips: frozenset[str] = frozenset()
    slower_in_strips: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PassContext:
    """What a pass is given besides the graph: the options, and where it says what it did and what it refused to do.

    Attributes:
        options: what passes go by.
        remarks: what there is to say.
        in_loop: whether the graph is the body of a loop, whose states begin as values of the graph around it.

    """

    options: PassOptions
    remarks: list[str] = field(default_factory=list)
    in_loop: bool = False

    def remark(self, text: str) -> None:
        """Note something that a person who looks at this pass wants to know, such as what was not fused and why."""
        self.remarks.append(text)


PassFunction: TypeAlias = Callable[[Graph, PassContext], Graph]


@dataclass(frozen=True)
class Pass:
    """A rewriting of a graph.

    Attributes:
        name: that of its file.
        run: gives the graph after it.
        after: passes that run before this one.
        purpose: the first line of its docstring.

    """

    name: str
    run: PassFunction
    after: tuple[str, ...]
    purpose: str


# Of the function of a pass: the passes that run before it.
RUNS_AFTER: Declarations[tuple[str, ...]] = Declarations("runs_after")


def graph_pass(*, after: tuple[str, ...] = ()) -> Callable[[PassFunction], PassFunction]:
    """Declare that a function is the pass of its file, and which passes come before it."""

    def declare(function: PassFunction) -> PassFunction:
        return RUNS_AFTER.add(function, after)

    return declare

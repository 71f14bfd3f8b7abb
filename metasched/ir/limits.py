"""How large an expression may be.

Passes over expressions are recursive, and visit a part as often as it is used: so the depth of an expression and its
size when written out are limited. Both are checked when a program is made, and by each step that puts one expression
into another; no later pass checks them.
"""

from __future__ import annotations

from metasched.ir.node_base import Node
from metasched.ir.source import SourceNode
from metasched.support.cached import find_kept, keep
from metasched.support.data_classes import dataclass

# Python ends a program that nests a thousand calls, and a level takes up to four.
MAX_LEVELS = 200
# Of an expression of a program.

MAX_NODES = 10_000
# Of an expression made by inlining: a stage that is read twice is duplicated, so a chain of stages would grow
# exponentially.
MAX_INLINED_NODES = 1000


# NumPy's limit before version 2.
MAX_RANK = 32
# Around a block: passes over loops are recursive.
MAX_LOOPS = 64
SPLIT = "split it into several stages"


Tree = Node | SourceNode


@dataclass(frozen=True)
class ExpressionSize:
    """How deep an expression is nested, and how many operations, reads, names and numbers it has in all."""

    levels: int
    nodes: int


_SIZE = "_size"


def size_of(tree: Tree) -> ExpressionSize:
    """The size of an expression, written out. Cost: linear in its parts, each distinct part being visited once.

    That of a part of a program is kept with it, as its hash is: expressions grow, step by step, out of parts.
    """
    known: dict[int, ExpressionSize] = {}
    stack: list[tuple[Tree, bool]] = [(tree, False)]
    while stack:
        node, below_done = stack.pop()
        if id(node) in known:
            continue
        earlier: ExpressionSize | None = find_kept(node, _SIZE)
        if earlier is not None:
            known[id(node)] = earlier
            continue
        children: list[Tree] = list(node.children())
        if not below_done:
            stack.append((node, True))
            stack.extend((child, False) for child in children)
            continue
        sizes = [known[id(child)] for child in children]
        size = ExpressionSize(1 + max((s.levels for s in sizes), default=0), 1 + sum(s.nodes for s in sizes))
        known[id(node)] = size
        if isinstance(node, Node):
            keep(node, _SIZE, size)
    return known[id(tree)]


def too_large(tree: Tree) -> str | None:
    """What is too large about an expression of a program; None where nothing is."""
    size = size_of(tree)
    if size.levels > MAX_LEVELS:
        return f"this expression is nested more than {MAX_LEVELS} levels deep"
    if size.nodes > MAX_NODES:
        return f"this expression has more than {MAX_NODES} operations, reads, names and numbers when it is written out"
    return None

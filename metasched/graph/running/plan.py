"""Where the values of a network lie in memory: one arena for what lives during a call, by lifetimes.

A value is a number of bytes at an offset of a *root*: a piece of memory of its own. Views share the root of what they
are of. Roots are placed in the arena so that those alive at the same time are apart: the largest first, each into the
smallest gap that holds it (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020,
"Greedy by Size for Offset Calculation"), and the same in the orders of other keys; the smallest arena is taken. An
output of a program never shares memory with an input of it: compiled kernels rely on that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from metasched.graph.ir import Graph
from metasched.support.data_classes import dataclass
from metasched.target import CACHE_LINE

_Offsets: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class ValuePlace:
    """Memory of a value: bytes from an offset of a root on. The root is a value's name."""

    root: str
    offset: int


@dataclass(frozen=True)
class Lifetime:
    """A piece of memory that is needed from one step to another, both included."""

    name: str
    nbytes: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """Bytes that it takes in an arena."""
        return align_bytes(self.nbytes)


@dataclass(frozen=True)
class Arena:
    """Offsets of pieces of memory in one: `nbytes` is its size, `bound` what is alive at once at most."""

    offsets: Mapping[str, int]
    nbytes: int
    bound: int

    def __str__(self) -> str:
        share = f", {self.nbytes / self.bound:.2f} of it" if self.bound else ""
        return f"arena of {self.nbytes} bytes; at most {self.bound} bytes are alive at once{share}"


def align_bytes(nbytes: int) -> int:
    """A size rounded up to the alignment of arenas."""
    return -(-nbytes // CACHE_LINE) * CACHE_LINE


def places(graph: Graph) -> dict[str, ValuePlace]:
    """Every value of a graph as a part of a root. A value that is a view of no other is a root itself."""
    return {
        name: ValuePlace(root, offset * graph.types[name].dtype.bytes) for name, (root, offset) in graph.roots.items()
    }


@dataclass(frozen=True)
class LoopUses:
    """What loops do with memory. Steps are numbers of nodes, as those of `Lifetime`.

    Attributes:
        stretches: the steps that run again and again, from one to another without it.
        uses: roots that are read or written at a step by no node.
        pieces: memory of loops of their own, with the steps that they need it at least.
        backing: for each root that moves, in which memory it may lie after its loop; loops come as they begin.

    """

    stretches: Sequence[tuple[int, int]] = ()
    uses: Sequence[tuple[str, int]] = ()
    pieces: Sequence[Lifetime] = ()
    backing: Sequence[tuple[str, tuple[str, ...]]] = ()


NO_LOOPS = LoopUses()


def lifetimes(
    graph: Graph,
    place: Mapping[str, ValuePlace],
    outside: Sequence[str],
    workspaces: Sequence[int],
    loops: LoopUses = NO_LOOPS,
) -> list[Lifetime]:
    """What an arena has to hold: roots that are not `outside` it, what loops need, and a workspace for each node that
    needs one.

    A step is a node's number. What an output of the network is a part of lives to the end, and what a loop reads of
    before it to its end.
    """
    apart = {*outside, *graph.constants, *graph.inputs}
    uses = [(place[name].root, n) for n, node in enumerate(graph.nodes) for name in (*node.inputs, *node.outputs)]
    first: dict[str, int] = {piece.name: piece.first for piece in loops.pieces}
    last: dict[str, int] = {piece.name: piece.last for piece in loops.pieces}
    for root, step in sorted([*uses, *loops.uses], key=lambda use: use[1]):
        begin = first.setdefault(root, step)
        ends = [end - 1 for start, end in loops.stretches if start <= step < end and not start <= begin < end]
        last[root] = max(last.get(root, 0), step, *ends)
    for _, name in graph.outputs:
        last[place[name].root] = len(graph.nodes)
    for root, held in reversed(loops.backing):
        last.update((name, max(last.get(name, 0), last.get(root, 0))) for name in held)
    sizes = {piece.name: piece.nbytes for piece in loops.pieces}
    found = [Lifetime(workspace_name(n), nbytes, n, n) for n, nbytes in enumerate(workspaces) if nbytes]
    for root, start in first.items():
        if root not in apart:
            nbytes = sizes[root] if root in sizes else graph.types[root].nbytes
            found.append(Lifetime(root, nbytes, start, last[root]))
    return found


def workspace_name(step: int) -> str:
    """What the workspace of a step is called in an arena: no value is called so."""
    return f"\0workspace {step}"


_ORDERS: tuple[Callable[[Lifetime], tuple[int, ...]], ...] = (
    lambda piece: (-piece.size, piece.first),
    lambda piece: (-piece.size * (piece.last - piece.first + 1), piece.first),
    lambda piece: (piece.first, -piece.size),
)


def arena(pieces: Sequence[Lifetime]) -> Arena:
    """Offsets for pieces of memory such that those alive at the same time are apart."""
    needed = [piece for piece in pieces if piece.nbytes]
    bound = _alive_at_once(needed)
    best: tuple[int, dict[str, int]] | None = None
    for order in _ORDERS:
        offsets = _place_pieces(sorted(needed, key=order))
        size = max((offsets[piece.name] + piece.size for piece in needed), default=0)
        if best is None or size < best[0]:
            best = size, offsets
        if size == bound:
            break
    assert best is not None
    empty = {piece.name: 0 for piece in pieces if not piece.nbytes}
    return Arena(best[1] | empty, best[0], bound)


def _alive_at_once(pieces: Sequence[Lifetime]) -> int:
    """The most bytes that are alive at one step: no arena is smaller."""
    changes: dict[int, int] = {}
    for piece in pieces:
        changes[piece.first] = changes.get(piece.first, 0) + piece.size
        changes[piece.last + 1] = changes.get(piece.last + 1, 0) - piece.size
    alive = most = 0
    for step in sorted(changes):
        alive += changes[step]
        most = max(most, alive)
    return most


def _place_pieces(pieces: Sequence[Lifetime]) -> dict[str, int]:
    """Each piece in the smallest gap that holds it, between those placed before that live at the same time."""
    first, last, begin, end = np.zeros((4, len(pieces)), np.int64)
    for n, piece in enumerate(pieces):
        meeting = (first[:n] <= piece.last) & (last[:n] >= piece.first)
        first[n], last[n] = piece.first, piece.last
        begin[n] = _smallest_gap(piece.size, begin[:n][meeting], end[:n][meeting])
        end[n] = begin[n] + piece.size
    return {piece.name: int(offset) for piece, offset in zip(pieces, begin, strict=True)}


def _smallest_gap(size: int, begins: _Offsets, ends: _Offsets) -> int:
    """Where the smallest gap begins that holds so many bytes, between what begins and ends at these offsets; behind all
    of it where none does.
    """
    order = np.argsort(begins)
    before = np.maximum.accumulate(np.concatenate(([0], ends[order])))
    gaps = begins[order] - before[:-1]
    fitting = np.flatnonzero(gaps >= size)
    return int(before[fitting[gaps[fitting].argmin()]] if fitting.size else before[-1])

"""Reductions with a large result between them are joined, so that it is computed in strips and never leaves the caches.

A convolution that widens, one per channel, and one that narrows; a product of matrices, an activation and another
product; scores, softmax and mix: where what is between is larger than the caches, writing it and reading it takes
longer than the few products that it takes part in. Joined, it is one program, whose space has it in strips (the rule
`strips`) or apart.

Measured on 2 threads with 2 MiB of second cache each and 64 MiB of last cache that is theirs, in a network's call in
turns, schedules by guess: together over apart took 1.06 of the time on the block of MobileNet-v2 whose result between
has 4.8 MB, and for attention 1.17, 1.89, 1.26, 1.23, 1.08 and .88 where the scores have 3, 5, 13, 17, 34 and 50 MB.
Searching helps strips more than a guess does, so that below that tuning measures which it is.
"""

from __future__ import annotations

from dataclasses import replace

from metasched.cost.core import DEFAULT_CORE
from metasched.cost.estimate.caches import last_cache
from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.merge import merge_nodes, replace_nodes
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.ir import Compute, Graph
from metasched.graph.live_graph import remove_dead_code
from metasched.graph.passes.declaration import PassContext, PassOptions, graph_pass
from metasched.ir.program import Program
from metasched.ir.source import Reduce
from metasched.support.data_classes import dataclass
from metasched.target import Target

# Products for each element between two reductions, up to which moving it takes longer than they do.
_MOST_PRODUCTS = 64
# So many times as many may still be few: where that decides, both ways are worth timing.
_ABOUT = 2


@graph_pass(after=("scales_into_weights", "wide_factors"))
def strips(graph: Graph, context: PassContext) -> Graph:
    """Reductions with a large result between them are joined, to be computed in strips."""
    return _Joining(graph, context).run()


@dataclass(frozen=True)
class StripGroup:
    """Reductions that may be faster together or apart.

    Attributes:
        key: the structural hash of their joined program, by which `PassOptions` knows them.
        nodes: the names of their nodes, in order; the joined one has the last's.
        program: the joined program.
        between: bytes of the largest value between two of them.
        together: whether the options have them joined.

    """

    key: str
    nodes: tuple[str, ...]
    program: Program
    between: int
    together: bool


def strip_groups(graph: Graph, options: PassOptions) -> tuple[StripGroup, ...]:
    """The groups of a graph of which the estimate leaves open how they are faster, and those that it joins.

    The graph is that which the pass `strips` is given. Equal groups have one key.
    """
    return _Joining(graph, PassContext(options)).groups()


@dataclass(frozen=True)
class _Limits:
    """What a value between two reductions is to be so that they are joined: in more than `nbytes`, and in at most
    `products` for each of its elements.
    """

    products: int
    nbytes: int


@dataclass(frozen=True)
class _Link:
    """Two nodes with a value between them that nothing else reads.

    Attributes:
        second: the number of the second.
        few: whether the value takes part in few products.
        large: whether the caches are too small for it.
        narrows: whether the second's result is smaller.

    """

    second: int
    few: bool
    large: bool
    narrows: bool


class _Joining:
    def __init__(self, graph: Graph, context: PassContext) -> None:
        self._graph = graph
        self._context = context
        self._options = context.options
        self._readers: dict[str, list[int]] = {}
        self._products: dict[int, int] = {}
        for number, node in enumerate(graph.nodes):
            for name in dict.fromkeys(node.inputs):
                self._readers.setdefault(name, []).append(number)
            form = stages_of(node.program) if isinstance(node, Compute) else None
            if form is not None and any(isinstance(stage.value, Reduce) for stage in form.stages):
                self._products[number] = products(form)
        self._results = {name for _, name in graph.outputs}
        self._limits = _Limits(_MOST_PRODUCTS, caches(self._options.target))
        # One thread's cache: the rule `strips` has nothing to do for less.
        self._least = _Limits(_ABOUT * _MOST_PRODUCTS, self._options.target.l2)

    def run(self) -> Graph:
        made: dict[int, Compute] = {}
        members: set[int] = set()
        for chain in self._chains():
            joined = self._merge_chain(chain)
            if not self._is_refused(chain, joined):
                made[chain[-1]] = joined
                members.update(chain)
        return remove_dead_code(replace_nodes(self._graph, made, members)) if made else self._graph

    def groups(self) -> tuple[StripGroup, ...]:
        """See `strip_groups`."""
        expected = self._chains()
        seen = {number for chain in expected for number in chain}
        open_: list[list[int]] = []
        for first, count in self._products.items():
            chain = self._expected_chain(first, self._least) if count else []
            if len(chain) > 1 and seen.isdisjoint(chain):
                seen.update(chain)
                open_.append(chain)
        slower = self._options.slower_in_strips
        groups = [self._group(chain, together=True) for chain in expected]
        groups = [replace(group, together=group.key not in slower) for group in groups]
        return (*groups, *(self._group(chain, together=False) for chain in open_))

    def _group(self, chain: list[int], *, together: bool) -> StripGroup:
        joined = self._merge_chain(chain)
        names = tuple(self._graph.nodes[n].name for n in chain)
        return StripGroup(self._key(joined), names, joined.program, self._bytes_between(chain), together)

    # --- chains

    def _chains(self) -> list[list[int]]:
        """What was measured to be faster together, or is expected to."""
        seen: set[int] = set()
        chains = []
        for first, count in self._products.items():
            if first in seen or not count:
                continue
            chain = self._measured_chain(first) or self._expected_chain(first, self._limits)
            if len(chain) > 1 and seen.isdisjoint(chain):  # two results may meet in what reads both
                seen.update(chain)
                chains.append(chain)
        return chains

    def _expected_chain(self, first: int, limits: _Limits) -> list[int]:
        """Nodes that are expected to be faster together: a large result is between them, or they make less of one."""
        chain = [first]
        while (link := self._link(chain[-1], limits)) is not None:
            if not link.few or not (link.large or (len(chain) > 1 and link.narrows)):
                break
            chain.append(link.second)
        while not self._products[chain[-1]]:
            chain.pop()
        return chain

    def _measured_chain(self, first: int) -> list[int]:
        """The longest chain from a node on that was measured to be faster together; empty where there is none."""
        if not self._options.faster_in_strips:
            return []
        chain = [first]
        while (link := self._link(chain[-1], self._limits)) is not None:
            chain.append(link.second)
        prefixes = (chain[:n] for n in range(len(chain), 1, -1))
        return next((c for c in prefixes if self._key(self._merge_chain(c)) in self._options.faster_in_strips), [])

    def _link(self, first: int, limits: _Limits) -> _Link | None:
        outputs = self._graph.nodes[first].outputs
        if len(outputs) != 1 or outputs[0] in self._results or len(self._readers.get(outputs[0], ())) != 1:
            return None
        (second,) = self._readers[outputs[0]]
        if second not in self._products or len(self._graph.nodes[second].outputs) != 1:
            return None
        between, after = (self._graph.types[self._graph.nodes[n].outputs[0]] for n in (first, second))
        few = max(self._products[first], self._products[second]) <= limits.products * between.size
        return _Link(second, few, between.nbytes > limits.nbytes, after.size < between.size)

    # --- what is joined

    def _merge_chain(self, chain: list[int]) -> Compute:
        nodes = [self._graph.nodes[n] for n in chain]
        return merge_nodes(self._graph, nodes, nodes[-1].outputs)

    def _key(self, node: Compute) -> str:
        return node.program.structural_hash()

    def _is_refused(self, chain: list[int], joined: Compute) -> bool:
        """Whether a chain was measured to be slower together."""
        names = " -> ".join(self._graph.nodes[n].name for n in chain)
        key = self._key(joined)
        if key in self._options.slower_in_strips:
            self._context.remark(f"{names}: stay apart, which was measured to be faster")
            return True
        measured = key in self._options.faster_in_strips
        why = "measured to be faster" if measured else f"{self._bytes_between(chain)} bytes are between them"
        self._context.remark(f"{names}: joined, {why}")
        return False

    def _bytes_between(self, chain: list[int]) -> int:
        return max(self._graph.types[self._graph.nodes[n].outputs[0]].nbytes for n in chain[:-1])


def caches(target: Target) -> int:
    """Bytes that a value may have to be found in a cache by what reads it, which writes another one meanwhile.

    That is the second caches of all threads, or half of the last cache.
    """
    return max(target.l2 * max(target.threads, 1), int(last_cache(target, DEFAULT_CORE)) // 2)


def products(form: Stages) -> int:
    """How many terms the largest reduction of several tensors has; 0 where there is none."""
    sums = (stage for stage in form.stages if isinstance(stage.value, Reduce))
    return max(
        (form.iterations(stage) for stage in sums if len({read.buffer for read in reads(stage.value)}) > 1), default=0
    )

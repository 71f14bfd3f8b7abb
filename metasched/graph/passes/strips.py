"""Reductions with a large result between them are joined, so that it is computed in strips and never leaves the caches.

A convolution that widens, one per channel, and one that narrows; a product of matrices, an activation and another
product; scores, softmax and mix: where what is between is larger than the second caches of all threads, writing it and
reading it takes longer than the few products that it takes part in. Joined, it is one program, whose space has it in
strips (the rule `strips`) or apart.

Measured on MobileNet-v2, 2 threads with 2 MiB of second cache each, schedules by guess, medians on a busy machine: the
block whose result between has 4.8 MB took 0.78 ms joined and 1.07 ms apart, one with 1.8 MB 0.60 and 0.35 ms;
attention of 12 heads over 1024 places took 62 and 78 ms.
"""

from __future__ import annotations

from dataclasses import dataclass

from metasched.graph.fusion.expressions import reads
from metasched.graph.fusion.merge import merged, replaced
from metasched.graph.fusion.stages import Stages, stages_of
from metasched.graph.ir import Compute, Graph
from metasched.graph.passes.dead_code import without_dead_code
from metasched.graph.passes.declaration import PassContext, PassOptions, graph_pass
from metasched.ir.source import Reduce

# Products for each element between two reductions, up to which moving it takes longer than they do.
_FEW = 64


@graph_pass(after=("scales_into_weights",))
def strips(graph: Graph, context: PassContext) -> Graph:
    """Reductions with a large result between them are joined, to be computed in strips."""
    return _Joining(graph, context).run()


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

    def run(self) -> Graph:
        made: dict[int, Compute] = {}
        seen: set[int] = set()
        members: set[int] = set()
        for first, count in self._products.items():
            if first in seen or not count:
                continue
            chain = self._measured(first) or self._expected(first)
            seen.update(chain)
            joined = self._merged(chain) if len(chain) > 1 else None
            if joined is not None and not self._refused(chain, joined):
                made[chain[-1]] = joined
                members.update(chain)
        return without_dead_code(replaced(self._graph, made, members)) if made else self._graph

    # --- chains

    def _expected(self, first: int) -> list[int]:
        """Nodes that are expected to be faster together: a large result is between them, or they make less of one."""
        chain = [first]
        while (link := self._link(chain[-1])) is not None:
            if not link.few or not (link.large or (len(chain) > 1 and link.narrows)):
                break
            chain.append(link.second)
        while not self._products[chain[-1]]:
            chain.pop()
        return chain

    def _measured(self, first: int) -> list[int]:
        """The longest chain from a node on that was measured to be faster together; empty where there is none."""
        if not self._options.faster_in_strips:
            return []
        chain = [first]
        while (link := self._link(chain[-1])) is not None:
            chain.append(link.second)
        prefixes = (chain[:n] for n in range(len(chain), 1, -1))
        return next((c for c in prefixes if self._key(self._merged(c)) in self._options.faster_in_strips), [])

    def _link(self, first: int) -> _Link | None:
        outputs = self._graph.nodes[first].outputs
        if len(outputs) != 1 or outputs[0] in self._results or len(self._readers.get(outputs[0], ())) != 1:
            return None
        (second,) = self._readers[outputs[0]]
        if second not in self._products or len(self._graph.nodes[second].outputs) != 1:
            return None
        between, after = (self._graph.types[self._graph.nodes[n].outputs[0]] for n in (first, second))
        few = max(self._products[first], self._products[second]) <= _FEW * between.size
        return _Link(second, few, between.nbytes > caches(self._options), after.size < between.size)

    # --- what is joined

    def _merged(self, chain: list[int]) -> Compute:
        nodes = [self._graph.nodes[n] for n in chain]
        return merged(self._graph, nodes, nodes[-1].outputs)

    def _key(self, node: Compute) -> str:
        return node.program.structural_hash()

    def _refused(self, chain: list[int], joined: Compute) -> bool:
        """Whether a chain was measured to be slower together."""
        names = " -> ".join(self._graph.nodes[n].name for n in chain)
        key = self._key(joined)
        if key in self._options.slower_in_strips:
            self._context.remark(f"{names}: stay apart, which was measured to be faster")
            return True
        between = max(self._graph.types[self._graph.nodes[n].outputs[0]].nbytes for n in chain[:-1])
        why = "measured to be faster" if key in self._options.faster_in_strips else f"{between} bytes are between them"
        self._context.remark(f"{names}: joined, {why}")
        return False


def caches(options: PassOptions) -> int:
    """Bytes of the second caches of all threads."""
    return options.target.l2 * max(options.target.threads, 1)


def products(form: Stages) -> int:
    """How many terms the largest reduction of several tensors has; 0 where there is none."""
    sums = (stage for stage in form.stages if isinstance(stage.value, Reduce))
    return max(
        (form.iterations(stage) for stage in sums if len({read.buffer for read in reads(stage.value)}) > 1), default=0
    )

"""What PyTorch calls: made at the first call, with weights as constants."""

from __future__ import annotations

import logging
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from metasched.doors.pytorch.lowering import LOGGER, RefusedOperator
from metasched.doors.pytorch.subgraphs import PartitionedGraph, partition_graph
from metasched.doors.pytorch.tensors import torch_module
from metasched.graph.network import Network
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

_MOST_SHOWN_REFUSALS = 12
# How often networks of other weights follow those whose weights are gone, until weights are inputs.
_MOST_MODELS = 16


@dataclass(frozen=True)
class GraphReport:
    """What became of a graph that PyTorch gave to the backend.

    Attributes:
        networks: the parts that run as networks.
        operators: how many operators these have.
        refused: the operators that PyTorch runs, and why: one for each.
        reason: why all of it is run by PyTorch, if so.

    """

    networks: tuple[Network, ...] = ()
    operators: int = 0
    refused: tuple[RefusedOperator, ...] = ()
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return f"PyTorch runs the whole graph: {self.reason}"
        count = len(self.networks)
        lines = [f"{self.operators} operators run in {counted(count, 'network')}"]
        if self.refused:
            lines[0] += f", PyTorch runs {len(self.refused)}:"
            lines += [f"  {n} x {refused}" for refused, n in Counter(self.refused).most_common(_MOST_SHOWN_REFUSALS)]
        return "\n".join(lines)


@dataclass(frozen=True)
class _MadeNetworks:
    """What runs a graph, while the inputs that are constants of it are of some versions.

    Attributes:
        run: takes the graph's inputs, and gives its outputs.
        static: the numbers of these inputs.
        versions: theirs.
        memory: what they lie in. It is held, so that its address says whose elements these are: nothing else comes to
            lie there.

    """

    run: Callable[..., Any]
    static: tuple[int, ...]
    versions: list[tuple[int, int]]
    memory: tuple[Any, ...]


class CompiledGraph:
    """A graph of ATen operators, called with tensors.

    Weights are constants of the networks. Where one was written since the last call, the networks are made anew; where
    that happens again, it is an input from then on. Tensors of inference mode are inputs at once: they do not count how
    often they are written. Networks are let go with the first weight that is: PyTorch keeps the graph, for the next
    model of the same code.
    """

    def __init__(
        self, module: Any, static: Sequence[int], make: Callable[[Any], Network], report: Callable[[GraphReport], None]
    ) -> None:
        """`static`: the numbers of the inputs that are parameters and buffers."""
        self._module = module
        self._static = tuple(static)
        self._make = make
        self._report = report
        self._made: _MadeNetworks | None = None
        self._watched: list[weakref.ref[Any]] = []
        self._models = 0
        self._rewritten: set[int] = set()
        self._making = threading.Lock()

    def __call__(self, *tensors: Any) -> Any:
        made = self._made  # once: another thread may make others meanwhile
        if made is None or _versions(tensors, made.static) != made.versions:
            made = self._make_networks(tensors)
        torch = torch_module()
        if not torch.is_grad_enabled():  # as it mostly is, and to say so again takes a microsecond
            return made.run(*tensors)
        with torch.no_grad():
            return made.run(*tensors)

    def _make_networks(self, tensors: Sequence[Any]) -> _MadeNetworks:
        with self._making:
            before = self._made
            if before is None:
                self._models += 1
                static = self._static if self._models <= _MOST_MODELS else ()
            elif _versions(tensors, before.static) == before.versions:  # made by another thread meanwhile
                return before
            else:
                static = self._constants(before, tensors)
            static = tuple(number for number in static if not tensors[number].is_inference())
            versions = _versions(tensors, static)
            memory = tuple(tensors[number].untyped_storage() for number in static)
            made: PartitionedGraph = partition_graph(self._module, {n: tensors[n] for n in static}, self._make)
            report = GraphReport(made.networks, made.operators, made.refused)
            # As text: handlers that keep what they are given keep no networks.
            LOGGER.log(logging.WARNING if made.refused else logging.INFO, "metasched: %s", str(report))
            self._report(report)
            self._watch(tensors[number] for number in static)
            self._made = _MadeNetworks(made.run, static, versions, memory)
            return self._made

    def _watch(self, weights: Iterable[Any]) -> None:
        """Let go of the networks with the first of these tensors. Without a lock: tensors go at any time."""
        method = weakref.WeakMethod(self._let_networks_go)

        def gone(_: Any) -> None:
            let_go = method()
            if let_go is not None:
                let_go()

        self._watched = [weakref.ref(weight, gone) for weight in weights]

    def _let_networks_go(self) -> None:
        self._made = None

    def _constants(self, before: _MadeNetworks, tensors: Sequence[Any]) -> tuple[int, ...]:
        """Which of the inputs that were constants are so again: those that were not written twice."""
        pairs = zip(before.static, before.versions, _versions(tensors, before.static), strict=True)
        written = {number for number, then, now in pairs if then != now}
        kept = tuple(number for number in before.static if number not in written & self._rewritten)
        self._rewritten |= written
        return kept


def _versions(tensors: Sequence[Any], static: Sequence[int]) -> list[tuple[int, int]]:
    """What changes where a tensor is written in place, has other memory, or becomes one of inference mode."""
    given = [tensors[number] for number in static]
    return [(-1 if t.is_inference() else t._version, t.data_ptr()) for t in given]  # noqa: SLF001 -- its documented name

"""What PyTorch calls: made at the first call, with weights as constants."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from metasched.doors.pytorch.lowering import LOGGER, RefusedOperator
from metasched.doors.pytorch.subgraphs import PartitionedGraph, partition_graph
from metasched.doors.pytorch.tensors import torch_module
from metasched.graph.network import Network
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

_MOST_SHOWN_REFUSALS = 12


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


class CompiledGraph:
    """A graph of ATen operators, called with tensors.

    Weights are constants of the networks. Where one was written since the last call, the networks are made anew; where
    that happens again, it is an input from then on. Tensors of inference mode are inputs at once: they do not count how
    often they are written.
    """

    def __init__(
        self, module: Any, static: Sequence[int], make: Callable[[Any], Network], report: Callable[[GraphReport], None]
    ) -> None:
        """`static`: the numbers of the inputs that are parameters and buffers."""
        self._module = module
        self._static = list(static)
        self._make = make
        self._report = report
        self._run: Callable[..., Any] | None = None
        self._versions: list[tuple[int, int]] = []
        self._rewritten: set[int] = set()

    def __call__(self, *tensors: Any) -> Any:
        versions = _versions(tensors, self._static)
        run = self._run
        if run is None or versions != self._versions:
            run = self._build_callable(tensors, versions)
        torch = torch_module()
        if not torch.is_grad_enabled():  # as it mostly is, and to say so again takes a microsecond
            return run(*tensors)
        with torch.no_grad():
            return run(*tensors)

    def _build_callable(self, tensors: Sequence[Any], versions: list[tuple[int, int]]) -> Callable[..., Any]:
        if self._run is not None:
            pairs = zip(self._static, self._versions, versions, strict=True)
            written = {number for number, before, now in pairs if before != now}
            self._static = [number for number in self._static if number not in written & self._rewritten]
            self._rewritten |= written
        self._static = [number for number in self._static if not tensors[number].is_inference()]
        made: PartitionedGraph = partition_graph(self._module, {n: tensors[n] for n in self._static}, self._make)
        report = GraphReport(made.networks, made.operators, made.refused)
        LOGGER.log(logging.WARNING if made.refused else logging.INFO, "metasched: %s", report)
        self._report(report)
        self._run = made.run
        self._versions = _versions(tensors, self._static)
        return made.run


def _versions(tensors: Sequence[Any], static: Sequence[int]) -> list[tuple[int, int]]:
    """What changes where a tensor is written in place, has other memory, or becomes one of inference mode."""
    given = [tensors[number] for number in static]
    return [(-1 if t.is_inference() else t._version, t.data_ptr()) for t in given]  # noqa: SLF001 -- its documented name

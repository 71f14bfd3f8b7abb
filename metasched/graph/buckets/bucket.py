"""A network for a range of sizes, called with any of them."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from metasched.graph.buckets.comparison import NotAlike
from metasched.graph.buckets.forms import CallForms
from metasched.graph.buckets.masking import CallSizes, MaskedGraph, masked
from metasched.graph.errors import NetworkError
from metasched.graph.inputs import checked_inputs
from metasched.graph.ir import Array, Graph
from metasched.graph.network import Network
from metasched.graph.state import NetworkState

LOGGER = logging.getLogger(__name__)

Sizes: TypeAlias = Mapping[str, int]

# What calls of so many sizes take is kept: a few numbers, and constants that depend on sizes.
_KEPT = 256


class Bucket:
    """Kernels for the largest of some sizes, which every size in the bucket runs on.

    Attributes:
        largest: the largest sizes.
        network: what runs.

    """

    def __init__(
        self,
        largest: Sizes,
        network: Network,
        graphs: Callable[[], MaskedGraph],
        graph_of: Callable[[Sizes], Graph],
        known: KnownForms | None = None,
    ) -> None:
        """`graphs` has what `network` runs; `graph_of` reads the model, but for sizes that are `known`."""
        self.largest = dict(largest)
        self.network = network
        self._graphs = graphs
        self._graph_of = graph_of
        self._known = known
        self._sizes: OrderedDict[tuple[int, ...], CallSizes | None] = OrderedDict()
        self._lock = threading.Lock()

    def sizes(self, sizes: Sizes) -> CallSizes | None:
        """What a call of sizes takes; None where the model says something else for them.

        The model is read for them when they are first asked for. Raises NetworkError where it has not these sizes.
        """
        key = tuple(sizes[name] for name in self.largest)
        with self._lock:
            if key not in self._sizes:
                self._sizes[key] = self._found(sizes)
            self._sizes.move_to_end(key)
            if len(self._sizes) > _KEPT:
                self._sizes.popitem(last=False)
            return self._sizes[key]

    def _found(self, sizes: Sizes) -> CallSizes | None:
        if self._known is not None and self._known.has(sizes):
            return self._known.forms.at(sizes)
        try:
            return self._graphs().numbers_of(self._graph_of(sizes))
        except NotAlike as reason:
            LOGGER.info("sizes %s have a network of their own: %s", dict(sizes), reason)
            return None

    def given(self, sizes: CallSizes, inputs: Sequence[Any]) -> list[Array]:
        """What the network takes for inputs of some sizes. Raises KernelError for inputs that it cannot take."""
        held = self.network.signature.states
        wanted = {name: type_ for name, type_ in sizes.inputs.items() if name not in held}
        taken = checked_inputs(self.network.signature.name, wanted, inputs)
        padded = [self._padded(name, array) for name, array in zip(wanted, taken, strict=True)]
        return [*padded, *sizes.more]

    def run_on(self, state: NetworkState, sizes: CallSizes, inputs: Sequence[Any]) -> Any:
        """The results for inputs of some sizes. Raises KernelError for inputs that the network cannot take."""
        made = self.network.run_on(state, self.given(sizes, inputs))
        results = made if isinstance(made, tuple) else (made,)
        signature = self.network.signature
        held = set(signature.states.values())
        given = [dims for label, dims in zip(signature.outputs, sizes.outputs, strict=True) if label not in held]
        cut = [_cut(array, dims) for array, dims in zip(results, given, strict=True)]
        return cut[0] if len(cut) == 1 else tuple(cut)

    def _padded(self, name: str, array: Array) -> Array:
        """An input with zeros beyond its sizes."""
        shape = self.network.signature.inputs[name].shape
        if array.shape == shape:
            return array
        made = np.zeros(shape, array.dtype)
        made[tuple(map(slice, array.shape))] = array
        return made

    def __repr__(self) -> str:
        return f"<bucket up to {', '.join(f'{name} {size}' for name, size in self.largest.items())}>"


@dataclass(frozen=True)
class KnownForms:
    """What calls take of sizes within bounds, both included."""

    forms: CallForms
    bounds: Mapping[str, tuple[int, int]]

    def has(self, sizes: Sizes) -> bool:
        """Whether these are such sizes."""
        return all(low <= sizes[name] <= high for name, (low, high) in self.bounds.items())


def masked_graph(largest: Sizes, samples: Sequence[Sizes], graph_of: Callable[[Sizes], Graph]) -> MaskedGraph:
    """What a bucket runs, by the model at its largest sizes and at samples. Raises NotAlike where there is none."""
    try:
        return masked(graph_of(largest), [graph_of(sizes) for sizes in samples])
    except NetworkError as error:
        raise NotAlike(str(error)) from error


def _cut(array: Array, dims: tuple[tuple[tuple[int, int], ...], ...]) -> Array:
    """The elements of a result that are those of a call's sizes."""
    if all(large == small for factors in dims for large, small in factors):
        return array
    apart = array.reshape([large for factors in dims for large, _ in factors])
    taken = apart[tuple(slice(small) for factors in dims for _, small in factors)]
    shape = [int(np.prod([small for _, small in factors], dtype=np.int64)) for factors in dims]
    return np.ascontiguousarray(taken).reshape(shape)

"""A network for a range of sizes, called with any of them."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from metasched.graph.buckets.comparison import NotAlike
from metasched.graph.buckets.forms import CallForms, Ranges, call_forms
from metasched.graph.buckets.masking import CallSizes, MaskedGraph, OutputDims, mask_graph
from metasched.graph.errors import NetworkError
from metasched.graph.growing.calls import cut_to_length, extend_inputs
from metasched.graph.inputs import as_arrays, require_types
from metasched.graph.ir import Array, Graph
from metasched.graph.network import Network
from metasched.graph.placement import Growth
from metasched.graph.running.profile import NetworkProfile
from metasched.graph.running.state import NetworkState
from metasched.graph.signature import Signature
from metasched.runtime.export.network_loader import without_padding
from metasched.support.data_classes import dataclass

LOGGER = logging.getLogger(__name__)

Sizes: TypeAlias = Mapping[str, int]
Key: TypeAlias = tuple[int, ...]

# What calls of so many sizes take is kept: a few numbers, and constants that depend on sizes.
_MOST_KEPT_SIZES = 256


@dataclass(frozen=True)
class ReadSizes:
    """What a bucket runs, and what calls of the sizes take that the model was read for, by these."""

    graph: MaskedGraph
    known: Mapping[Key, CallSizes | None]


class Bucket:
    """Kernels for the largest of some sizes, which every size in the bucket runs on.

    Attributes:
        largest: the largest sizes.
        network: what runs.
        longest: how long caches that grow may be before a call; None where there are none.

    """

    def __init__(
        self,
        largest: Sizes,
        ranges: Ranges,
        network: Network,
        read: Callable[[], ReadSizes],
        graph_of: Callable[[Sizes], Graph],
        forms: CallForms | None = None,
        all_room: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        """`read` has what `network` runs; `graph_of` reads the model. `ranges` are the sizes for which it may say the
        same, and `forms` what calls of these take, where that is known. `all_room` has the shapes of inputs with room
        for all that there may be, where such grow: calls may give these, too.
        """
        self.largest = dict(largest)
        self.network = network
        growth = network.signature.growth
        self.longest = None if growth is None else growth.longest
        self._ranges = ranges
        self._read = read
        self._graph_of = graph_of
        self._forms = forms
        self._all_room = all_room or {}
        self._no_forms = ""
        self._sizes: OrderedDict[Key, CallSizes | None] = OrderedDict()
        self._lock = threading.Lock()

    def sizes(self, sizes: Sizes) -> CallSizes | None:
        """What a call of sizes takes; None where the model says something else for them.

        Raises NetworkError where it has not these sizes.
        """
        key = self._key(sizes)
        with self._lock:
            if key not in self._sizes:
                self._sizes[key] = self._find_by_forms(sizes)
            self._sizes.move_to_end(key)
            if len(self._sizes) > _MOST_KEPT_SIZES:
                self._sizes.popitem(last=False)
            return self._sizes[key]

    def forms(self) -> CallForms:
        """What calls take as functions of their sizes. Raises NotAlike, which says why, where there are none."""
        with self._lock:
            return self._build_forms()

    def _build_forms(self) -> CallForms:
        if self._no_forms:
            raise NotAlike(self._no_forms)
        if self._forms is None:
            try:
                self._forms = call_forms(self._read_call_sizes, self._ranges)
            except (NotAlike, NetworkError) as reason:
                self._no_forms = str(reason)
                raise NotAlike(self._no_forms) from reason
        return self._forms

    def _find_by_forms(self, sizes: Sizes) -> CallSizes | None:
        if all(sizes[name] in among for name, among in self._ranges.items()):
            try:
                return self._build_forms().evaluate(sizes)
            except NotAlike as reason:
                LOGGER.info("%s: the model is read for each size: %s", self, reason)
        return self._read_call_sizes(sizes)

    def _read_call_sizes(self, sizes: Sizes) -> CallSizes | None:
        """Read from the model what calls of some sizes take."""
        read = self._read()
        if self._key(sizes) in read.known:
            return read.known[self._key(sizes)]
        return _numbers(read.graph, self._key(sizes), self._graph_of(sizes))

    def _key(self, sizes: Sizes) -> Key:
        return tuple(sizes[name] for name in self.largest)

    def prepare_inputs(self, sizes: CallSizes, inputs: Sequence[Any]) -> list[Array]:
        """The network's inputs for those of some sizes. Raises KernelError for inputs that it cannot take."""
        signature = self._signature(sizes)
        taken = as_arrays(signature.name, signature.given, inputs)
        if signature.growth is not None:
            named = cut_to_length(self._with_all_room(signature), dict(zip(signature.given, taken, strict=True)))
            taken = extend_inputs(signature, named)
        taken = require_types(signature.given, taken)
        padded = [self._pad_input(name, array) for name, array in zip(signature.given, taken, strict=True)]
        return [*padded, *sizes.more]

    def _signature(self, sizes: CallSizes) -> Signature:
        """What a call of some sizes takes, where caches are as long as they may be."""
        own = self.network.signature
        growth = own.growth
        if growth is not None:
            longest = growth.longest
            grown = {
                name: tuple(
                    None if b is None else n - longest for b, n in zip(offsets, sizes.inputs[name].shape, strict=True)
                )
                for name, offsets in growth.values.items()
                if name in sizes.inputs
            }
            growth = replace(growth, values=grown)
        return replace(own, inputs=sizes.inputs, growth=growth)

    def _with_all_room(self, signature: Signature) -> Signature:
        """What a call takes whose inputs have room for all that there may be."""
        assert signature.growth is not None
        inputs = dict(signature.inputs)
        for name, offsets in signature.growth.values.items():
            if name in inputs and name in self._all_room:
                own, room = inputs[name], self._all_room[name]
                shape = tuple(n if b is None else most for n, b, most in zip(own.shape, offsets, room, strict=True))
                inputs[name] = replace(own, shape=shape)
        return replace(signature, inputs=inputs)

    def run_on(self, state: NetworkState, sizes: CallSizes, inputs: Sequence[Any]) -> Any:
        """The results for inputs of some sizes. Raises KernelError for inputs that the network cannot take."""
        given = self.prepare_inputs(sizes, inputs)
        made = self.network.run_on(state, given)
        results = made if isinstance(made, tuple) else (made,)
        signature = self.network.signature
        held = set(signature.states.values())
        dims = {label: d for label, d in zip(signature.outputs, sizes.outputs, strict=True) if label not in held}
        if signature.growth is not None:
            length = int(given[[*signature.given].index(signature.growth.length)])
            dims = {label: _shorten_dims(signature.growth, label, d, length) for label, d in dims.items()}
        cut = [without_padding(array, d) for array, d in zip(results, dims.values(), strict=True)]
        return cut[0] if len(cut) == 1 else tuple(cut)

    def _pad_input(self, name: str, array: Array) -> Array:
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
class BucketCall:
    """A bucket, and what a call of some sizes takes of it."""

    bucket: Bucket
    sizes: CallSizes

    def run_on(self, state: NetworkState, inputs: Sequence[Any]) -> Any:
        """The results for inputs of the sizes. Raises KernelError for inputs that the network cannot take."""
        return self.bucket.run_on(state, self.sizes, inputs)

    def profile_on(self, state: NetworkState, inputs: Sequence[Any], runs: int) -> NetworkProfile:
        """Where the time of such a call goes, on a copy of a state."""
        return self.bucket.network.profile_on(state, self.bucket.prepare_inputs(self.sizes, inputs), runs)


def masked_graph(largest: Sizes, samples: Sequence[Sizes], graph_of: Callable[[Sizes], Graph]) -> ReadSizes:
    """What a bucket runs, by the model at its largest sizes and at samples. Raises NotAlike where there is none."""
    try:
        graphs = {tuple(sizes[name] for name in largest): graph_of(sizes) for sizes in (largest, *samples)}
    except NetworkError as error:
        raise NotAlike(str(error)) from error
    whole, *others = graphs.values()
    made = mask_graph(whole, others)
    return ReadSizes(made, {key: _numbers(made, key, graph) for key, graph in graphs.items()})


def _numbers(masked_: MaskedGraph, key: Key, graph: Graph) -> CallSizes | None:
    """What calls of a graph's sizes take; None where they have to run on a network of their own."""
    try:
        return masked_.numbers_of(graph)
    except NotAlike as reason:
        LOGGER.info("the sizes %s have a network of their own: %s", key, reason)
        return None


def _shorten_dims(growth: Growth, label: str, dims: OutputDims, length: int) -> OutputDims:
    """The dimensions of an output whose caches are shorter than they may be."""
    offsets = growth.values.get(label)
    if offsets is None:
        return dims
    less = growth.longest - length
    return tuple(
        factors if b is None else tuple((large - less, small - less) for large, small in factors)
        for factors, b in zip(dims, offsets, strict=True)
    )

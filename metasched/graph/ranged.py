"""A model whose sizes are ranges: a network for each bucket of sizes, in which only the sizes of a call count.

Sizes from one bucket's largest to the next one's run on kernels for the latter (`buckets`). A size for which the model
says something else than for its bucket's, such as one, along which it broadcasts, has a network of its own. Weights
and states are shared by all of them.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasched.errors import KernelError
from metasched.graph.buckets.bucket import Bucket, Sizes, bucket
from metasched.graph.buckets.choices import choices_like
from metasched.graph.buckets.comparison import NotAlike
from metasched.graph.errors import NetworkError
from metasched.graph.ir import Graph
from metasched.graph.network import Network
from metasched.graph.state import NetworkState
from metasched.runtime import arguments

# Networks of single sizes that are kept, those used last.
_KEPT = 8

Key = tuple[int, ...]


@dataclass(frozen=True)
class SizeRange:
    """Sizes from `low` to `high`, both included.

    Attributes:
        buckets: the largest size of each bucket. By default each is half of the next, so that no call computes more
            than twice of what it needs along this size; a number for every size makes a network of just that size.

    """

    low: int
    high: int
    buckets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise NetworkError(f"a range of sizes goes from at least 1 up, and not from {self.low} to {self.high}")
        given = {int(size) for size in self.buckets}
        wrong = [size for size in given if not self.low <= size <= self.high]
        if wrong:
            raise NetworkError(f"a bucket up to {wrong[0]} is not in the range of sizes from {self.low} to {self.high}")
        object.__setattr__(self, "buckets", tuple(sorted(given | {self.high} | set(() if given else self._halves()))))

    def _halves(self) -> list[int]:
        found, size = [], self.high
        while (size := size // 2) >= self.low:
            found.append(size)
        return found

    def bucket(self, size: int) -> tuple[int, int]:
        """The smallest and the largest size of the bucket that a size is in."""
        number = next(n for n, largest in enumerate(self.buckets) if size <= largest)
        return (self.buckets[number - 1] + 1 if number else self.low), self.buckets[number]

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


class NetworkOfSizes:
    """A model whose sizes are ranges: `net(x)` runs on the kernels of the bucket of its inputs' sizes.

    Attributes:
        ranges: the sizes that a call may have, by their names.
        state: what is held between calls, shared by all sizes.

    """

    def __init__(
        self,
        graph_of: Callable[[Sizes], Graph],
        make: Callable[[Graph], Network],
        network_of: Callable[[Sizes], Network],
        ranges: Mapping[str, SizeRange],
        inputs: Mapping[str, Sequence[str]],
    ) -> None:
        """`graph_of` reads the model for some sizes, `make` makes a network of a graph, `network_of` one of some sizes.

        `inputs` are the names of what a call gives, each with the names of its sizes, '' for one that is fixed. Raises
        NetworkError for a range that no input has.
        """
        found = {name for names in inputs.values() for name in names}
        missing = [name for name in ranges if name not in found]
        if missing:
            raise NetworkError(f"no input has the size {', '.join(missing)}; a range is read off the inputs of a call")
        self.ranges = dict(ranges)
        self._graph_of = graph_of
        self._make = make
        self._network_of = network_of
        self._networks: OrderedDict[Key, Network] = OrderedDict()
        self._buckets: dict[Key, Bucket] = {}
        self._apart: dict[Key, str] = {}
        self._lock = threading.Lock()
        # What is wrong with the model is said at load.
        largest = make(graph_of({name: range_.high for name, range_ in ranges.items()}))
        self.state: NetworkState = largest.state
        self._state_types = {name: largest.graph.types[name] for name in largest.graph.states}
        self._inputs = {name: tuple(inputs.get(name, ())) for name in largest.inputs}

    def at(self, **sizes: int) -> Network:
        """A network of just these sizes. Raises NetworkError for sizes that are in no range, or are missing."""
        self._require_sizes(sizes)
        with self._lock:
            return self._network(sizes)

    def bucket(self, **sizes: int) -> Bucket | None:
        """What calls of these sizes run on; None where that is a network of their own.

        Raises NetworkError for sizes that are in no range, or are missing.
        """
        self._require_sizes(sizes)
        with self._lock:
            return self._bucket(sizes)

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The buckets that were made so far: `network` of one is tuned and profiled as any other."""
        return tuple(self._buckets.values())

    @property
    def exact(self) -> Mapping[Key, str]:
        """Buckets that there are none of, by their largest sizes, with the reason: their sizes run on networks of
        their own.
        """
        return dict(self._apart)

    def _require_sizes(self, sizes: Sizes) -> None:
        if sizes.keys() != self.ranges.keys():
            raise NetworkError(f"the sizes are {', '.join(self.ranges)}, and {', '.join(sizes) or 'none'} are given")
        for name, size in sizes.items():
            if not self.ranges[name].low <= size <= self.ranges[name].high:
                raise NetworkError(f"`{name}` is {size}, and the network was loaded for {self.ranges[name]}")

    def _network(self, sizes: Sizes) -> Network:
        key = tuple(sizes[name] for name in self.ranges)
        if key not in self._networks:
            self._networks[key] = self._with_weights(self._network_of(sizes))
        self._networks.move_to_end(key)
        if len(self._networks) > _KEPT:
            self._networks.popitem(last=False)
        return self._networks[key]

    def _made(self, graph: Graph) -> Network:
        return self._with_weights(self._make(graph))

    def _with_weights(self, network: Network) -> Network:
        """A network on the states of all sizes, which reads weights as those do that there are."""
        graph = network.graph
        if {name: graph.types[name] for name in graph.states} != self._state_types:
            raise NetworkError("the type of a state depends on a size that is a range; give that size as a number")
        network.state = self.state
        made = itertools.chain((b.network for b in self._buckets.values()), self._networks.values())
        first = next((one for one in made if one.is_compiled), None)
        if first is not None:
            # Weights that kernels of all sizes read in one layout are held once.
            network.schedule_by({**choices_like(first, network), **network.choices})
        return network

    def _bucket(self, sizes: Sizes) -> Bucket | None:
        bounds = {name: range_.bucket(sizes[name]) for name, range_ in self.ranges.items()}
        key = tuple(high for _, high in bounds.values())
        if key in self._apart:
            return None
        if key not in self._buckets:
            try:
                self._buckets[key] = self._made_bucket(bounds)
            except NotAlike as reason:
                self._apart[key] = str(reason)
                return None
        return self._buckets[key]

    def _made_bucket(self, bounds: Mapping[str, tuple[int, int]]) -> Bucket:
        """The bucket of these smallest and largest sizes. Raises NotAlike where there is none."""
        largest = {name: high for name, (_, high) in bounds.items()}
        wide = {name: (low, high) for name, (low, high) in bounds.items() if low < high}
        if not wide:
            raise NotAlike("it has one size")
        # Along a size of one, models broadcast: it is no sample of the others.
        lowest = {name: {**largest, name: min(max(low, 2), high - 1)} for name, (low, high) in wide.items()}
        return bucket(largest, list(lowest.values()), self._made, self._graph_of)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run on inputs of any sizes in the ranges. Raises KernelError for inputs that it cannot take."""
        if named:
            inputs = arguments.in_order("the network", list(self._inputs), inputs, named)
        if len(inputs) != len(self._inputs):
            raise KernelError(f"the network takes {', '.join(self._inputs)}, and {len(inputs)} inputs are given")
        sizes = self._sizes(inputs)
        own = self.bucket(**sizes)
        taken = None if own is None else own.sizes(sizes)
        if own is None or taken is None:
            return self.at(**sizes)(*inputs)
        return own.run(taken, inputs)

    def _sizes(self, inputs: Sequence[Any]) -> Sizes:
        """The sizes that inputs have. Raises KernelError where two have different ones, or one is out of its range."""
        found: dict[str, tuple[int, str]] = {}
        for (name, dims), array in zip(self._inputs.items(), inputs, strict=True):
            shape = np.shape(array)
            if len(shape) != len(dims):
                raise KernelError(f"the input `{name}` has {len(dims)} dimensions, and {shape} is given")
            for dim, size in zip(dims, shape, strict=True):
                if dim not in self.ranges:
                    continue
                range_ = self.ranges[dim]
                if not range_.low <= size <= range_.high:
                    raise KernelError(
                        f"`{dim}`, of the input `{name}`, is {size}, and the network was loaded for {range_}"
                    )
                have, other = found.setdefault(dim, (size, name))
                if have != size:
                    raise KernelError(f"`{dim}` is {have} in the input `{other}`, and {size} in `{name}`")
        return {name: size for name, (size, _) in found.items()}

    def __repr__(self) -> str:
        ranges = ", ".join(f"{name}: {range_}" for name, range_ in self.ranges.items())
        made = [f"{len(self._buckets)} buckets and {len(self._networks)} networks of single sizes made"]
        made += [f"none up to {', '.join(map(str, key))}: {reason}" for key, reason in self._apart.items()]
        return f"<network of sizes ({ranges}), {'; '.join(made)}>"

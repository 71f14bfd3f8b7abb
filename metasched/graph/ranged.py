"""A model whose sizes are ranges: a network for each size that a call has, made when it is first used.

Nothing is padded, so that every result is what a network of just that size gives. States have one type at all sizes,
and are shared by them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from metasched.errors import KernelError
from metasched.graph.errors import NetworkError
from metasched.graph.network import Network
from metasched.graph.state import NetworkState
from metasched.runtime import arguments

# Networks that are kept, those used last: each has weights of its own, as its kernels read them.
_KEPT = 8

Sizes: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class SizeRange:
    """Sizes from `low` to `high`, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise NetworkError(f"a range of sizes goes from at least 1 up, and not from {self.low} to {self.high}")

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


class NetworkOfSizes:
    """A model whose sizes are ranges: `net(x)` runs the network of the sizes that its inputs have.

    Attributes:
        ranges: the sizes that a call may have, by their names.
        state: what is held between calls, shared by all sizes.

    """

    def __init__(
        self,
        make: Callable[[Sizes], Network],
        ranges: Mapping[str, SizeRange],
        inputs: Mapping[str, Sequence[str]],
    ) -> None:
        """`inputs` are the names of what a call gives, each with the names of its sizes, '' for one that is fixed.

        Raises NetworkError for a range that no input has.
        """
        found = {name for names in inputs.values() for name in names}
        missing = [name for name in ranges if name not in found]
        if missing:
            raise NetworkError(f"no input has the size {', '.join(missing)}; a range is read off the inputs of a call")
        self.ranges = dict(ranges)
        self._make = make
        self._inputs = dict(inputs)
        self._networks: OrderedDict[tuple[int, ...], Network] = OrderedDict()
        self._lock = threading.Lock()
        # What is wrong with the model is said at load.
        self.state: NetworkState = self.at(**{name: range_.high for name, range_ in ranges.items()}).state

    def at(self, **sizes: int) -> Network:
        """The network of these sizes. Raises NetworkError for sizes that are in no range, or are missing."""
        if sizes.keys() != self.ranges.keys():
            raise NetworkError(f"the sizes are {', '.join(self.ranges)}, and {', '.join(sizes) or 'none'} are given")
        for name, size in sizes.items():
            if not self.ranges[name].low <= size <= self.ranges[name].high:
                raise NetworkError(f"`{name}` is {size}, and the network was loaded for {self.ranges[name]}")
        key = tuple(sizes[name] for name in self.ranges)
        with self._lock:
            if key not in self._networks:
                self._networks[key] = self._made(sizes)
            self._networks.move_to_end(key)
            if len(self._networks) > _KEPT:
                self._networks.popitem(last=False)
            return self._networks[key]

    def _made(self, sizes: Sizes) -> Network:
        network = self._make(sizes)
        if self._networks:
            if {n: a.shape for n, a in self.state.items()} != {n: a.shape for n, a in network.state.items()}:
                raise NetworkError("the type of a state depends on a size that is a range; give that size as a number")
            network.state = self.state
        return network

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network of the inputs' sizes. Raises KernelError for inputs that it cannot take."""
        if named:
            inputs = arguments.in_order("the network", list(self._inputs), inputs, named)
        if len(inputs) != len(self._inputs):
            raise KernelError(f"the network takes {', '.join(self._inputs)}, and {len(inputs)} inputs are given")
        return self.at(**self._sizes(inputs))(*inputs)

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
        return f"<network of sizes ({ranges}), {len(self._networks)} of them made>"

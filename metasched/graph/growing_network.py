"""A model with a size that grows, as networks of more and more room over the same states and weights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from metasched.database.database_registry import DatabaseLike
from metasched.graph.buckets.choices import choices_alike
from metasched.graph.code.choices import Choices
from metasched.graph.growing.calls import cut_to_length, length_of
from metasched.graph.inputs import as_arrays
from metasched.graph.ir import Graph
from metasched.graph.network import Network
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.running.profile import NetworkProfile
from metasched.graph.running.state import NetworkState
from metasched.graph.running.weights import WeightStore
from metasched.graph.saved.exported_parts import ExportedMember, ExportedPart, NetworkExport
from metasched.graph.saved.network_cache import CachePlace
from metasched.graph.signature import DeferredGraph
from metasched.permissions import Allow
from metasched.target import Target

# What is kept on disk with a network: the longest lengths of calls on those with less room.
SHORTER = "shorter"


class GrowingNetwork(Network):
    """A network whose caches grow: a call runs on kernels that go through little more of them than they hold.

    It is the network with room for all; `for_length` has those with room for less, each of which is made when a call
    first needs it, or all by `compile`. Kernels that depend on no length are the same in all of them, and so are
    weights and states; the others are scheduled as they are where there is room for all.
    """

    def __init__(
        self,
        whole: Graph | DeferredGraph,
        shorter: Mapping[int, Callable[[], Graph]],
        target: Target | None = None,
        precision: ProductPrecision | str = ProductPrecision.F32,
        *,
        weights: WeightStore | None = None,
        place: CachePlace | None = None,
    ) -> None:
        """`whole` has room for all, `shorter` makes the graphs with room for less, by the longest length of a call.

        `weights` and `place` are as of `Network`.
        """
        super().__init__(whole, target, precision, weights=weights or WeightStore(), place=place)
        self._graphs = dict(shorter)
        self._shorter: dict[int, Network] = {}
        self._making = threading.Lock()
        self.keep_with(dict)

    def keep_with(self, note: Callable[[], Mapping[str, Any] | None]) -> None:
        """Say what is kept on disk with it; the lengths of other networks are, too."""

        def with_lengths() -> Mapping[str, Any] | None:
            found = note()
            return None if found is None else {**found, SHORTER: list(self._graphs)}

        super().keep_with(with_lengths)

    @property
    def lengths(self) -> tuple[int, ...]:
        """The longest length that each network takes, the shortest first."""
        growth = self.signature.growth
        assert growth is not None
        return (*sorted(self._graphs), growth.longest)

    def for_length(self, length: int) -> Network:
        """The network that a call runs on at a length, which this one has."""
        longest = next(longest for longest in self.lengths if length <= longest)
        if longest not in self._graphs:
            return self
        with self._making:
            if longest not in self._shorter:
                self._shorter[longest] = self._make_network(longest)
            return self._shorter[longest]

    def _make_network(self, longest: int) -> Network:
        read = self._graphs[longest]
        place = None if self._cached is None else self._cached.member(f"up to {longest}")
        stored = None if place is None else place.get()
        graph = read() if stored is None else DeferredGraph(stored.signature, read)
        made = Network(graph, self.target, self.precision, weights=self.weights, place=place)
        made.state = self.state
        made.follow(lambda: choices_alike(self, made))
        made.schedule_by(self.choices)
        return made

    @property
    def members(self) -> tuple[Network, ...]:
        """All networks that calls run on, this one first."""
        return (self, *(self.for_length(length) for length in self.lengths[:-1]))

    @property
    def names(self) -> tuple[str, ...]:
        """What tells members apart, for a person."""
        longest = self.lengths
        assert self.signature.growth is not None
        return tuple(f"{self.signature.growth.length} up to {n}" for n in (longest[-1], *longest[:-1]))

    def run_on(self, state: NetworkState, inputs: Sequence[Any]) -> Any:
        """Run the network on a state of its types; raises KernelError for inputs that it cannot take."""
        network, given = self._for(inputs)
        return super().run_on(state, given) if network is self else network.run_on(state, given)

    def profile_on(self, state: NetworkState, inputs: Sequence[Any], runs: int) -> NetworkProfile:
        """Where the time of a call on a copy of a state goes."""
        network, given = self._for(inputs)
        if network is self:
            return super().profile_on(state, given, runs)
        return network.profile_on(state, given, runs)

    def _for(self, inputs: Sequence[Any]) -> tuple[Network, list[Any]]:
        """The network that a call runs on, and what it is given."""
        growth = self.signature.growth
        assert growth is not None
        given = self._name_inputs(as_arrays(self.signature.name, self.inputs, inputs))
        network = self.for_length(length_of(growth, given[growth.length]))
        return network, list((given if network is self else cut_to_length(self.signature, given)).values())

    def exported(self) -> NetworkExport:
        """What an export of it has; it is compiled where it is not yet."""
        by_length = (*self.members[1:], self)
        part = ExportedPart(tuple(ExportedMember(network.signature, network.compiled()) for network in by_length))
        return NetworkExport(self.signature, (part,))

    def use(self, db: DatabaseLike, *, allow: Allow = None) -> Network:
        """Run the best kernels that are recorded in a database, where there are any. Returns this network.

        Raises NoRecord for a database that is not there.
        """
        for network in self.members[1:]:
            network.use(db, allow=allow)
        return super().use(db, allow=allow)

    def schedule_by(self, choices: Choices) -> None:
        """Schedule tasks by choices, from the next call on."""
        super().schedule_by(choices)
        with self._making:
            for network in self._shorter.values():
                network.schedule_by(choices)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, for lengths up to {', '.join(map(str, self.lengths))}>"

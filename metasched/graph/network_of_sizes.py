"""A model whose sizes are ranges: a network for each bucket of sizes, in which only the sizes of a call count.

Sizes from one bucket's largest to the next one's run on kernels for the latter (`buckets`). A size for which the model
says something else than for its bucket's, such as one, along which it broadcasts, has a network of its own. Weights
and states are shared by all of them.
"""

from __future__ import annotations

import copy
import itertools
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NoReturn, TypeVar
from weakref import WeakSet

from metasched.database.base import Access
from metasched.database.database_registry import DatabaseLike, opened_database
from metasched.errors import KernelError
from metasched.graph.buckets.bucket import Bucket, BucketCall, Key, Sizes, masked_graph
from metasched.graph.buckets.choices import choices_like
from metasched.graph.buckets.comparison import NotAlike
from metasched.graph.buckets.forms import Ranges, forms_of, forms_to_json
from metasched.graph.buckets.given_sizes import given_sizes
from metasched.graph.buckets.open_types import open_types
from metasched.graph.buckets.rooms import Rooms
from metasched.graph.buckets.size_range import OpenType, SizeRange, more_than_a_step
from metasched.graph.buckets.steps import hint_of_sizes, hint_of_steps, steps_that_help
from metasched.graph.code.choices import NO_CHOICES, Choices
from metasched.graph.errors import NetworkError, RefusedModel
from metasched.graph.growing.calls import require_length
from metasched.graph.growing.graphs_of_equal_room import GraphsOfEqualRoom
from metasched.graph.inputs import random_inputs
from metasched.graph.ir import Graph
from metasched.graph.members import NetworkBase
from metasched.graph.network import Network
from metasched.graph.passes.pipeline import PassReport
from metasched.graph.precision.error import PrecisionError, differences
from metasched.graph.precision.rounding import without_rounding
from metasched.graph.running.execution_plan import StepInfo
from metasched.graph.running.profile import NetworkProfile
from metasched.graph.running.state import NetworkState
from metasched.graph.running.weights import WeightStore
from metasched.graph.saved.exported_parts import NetworkExport
from metasched.graph.saved.exported_sizes import export_sizes
from metasched.graph.saved.network_cache import CachePlace
from metasched.graph.signature import DeferredGraph, Signature
from metasched.lang.call_arguments import order_arguments
from metasched.permissions import Allow
from metasched.support.cached import cached_property
from metasched.support.messages import counted

LOGGER = logging.getLogger(__name__)

_T = TypeVar("_T")

_UP_TO = " up to "
# Networks of single sizes that are kept, those used last.
_MOST_KEPT_NETWORKS = 8
# More buckets than the same sizes have for lengths of caches.
_MOST_ROOMS = 16


class NetworkOfSizes(NetworkBase):
    """A model whose sizes are ranges: `net(x)` runs on the kernels of the bucket of its inputs' sizes.

    It has what a `Network` has. What is of one network, such as `graph`, `passes()` and `steps`, is that of the largest
    sizes; `at` and `bucket` have those of others.

    Attributes:
        ranges: the sizes that a call may have, by their names.
        state: what is held between calls, shared by all sizes.
        choices: what schedules tasks at all sizes.

    """

    # What is timed in the call of a single network: each of `members` has it.
    OF_MEMBERS = (
        "settle",
        "settle_strips",
        "settling_s",
        "own_tasks",
        "executable",
        "compiled",
        "follow",
        "keep_with",
        "ways",
    )

    def __init__(
        self,
        graph_of: Callable[[Sizes], Graph],
        make: Callable[[Graph | DeferredGraph, CachePlace | None], Network],
        network_of: Callable[[Sizes, CachePlace | None], Network],
        ranges: Mapping[str, SizeRange],
        inputs: Callable[[], Mapping[str, Sequence[str]]],
        weights: WeightStore | None = None,
        place: CachePlace | None = None,
        grown: Callable[[Sizes], GraphsOfEqualRoom] | None = None,
    ) -> None:
        """`graph_of` reads the model for some sizes, `make` makes a network of a graph, `network_of` one of some sizes.

        `inputs` are the names of what a call gives, each with the names of its sizes, '' for one that is fixed;
        `weights` those that all networks share, `place` where these are kept on disk. `grown` reads a model whose
        caches grow at sizes up to the largest. Raises NetworkError for a range that no input has.
        """
        self.ranges = dict(ranges)
        self._graph_of = graph_of
        self._make = make
        self._network_of = network_of
        self._place = place
        self.weights = weights
        self._networks: OrderedDict[Key, Network] = OrderedDict()
        self._grown = grown
        self._rooms: dict[Key, Rooms] = {}
        self._apart: dict[Key, str] = {}
        self._refused: set[Key] = set()
        self._lock = threading.Lock()
        self.choices: Choices = NO_CHOICES
        self._used: list[tuple[DatabaseLike, Allow]] = []
        # All that run on these choices, those that a thread is just making among them.
        self._sharing: WeakSet[Network] = WeakSet()
        self._choosing = threading.Lock()
        # What is wrong with the model is said at load.
        self.signature, dims = self._stored_face() or self._read_face(inputs)
        example = make(DeferredGraph(self.signature, lambda: graph_of(self._largest)), None)
        self.target, self.precision = example.target, example.precision
        self.state: NetworkState = example.state
        self._state_types = self.signature.held
        self._inputs = {name: tuple(dims.get(name, ())) for name in self.signature.given}

    def _read_face(
        self, inputs: Callable[[], Mapping[str, Sequence[str]]]
    ) -> tuple[Signature, Mapping[str, Sequence[str]]]:
        """What callers see at the largest sizes, and the names of sizes of inputs, from the model."""
        named = inputs()
        found = {name for names in named.values() for name in names}
        missing = [name for name in self.ranges if name not in found]
        if missing:
            raise NetworkError(f"no input has the size {', '.join(missing)}; a range is read off the inputs of a call")
        return Signature.from_graph(self._explained(lambda: self.graph)), named

    def _stored_face(self) -> tuple[Signature, Mapping[str, Sequence[str]]] | None:
        """As `_read_face`, from what is on disk; None where the network of the largest sizes is not there."""
        up_to = _said(self._largest, _UP_TO)
        for name in (up_to, _said(self._largest, " "), *(up_to + _room_label(number) for number in range(_MOST_ROOMS))):
            stored = None if self._place is None else self._place.member(name).get()
            if stored is not None:
                rooms = stored.note.get("rooms")
                own = stored.signature.with_longest(rooms[-1]) if rooms else stored.signature
                given = {key: type_ for key, type_ in own.inputs.items() if key in stored.note["given"]}
                return replace(own, inputs=given), stored.note["inputs"]
        return None

    @cached_property
    def graph(self) -> Graph:
        """What the model says at the largest sizes."""
        return self._graph_of(self._largest)

    @property
    def _largest(self) -> dict[str, int]:
        return {name: range_.high for name, range_ in self.ranges.items()}

    # --- what runs at some sizes

    def at(self, /, **sizes: int) -> Network:
        """A network of just these sizes. Raises NetworkError for sizes that are in no range, or are missing."""
        self._require_sizes(sizes)
        return self._explained(lambda: self._network(sizes))

    def _explained(self, make: Callable[[], _T]) -> _T:
        """What is made of the model at some sizes. Raises RefusedModel, which says if it has the sizes in steps."""
        try:
            return make()
        except RefusedModel as refused:
            if not self.step_hint:
                raise
            raise refused.with_hint(self.step_hint) from refused.cause

    @cached_property
    def step_hint(self) -> str:
        """Which steps to load a model with that has not all sizes in its ranges, or that it has some; '' of others.

        The model is read at several sizes for this.
        """
        has = self._has_sizes
        return hint_of_steps(steps_that_help(self.ranges, has)) or hint_of_sizes(self.ranges, has)

    def _has_sizes(self, sizes: Sizes) -> bool:
        try:
            self._graph_of(sizes)
        except RefusedModel as reason:
            LOGGER.info("the model is not read at %s: %s", _said(sizes, " "), reason)
            return False
        return True

    def bucket(self, /, **sizes: int) -> Bucket | None:
        """What calls of these sizes run on; None where that is a network of their own. Of a model whose caches grow,
        the bucket with the most room.

        Raises NetworkError for sizes that are in no range, or are missing.
        """
        self._require_sizes(sizes)
        return self._bucket(sizes, None)

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """The buckets that were made so far: `network` of one is tuned and profiled as any other."""
        return tuple(own for rooms in list(self._rooms.values()) for own in rooms.made_buckets)

    @property
    def exact(self) -> Mapping[Key, str]:
        """Buckets that there are none of, by their largest sizes, with the reason: their sizes run on networks of
        their own.
        """
        return dict(self._apart)

    @property
    def members(self) -> tuple[Network, ...]:
        """The networks that calls run on, those of the largest sizes first: of all buckets, which are made where they
        are not; and of single sizes, of those that are buckets of one size, and that calls had so far.
        """
        return tuple(self._named_members().values())

    @property
    def names(self) -> tuple[str, ...]:
        """What tells members apart, for a person."""
        return tuple(self._named_members())

    def _named_members(self) -> dict[str, Network]:
        found: dict[str, Network] = {}
        combinations = itertools.product(*(reversed(range_.bucket_ranges) for range_ in self.ranges.values()))
        for bucket in combinations:
            sizes = {name: among[-1] for name, among in zip(self.ranges, bucket, strict=True)}
            rooms = self._rooms_of(sizes)
            for longest in () if rooms is None else reversed(rooms.longest):
                own = self._bucket(sizes, longest)
                if own is not None:
                    found[_said_up_to(own)] = own.network
            if rooms is None and all(len(among) == 1 for among in bucket):
                alone = self._find_alone(sizes)
                found |= {} if alone is None else _name_members(sizes, alone)
        for key, network in list(self._networks.items()):
            found |= _name_members(dict(zip(self.ranges, key, strict=True)), network)
        return found

    def _find_alone(self, sizes: Sizes) -> Network | None:
        """The network of a bucket of one size; None where the model has not this size."""
        key = self._bucket_key(sizes)
        if key in self._refused:
            return None
        try:
            return self._network(sizes)
        except RefusedModel as reason:
            LOGGER.info("there is no network of %s: %s", _said(sizes, " "), reason)
            self._refused.add(key)
            return None

    def _require_sizes(self, sizes: Sizes) -> None:
        if sizes.keys() != self.ranges.keys():
            raise NetworkError(f"the sizes are {', '.join(self.ranges)}, and {', '.join(sizes) or 'none'} are given")
        for name, size in sizes.items():
            if size not in self.ranges[name].sizes:
                raise NetworkError(f"`{name}` is {self.ranges[name].refusal(size)}")

    def _network(self, sizes: Sizes) -> Network:
        """The network of just these sizes. Raises RefusedModel where the model has not these."""
        with self._lock:
            return self._single_network(sizes)

    def _single_network(self, sizes: Sizes) -> Network:
        key = tuple(sizes[name] for name in self.ranges)
        if key not in self._networks:
            place = None if self._place is None else self._place.member(_said(sizes, " "))
            made = self._share_weights(self._network_of(sizes, place))
            made.keep_with(lambda: self._note(made.signature))
            self._networks[key] = made
        self._networks.move_to_end(key)
        let_go = [other for other in self._networks if not self._is_bucket(other)]
        for other in let_go[:-_MOST_KEPT_NETWORKS]:
            del self._networks[other]
        return self._networks[key]

    def _is_bucket(self, key: Key) -> bool:
        """Whether single sizes are a bucket of just these."""
        return all(len(range_.bucket(size)) == 1 for range_, size in zip(self.ranges.values(), key, strict=True))

    def _share_weights(self, network: Network) -> Network:
        """A network on the states of all sizes, which reads weights as those do that there are."""
        held = network.signature.held
        if held != self._state_types:
            raise NetworkError(
                "the type of a state depends on a size that is a range", hint="give that size as a number"
            )
        network.state = self.state
        network.follow(lambda: self._schedules_for(network))
        with self._choosing:
            self._sharing.add(network)
            network.schedule_by(self.choices)
            for db, allow in self._used:
                network.use(db, allow=allow)
        return network

    def _schedules_for(self, network: Network) -> Choices:
        """The schedules of a network that is compiled, if one is: weights that kernels of all sizes read in one layout
        are held once.
        """
        made = itertools.chain([own.network for own in self.buckets], list(self._networks.values()))
        first = next((one for one in made if one is not network and one.is_compiled), None)
        return NO_CHOICES if first is None else choices_like(first, network)

    def _bucket_key(self, sizes: Sizes) -> Key:
        return tuple(range_.bucket(sizes[name])[-1] for name, range_ in self.ranges.items())

    def _bucket(self, sizes: Sizes, length: int | None) -> Bucket | None:
        """What calls of sizes run on, on caches of a length where they grow."""
        rooms = self._rooms_of(sizes)
        try:
            return None if rooms is None else rooms.bucket(length)
        except NotAlike as reason:
            self._apart[self._bucket_key(sizes)] = str(reason)
            return None

    def _rooms_of(self, sizes: Sizes) -> Rooms | None:
        """The buckets of sizes; None where these have networks of their own."""
        key = self._bucket_key(sizes)
        if key in self._apart:
            return None
        if key not in self._rooms:
            with self._lock:
                try:
                    self._rooms.setdefault(key, self._build_rooms(sizes))
                except (NotAlike, NetworkError) as reason:
                    self._apart[key] = str(reason)
                    return None
        return self._rooms[key]

    def _build_rooms(self, sizes: Sizes) -> Rooms:
        """The buckets that sizes are in. Raises NotAlike where there are none."""
        ranges = {name: range_.bucket(sizes[name]) for name, range_ in self.ranges.items()}
        if all(len(among) == 1 for among in ranges.values()):
            raise NotAlike("it has one size")
        grown = self._grown
        if grown is None:
            return Rooms((None,), lambda _: self._build_bucket(ranges, self._graph_of, "", ()))
        largest = {name: among[-1] for name, among in ranges.items()}
        alike = cache(lambda: grown(largest))
        rooms = self._stored_rooms(largest) or alike().rooms

        def made(longest: int | None) -> Bucket:
            assert longest is not None
            number = rooms.index(longest)
            return self._build_bucket(ranges, lambda sizes: alike().graph(sizes, longest), _room_label(number), rooms)

        return Rooms(rooms, made)

    def _stored_rooms(self, largest: Sizes) -> tuple[int, ...]:
        """How long caches may be for each bucket of some sizes, by one that is on disk; none where there is none."""
        for number in range(_MOST_ROOMS) if self._place is not None else ():
            stored = self._place.member(_said(largest, _UP_TO) + _room_label(number)).get() if self._place else None
            if stored is not None:
                return tuple(stored.note["rooms"])
        return ()

    def _build_bucket(
        self,
        ranges: Ranges,
        graph_of: Callable[[Sizes], Graph],
        room: str,
        rooms: Sequence[int],
    ) -> Bucket:
        """The bucket of these sizes, called by its room. Raises NotAlike where there is none."""
        largest = {name: among[-1] for name, among in ranges.items()}
        alike = more_than_a_step(ranges)
        lowest = [
            {**largest, name: (alike[name] if len(among) > 2 else among)[0]}
            for name, among in ranges.items()
            if len(among) > 1
        ]
        place = None if self._place is None else self._place.member(_said(largest, _UP_TO) + room)
        stored = None if place is None else place.get()
        read = cache(lambda: masked_graph(largest, lowest, graph_of))
        graph = DeferredGraph(stored.signature, lambda: read().graph.graph) if stored else read().graph.graph
        forms = None if stored is None else forms_of(stored.note["forms"])
        network = self._share_weights(self._make(graph, place))
        all_room = {name: type_.shape for name, type_ in self.signature.given.items()}
        made = Bucket(largest, alike, network, read, graph_of, forms, all_room)
        network.keep_with(lambda: self._bucket_note(made, rooms))
        return made

    def _note(self, signature: Signature) -> dict[str, Any]:
        """What is kept with a network: so much of the face of all that the model is not read for it."""
        return {"given": [*signature.inputs], "inputs": {name: list(dims) for name, dims in self._inputs.items()}}

    def _bucket_note(self, own: Bucket, rooms: Sequence[int]) -> dict[str, Any] | None:
        """What is kept on disk of a bucket: `_note`, and what calls take by their sizes; None where nothing short says
        that.
        """
        try:
            forms = own.forms()
        except NotAlike as reason:
            LOGGER.info("the bucket %s is not kept: %s", own, reason)
            return None
        return {**self._note(self.signature), "forms": forms_to_json(forms), "rooms": list(rooms)}

    # --- calls

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run on inputs of any sizes in the ranges. Raises KernelError for inputs that it cannot take."""
        return self.run_on(self.state, self._order_inputs(inputs, named))

    def run_on(self, state: NetworkState, inputs: Sequence[Any]) -> Any:
        """Run on a state of its types; raises KernelError for inputs that it cannot take."""
        return self._find_kernels(inputs).run_on(state, inputs)

    def _find_kernels(self, inputs: Sequence[Any]) -> BucketCall | Network:
        """What a call runs on: a bucket, or a network of just its sizes."""
        sizes = given_sizes(self.ranges, self._inputs, inputs)
        own = self._bucket(sizes, self._length(inputs))
        taken = None if own is None else self._explained(partial(own.sizes, sizes))
        return self.at(**sizes) if own is None or taken is None else BucketCall(own, taken)

    def session(self) -> NetworkOfSizes:
        """This network with a state of its own, zeros at first; code and weights are the same, held once."""
        other = copy.copy(self)
        other.state = NetworkState(self._state_types)
        return other

    def profile(self, /, *inputs: Any, runs: int = 30, **named: Any) -> NetworkProfile:
        """Where the time of a call goes, on these inputs: print it, or read its `kernels`. See `running.profile`."""
        return self.profile_on(self.state, self._order_inputs(inputs, named, ["runs"]), runs)

    def profile_on(self, state: NetworkState, inputs: Sequence[Any], runs: int) -> NetworkProfile:
        """Where the time of a call on a copy of a state goes."""
        return self._find_kernels(inputs).profile_on(state, inputs, runs)

    def precision_error(self, /, *inputs: Any, **named: Any) -> PrecisionError:
        """How far results are from those in float32, on these inputs or, without any, on random ones of the largest
        sizes. See `Network.precision_error`.
        """
        if not inputs and not named:
            named = random_inputs({name: type_.at(self._largest) for name, type_ in self.inputs.items()})
        given = self._order_inputs(inputs, named)
        exact = Network(without_rounding(self._graph_of(given_sizes(self.ranges, self._inputs, given))), self.target)
        made = [one.run_on(self.state.copy(), given) for one in (self, exact)]
        results, expected = (each if isinstance(each, tuple) else (each,) for each in made)
        labels = self.signature.returned
        return PrecisionError(self.precision.value, differences(dict(zip(labels, results, strict=True)), expected))

    def _order_inputs(
        self, inputs: Sequence[Any], named: Mapping[str, Any], others: Sequence[str] = ()
    ) -> Sequence[Any]:
        if named:
            inputs = order_arguments("the network", list(self._inputs), tuple(inputs), dict(named), others)
        if len(inputs) != len(self._inputs):
            given = counted(len(inputs), "input is", "inputs are")
            raise KernelError(f"the network takes {', '.join(self._inputs)}, and {given} given")
        return inputs

    def _length(self, inputs: Sequence[Any]) -> int | None:
        """How long caches that grow are before a call; None where there are none.

        Raises KernelError for what is no length. Whether there is room, the network of the sizes knows.
        """
        growth = self.signature.growth
        if growth is None:
            return None
        return require_length(growth, inputs[[*self.signature.given].index(growth.length)])

    # --- what it has as a `Network` has it

    @property
    def inputs(self) -> Mapping[str, OpenType]:
        """Names and types of what a call is given, in order; sizes that are ranges by their names."""
        return {
            name: OpenType(
                type_.dtype,
                tuple(dim if dim in self.ranges else n for dim, n in zip(self._inputs[name], type_.shape, strict=True))
                if self._inputs[name]
                else type_.shape,
            )
            for name, type_ in self.signature.given.items()
        }

    @property
    def outputs(self) -> Mapping[str, OpenType]:
        """Names and types of what a call returns, in order. What depends on sizes otherwise than by being one, or a
        multiple or a part of one ("h/2"), is "?".

        The model is read twice more for this, at other sizes; all are "?" where it has none that were tried.
        """
        return open_types(
            self.ranges, self.signature.returned, lambda sizes: Signature.from_graph(self._graph_of(sizes)).returned
        )

    @property
    def _largest_network(self) -> Network:
        """The network that a call of the largest sizes runs on."""
        own = self.bucket(**self._largest)
        return self.at(**self._largest) if own is None else own.network

    @property
    def optimised(self) -> Graph:
        """What runs at the largest sizes: the graph after the passes."""
        return self._largest_network.optimised

    def passes(self) -> tuple[PassReport, ...]:
        """What each pass did to the network of the largest sizes, in order."""
        return self._largest_network.passes()

    @property
    def steps(self) -> tuple[StepInfo, ...]:
        """What a call of the largest sizes runs, in order, with schedules; they are compiled where they are not."""
        return self._largest_network.steps

    @property
    def is_compiled(self) -> bool:
        """Whether the kernels are made that calls run, of all buckets."""
        combinations = itertools.product(*(range_.buckets for range_ in self.ranges.values()))
        if any(key not in self._rooms and key not in self._apart for key in combinations):
            return False
        if any(len(rooms.made_buckets) < len(rooms.longest) for rooms in list(self._rooms.values())):
            return False
        return all(member.is_compiled for member in self.members)

    @property
    def runs_here(self) -> bool:
        """Whether this machine has what the target has."""
        return self._largest_network.runs_here

    @property
    def state_bytes(self) -> int:
        """What is held between calls."""
        return self.state.nbytes

    def use(self, db: DatabaseLike, *, allow: Allow = None) -> NetworkOfSizes:
        """Run the best kernels that are recorded in a database, where there are any, at all sizes; those of sizes that
        are not made yet are looked up when they are. Returns this network.

        Raises NoRecord for a database that is not there.
        """
        with opened_database(db, Access.READ) as database, self._choosing:
            for network in self._sharing:
                network.use(database, allow=allow)
            self._used.append((db, allow))
        return self

    def schedule_by(self, choices: Choices) -> None:
        """Schedule tasks by choices, from the next call on."""
        with self._choosing:
            self.choices = {**self.choices, **choices}
            for network in self._sharing:
                network.schedule_by(choices)

    def exported(self) -> NetworkExport:
        """What an export of it has; all buckets are compiled.

        Raises NetworkError where what calls of some sizes take cannot be said without reading the model.
        """
        return export_sizes(self)

    def __getattr__(self, name: str) -> NoReturn:
        if name in type(self).OF_MEMBERS:
            raise AttributeError(
                f"a network whose sizes are ranges has no `{name}`: each of `net.members` has, and so have "
                "`net.at(...)` and the `network` of `net.bucket(...)`"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        ranges = ", ".join(f"{name}: {range_}" for name, range_ in self.ranges.items())
        made = [f"{len(self.buckets)} buckets and {len(self._networks)} networks of single sizes made"]
        made += [f"none up to {', '.join(map(str, key))}: {reason}" for key, reason in self.exact.items()]
        return f"<network of sizes ({ranges}), {'; '.join(made)}>"


def _said(sizes: Sizes, between: str) -> str:
    return ", ".join(f"{name}{between}{size}" for name, size in sizes.items())


def _room_label(number: int) -> str:
    """A bucket's label on disk, by its number among those of its sizes, the one with the least room first."""
    return f", room {number}"


def _said_up_to(own: Bucket) -> str:
    return _said(own.largest, _UP_TO) + ("" if own.longest is None else f" on caches up to {own.longest}")


def _name_members(sizes: Sizes, network: Network) -> dict[str, Network]:
    """The members of a network of single sizes, by names."""
    pairs = zip(network.names, network.members, strict=True)
    return {f"{_said(sizes, ' ')}{name and f', {name}'}": member for name, member in pairs}

"""Networks from models' files: of one size, or of ranges of sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, overload

from metasched.database.database_registry import DatabaseLike
from metasched.graph.buckets.bucket import Sizes
from metasched.graph.buckets.size_range import SizeRange
from metasched.graph.errors import NetworkError
from metasched.graph.growing.graph import GrownGraphs
from metasched.graph.growing.sizes import GrowingSize
from metasched.graph.growing_network import SHORTER, GrowingNetwork
from metasched.graph.importing import open_sizes
from metasched.graph.ir import Graph
from metasched.graph.network import Network, fold_constants
from metasched.graph.network_of_sizes import NetworkOfSizes
from metasched.graph.opened_model import OpenedModel
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.reading.model_file import ModelLike, read_model, rereadable_model
from metasched.graph.running.weights import WeightStore
from metasched.graph.saved.network_cache import CachePlace, NetworkCache
from metasched.graph.saved.network_key import model_digest, network_key
from metasched.graph.signature import DeferredGraph
from metasched.graph.whole_numbers import require_whole_number
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.target import Target

# What may be said of a size that a model leaves open, where it is one, and where it may be several.
OneSize = int | str | GrowingSize
OpenSize = OneSize | tuple[int, int] | range | SizeRange
_RANGES = (tuple, range, SizeRange)


@overload
def load_onnx(
    model: ModelLike,
    *,
    values: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    states: Mapping[str, str] | None = None,
    target: Target | None = None,
    precision: ProductPrecision | str = ProductPrecision.F32,
    db: DatabaseLike | None = None,
    sizes: Mapping[str, OneSize] | None = None,
    **named: OneSize,
) -> Network: ...


@overload
def load_onnx(
    model: ModelLike,
    *,
    values: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    states: Mapping[str, str] | None = None,
    target: Target | None = None,
    precision: ProductPrecision | str = ProductPrecision.F32,
    db: DatabaseLike | None = None,
    sizes: Mapping[str, OpenSize] | None = None,
    **named: OpenSize,
) -> Network | NetworkOfSizes: ...


def load_onnx(
    model: ModelLike,
    *,
    values: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    states: Mapping[str, str] | None = None,
    target: Target | None = None,
    precision: ProductPrecision | str = ProductPrecision.F32,
    db: DatabaseLike | None = None,
    sizes: Mapping[str, OpenSize] | None = None,
    **named: OpenSize,
) -> Network | NetworkOfSizes:
    """A network from an ONNX model: opsets 13 to the newest that the installed package `onnx` knows.

        net = ms.load_onnx("m.onnx", batch=1, seq=128)

    Args:
        model: the path of a file, its bytes, a binary file that is open, or an `onnx.ModelProto`. External data is read
            from the folder of a path.
        values: inputs that are settled now, by name: those that decide shapes, such as a target shape or axes. The
            network does not take them any more.
        shapes: whole shapes of inputs, by name, where the model names no sizes.
        states: inputs that the network holds between calls, by name, and the outputs that they are next: a decoder's
            caches. Calls neither give nor return them; `net.state` has them.
        target: the CPU to compile for; by default this one.
        precision: "f32", what the model says, or "bf16": products of bf16, added up in f32. A quantised model computes
            with the bytes that it says at any precision.
        db: a database whose records are taken, as by `Network.use`: a URL, or one that is open.
        sizes: sizes that the model leaves open, by their names in it, `{"seq": 128}`; names that are no options of this
            function may be given as arguments instead, `seq=128`. A text says one by others, `total="past + 1"`;
            ranges, `seq=(1, 512)`, `height=range(32, 513, 32)` or a `SizeRange` with buckets, make a `NetworkOfSizes`,
            which takes inputs of all sizes in them; `past=GrowingSize(512)` is a size that grows from call to call, and
            makes the model's caches states.
        named: further sizes.

    Every node becomes programs of the language: `net.graph` has them, and prints them. Raises RefusedModel, with all
    nodes that cannot be expressed, and NetworkError for a file that is damaged, sizes that are not settled, and what is
    given as one and is none.
    """
    given = _merge_sizes(sizes, named)
    ranges = {name: _range(name, size) for name, size in given.items() if isinstance(size, _RANGES)}
    single = {name: _single(name, size) for name, size in given.items() if not isinstance(size, _RANGES)}
    said = (rereadable_model(model), single, _require_shapes(shapes or {}), values or {}, states or {})
    with ThreadPoolExecutor(1, "metasched-digest") as beside:  # the first detection of a CPU imports LLVM
        digest = beside.submit(model_digest, said[0])
        cpu = target or Target.detect()
    source = _Source(*said, ranges, cpu, ProductPrecision.of(precision), db)
    key = source.key(digest.result())
    place = None if key is None else CachePlace(NetworkCache.open(), key)
    return source.make_network_of_sizes(place) if ranges else source.network(place, {})


@dataclass(frozen=True)
class _Source:
    """A model with what is settled of it, and what its networks are made for."""

    model: ModelLike
    sizes: Mapping[str, int | str | GrowingSize]
    shapes: Mapping[str, Sequence[int]]
    values: Mapping[str, Any]
    states: Mapping[str, str]
    ranges: Mapping[str, SizeRange]
    target: Target
    precision: ProductPrecision
    db: DatabaseLike | None

    def key(self, digest: str | None) -> str | None:
        """What its networks are kept on disk by, where the model's digest is this; None where they are not."""
        sizes = {**self.sizes, **self.ranges}
        return network_key(digest, sizes, self.shapes, self.values, self.states, self.target, self.precision)

    @cached_property
    def opened(self) -> OpenedModel:
        """The model, read."""
        lowest = {name: range_.low for name, range_ in self.ranges.items()}
        return OpenedModel(
            read_model(self.model), self.sizes, self.shapes, self.values, self.states, lowest, self.target
        )

    def reopen_model(self, key: str | None) -> OpenedModel:
        """The model, read after a network of it was found on disk. Raises NetworkError where it has changed since."""
        if "opened" not in vars(self) and self.key(model_digest(self.model)) != key:
            raise NetworkError(f"{self.model!r} has changed since it was loaded, and is read again for this")
        return self.opened

    def make_network(
        self, graph: Graph | DeferredGraph, weights: WeightStore | None = None, place: CachePlace | None = None
    ) -> Network:
        """The network of a graph."""
        net = Network(graph, self.target, self.precision, weights=weights, place=place)
        return net if self.db is None else net.use(self.db)

    def make_grown_network(
        self,
        whole: Graph | DeferredGraph,
        shorter: Mapping[int, Callable[[], Graph]],
        weights: WeightStore | None,
        place: CachePlace | None,
    ) -> Network:
        """The network of graphs of one size, or of more and more room."""
        if not shorter:
            return self.make_network(whole, weights, place)
        net = GrowingNetwork(whole, shorter, self.target, self.precision, weights=weights, place=place)
        return net if self.db is None else net.use(self.db)

    def network(
        self, place: CachePlace | None, more: Sizes, weights: WeightStore | None = None, key: str | None = None
    ) -> Network:
        """A network of these sizes in the ranges, from disk where it is there; `key` is that of the model."""
        key = place.key if place is not None and key is None else key
        stored = None if place is None else place.get()
        if stored is None:
            graphs = self._graphs(self.opened, more)
            return self.make_grown_network(graphs.whole, graphs.shorter, weights, place)
        read = cache(lambda: self._graphs(self.reopen_model(key), more))
        return self.make_grown_network(
            DeferredGraph(stored.signature, lambda: read().whole),
            {longest: partial(lambda n: read().shorter[n](), longest) for longest in stored.note.get(SHORTER, ())},
            weights,
            place,
        )

    def _graphs(self, model: OpenedModel, more: Sizes) -> GrownGraphs:
        """The model's graphs of sizes; where sizes are ranges, without what depends on constants alone, as how much of
        that is computed depends on them.
        """
        graphs = model.graphs(more)
        return graphs.change_graphs(partial(fold_constants, target=self.target)) if self.ranges else graphs

    def make_network_of_sizes(self, place: CachePlace | None) -> NetworkOfSizes:
        """The networks of all sizes in the ranges."""
        weights = WeightStore()
        key = None if place is None else place.key
        grows = any(isinstance(size, GrowingSize) for size in self.sizes.values())
        change = partial(fold_constants, target=self.target)
        return NetworkOfSizes(
            lambda more: fold_constants(self.reopen_model(key).graph(more), self.target),
            lambda graph, at: self.make_network(graph, weights, at),
            lambda more, at: self.network(at, more, weights, key),
            self.ranges,
            lambda: _open_inputs(self.opened),
            weights,
            place,
            (lambda largest: self.reopen_model(key).graphs_of_equal_room(largest, change)) if grows else None,
        )


def _open_inputs(model: OpenedModel) -> dict[str, Sequence[str]]:
    """What calls may give, with the names of its sizes."""
    given = {*model.values, *model.states}
    return {name: dims for name, dims in open_sizes(model.file).items() if name not in given}


def _merge_sizes(sizes: Mapping[str, OpenSize] | None, named: Mapping[str, OpenSize]) -> dict[str, OpenSize]:
    """The sizes of a mapping, and those given as arguments. Raises NetworkError for one that is given as both."""
    if not isinstance(sizes, Mapping | None):
        raise NetworkError(
            f"`sizes` has sizes by their names, and is {sizes!r}", hint='a size of this name is sizes={"sizes": ...}'
        )
    given = dict(sizes or {})
    twice = sorted(given.keys() & named.keys())
    if twice:
        raise NetworkError(
            f"the size `{twice[0]}` is given twice: in `sizes`, and as an argument", hint="leave out one"
        )
    return {**given, **named}


def _range(name: str, size: tuple[int, ...] | range | SizeRange) -> SizeRange:
    if isinstance(size, SizeRange):
        return size
    if isinstance(size, range):
        return _range_in_steps(name, size)
    if len(size) != 2:
        hint = f"sizes in steps are `{name}=range(32, 513, 32)`" if len(size) == 3 else ""
        raise NetworkError(
            f"the range of `{name}` is its smallest and its largest size, (1, 512), and not {size!r}", hint=hint
        )
    low, high = size
    return SizeRange(low, high)


def _range_in_steps(name: str, sizes: range) -> SizeRange:
    if not sizes or sizes.step < 0:
        raise NetworkError(
            f"the range of `{name}` goes up from its smallest size, range(32, 513, 32), and not as {sizes!r} does"
        )
    return SizeRange(sizes[0], sizes[-1], step=sizes.step)


def _single(name: str, size: int | str | GrowingSize) -> int | str | GrowingSize:
    if isinstance(size, str | GrowingSize):
        return size
    number = require_whole_number(size, f"the size `{name}`")
    if number < 0:
        raise NetworkError(f"the size `{name}` is given as {number}, and none is negative")
    return number


def _require_shapes(shapes: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    return {name: _require_shape(name, shape) for name, shape in shapes.items()}


def _require_shape(name: str, shape: Any) -> tuple[int, ...]:
    if isinstance(shape, str) or not isinstance(shape, Iterable):
        raise NetworkError(f"the shape of `{name}` is a list of sizes, such as (1, 3, 224, 224), and not {shape!r}")
    return tuple(require_whole_number(extent, f"each size in the shape of `{name}`") for extent in shape)

"""Networks from models' files: of one size, or of ranges of sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, overload

from metasched.database.backends import DatabaseLike
from metasched.graph.errors import NetworkError
from metasched.graph.growing.graph import GrownGraphs
from metasched.graph.growing.sizes import GrowingSize
from metasched.graph.growing_network import GrowingNetwork
from metasched.graph.importing import open_sizes
from metasched.graph.ir import Graph
from metasched.graph.model_file import ModelLike, read_model
from metasched.graph.network import Network, folded
from metasched.graph.network_cache import CachePlace, NetworkCache
from metasched.graph.network_key import network_key
from metasched.graph.opened_model import OpenedModel
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.ranged import NetworkOfSizes
from metasched.graph.signature import DeferredGraph
from metasched.graph.size_range import SizeRange
from metasched.graph.weights import WeightStore
from metasched.target import Target


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
    **sizes: int | str | GrowingSize,
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
    **sizes: int | str | GrowingSize | tuple[int, int] | SizeRange,
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
    **sizes: int | str | GrowingSize | tuple[int, int] | SizeRange,
) -> Network | NetworkOfSizes:
    """A network from an ONNX model: opsets 13 to the newest that the installed package `onnx` knows.

        net = ms.load_onnx("m.onnx", batch=1, seq=128)

    Args:
        model: the path of a file, its bytes, or an `onnx.ModelProto`. External data is read from the file's folder.
        values: inputs that are settled now, by name: those that decide shapes, such as a target shape or axes. The
            network does not take them any more.
        shapes: whole shapes of inputs, by name, where the model names no sizes.
        states: inputs that the network holds between calls, by name, and the outputs that they are next: a decoder's
            caches. Calls neither give nor return them; `net.state` has them.
        target: the CPU to compile for; by default this one.
        precision: "f32", what the model says, or "bf16": products of bf16, added up in f32. A quantised model computes
            with the bytes that it says at any precision.
        db: a database whose records are taken, as by `Network.use`: a URL, or one that is open.
        sizes: sizes that the model leaves open, by their names in it: `seq=128`; a text says one by others,
            `total="past + 1"`; ranges, `seq=(1, 512)` or a `SizeRange` with buckets, make a `NetworkOfSizes`, which
            takes inputs of all sizes in them; `past=GrowingSize(512)` is a size that grows from call to call, and makes
            the model's caches states.

    Every node becomes programs of the language: `net.graph` has them, and prints them. Raises RefusedModel, with all
    nodes that cannot be expressed, and NetworkError for a file that is damaged or sizes that are not settled.
    """
    ranges = {name: _range(size) for name, size in sizes.items() if isinstance(size, tuple | SizeRange)}
    single = {name: size for name, size in sizes.items() if not isinstance(size, tuple | SizeRange)}
    target, precision = target or Target.detect(), ProductPrecision.of(precision)

    def opened() -> OpenedModel:
        return OpenedModel(read_model(model), single, shapes or {}, values or {}, states or {})

    def made(graph: Graph | DeferredGraph, weights: WeightStore | None = None, at: CachePlace | None = None) -> Network:
        net = Network(graph, target, precision, weights=weights, place=at)
        return net if db is None else net.use(db)

    def grown(graphs: GrownGraphs, weights: WeightStore | None = None) -> Network:
        if not graphs.shorter:
            return made(graphs.whole, weights)
        net = GrowingNetwork(graphs, target, precision, weights=weights)
        return net if db is None else net.use(db)

    if ranges:
        return _of_sizes(opened(), ranges, target, made, grown)

    def key() -> str | None:
        return network_key(model, single, shapes or {}, values or {}, states or {}, target, precision)

    found = key()
    if found is None:
        return grown(opened().graphs({}))
    place = CachePlace(NetworkCache.open(), found)
    stored = place.get()
    if stored is None:
        return made(opened().graph({}), at=place)

    def read() -> Graph:
        if key() != found:
            raise NetworkError(f"{model!r} has changed since it was loaded, and is read again for this")
        return opened().graph({})

    return made(DeferredGraph(stored.signature, read), at=place)


def _of_sizes(
    model: OpenedModel,
    ranges: Mapping[str, SizeRange],
    target: Target,
    made: Callable[..., Network],
    grown: Callable[..., Network],
) -> NetworkOfSizes:
    given = {*model.values, *model.states}
    inputs = {name: dims for name, dims in open_sizes(model.file).items() if name not in given}
    weights = WeightStore()
    return NetworkOfSizes(
        lambda more: folded(model.graph(more), target),
        partial(made, weights=weights),
        lambda more: grown(model.graphs(more).changed(partial(folded, target=target)), weights=weights),
        ranges,
        inputs,
        weights,
    )


def _range(size: tuple[int, int] | SizeRange) -> SizeRange:
    return size if isinstance(size, SizeRange) else SizeRange(*size)

"""Networks from models' files: of one size, or of ranges of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from metasched.database.backends import DatabaseLike
from metasched.graph.importing import Binding, import_model, open_sizes
from metasched.graph.model_file import ModelLike, read_model
from metasched.graph.network import Network
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.ranged import NetworkOfSizes, SizeRange, Sizes
from metasched.graph.state import with_states
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
    **sizes: int,
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
    **sizes: int | tuple[int, int] | SizeRange,
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
    **sizes: int | tuple[int, int] | SizeRange,
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
        sizes: sizes that the model leaves open, by their names in it: `seq=128`; or ranges, `seq=(1, 512)`, for a
            `NetworkOfSizes`, which takes inputs of all sizes in them.

    Every node becomes programs of the language: `net.graph` has them, and prints them. Raises RefusedModel, with all
    nodes that cannot be expressed, and NetworkError for a file that is damaged or sizes that are not settled.
    """
    file = read_model(model)
    fixed = {name: size for name, size in sizes.items() if isinstance(size, int)}
    ranges = {name: _range(size) for name, size in sizes.items() if not isinstance(size, int)}

    def made(more: Sizes) -> Network:
        binding = Binding({**fixed, **more}, shapes or {}, values or {})
        net = Network(with_states(import_model(file, binding), states or {}), target, precision)
        return net if db is None else net.use(db)

    if not ranges:
        return made({})
    given = {*(values or {}), *(states or {})}
    return NetworkOfSizes(made, ranges, {n: d for n, d in open_sizes(file).items() if n not in given})


def _range(size: tuple[int, int] | SizeRange) -> SizeRange:
    return size if isinstance(size, SizeRange) else SizeRange(*size)

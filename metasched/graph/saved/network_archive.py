"""A compiled network as bytes: JSON that says what it is, and machine code; weights are apart. Reading runs nothing."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple

from metasched.dtypes import DType
from metasched.graph.code.archive import describe_part, part_of
from metasched.graph.code.step_code import StepCode
from metasched.graph.counted_axis import CountedAxis
from metasched.graph.placement import Growth, Position
from metasched.graph.running.execution_plan import (
    ExecutionPlan,
    KeptState,
    MovedPart,
    NetworkResult,
    ResultCount,
    RootOffset,
    StepInfo,
)
from metasched.graph.running.plan import Arena
from metasched.graph.signature import Signature
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

_LENGTH = struct.Struct("<Q")


class StoredPiece(NamedTuple):
    """Weights in the file of another network: its key, their SHA-256, and how many bytes they are."""

    key: str
    weights_hash: str
    nbytes: int


@dataclass(frozen=True)
class StoredNetwork:
    """A network as it is kept.

    Attributes:
        signature: what it takes and returns.
        plan: what a call of it runs; places of weights count through its own, and then through each of `pieces`.
        weights_hash: the SHA-256 of its weights.
        pieces: weights that another network of the model has.
        known: where among its own weights those are that other networks may read, by what tells them apart.
        note: what is kept with it, as JSON.

    """

    signature: Signature
    plan: ExecutionPlan
    weights_hash: str
    pieces: tuple[StoredPiece, ...] = ()
    known: Mapping[str, int] = field(default_factory=dict)
    note: Mapping[str, Any] = field(default_factory=dict)


def network_bytes(network: StoredNetwork) -> bytes:
    """The bytes of a network."""
    plan, signature = network.plan, network.signature
    said = {
        "name": signature.name,
        "states": dict(signature.states),
        "growth": None if signature.growth is None else _growth(signature.growth),
        "pieces": network.pieces,
        "known": dict(network.known),
        "note": dict(network.note),
        "inputs": _types(dict(plan.inputs)),
        "outputs": _types(dict(plan.outputs)),
        "results": [[_type(r.type), r.written, r.copied, r.count] for r in plan.results],
        "arena": [dict(plan.arena.offsets), plan.arena.nbytes, plan.arena.bound],
        "weights": [plan.weight_bytes, network.weights_hash],
        "codes": [describe_part(code) for code in plan.codes],
        "infos": [[i.node, i.op, i.task, i.schedule, i.origin] for i in plan.infos],
        "steps": plan.steps,
        "places": plan.places,
        "numbers": plan.numbers,
        "kept": [[k.root, k.found, k.nbytes] for k in plan.kept],
        "moved": [[m.state, m.name, m.offset, m.input, _position(m.position), m.step] for m in plan.moved],
        "moving": plan.moving,
        "counts": {label: [count.label, count.axis] for label, count in signature.counts.items()},
    }
    text = json.dumps(said).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *(code.data for code in plan.codes)])


def network_of(data: bytes) -> StoredNetwork:
    """What `network_bytes` was given. Raises ValueError for anything else."""
    try:
        (length,) = _LENGTH.unpack_from(data)
        at = _LENGTH.size + length
        said = json.loads(data[_LENGTH.size : at])
        codes = _codes(said["codes"], data, at)
        weight_bytes, weights_hash = said["weights"]
        inputs, outputs = _types_of(said["inputs"]), _types_of(said["outputs"])
        plan = ExecutionPlan(
            inputs=tuple(inputs.items()),
            outputs=tuple(outputs.items()),
            results=tuple(
                NetworkResult(_type_of(t), written, _place(copied), _count(count))
                for t, written, copied, count in said["results"]
            ),
            arena=Arena(*said["arena"]),
            weight_bytes=int(weight_bytes),
            codes=codes,
            infos=tuple(StepInfo(*info) for info in said["infos"]),
            steps=tuple(said["steps"]),
            places=tuple(tuple(RootOffset(*place) for place in step) for step in said["places"]),
            numbers=tuple(map(tuple, said["numbers"])),
            kept=tuple(KeptState(root, RootOffset(*found), nbytes) for root, found, nbytes in said["kept"]),
            moved=tuple(
                MovedPart(state, name, offset, number, Position(*position), step)
                for state, name, offset, number, position, step in said["moved"]
            ),
            moving=int(said["moving"]),
        )
        growth = None if said["growth"] is None else _growth_of(said["growth"])
        counts = {label: CountedAxis(*count) for label, count in said["counts"].items()}
        signature = Signature(str(said["name"]), inputs, outputs, said["states"], growth, counts)
        pieces = tuple(StoredPiece(*piece) for piece in said["pieces"])
        return StoredNetwork(signature, plan, str(weights_hash), pieces, said["known"], said["note"])
    except (struct.error, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"no network: {error!r}") from error


def _codes(said: list[dict[str, Any]], data: bytes, at: int) -> tuple[StepCode, ...]:
    codes = []
    for one in said:
        end = at + int(one["bytes"])
        codes.append(part_of(one, data[at:end]))
        at = end
    if at != len(data):
        raise ValueError(f"{len(data)} bytes, and {at} are described")
    return tuple(codes)


def _place(said: Any) -> RootOffset | None:
    return None if said is None else RootOffset(*said)


def _count(said: Any) -> ResultCount | None:
    return None if said is None else ResultCount(RootOffset(*said[0]), int(said[1]))


def _type(type_: ValueType) -> tuple[str, tuple[int, ...]]:
    return type_.dtype.value, type_.shape


def _type_of(said: Any) -> ValueType:
    dtype, shape = said
    return ValueType(DType(dtype), tuple(map(int, shape)))


def _types(types: Mapping[str, ValueType]) -> dict[str, Any]:
    return {name: _type(type_) for name, type_ in types.items()}


def _types_of(said: Mapping[str, Any]) -> dict[str, ValueType]:
    return {name: _type_of(one) for name, one in said.items()}


def _growth(growth: Growth) -> tuple[str, int, dict[str, tuple[int | None, ...]]]:
    return growth.length, growth.longest, {name: tuple(offsets) for name, offsets in growth.values.items()}


def _growth_of(said: Any) -> Growth:
    length, longest, values = said
    return Growth(str(length), int(longest), {name: tuple(offsets) for name, offsets in values.items()})


def _position(position: Position) -> tuple[str, int, int, int]:
    return position.input, position.step, position.lowest, position.highest

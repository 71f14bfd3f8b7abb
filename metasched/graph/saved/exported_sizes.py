"""What an export of a network has whose sizes are ranges."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from metasched.graph.buckets.bucket import Bucket
from metasched.graph.buckets.comparison import NotAlike
from metasched.graph.buckets.forms import Ranges
from metasched.graph.buckets.size_range import OpenType, SizeRange, more_than_a_step, sizes_text
from metasched.graph.errors import NetworkError, RefusedModel
from metasched.graph.network import Network
from metasched.graph.saved.exported_parts import ExportedMember, ExportedPart, NetworkExport
from metasched.graph.signature import Signature

LOGGER = logging.getLogger(__name__)

# Networks of single sizes that are exported instead of a bucket.
_MOST_SINGLE_SIZES = 16
# Sizes at which the model is read to find these: it may have few of them.
_MOST_SIZES_READ = 256
_SIZE_ONE_REASON = "along a size of one, or one step, the model is another"


class NetworkOfBuckets(Protocol):
    """A network whose sizes are ranges, as far as an export asks for it."""

    ranges: dict[str, SizeRange]
    signature: Signature

    @property
    def exact(self) -> Mapping[tuple[int, ...], str]:
        """Buckets that there are none of, by their largest sizes, with the reason."""

    @property
    def step_hint(self) -> str:
        """Which steps to load the model with that has not all sizes in its ranges."""

    @property
    def inputs(self) -> Mapping[str, OpenType]:
        """What a call is given."""

    @property
    def outputs(self) -> Mapping[str, OpenType]:
        """What a call returns."""

    def compile(self) -> Any:
        """Compile all buckets."""

    def bucket(self, /, **sizes: int) -> Bucket | None:
        """What calls of sizes run on, if that is a bucket."""

    def at(self, /, **sizes: int) -> Network:
        """A network of just these sizes."""


def export_sizes(net: NetworkOfBuckets) -> NetworkExport:
    """Compile all buckets of a network of sizes, and return what its export has.

    Raises NetworkError where what calls of some sizes take cannot be said without reading the model.
    """
    net.compile()
    parts: list[ExportedPart] = []
    combinations = itertools.product(*(range_.bucket_ranges for range_ in net.ranges.values()))
    for ranges in combinations:
        parts += _export_parts(net, dict(zip(net.ranges, ranges, strict=True)))
    given, made = ({name: type_.names for name, type_ in types.items()} for types in (net.inputs, net.outputs))
    return NetworkExport(net.signature, tuple(parts), given, made)


def _export_parts(net: NetworkOfBuckets, bucket: Ranges) -> list[ExportedPart]:
    """The parts of an export that calls of a bucket's sizes run on."""
    own = net.bucket(**{name: sizes[-1] for name, sizes in bucket.items()})
    if own is None:
        return _export_single_sizes(
            net, bucket, net.exact.get(tuple(sizes[-1] for sizes in bucket.values()), _SIZE_ONE_REASON)
        )
    if own.longest is not None:
        return _export_single_sizes(net, bucket, "its caches grow")
    many = more_than_a_step(bucket)
    ones = [{**bucket, name: sizes[:1]} for name, sizes in bucket.items() if sizes != many[name]]
    parts = [part for one in ones for part in _export_single_sizes(net, one, _SIZE_ONE_REASON)]
    try:
        forms = own.forms()
    except NotAlike as reason:
        raise NetworkError(
            f"calls of {_sizes_text(bucket)} cannot be exported together: {reason}",
            hint="export `net.at(...)` of the sizes that are needed, or load the model with buckets of one size",
        ) from None
    signature = own.network.signature
    held = set(signature.states.values())
    returned = tuple(dims for label, dims in zip(signature.outputs, forms.outputs, strict=True) if label not in held)
    member = ExportedMember(signature, own.network.compiled())
    return [*parts, ExportedPart((member,), many, replace(forms, outputs=returned))]


def _export_single_sizes(net: NetworkOfBuckets, bucket: Ranges, reason: str) -> list[ExportedPart]:
    """Networks of single sizes that the model has, where calls of a bucket's sizes run on these for a reason."""
    few = math.prod(map(len, bucket.values())) <= _MOST_SIZES_READ
    networks = list(itertools.islice(_single_sizes(net, bucket), _MOST_SINGLE_SIZES + 1)) if few else []
    if not few or len(networks) > _MOST_SINGLE_SIZES:
        raise NetworkError(
            f"calls of {_sizes_text(bucket)} run on a network each, which are too many to export: {reason}",
            hint=net.step_hint or "load the model with buckets of one size, for those that are needed",
        )
    return [replace(part, sizes=exact) for exact, network in networks for part in network.exported().parts]


def _single_sizes(net: NetworkOfBuckets, bucket: Ranges) -> Iterator[tuple[Ranges, Network]]:
    """The networks of single sizes, each with these: of sizes that the model has, such as even ones."""
    for numbers in itertools.product(*bucket.values()):
        try:
            network = net.at(**dict(zip(bucket, numbers, strict=True)))
        except RefusedModel as refused:
            LOGGER.info("the sizes %s are not exported: %s", numbers, refused)
        else:
            pairs = zip(bucket.items(), numbers, strict=True)
            yield {name: range(size, size + 1, sizes.step) for (name, sizes), size in pairs}, network


def _sizes_text(bucket: Ranges) -> str:
    return ", ".join(f"{name} {sizes_text(sizes)}" for name, sizes in bucket.items())

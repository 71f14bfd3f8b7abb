"""Knowledge that is installed: the files beside this one, and those of other packages, by anchor.

A package ships what was found with its rules by an entry point in the group `metasched.knowledge`, whose value is the
path of a file: `toy = Path(__file__).with_name("toy.knowledge")`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from math import log2
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from metasched.dtypes import DType
from metasched.knowledge.anchor import Anchor
from metasched.knowledge.entries import Cpu, Entry, KnowledgeError, parse_entries, print_entries
from metasched.knowledge.joined_indices import JoinedIndices
from metasched.knowledge.narrow_elements import kind_in_wide_elements
from metasched.knowledge.single_images import drop_batch, kind_without_batch
from metasched.lang.instructions import Decision
from metasched.schedule.tensor import intrinsics
from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.registry import Registry, UnfitError
from metasched.target import Target

SUFFIX = ".knowledge"
# How far a CPU is whose vectors are twice as long, and one with twice as many threads, in factors of two of a size.
_LANES = 3.0
_THREADS = 0.5
_FILE_HINT = '`metasched db distill` writes such files, and "none" stands for none'


def _file(value: object) -> Path:
    if not isinstance(value, Path):
        raise UnfitError(f"it is {value!r}, not the path of a file: Path(__file__).with_name('NAME{SUFFIX}')")
    if not value.is_file():
        raise UnfitError(f"there is no file {value}")
    return value


KNOWLEDGE = Registry("metasched.knowledge", "file of knowledge", _file, KnowledgeError)


@dataclass(frozen=True)
class Neighbour:
    """An entry of the same kind of anchor, and how far its size and its CPU are, in factors of two."""

    entry: Entry
    distance: float

    @property
    def name(self) -> str:
        """The size that it was found for, and the CPU."""
        return f"{self.entry.size} ({self.entry.cpu})"


@dataclass(frozen=True)
class Knowledge:
    """What is known of kinds of anchors."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, given: KnowledgeLike) -> Knowledge:
        """Knowledge from what a caller gives: None is all that is installed, a path is a file, "none" is nothing.

        Raises KnowledgeError for a file that cannot be read.
        """
        if given is None:
            return installed()
        if isinstance(given, Knowledge):
            return given
        if given == NONE:
            return NO_KNOWLEDGE
        if not isinstance(given, str | PathLike):
            raise KnowledgeError(f"`knowledge` is {given!r}, and not the path of a file", hint=_FILE_HINT)
        return cls(tuple(read_file(Path(given))))

    @cached_property
    def digest(self) -> str:
        """A text that is equal for equal knowledge."""
        return hashlib.sha256(print_entries(self.entries).encode()).hexdigest()[:16]

    @cached_property
    def _by_kind(self) -> dict[str, list[Entry]]:
        found: dict[str, list[Entry]] = {}
        for entry in self.entries:
            found.setdefault(entry.kind, []).append(entry)
        return found

    @cached_property
    def _batched_kinds(self) -> dict[str, list[str]]:
        """The kinds of batches by the kind that each is without its first index."""
        found: dict[str, list[str]] = {}
        for kind in self._by_kind:
            single = kind_without_batch(kind)
            if single is not None:
                found.setdefault(single, []).append(kind)
        return found

    def _of_kind(self, kind: str) -> Iterator[Entry]:
        """The entries of a kind, and of batches of one of it."""
        yield from self._by_kind.get(kind, ())
        for batched in self._batched_kinds.get(kind, ()):
            yield from map(drop_batch, (entry for entry in self._by_kind[batched] if entry.extents[0] == 1))

    def _exact_neighbours(self, anchor: Anchor, cpu: Cpu) -> Iterator[Neighbour]:
        """The neighbours of an anchor among the entries of exactly its kind."""
        for entry in self._of_kind(anchor.kind):
            yield Neighbour(entry, anchor.distance(entry.extents, entry.steps) + _cpu_distance(entry.cpu, cpu))

    @cached_property
    def of_last_anchors(self) -> Mapping[str, frozenset[Decision]]:
        """The options that were decided, by address, where nothing is known to have followed the anchor: what follows
        one elsewhere may have given its choices others, which were not looked at there.
        """
        found: dict[str, set[Decision]] = {}
        for entry in self.entries:
            for address, decision in () if entry.is_followed else entry.structure:
                found.setdefault(address, set()).add(decision)
        return {address: frozenset(decisions) for address, decisions in found.items()}

    @cached_property
    def intrinsic_choices(self) -> frozenset[str]:
        """The addresses of choices at which some entry took a tensor intrinsic."""
        names = intrinsics().keys()
        return frozenset(address for entry in self.entries for address, taken in entry.structure if taken in names)

    def first_intrinsic_choice(self, addresses: Iterable[str]) -> str | None:
        """The first of some addresses of choices, in roles, that is one of a tensor intrinsic."""
        return next((address for address in addresses if address in self.intrinsic_choices), None)

    def nearest(self, anchor: Anchor, target: Target, count: int) -> list[Neighbour]:
        """The `count` nearest entries of an anchor's kind."""
        return self.by_distance(anchor, target)[:count]

    def by_distance(self, anchor: Anchor, target: Target) -> list[Neighbour]:
        """The entries of an anchor's kind, the nearest first; of equally near ones the faster.

        Where there are entries of CPUs with the target's vectors, others do not count: register tiles for other
        vectors have another shape, and would be ranked by estimates alone.
        """
        cpu = cpu_of(target)
        wide = kind_in_wide_elements(anchor.kind)
        finite = self._finite_neighbours(anchor, cpu)
        if not finite and wide is not None:
            finite = self._finite_neighbours(replace(anchor, kind=wide), cpu)
        own = [n for n in finite if n.entry.cpu.lanes == cpu.lanes]
        return sorted(own or finite, key=lambda n: (n.distance, n.entry.microseconds, n.entry.extents))

    def _finite_neighbours(self, anchor: Anchor, cpu: Cpu) -> list[Neighbour]:
        """The neighbours of an anchor among the entries of its kind, and of the kind with fewer indices."""
        found = list(self._exact_neighbours(anchor, cpu))
        joined = JoinedIndices.of(anchor)
        if joined is not None:
            found += [replace(n, entry=joined.spread(n.entry)) for n in self._exact_neighbours(joined.joined, cpu)]
        return [n for n in found if n.distance < float("inf")]


NONE = "none"
NO_KNOWLEDGE = Knowledge(())
KnowledgeLike: TypeAlias = Knowledge | str | Path | None


def cpu_of(target: Target) -> Cpu:
    """The kind of CPU that a target is."""
    return Cpu(target.lanes(DType.F32), target.threads)


def _cpu_distance(one: Cpu, other: Cpu) -> float:
    lanes, threads = log2(one.lanes / other.lanes), log2(one.threads / other.threads)
    return _LANES * abs(lanes) + _THREADS * abs(threads)


def read_file(path: Path) -> Iterable[Entry]:
    """The entries of a file. Raises KnowledgeError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise KnowledgeError(f"{path} cannot be read: {error.strerror}", hint=_FILE_HINT) from error
    except UnicodeDecodeError as error:
        raise KnowledgeError(f"{path} is no text: {error}", hint=_FILE_HINT) from error
    return parse_entries(text, str(path))


def shipped_entries() -> Sequence[Entry]:
    """What this package ships."""
    own = (file for file in files(__package__).iterdir() if file.name.endswith(SUFFIX))
    ordered = sorted(own, key=lambda file: file.name)
    return [entry for file in ordered for entry in parse_entries(file.read_text(encoding="utf-8"), file.name)]


@cache
def shipped() -> Knowledge:
    """The knowledge that this package ships."""
    return Knowledge(tuple(shipped_entries()))


@cache
def installed() -> Knowledge:
    """What this package ships and what others do, which is looked for once in a process. Raises KnowledgeError."""
    added = [entry for name in KNOWLEDGE.names() for entry in _package_entries(name)]
    return Knowledge((*shipped().entries, *added)) if added else shipped()


def _package_entries(name: str) -> Iterable[Entry]:
    """The entries of another package's file, by the name that it declares."""
    try:
        return tuple(read_file(KNOWLEDGE.get(name)))  # read here, where errors are told
    except KnowledgeError as error:
        raise KnowledgeError(
            f"the knowledge `{name}` of {KNOWLEDGE.package_of(name)} cannot be used: {error}",
            hint='update or remove it; knowledge="none" (`--knowledge none`) goes without all that is installed',
        ) from error

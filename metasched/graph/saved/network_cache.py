"""Compiled networks on disk: a second process runs one without reading the model's graph.

A file has all that a call needs: the plan, machine code, and weights as kernels read them. What is read is run, so a
file counts only under the rules of `code.owned_files`, and where its hashes are right. Anything else is as if it were
not there, is counted, and is written anew. Its key says what it was made from: the digest of the model's file, what it
was loaded with, the target, and the versions of everything that takes part.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

from metasched.cache_folder import NoCacheFolder, cache_folder, warn_not_kept
from metasched.graph.code.owned_files import is_time_to_look, open_own_file, remove_oldest, safe_folder
from metasched.graph.running.executable import Executable
from metasched.graph.running.memory import MappedMemory
from metasched.graph.running.weights import Weights, WeightStore
from metasched.graph.saved.digests import digest, digest_in_this_thread
from metasched.graph.saved.large_writes import LargeWrites
from metasched.graph.saved.network_archive import StoredNetwork, StoredPiece, network_bytes, network_of
from metasched.graph.signature import Signature
from metasched.support.data_classes import dataclass
from metasched.target import Target

LOGGER = logging.getLogger(__name__)

_FOLDER = "networks"
_SUFFIX = ".network"
_HASH_BYTES = hashlib.sha256().digest_size
_LENGTH_BYTES = 8
# The most that the folder holds; what was used least recently goes first.
_MOST_BYTES = 4 << 30
# A network is kept where the disk has room for so many of its size.
_ROOM = 4
NO_NOTE: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class NetworkCache:
    """Compiled networks by what they were made from.

    `folder` is None where there is none that can be trusted. `ignored` counts files that were there and not used, by
    the reason.
    """

    folder: Path | None
    ignored: Counter[str] = field(default_factory=Counter)
    writes: LargeWrites = field(default_factory=LargeWrites, compare=False)

    @classmethod
    def open(cls) -> NetworkCache:
        """The user's. A folder that others can write is not used, with a CacheWarning."""
        try:
            return cls(safe_folder(cache_folder() / _FOLDER))
        except (NoCacheFolder, OSError) as error:
            warn_not_kept("compiled networks are", error)
            return cls(None)

    def get(self, key: str) -> StoredNetwork | None:
        """The network of a key without its weights; None where there is none, or what is there is not to be trusted."""
        file = self._open_file(key)
        if file is None:
            return None
        with file:
            return self._read_head(file)

    def executable(self, key: str, target: Target, shared: WeightStore | None = None) -> Executable | None:
        """The network of a key, ready to run. None where it is not there any more, or damaged.

        `shared` are weights of other networks of the model, among which are those of this one afterwards.
        """
        found = self._read_network(key)
        if found is None:
            return None
        stored, memory = found
        pieces: list[MappedMemory] = []
        for piece in stored.pieces:
            part = None if shared is None else self._piece(piece, shared)
            if part is None:
                self._ignore("weights that it shares with another network are not there")
                return None
            pieces.append(part)
        if shared is not None:
            _share_weights(shared, key, stored, memory)
        moved = _Spans([memory, *pieces]).address_of_offset
        own = memory.address
        plan = stored.plan.with_weights(lambda offset: moved(offset) - own, stored.plan.weight_bytes)
        return Executable(plan, Weights(memory, {}, tuple(pieces)), target)

    def _read_network(self, key: str) -> tuple[StoredNetwork, MappedMemory] | None:
        """A network and its own weights."""
        file = self._open_file(key)
        if file is None:
            return None
        with file:
            stored = self._read_head(file)
            if stored is None:
                return None
            memory = MappedMemory(stored.plan.weight_bytes, "weights")
            view = memory.bytes.data[: stored.plan.weight_bytes]
            try:
                found = digest(view, lambda piece: _fill(file, piece))
            except EOFError:  # it was cut meanwhile
                found = ""
            if found != stored.weights_hash:
                self._ignore("its weights are damaged")
                return None
        return stored, memory

    def _piece(self, piece: StoredPiece, shared: WeightStore) -> MappedMemory | None:
        """Weights of another network: in memory already, or from its file."""
        have = shared.memory_of_file(piece.weights_hash)
        if have is not None:
            return have
        found = self._read_network(piece.key)
        if found is None or found[0].weights_hash != piece.weights_hash:
            return None
        _share_weights(shared, piece.key, *found)
        return found[1]

    def put(
        self,
        key: str,
        signature: Signature,
        executable: Executable,
        shared: WeightStore | None = None,
        note: Mapping[str, Any] = NO_NOTE,
    ) -> None:
        """Keep a network, whole or not at all, with a note; not where the disk is nearly full.

        Weights in the memory of other networks are kept with these; where one of them is not kept, this is not. Large
        ones are written by a thread, beside calls of the network: Python ends when they are whole.
        """
        self.writes.run(
            executable.weights.memory.bytes.nbytes, lambda: self._write(key, signature, executable, shared, note)
        )

    def _write(
        self,
        key: str,
        signature: Signature,
        executable: Executable,
        shared: WeightStore | None,
        note: Mapping[str, Any],
    ) -> None:
        pieces = _pieces(executable.weights, shared)
        if self.folder is None or pieces is None:
            return
        plan, memory = executable.plan, executable.weights.memory
        own = memory.address
        joined = _Spans([memory, *(part for part, _ in pieces)]).offset_of_address
        plan = plan.with_weights(lambda offset: joined(own + offset), plan.weight_bytes)
        weights = memory.bytes.data[: plan.weight_bytes]
        hashed = digest_in_this_thread(weights)
        known = {} if shared is None else shared.offsets_in_memory(memory)
        stored = StoredNetwork(signature, plan, hashed, tuple(piece for _, piece in pieces), known, note)
        head = network_bytes(stored)
        try:
            if shutil.disk_usage(self.folder).free < _ROOM * (len(head) + len(weights)):
                return
            descriptor, name = tempfile.mkstemp(dir=self.folder, prefix=key[:8])
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(hashlib.sha256(head).digest() + len(head).to_bytes(_LENGTH_BYTES, "little") + head)
                    file.write(weights)
                Path(name).replace(self._path(self.folder, key))
            finally:
                Path(name).unlink(missing_ok=True)
            if is_time_to_look(key):
                remove_oldest(self.folder, _MOST_BYTES)
        except OSError as error:
            warn_not_kept("a compiled network is", error)
            return
        if shared is not None:
            shared.is_in_file(memory, key, hashed)

    def _path(self, folder: Path, key: str) -> Path:
        return folder / (key + _SUFFIX)

    def _open_file(self, key: str) -> BinaryIO | None:
        if self.folder is None:
            return None
        path = self._path(self.folder, key)
        file = open_own_file(path)
        if file is None and (path.is_symlink() or path.exists()):
            self._ignore("it is no file that is this user's alone")
        return file

    def _read_head(self, file: BinaryIO) -> StoredNetwork | None:
        """Everything but the weights; the file is behind it then."""
        said, length = file.read(_HASH_BYTES), int.from_bytes(file.read(_LENGTH_BYTES), "little")
        size = os.fstat(file.fileno()).st_size
        if length > size:
            self._ignore("it is cut")
            return None
        head = file.read(length)
        if hashlib.sha256(head).digest() != said:
            self._ignore("it is damaged")
            return None
        try:
            stored = network_of(head)
        except ValueError:  # of another version of this package, under a key that should not be
            self._ignore("it is of another version")
            return None
        if file.tell() + stored.plan.weight_bytes != size:
            self._ignore("its weights are cut")
            return None
        return stored

    def _ignore(self, reason: str) -> None:
        self.ignored[reason] += 1
        LOGGER.info("a compiled network on disk is not used: %s", reason)


def _fill(file: BinaryIO, view: memoryview) -> None:
    """Read as many bytes of a file as a buffer has. Raises EOFError where it has fewer."""
    at = 0
    while at < len(view):
        count = file.readinto(view[at:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        at += count


class _Spans:
    """Pieces of memory as one after another."""

    def __init__(self, pieces: Sequence[MappedMemory]) -> None:
        self._pieces = pieces
        self._begins = [0, *itertools.accumulate(len(piece.bytes) for piece in pieces[:-1])]

    def offset_of_address(self, address: int) -> int:
        """Where an address is, counted through all pieces. A weight without elements may be at a piece's very end."""
        places = [
            (address == piece.address + len(piece.bytes), begin + address - piece.address)
            for begin, piece in zip(self._begins, self._pieces, strict=True)
            if piece.address <= address <= piece.address + len(piece.bytes)
        ]
        if places:
            return min(places)[1]
        raise ValueError("a weight lies in none of the pieces")

    def address_of_offset(self, offset: int) -> int:
        """The address that is so far from the first piece's beginning, counted through all pieces."""
        number = bisect.bisect_right(self._begins, offset) - 1
        return self._pieces[number].address + offset - self._begins[number]


def _pieces(weights: Weights, shared: WeightStore | None) -> list[tuple[MappedMemory, StoredPiece]] | None:
    """The memory of other networks that has some of a network's weights, and where it is kept; None where it is not."""
    memories = {memory.address: memory for memory in weights.borrowed if memory is not weights.memory}
    found = []
    for memory in memories.values():
        file = None if shared is None else shared.file_of(memory)
        if file is None:
            return None
        found.append((memory, StoredPiece(*file, len(memory.bytes))))
    return found


def _share_weights(shared: WeightStore, key: str, stored: StoredNetwork, memory: MappedMemory) -> None:
    """Make weights from a file known to other networks."""
    shared.is_in_file(memory, key, stored.weights_hash)
    for name, offset in stored.known.items():
        shared.put(name, memory, offset)


@dataclass(frozen=True)
class CachePlace:
    """Where a network is kept: a cache, and its key there."""

    cache: NetworkCache
    key: str

    def get(self) -> StoredNetwork | None:
        """The network without its weights, where it is there."""
        return self.cache.get(self.key)

    def executable(self, target: Target, shared: WeightStore | None = None) -> Executable | None:
        """The network, ready to run, where it is there."""
        return self.cache.executable(self.key, target, shared)

    def put(
        self,
        signature: Signature,
        executable: Executable,
        shared: WeightStore | None = None,
        note: Mapping[str, Any] = NO_NOTE,
    ) -> None:
        """Keep the network, and a note with it."""
        self.cache.put(self.key, signature, executable, shared, note)

    def member(self, name: str) -> CachePlace:
        """Where one of the networks of a model is kept that are for other sizes."""
        return CachePlace(self.cache, hashlib.sha256(f"{self.key} {name}".encode()).hexdigest())

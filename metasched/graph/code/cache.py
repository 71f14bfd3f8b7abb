"""Machine code of tasks on disk: a file each, in a folder of the user's cache that only its owner can write.

What is read is run, so a file counts only where this user owns it and the folder, nobody else can write either, and
its hash is right. Anything else is as if it were not there, and is written anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from metasched.cache_folder import NoCacheFolder, cache_folder, warn_not_kept
from metasched.graph.code.archive import from_bytes, to_bytes
from metasched.graph.code.owned_files import read_own_file, remove_oldest, safe_folder
from metasched.graph.code.step_code import TaskCode
from metasched.support.data_classes import dataclass

_FOLDER = "kernels"
_SUFFIX = ".kernel"
_HASH_BYTES = hashlib.sha256().digest_size
# The most that the folder holds; what was used least recently goes first.
_MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class CodeCache:
    """Machine code by what decides it. `folder` is None where there is none that can be trusted."""

    folder: Path | None

    @classmethod
    def open(cls) -> CodeCache:
        """The user's. A folder that others can write is not used, with a CacheWarning."""
        try:
            return cls(safe_folder(cache_folder() / _FOLDER))
        except (NoCacheFolder, OSError) as error:
            warn_not_kept("machine code of networks is", error)
            return cls(None)

    def get(self, key: str) -> TaskCode | None:
        """The code of a key; None where there is none, or what is there is damaged or not this user's own."""
        if self.folder is None:
            return None
        data = read_own_file(self.folder / (key + _SUFFIX))
        if data is None or hashlib.sha256(data[_HASH_BYTES:]).digest() != data[:_HASH_BYTES]:
            return None
        try:
            return from_bytes(data[_HASH_BYTES:])
        except ValueError:  # of another version of this package, under a key that should not be
            return None

    def put(self, key: str, code: TaskCode) -> None:
        """Keep the code of a key, whole or not at all. Where the disk refuses it, with a CacheWarning."""
        if self.folder is None:
            return
        payload = to_bytes(code)
        try:
            descriptor, name = tempfile.mkstemp(dir=self.folder, prefix=key[:8])
            with os.fdopen(descriptor, "wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            Path(name).replace(self.folder / (key + _SUFFIX))
        except OSError as error:
            warn_not_kept("machine code of a network is", error)

    def remove_oldest(self, most_bytes: int = _MOST_BYTES) -> None:
        """Remove what was used least recently, until the folder holds no more than this."""
        if self.folder is None:
            return
        remove_oldest(self.folder, most_bytes)

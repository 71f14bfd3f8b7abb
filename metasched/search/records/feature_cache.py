"""Features of measured candidates, kept in the user's cache folder, so that none is worked out twice.

A file holds those of one program, target and machine: a line each, of the trace's outline and of the features. What
features are made by is part of the folder's name; that of other versions is removed. Nothing depends on what is kept
but time: what is missing, or cannot be read, is worked out again.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from metasched.cache_folder import NoCacheFolder, cache_folder, warn_not_kept
from metasched.cost.core import Core
from metasched.cost.features import NAMES, Features
from metasched.database.record import TaskKey, code_version
from metasched.schedule.trace_outline import Outline

# Of a longer file nothing is read, and nothing is added to it: some 5,000 candidates of one program.
_MOST_BYTES = 6_000_000
# What features are made by, besides the versions: where somebody works on the package, these change and those do not.
_MADE_BY = ("cost", "ir", "lang", "schedule", "space")
_FOLDER = "features"
_SUBJECT = "features of measured candidates are"


class FeatureCache:
    """The features of the candidates of tasks on a machine with the constants `core`. Without a folder it is empty."""

    def __init__(self, core: Core, folder: Path | None) -> None:
        self._core = core
        self._folder = folder

    @classmethod
    def of_user(cls, core: Core) -> FeatureCache:
        """The one in the user's cache folder. Where there is none, with a CacheWarning."""
        try:
            return cls(core, cache_folder() / _FOLDER)
        except NoCacheFolder as error:
            warn_not_kept(_SUBJECT, error)
            return cls(core, None)

    def read(self, task: TaskKey) -> dict[Outline, Features]:
        """What is kept of a task: float32 of shape (F,) by the outline of the trace."""
        path = self._file(task)
        try:
            if path is None or not path.is_file() or path.stat().st_size > _MOST_BYTES:
                return {}
            lines = path.read_bytes().split(b"\n")[:-1]
        except OSError as error:
            warn_not_kept(_SUBJECT, error)
            return {}
        found = {}
        for line in lines:
            read = _parse_line(line)
            if read is not None:
                found[read[0]] = read[1]
        return found

    def add(self, task: TaskKey, features: Mapping[Outline, Features]) -> None:
        """Keep features of a task's candidates. Where the disk refuses them, with a CacheWarning."""
        path = self._file(task)
        if path is None or not features:
            return
        lines = b"".join(_encode_line(outline, row) for outline, row in features.items())
        try:
            if path.is_file() and path.stat().st_size + len(lines) > _MOST_BYTES:
                return
            if not path.parent.is_dir():
                self._remove_older(path.parent)
                path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(lines)
        except OSError as error:
            warn_not_kept(_SUBJECT, error)

    def _file(self, task: TaskKey) -> Path | None:
        if self._folder is None:
            return None
        key = repr((task.program_hash, task.target, task.threads, self._core)).encode()
        return self._folder / made_by() / hashlib.sha256(key).hexdigest()[:32]

    def _remove_older(self, current: Path) -> None:
        for other in current.parent.glob("*"):
            if other != current:
                shutil.rmtree(other, ignore_errors=True)


@cache
def made_by() -> str:
    """A hash of what features are made by: the versions, and the sources that say how."""
    found = hashlib.sha256(f"{code_version()} {NAMES}".encode())
    package = Path(__file__).parents[2]
    for folder in _MADE_BY:
        for path in sorted((package / folder).rglob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]


def _encode_line(outline: Outline, features: Features) -> bytes:
    row = base64.b64encode(np.ascontiguousarray(features, "<f4").tobytes())
    return b"%s %s %s\n" % (outline.structure.encode(), row, outline.decisions.encode())


def _parse_line(line: bytes) -> tuple[Outline, Features] | None:
    """The outline and the features in a line; None for a line that was not written whole."""
    parts = line.split(b" ", 2)
    if len(parts) < 3:
        return None
    try:
        row = np.frombuffer(base64.b64decode(parts[1], validate=True), "<f4")
        outline = Outline(parts[0].decode(), parts[2].decode())
    except ValueError:
        return None
    if row.shape != (len(NAMES),) or not np.isfinite(row).all():
        return None
    return outline, row.astype(np.float32)

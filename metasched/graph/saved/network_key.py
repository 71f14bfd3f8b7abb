"""What a compiled network on disk was made from, as a key: the model's digest, what it is loaded with, versions."""

from __future__ import annotations

import hashlib
import mmap
import platform
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from metasched.calibration.store import core_of
from metasched.graph.code.owned_files import code_key
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.saved.digests import digest
from metasched.target import Target

# How protobuf writes where external data is: a field with this name, then one with the length of a file's name and the
# name itself. So the files of a model are found without reading it as a model.
_LOCATION_FIELD = b"\n\x08location"
_LOCATION_PATTERN = re.compile(re.escape(_LOCATION_FIELD) + rb"\x12([\x01-\x7f])")
# Packages besides those of machine code that decide what graph there is.
_PACKAGES = ("ml_dtypes", "onnx")


def network_key(
    model: str | None,
    sizes: Mapping[str, object],
    shapes: Mapping[str, Sequence[int]],
    values: Mapping[str, Any],
    states: Mapping[str, str],
    target: Target,
    precision: ProductPrecision,
) -> str | None:
    """A key of a network of a model, which is given as its `model_digest`; None where it has none."""
    if model is None:
        return None
    said = (
        sorted((name, repr(size)) for name, size in sizes.items()),
        sorted((name, [int(n) for n in shape]) for name, shape in shapes.items()),
        sorted((name, _value(value)) for name, value in values.items()),
        list(states.items()),
    )
    return code_key(model, repr(said), str(target), repr(core_of(target)), precision.value, *_versions())


def model_digest(model: object) -> str | None:
    """What tells a model from all others; None for one whose networks are not kept.

    That are models that are no file or bytes of one, that cannot be read, or whose external data is in no files of
    plain names.
    """
    if isinstance(model, bytes):
        return None if _LOCATION_FIELD in model else digest(memoryview(model))
    if not isinstance(model, str | Path):
        return None
    try:
        with _map_file(Path(model)) as pages:
            said = [_digest_pages(pages)]
            names = _external_files(pages)
        for name in sorted(names or ()):
            with _map_file(Path(model).resolve().parent / name) as pages:
                said.append(f"{name} {_digest_pages(pages)}")
    except (OSError, ValueError):  # reading the model says what is wrong
        return None
    return None if names is None else "\0".join(said)


def _digest_pages(pages: mmap.mmap) -> str:
    with memoryview(pages) as content:
        return digest(content)


def _map_file(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)


def _external_files(pages: mmap.mmap) -> set[str] | None:
    """The names of the files that a model's external data is in; None where some are not plain names of its folder."""
    found: set[str] = set()
    at = -1
    while (at := pages.find(_LOCATION_FIELD, at + 1)) >= 0:
        match = _LOCATION_PATTERN.match(pages, at)
        if match is None:
            return None
        name = pages[match.end() : match.end() + match[1][0]].decode(errors="replace")
        if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
            return None
        found.add(name)
    return found


def _value(value: Any) -> tuple[str, tuple[int, ...], str]:
    array = np.asarray(value)
    return str(array.dtype), array.shape, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _versions() -> tuple[str, ...]:
    return (platform.python_version(), *(f"{name} {_version(name)}" for name in _PACKAGES))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"

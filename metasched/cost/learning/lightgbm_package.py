"""LightGBM, imported when a model is first trained or read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from metasched.support.imports import imports

_PACKAGE = "lightgbm"
_WITHOUT_DOCSTRINGS = 2


class _WithDocstrings(SourceFileLoader):
    """Loads a module as if Python had not been told to leave docstrings out."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path, _optimize=1)
        return code


class _Finder:
    """Finds the modules of LightGBM for that loader."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name.partition(".")[0] == _PACKAGE else None
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _WithDocstrings(spec.loader.name, spec.loader.path)
        return spec


def lightgbm() -> Any:
    """The package. It computes with its docstrings when it is imported, which `python -OO` leaves out of it."""
    if sys.flags.optimize < _WITHOUT_DOCSTRINGS:
        return imports.module(_PACKAGE)
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        return imports.module(_PACKAGE)
    finally:
        sys.meta_path.remove(finder)

"""The packages dask and distributed, imported when they are first needed."""

from __future__ import annotations

from typing import Any

from metasched.errors import MetaschedError
from metasched.support.imports import imports


def require_distributed() -> Any:
    """The package `distributed`. Raises MetaschedError where it is not installed."""
    try:
        return imports.module("distributed")
    except ImportError as error:
        raise MetaschedError(
            f"measuring on several machines needs the package distributed: {error}",
            hint="pip install 'metasched[dask]', for the machines as well",
        ) from error

"""Accumulators in registers."""

from __future__ import annotations

from collections.abc import Mapping

from metasched.backend.lower.nest import Names, Nest
from metasched.backend.lower.registers import Machine
from metasched.backend.lower.storage import Storage


def promote(
    stmt: Nest, storages: Mapping[str, Storage], machine: Machine, names: Names
) -> tuple[Nest, dict[str, Storage]]:
    return stmt, {}

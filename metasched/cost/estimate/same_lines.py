"""Lines that several reads of a statement have in common, such as those of a stencil: they come into a cache once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from metasched.cost.estimate.footprint import Array, Footprint, Ranges, ones
from metasched.cost.program.nest import Statement, StatementAccess
from metasched.target import CACHE_LINE

# With so many reads of a buffer before it is each compared.
_MOST_COMPARED_READS = 3
# Rows of so few elements are read whole, whatever of them is used.
_SHORT_ROW_ELEMENTS = 16.0


def count_lines_once(statement: Statement, footprints: Sequence[Footprint], ranges: Ranges) -> list[Footprint]:
    """The footprints of a statement, in whose lines those are left out that a read before has as well."""
    earlier: dict[str, list[StatementAccess]] = {}
    found = []
    for access, footprint in zip(statement.accesses, footprints, strict=True):
        if access.is_store or access.is_register:
            found.append(footprint)
            continue
        others = earlier.setdefault(access.buffer, [])
        shares = [_shared_line_share(access, other, ranges) for other in others[-_MOST_COMPARED_READS:]]
        others.append(access)
        if shares:
            footprint = replace(footprint, lines=footprint.lines * (1.0 - np.maximum.reduce(shares)))
        found.append(footprint)
    return found


def _shared_line_share(access: StatementAccess, other: StatementAccess, ranges: Ranges) -> Array:
    """The share of an access's lines that another of the same buffer touches, under each level: (levels, rows)."""
    share = ones((ranges.depth + 1, ranges.rows))
    if len(access.dims) != len(other.dims):  # one of them goes through dimensions as one
        return share * 0.0
    last = len(access.dims) - 1
    for n, (mine, its) in enumerate(zip(access.dims, other.dims, strict=True)):
        if mine.terms == its.terms:
            apart = np.abs(ranges.sizes[mine.constant] - ranges.sizes[its.constant])
            span = ranges.reach(mine) + (CACHE_LINE / access.element_bytes if n == last else 1.0)
            share = share * np.maximum(1.0 - apart / span, 0.0)
        else:
            short = ranges.sizes[access.shape[n]] <= _SHORT_ROW_ELEMENTS
            share = share * short
    return share

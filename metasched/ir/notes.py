"""The notes that a schedule leaves for the backend on loops and blocks: keys of `Annotation`."""

from __future__ import annotations

from enum import StrEnum


class Note(StrEnum):
    """What a key means is said where it can be set, in the primitive `annotate`."""

    UNROLL_LIMIT = "unroll_limit"
    NON_TEMPORAL = "non_temporal"
    PREFETCH = "prefetch"
    FASTMATH = "fastmath"
    FLUSH_DENORMALS = "flush_denormals"
    BLOCKED_SUM = "blocked_sum"

"""Visits as JSON, as databases and exported files hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from metasched.database.record import Visit, VisitKind


def visits_to_json(visits: Iterable[Visit]) -> list[dict[str, Any]]:
    """A list of objects with `kind`, `group` and `times`."""
    return [{"kind": visit.kind.value, "group": visit.group, "times": list(visit.times)} for visit in visits]


def visits_from_json(data: Iterable[Mapping[str, Any]]) -> tuple[Visit, ...]:
    """Raises ValueError or TypeError for what is no list of visits."""
    try:
        return tuple(
            Visit(tuple(float(t) for t in visit["times"]), VisitKind(visit["kind"]), str(visit["group"]))
            for visit in data
        )
    except KeyError as error:
        raise ValueError(f"a visit has no {error}") from error

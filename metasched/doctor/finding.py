"""What a check found: how it stands, in a sentence, with what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeAlias

from metasched.support.data_classes import dataclass

Fact: TypeAlias = str | int | float | bool | list[str] | None


class Standing(StrEnum):
    """How what was looked at stands."""

    GOOD = "good"
    NOTE = "note"  # worth knowing; kernels and their times are right
    PROBLEM = "problem"  # timings cannot be trusted, or something will not work


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        state: how it stands.
        found: a sentence.
        remedy: what to do about it; empty where there is nothing to do.
        facts: the same for programs, by name.
    """

    state: Standing
    found: str
    remedy: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"state": self.state.value, "found": self.found, "remedy": self.remedy, **self.facts}

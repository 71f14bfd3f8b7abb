"""A preset that extends one of metasched's."""

from __future__ import annotations

from metasched_toy.rule import toy_lanes

toy_cpu = [toy_lanes, "cpu,-stream"]

"""Tiling of transpositions. The rule itself is text, in the file beside this one."""

from __future__ import annotations

from pathlib import Path

import metasched as ms

tile_transposition = ms.load_module(Path(__file__).with_suffix(".ms"))

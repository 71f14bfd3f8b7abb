"""A rule in text, loaded from the file beside this one."""

from __future__ import annotations

from pathlib import Path

import metasched as ms

toy_columns = ms.load_module(Path(__file__).with_name("columns.ms"))

"""What the tests of searches have in common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metasched.database.base import Database
from metasched.database.database_registry import open_database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with open_database(f"sqlite:///{tmp_path}/t.db") as found:
        yield found

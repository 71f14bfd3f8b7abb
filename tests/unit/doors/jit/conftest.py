"""Networks of traced functions take what a short look finds: their results are asked for, not how fast they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kept_workers import brief_searches


@pytest.fixture(scope="module", autouse=True)
def brief() -> Iterator[None]:
    with brief_searches():
        yield

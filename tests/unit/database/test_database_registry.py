"""What opens databases for other packages, and does not do as it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from metasched.database.database_registry import GROUP, open_database
from metasched.database.record import DatabaseError
from metasched.errors import NoRecord

OPENERS = """
from metasched.errors import NoRecord

def none(url, access): return None
def wrong(url, access): raise OSError("the wire is cut")
def empty(url, access): raise NoRecord("there is nothing")
"""


@pytest.fixture(autouse=True)
def _others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "others-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    lines = [f"{name} = openers_of_others:{name}" for name in ("none", "wrong", "empty")]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]) + "\n")
    (tmp_path / "openers_of_others.py").write_text(OPENERS)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("none://x", "none://x was not opened: `none` of others 1.0 made None, no database\n  hint: tell those who"),
        (
            "wrong://x",
            "wrong://x was not opened: `wrong` of others 1.0 raised OSError: the wire is cut\n  hint: tell those who",
        ),
    ],
)
def test_an_opener_that_opens_nothing_is_named(url: str, message: str) -> None:
    with pytest.raises(DatabaseError, match=re.escape(message)):
        open_database(url)


def test_what_an_opener_says_in_our_words_is_left_as_it_is() -> None:
    with pytest.raises(NoRecord, match="there is nothing"):
        open_database("empty://x")

"""What a cache does not find is no news; what the system refuses is said in the log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from metasched.graph.code.owned_files import read_own_file


def test_a_file_that_is_refused_is_logged_and_one_that_is_not_there_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"its own")
    link.symlink_to(file)
    with caplog.at_level(logging.INFO, logger="metasched"):
        assert read_own_file(file) == b"its own"
        assert read_own_file(tmp_path / "none") is read_own_file(link) is None
        assert not caplog.messages
        assert read_own_file(file / "below") is None
    (message,) = caplog.messages
    assert "a file of the cache is not used" in message
    assert str(file / "below") in message

"""What the environment sets is declared, and on one page."""

from __future__ import annotations

import ast
import logging
import re
from pathlib import Path

import pytest
from hypothesis import settings

from benchmarks.__main__ import PEERS
from metasched.errors import MetaschedError
from metasched.settings import SETTINGS, log_level

ROOT = Path(__file__).parents[2]


def test_the_page_has_every_variable_with_its_default_and_what_it_does() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    for one in SETTINGS:
        assert f"| `{one.name}` | {one.default} | {one.what} |" in page


def test_every_variable_of_ours_is_declared() -> None:
    texts = {
        node.value
        for path in (ROOT / "metasched").rglob("*.py")
        if "METASCHED_" in (source := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {text for text in texts if text.startswith("METASCHED_") and text.isidentifier()} == {
        one.name for one in SETTINGS
    }


def test_the_page_has_what_tests_benchmarks_and_the_site_read() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    named = {
        name
        for folder in ("tests", "benchmarks", "docs")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"environ(?:\.get\(|\[)\"(METASCHED_\w+)\"", path.read_text(encoding="utf-8"))
    } | {f"METASCHED_{option.upper().replace('-', '_')}" for option, *_ in PEERS}
    given_by_tests = {"METASCHED_TEST_FAULT", "METASCHED_TEST_FOLDER"}
    assert not {name for name in named - given_by_tests if f"`{name}`" not in page}


def test_the_page_has_how_many_examples_each_profile_of_the_tests_tries() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8")
    dev, ci, fuzz = (settings.get_profile(name) for name in ("dev", "ci", "fuzz"))
    assert f"`dev` and `ci` try {dev.max_examples} random examples" in page
    assert ci.max_examples == dev.max_examples
    assert ci.derandomize
    assert f"`fuzz` tries {fuzz.max_examples}" in page


@pytest.mark.parametrize(("given", "level"), [(None, logging.WARNING), ("", logging.WARNING), ("Debug", logging.DEBUG)])
def test_the_level_that_is_logged(given: str | None, level: int) -> None:
    assert log_level(given) == level


def test_no_level() -> None:
    with pytest.raises(MetaschedError, match="METASCHED_LOG is one of debug, info, warning, error, not `loud`"):
        log_level("loud")


# What opens a connection, and who may: to an address that the user names.
NETWORK = {"socket", "socketserver", "http", "ftplib", "smtplib", "requests", "httpx", "aiohttp", "xmlrpc"}
WITHIN = {"urllib.request", "urllib.error"}  # urllib.parse only reads texts
# Files that hand pipes to a process of their own, over a pair of sockets that has no address.
PAIRED = {"fork_server.py", "worker_server.py"}


def test_nothing_is_sent_anywhere() -> None:
    wrong = [
        f"{path}: {name}"
        for folder in ("metasched", "rules")
        for path in (ROOT / folder).rglob("*.py")
        if re.search("|".join(["urllib", *NETWORK]), source := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if name.split(".")[0] in NETWORK or name in WITHIN
        if not (name == "socket" and path.name in PAIRED)
    ]
    assert not wrong, wrong
    for name in PAIRED:
        source = (ROOT / "metasched" / "measure" / "workers" / name).read_text(encoding="utf-8")
        assert not re.search(r"AF_INET|\.(connect|connect_ex|bind|listen)\(|create_connection|create_server", source)

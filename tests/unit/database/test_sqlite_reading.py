"""Databases that can only be read: as whoever may not write, and from a disk that cannot be written."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from metasched.database import Access, Record, TaskKey, Visit, open_database
from metasched.database import sqlite as backend
from metasched.database.sqlite_schema import SCHEMA_VERSION, migrate

TASK = TaskKey("hash", "target", 1)
NOBODY = 65534


def record(trial: int) -> Record:
    return Record(TASK, "program", (), "trace 1 of p:", (Visit((1.0,)),), None, False, (), 1.0, 0, trial)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may look into, which pytest's own are not."""
    path = Path(tempfile.mkdtemp(prefix="metasched-test-"))
    path.chmod(0o755)
    yield path
    path.chmod(0o755)
    shutil.rmtree(path)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nothing in a folder can be written; root, who may always, is somebody else meanwhile."""
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    try:
        with pytest.raises(OSError, match="denied"):
            (folder / "new").write_text("")
        yield
    finally:
        os.seteuid(was)
        folder.chmod(0o755)


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder}/r #1?.db"


def read(folder: Path) -> list[int]:
    with open_database(url_of(folder), Access.READ) as database:
        return [r.trial for r in database.records(TASK)]


def test_reading_leaves_nothing_behind(folder: Path) -> None:
    with open_database(url_of(folder)) as database:
        database.add(record(1))
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert read(folder) == [1]
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    with open_database(url_of(folder)) as database:
        database.add(record(1))
    with read_only(folder):
        assert read(folder) == [1]
    assert len(list(folder.iterdir())) == 1


def test_while_somebody_writes(folder: Path) -> None:
    with open_database(url_of(folder)) as database:
        database.add(record(1))
        with read_only(folder):
            assert read(folder) == [1]


def test_what_a_killed_writer_left_in_the_log(folder: Path, tmp_path: Path) -> None:
    with open_database(f"sqlite:///{tmp_path}/w.db") as database:
        database.add(record(1))
        database.add(record(2))
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{tmp_path}/w.db{suffix}", url_of(folder).removeprefix("sqlite:///") + suffix)
    with read_only(folder):
        assert read(folder) == [1, 2]
    assert not (folder / "r #1?.db-shm").exists()


@pytest.mark.parametrize("version", range(SCHEMA_VERSION))
def test_an_older_schema_is_upgraded_in_memory(folder: Path, version: int) -> None:
    connection = sqlite3.connect(url_of(folder).removeprefix("sqlite:///"))
    migrate(connection, 0, version)
    if version:
        connection.execute(f"PRAGMA application_id = {backend._APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with read_only(folder):
        assert read(folder) == []
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


SCRIPT = """
mount --bind {folder} {folder} && mount -o remount,ro,bind {folder} || exit 77
! touch {folder}/new 2>/dev/null || exit 77
exec {python} -c '
import sys
from metasched.database import Access, TaskKey, open_database
with open_database(sys.argv[1], Access.READ) as database:
    print(database.count(TaskKey("hash", "target", 1)))
' "{url}"
"""


def test_a_read_only_disk(folder: Path) -> None:
    """A real one, where the system lets this user mount; root may not write there either."""
    with open_database(url_of(folder)) as database:
        database.add(record(1))
    if shutil.which("unshare") is None:
        pytest.skip("no `unshare`")
    script = SCRIPT.format(folder=folder, python=sys.executable, url=url_of(folder))
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode in (1, 77) and not done.stdout:
        if "Traceback" in done.stderr:
            pytest.fail(done.stderr)
        pytest.skip("this user may not mount")
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr

"""Records of a search are found again, wherever they were kept."""

from __future__ import annotations

import pytest

import metasched as ms
from metasched.report.source import RecordSource

PROGRAM = "program scaled[N=64](A: f32[N]) -> B: f32[N]:\n    B[i] = A[i] * 2\n"


class Server:
    """A database whose URL is shown without its password, by which nothing can be opened."""

    url = "postgresql://me@nowhere.invalid/kernels"

    def __init__(self, records: tuple[object, ...]) -> None:
        self._records = records

    def records(self, task: object) -> list[object]:
        return list(self._records)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> RecordSource:
    url = f"sqlite:///{tmp_path_factory.mktemp('source') / 't.db'}"
    kernel = ms.tune(ms.parse_program(PROGRAM), trials=1, db=url, progress=False)
    assert kernel.report.source is not None
    return kernel.report.source


def test_a_file_is_opened_again(source: RecordSource) -> None:
    assert source.kept is None
    assert len(source.records()) == 1
    with pytest.raises(ms.NoRecord):
        RecordSource(source.url.replace("t.db", "gone.db"), source.search).records()


def test_what_a_server_has_is_kept_as_its_url_has_no_password(source: RecordSource) -> None:
    found = source.records()
    elsewhere = RecordSource.of_search(Server(tuple(found)), source.search)  # type: ignore[arg-type]
    assert elsewhere.records() == tuple(found)

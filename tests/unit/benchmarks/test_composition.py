"""The composition experiment goes on where it was ended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

import metasched as ms
from benchmarks import composition
from benchmarks.registry import Options


def test_a_search_that_is_done_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[str, int]] = []

    def search(program: ms.Program, rules: Sequence[str], trials: int, options: Options) -> list[float]:
        searched.append((program.key, len(rules)))
        if len(searched) == 5:
            raise KeyboardInterrupt
        return [float("inf"), 2e-3, 1e-3]

    monkeypatch.setattr(composition, "_best_so_far", search)
    options = Options(quick=True, kept=tmp_path / "new", sizes={"M": 32})
    with pytest.raises(KeyboardInterrupt):
        list(composition.run(options))
    lines = list(composition.run(options))
    assert len(lines) == 18
    assert len(searched) == 19  # the fifth was ended, and is the only one to be made twice
    assert "M=32" in searched[0][0]
    assert lines[0]["best_ms_after"] == {1: float("inf"), 2: 2.0, 3: 1.0}
    assert (tmp_path / "new" / "composition.svg").exists()
    list(composition.run(Options(quick=True, kept=tmp_path / "new", sizes={"M": 64})))
    assert len(searched) == 37


@pytest.mark.parametrize(
    ("failures", "is_slow"), [(["run-timeout"], True), (["run-timeout", "wrong-result"], False), ([], False)]
)
def test_a_list_has_no_times_where_all_of_it_is_too_slow(
    failures: list[str], is_slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ms.NoRecord("no candidate was valid")

    known = SimpleNamespace(records=lambda _: [SimpleNamespace(failure=failure) for failure in failures])
    monkeypatch.setattr(ms, "tune", fails)
    monkeypatch.setattr(composition, "open_database", lambda _: nullcontext(known))
    program = composition._program("f32", Options(quick=True))
    if is_slow:
        assert composition._best_so_far(program, ["inline"], 2, Options()) == []
    else:
        with pytest.raises(ms.NoRecord):
            composition._best_so_far(program, ["inline"], 2, Options())

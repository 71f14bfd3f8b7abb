"""The sizes that knowledge is collected for: in an order whose beginnings are spread."""

from __future__ import annotations

import pytest

import metasched as ms
from benchmarks.knowledge import collect
from benchmarks.knowledge.sizes import Sized, _spread


def test_an_order_is_spread_over_a_list() -> None:
    assert _spread(10) == [0, 8, 4, 2, 6, 1, 9, 5, 3, 7]
    assert [sorted(_spread(n)) for n in range(40)] == [list(range(n)) for n in range(40)]


def test_sizes_with_enough_records_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(*_: object, **__: object) -> None:
        raise ms.NoRecord("nothing was valid")

    sizes = [Sized("transpose", (("M", m), ("N", 8))) for m in (4, 5)]
    monkeypatch.setattr(collect, "_records_of", lambda program, *_: dict(program.params)["M"])
    monkeypatch.setattr(ms, "tune", tune)
    (line,) = collect.collected(sizes, "sqlite:///:memory:", trials=5, until=float("inf"))
    assert line == {"case": "transpose M=4 N=8", "failure": "nothing was valid"}
    assert list(collect.collected(sizes, "sqlite:///:memory:", trials=5, until=0.0)) == []

from __future__ import annotations

import gc

import pytest

from metasched.support import collection


def test_it_goes_on_as_it_was_also_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), collection.pause_gc():
        raise ZeroDivisionError
    assert gc.isenabled()
    assert not collection.pause_gc()(gc.isenabled)()
    assert gc.isenabled()
    with collection.pause_gc():
        with collection.pause_gc():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()

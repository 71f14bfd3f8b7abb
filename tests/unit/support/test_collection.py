from __future__ import annotations

import gc

import pytest

from metasched.support import collection


def test_it_goes_on_as_it_was_also_after_an_error() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), collection.put_off():
        raise ZeroDivisionError
    assert gc.isenabled()
    assert not collection.put_off()(gc.isenabled)()
    assert gc.isenabled()
    with collection.put_off():
        with collection.put_off():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()

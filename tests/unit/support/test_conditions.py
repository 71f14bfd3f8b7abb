from __future__ import annotations

import pytest

from metasched.support.conditions import require_or


def test_what_does_not_hold_raises_the_error_of_its_message() -> None:
    require = require_or(lambda message: TypeError(f"it is wrong: {message}"))
    require(True, "nothing")
    with pytest.raises(TypeError, match=r"^it is wrong: one is two$"):
        require(False, "one is two")

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from metasched.lang.decisions import (
    decision_text,
    from_json,
    from_python,
    from_stored,
    print_decision,
    to_json,
    to_python,
    to_stored,
)
from metasched.lang.instructions import HOLE, Decision, Ref

# As a trace holds it, as Python says it, as text, as a message says it.
FORMS = [
    ((HOLE, 8, 1), (None, 8, 1), "[_, 8, 1]", "[_, 8, 1]"),
    (16, 16, "16", "16"),
    (0.5, 0.5, "0.5", "0.5"),
    (True, True, "True", "True"),
    ('say "outer"', 'say "outer"', '"say \\"outer\\""', '"say "outer""'),
    (Ref("j_0"), "j_0", "j_0", '"j_0"'),
    (Ref("root"), "root", "root", '"root"'),
]


@pytest.mark.parametrize(("held", "python", "text", "message"), FORMS)
def test_the_forms_of_a_decision(held: Decision, python: object, text: str, message: str) -> None:
    assert to_python(held) == python
    assert to_python(python) == python
    assert from_python(python, places=isinstance(held, Ref)) == held
    assert from_python(held, places=isinstance(held, Ref)) == held
    assert print_decision(held) == text
    assert decision_text(held) == decision_text(python) == message
    read = from_json(json.loads(json.dumps(to_json(held))))
    assert (read, type(read)) == (held, type(held))


def test_a_list_is_a_tuple_and_only_its_none_is_a_hole() -> None:
    assert from_python([None, 8], places=True) == (HOLE, 8)
    assert from_python("j", places=False) == "j"


@pytest.mark.parametrize(
    ("numpy", "python"),
    [
        (np.int64(8), 8),
        (np.array(8, np.uint8), 8),
        (np.float32(0.5), 0.5),
        (np.True_, True),
        (np.str_("outer"), "outer"),
        ([None, np.int64(4)], (HOLE, 4)),
        (np.array([1, 8]), (1, 8)),
        (np.array([None, 8], object), (HOLE, 8)),
    ],
)
def test_numpy_s_numbers_are_python_s(numpy: object, python: Decision) -> None:
    made = from_python(numpy, places=False)
    assert (made, type(made)) == (python, type(python))
    items = made if isinstance(made, tuple) else (made,)
    assert not any(isinstance(item, np.generic) for item in items)


@pytest.mark.parametrize("value", [None, {"ref": "i"}, object, 1j, {1, 8}, [8, {}], np.array([1j])])
def test_what_is_no_decision_is_refused_by_its_type(value: object) -> None:
    with pytest.raises(ValueError, match=r"is a (NoneType|dict|type|complex|set), and no decision$"):
        from_python(value, places=True)


@pytest.mark.parametrize("number", [math.inf, -math.inf])
def test_infinite_numbers(number: float) -> None:
    written = json.dumps(to_json(number), allow_nan=False)
    assert from_json(json.loads(written)) == number


def test_the_form_of_a_record_s_outline() -> None:
    assert [to_stored(d) for d in ((HOLE, 8), Ref("j"), "outer", 16, None)] == [
        [None, 8],
        {"ref": "j"},
        "outer",
        16,
        None,
    ]
    assert [from_stored(s) for s in ([None, 8], 16)] == [(HOLE, 8), 16]


def test_nan_is_no_decision() -> None:
    with pytest.raises(TypeError, match="a trace cannot hold NaN"):
        to_json(math.nan)
    for read in (from_json, lambda value: from_python(value, places=False)):
        with pytest.raises(ValueError, match="nothing compares equal to it"):
            read([8, math.nan])
    assert print_decision((HOLE, math.nan)) == "[_, nan]"  # for messages


@pytest.mark.parametrize(
    "raw", [None, {"ref": 3}, {"ref": "not a name"}, {"hole": False}, {"ref": "x", "y": 1}, [[{}]]]
)
def test_what_is_no_decision(raw: object) -> None:
    with pytest.raises(ValueError, match=re.escape("is no decision; objects have one key of ref, hole, float")):
        from_json(raw)

"""Numbers as functions of sizes: whole at all sizes of a bucket, which half of even ones is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from metasched.dtypes import DType
from metasched.graph.buckets.comparison import NotAlike
from metasched.graph.buckets.forms import call_forms, forms_of, forms_to_json
from metasched.graph.buckets.masking import CallSizes
from metasched.graph.value_type import ValueType

Sizes = Mapping[str, int]


def call_sizes(number: Callable[[int, int], int]) -> Callable[[Sizes], CallSizes]:
    """What calls take of a model with one number that depends on `h` and `w`."""

    def sizes_of(sizes: Sizes) -> CallSizes:
        made = number(sizes["h"], sizes["w"])
        return CallSizes({"x": ValueType(DType.F32, (sizes["h"], made))}, (np.array([made]), np.array([1 / made])), ())

    return sizes_of


@pytest.mark.parametrize(
    ("number", "h", "w"),
    [
        (lambda h, w: h // 2 + w, range(2, 21, 2), range(2, 9)),
        (lambda h, w: (h // 4) * (w // 8), range(8, 41, 4), range(16, 81, 8)),
        (lambda h, w: -(-h // 2) * w, range(3, 22, 2), range(2, 9)),
        (lambda h, w: h // 4 * 4 + w, range(8, 41, 4), range(5, 6)),
        (lambda h, w: h // 4 + w, range(6, 23, 4), range(2, 9)),
    ],
)
def test_rounded_quotients_are_forms_of_sizes_in_steps(number: Callable[[int, int], int], h: range, w: range) -> None:
    sizes_of = call_sizes(number)
    forms = forms_of(forms_to_json(call_forms(sizes_of, {"h": h, "w": w})))
    for sizes in ({"h": a, "w": b} for a in h for b in w):
        found, expected = forms.evaluate(sizes), sizes_of(sizes)
        assert found.inputs == expected.inputs
        for one, other in zip(found.more, expected.more, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("h", [range(2, 22), range(3, 22, 3), range(2, 23, 2)])
def test_what_is_not_whole_at_all_sizes_is_no_form(h: range) -> None:
    with pytest.raises(NotAlike):
        call_forms(call_sizes(lambda h, w: h // 4 + w), {"h": h, "w": range(2, 9)})

"""At which sizes models are asked what they return."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from metasched.dtypes import DType
from metasched.graph.buckets.open_types import open_types, other_sizes
from metasched.graph.buckets.size_range import SizeRange
from metasched.graph.errors import NetworkError, RefusedModel
from metasched.graph.value_type import ValueType


@pytest.mark.parametrize("divisor", [1, 2, 32, 14])
def test_other_sizes_have_multiples_and_tell_ranges_apart(divisor: int) -> None:
    ranges = {name: SizeRange(divisor, divisor * 32) for name in ("h", "w")}
    in_steps = {name: SizeRange(divisor, divisor * 32, step=divisor) for name in ("h", "w")}
    assert next(other_sizes(in_steps)) == {"h": divisor * 31, "w": divisor * 30}
    found = next(sizes for sizes in other_sizes(ranges) if all(size % divisor == 0 for size in sizes.values()))
    assert divisor <= found["w"] < found["h"] < divisor * 32


def types_at(sizes: Mapping[str, int]) -> dict[str, ValueType]:
    """Of a model that has only even `w`, and no third dimension at an `h` of one."""
    h, w = sizes["h"], sizes["w"]
    if w % 2:
        raise RefusedModel("m", ())
    fixed = ValueType(DType.F32, (3, h, w))
    halved = ValueType(DType.F32, (-(-h // 2), w // 2, 2 * w))
    return {"fixed": fixed, "halved": halved, "ratio": ValueType(DType.I64, (3 * w // 2, h * w, max(h, 9)))}


def test_dimensions_are_sizes_or_parts_and_multiples_of_them() -> None:
    """What is rounded is the same at neighbours."""
    ranges = {"h": SizeRange(1, 8), "w": SizeRange(2, 8)}
    found = open_types(ranges, types_at({"h": 8, "w": 8}), types_at)
    assert list(map(str, found.values())) == ["f32[3, h, w]", "f32[?, w/2, 2*w]", "i64[3*w/2, ?, 9]"]
    in_steps = open_types({**ranges, "h": SizeRange(2, 8, step=2)}, types_at({"h": 8, "w": 8}), types_at)
    assert str(in_steps["halved"]) == "f32[h/2, w/2, 2*w]"
    with pytest.raises(NetworkError, match="depends on sizes in another way"):
        in_steps["halved"].at({"h": 4, "w": 4})


def test_a_type_that_has_fewer_dimensions_elsewhere_is_unknown() -> None:
    ranges = {"h": SizeRange(2, 8)}
    large = {"y": ValueType(DType.F32, (8, 4))}
    found = open_types(ranges, large, lambda sizes: {"y": ValueType(DType.F32, (sizes["h"],))})
    assert str(found["y"]) == "f32[?, ?]"


def test_other_sizes_are_in_their_ranges() -> None:
    ranges = {"n": SizeRange(3, 5), "m": SizeRange(4, 4)}
    assert list(other_sizes(ranges))[:2] == [{"n": 4, "m": 4}, {"n": 3, "m": 4}]
    for sizes in other_sizes(ranges):
        assert all(ranges[name].low <= size <= ranges[name].high for name, size in sizes.items())

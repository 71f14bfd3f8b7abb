"""Keys of compiled networks on disk: what they are made of, and models that have none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from metasched.graph.buckets.size_range import SizeRange
from metasched.graph.growing.sizes import GrowingSize
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.saved.network_key import model_digest, network_key
from metasched.target import Target
from tests.support.onnx_models import model, node, random, value

TARGET = Target.detect()


def key(
    given: object,
    sizes: Mapping[str, object] | None = None,
    values: Mapping[str, Any] | None = None,
    target: Target = TARGET,
    precision: ProductPrecision = ProductPrecision.F32,
) -> str | None:
    return network_key(model_digest(given), sizes or {}, {}, values or {}, {}, target, precision)


def test_everything_that_decides_a_network_decides_its_key() -> None:
    keys = [
        key(b"model"),
        key(b"another"),
        key(b"model", {"n": 1}),
        key(b"model", {"n": 2}),
        key(b"model", values={"v": np.int64(1)}),
        key(b"model", values={"v": np.int32(1)}),
        key(b"model", target=replace(TARGET, threads=TARGET.threads + 1)),
        key(b"model", precision=ProductPrecision.BF16),
    ]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert key(b"model") == keys[0]


@pytest.mark.parametrize("given", ["/no/such/file", object(), b"..\n\x08location\x12\x01d.."])
def test_what_is_no_plain_file_has_no_key(given: object) -> None:
    assert key(given) is None


def test_sizes_that_grow_or_are_ranges_decide_the_key_with_their_buckets() -> None:
    sizes = (
        GrowingSize(8),
        GrowingSize(9),
        GrowingSize(8, (2,)),
        SizeRange(1, 8),
        SizeRange(2, 8),
        SizeRange(1, 8, (3,)),
    )
    keys = {key(b"model", {"past": size}) for size in sizes}
    assert len(keys) == len(sizes)
    assert None not in keys


def external(folder: Path) -> Path:
    made = model([node("Add", "x w", "y")], [value("x", random(64))], ["y"], {"w": random(64)})
    path = folder / "m.onnx"
    onnx.save(made, path, save_as_external_data=True, location="m.data", size_threshold=0)
    return path


def test_external_data_decides_the_key(tmp_path: Path) -> None:
    path = external(tmp_path)
    before = key(path)
    assert before is not None
    data = bytearray((tmp_path / "m.data").read_bytes())
    data[0] ^= 1
    (tmp_path / "m.data").write_bytes(data)
    assert key(path) not in {before, None}
    (tmp_path / "m.data").unlink()
    assert key(path) is None


@pytest.mark.parametrize("name", ["../m.data", "/m.data"])
def test_external_data_outside_of_the_folder_has_no_key(tmp_path: Path, name: str) -> None:
    path = external(tmp_path)
    data = path.read_bytes()
    assert data.count(b"\x12\x06m.data") == 1
    path.write_bytes(data.replace(b"\x12\x06m.data", bytes([0x12, len(name)]) + name.encode()))
    assert key(path) is None

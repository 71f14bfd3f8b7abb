"""The operators that are known; PyTorch is not needed to know them."""

from __future__ import annotations

from metasched.doors.pytorch.registry import FILES, known_operators


def test_every_file_declares_operators_and_none_twice() -> None:
    assert sum(len(declared) for declared in FILES.load().values()) == len(known_operators())
    assert {"aten.convolution", "aten.add.Tensor", "aten._softmax", "cond"} <= set(known_operators())

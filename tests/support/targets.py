"""CPUs that tests compile for and score against, whatever this machine is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from metasched import target as target_module
from metasched.target import Target

# 32 vector registers of 512 bits, 16 of 256, 16 of 128, and 32 of 128.
AVX512 = Target("skylake-avx512", frozenset({"avx", "avx2", "fma", "avx512f"}), 2, 32 << 10, 1 << 20, 32 << 20)
SAPPHIRE = replace(
    AVX512,
    features=AVX512.features | {"avx512bw", "avx512vnni", "avx512bf16", "amx-tile", "amx-int8", "amx-bf16", "avxvnni"},
)
AVX2 = AVX512.without({"avx512f"})
# As of the most common desktops since 2021: VNNI, and no AVX-512.
ALDER = Target("alderlake", AVX2.features | {"avxvnni", "f16c"}, 2, 48 << 10, 1280 << 10, 24 << 20)
SSE = AVX2.without({"avx", "avx2", "fma"})
NEON = Target("generic", frozenset({"neon"}), 2, 32 << 10, 1 << 20, 32 << 20)


def pretend_lacking(monkeypatch: pytest.MonkeyPatch, *features: str) -> Target:
    """Have this machine lack instruction sets, and return the target of it that has them: its code runs in truth."""
    whole = Target.detect()
    left = whole.without(features)
    monkeypatch.setattr(target_module, "_host", lambda: (left.name, left.features))
    for calls in ("metasched.runtime.compiled", "metasched.graph.running.executable"):
        monkeypatch.setattr(f"{calls}.lacking_here", lambda target: ())  # it can be called
    return whole

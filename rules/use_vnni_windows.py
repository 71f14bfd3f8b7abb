"""VNNI, on CPUs that have it, lane by lane: windows of bytes, each channel its own."""

from __future__ import annotations

from metasched.rules.tensor_windows import tensor_windows

use_vnni_windows = tensor_windows(
    intrinsics=("lanes_u8i8_vnni", "lanes_i8i8_vnni", "lanes_u8i8_avxvnni", "lanes_i8i8_avxvnni")
).named("use_vnni_windows")

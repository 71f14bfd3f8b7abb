"""VNNI, on CPUs that have it: four products of bytes at a time, in vectors of 16 sums or of 8."""

from __future__ import annotations

from metasched.rules.tensorize import tensorize

use_vnni = tensorize(
    intrinsics=("dot_u8i8_vnni", "dot_i8i8_vnni", "dot_u8i8_avxvnni", "dot_i8i8_avxvnni"), rows=(14, 2)
).named("use_vnni")

"""AVX512-BF16, on CPUs that have it: pairs of products of bf16, in vectors of 16 sums."""

from __future__ import annotations

from metasched.rules.tensorize import tensorize

use_avx512_bf16 = tensorize(intrinsics=("dot_bf16_avx512",), rows=(14, 2)).named("use_avx512_bf16")

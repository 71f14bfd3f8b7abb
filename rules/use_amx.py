"""AMX, on CPUs that have it: tiles of 16 x 16 sums."""

from __future__ import annotations

from metasched.rules.tensorize import tensorize

use_amx = tensorize(intrinsics=("tile_bf16_amx", "tile_u8i8_amx", "tile_i8i8_amx")).named("use_amx")

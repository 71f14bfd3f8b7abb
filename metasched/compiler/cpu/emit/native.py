"""What a target has an instruction for, where others need several."""

from __future__ import annotations

from metasched.support.data_classes import dataclass
from metasched.target import Target

# Each of these sets has instructions that convert f16; LLVM takes f16c for absent without avx.
_F16_CONVERSION_FEATURES = (frozenset({"f16c", "avx"}), frozenset({"avx512fp16", "avx"}), frozenset({"fullfp16"}))
# With these LLVM does one operation of f32 on f16 that is extended, whose result is rounded, in f16 itself.
_F16_ARITHMETIC_FEATURES = frozenset({"avx512fp16", "fullfp16"})
# vcvtneps2bf16, in vectors of every size, and masks to put right what it takes for zero
_BF16_ROUNDING_FEATURES = frozenset({"avx512bf16", "avx512vl", "avx512bw"})
# vscalefps and vscalefpd, in vectors of every size
_SCALING_FEATURES = frozenset({"avx512f", "avx512vl"})

# Registers for masks of vectors of every size, of lanes of every size
_MASK_FEATURES = frozenset({"avx512f", "avx512vl", "avx512bw"})


@dataclass(frozen=True)
class Native:
    """`converts_f16`: between f16 and f32, in vectors. `computes_f16`: in f16, too. `rounds_bf16`: f32 to bf16, in
    vectors. `scales`: x * 2^n, in vectors. `gathers`, `registers`: as in `Target`.

    `masks`: a vector is loaded or picked by a mask in about the time of a plain load. AVX2's loads under masks take
    several times that, so that a branch around them is better where one condition decides for all lanes.
    """

    converts_f16: bool = False
    computes_f16: bool = False
    rounds_bf16: bool = False
    scales: bool = False
    gathers: bool = False
    masks: bool = False
    registers: int = 16

    @classmethod
    def from_target(cls, target: Target) -> Native:
        features = target.features
        converts = any(needed <= features for needed in _F16_CONVERSION_FEATURES)
        masks = features >= _MASK_FEATURES
        computes = not features.isdisjoint(_F16_ARITHMETIC_FEATURES)
        return cls(
            converts_f16=converts,
            computes_f16=computes,
            rounds_bf16=features >= _BF16_ROUNDING_FEATURES,
            scales=features >= _SCALING_FEATURES,
            gathers=target.gathers,
            masks=masks,
            registers=target.registers,
        )


NO_FEATURES = Native()

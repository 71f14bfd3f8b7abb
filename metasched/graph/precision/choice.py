"""What precision a network is asked for."""

from __future__ import annotations

from enum import Enum

from metasched.graph.errors import NetworkError


class ProductPrecision(Enum):
    """What factors of products of matrices and of convolutions are; they are added up in f32 whatever it is.

    `F32`: what the model says. `BF16`: bf16, where the model says f32 or f16, and so are most values between kernels.
    """

    F32 = "f32"
    BF16 = "bf16"

    @classmethod
    def of(cls, given: ProductPrecision | str) -> ProductPrecision:
        """A precision by its name. Raises NetworkError for another."""
        try:
            return cls(given)
        except ValueError:
            known = ", ".join(f'"{each.value}"' for each in cls)
            raise NetworkError(
                f"there is no precision {given!r}: there is {known}",
                hint="int8 takes scales, which a quantised model has: see docs/networks/precision.md",
            ) from None

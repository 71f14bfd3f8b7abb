"""What networks begin with: a convolution of an image whose channels come first, to a result whose channels come last.

Layouts are chosen so in networks: the image is read where it lies, and what follows has channels last.
"""

from __future__ import annotations

from dataclasses import dataclass

from metasched.ir.program import Program
from metasched.lang import parse_program

_ACTIVATIONS = {
    "none": "{x}",
    "relu": "max({x}, 0)",
    "relu6": "min(max({x}, 0), 6)",
    "silu": "({x}) * sigmoid({x})",
}
_PADDED = """    P: f32[1, {padded}, {padded}, {ci}]
    P[n, h, w, c] = A[n, c, h - {pad}, w - {pad}] if {low} and {high} else 0
"""
_INPUTS = "A: f32[1, {ci}, {size}, {size}], const B: f32[{taps}, {taps}, {ci}, {co}], const C: f32[{co}]"
_TEXT = """program first_layer({inputs}) -> Y: f32[1, {out}, {out}, {co}]:
{padding}    T: f32[1, {out}, {out}, {co}]
    T[n, h, w, o] = sum[r < {taps}, s < {taps}, c < {ci}]({read} * B[r, s, c, o])
    Y[n, h, w, o] = {result}
"""


@dataclass(frozen=True)
class FirstLayer:
    """A square image of `size` with `ci` channels, and filters of `taps` by `taps`."""

    size: int
    taps: int
    stride: int
    pad: int
    co: int
    activation: str = "relu"
    ci: int = 3

    operator = "first_layer"

    @property
    def case(self) -> str:
        numbers = ("size", "taps", "stride", "pad", "co", "ci")
        return " ".join([self.operator, *(f"{n}={getattr(self, n)}" for n in numbers), self.activation])

    def program(self) -> Program:
        size, pad = self.size, self.pad
        inside = [(f"{x} >= {pad}", f"{x} < {size + pad}") for x in ("h", "w")]
        low, high = (" and ".join(bounds) for bounds in zip(*inside, strict=True))
        rows = [f"{self.stride} * {x} + {tap}" for x, tap in (("h", "r"), ("w", "s"))]
        given = vars(self) | {"padded": size + 2 * pad, "low": low, "high": high}
        text = _TEXT.format(
            **given,
            inputs=_INPUTS.format(**given),
            out=(size + 2 * pad - self.taps) // self.stride + 1,
            padding=_PADDED.format(**given) if pad else "",
            read=f"P[n, {', '.join(rows)}, c]" if pad else f"A[n, c, {', '.join(rows)}]",
            result=_ACTIVATIONS[self.activation].format(x="T[n, h, w, o] + C[o]"),
        )
        return parse_program(text)


FIRST_LAYERS = (
    FirstLayer(208, 3, 2, 1, 32, "relu6"),
    FirstLayer(192, 3, 2, 1, 16),
    FirstLayer(256, 7, 2, 3, 64),
    FirstLayer(320, 6, 2, 2, 16, "silu"),
    FirstLayer(640, 6, 2, 2, 32, "silu"),
    FirstLayer(192, 3, 1, 1, 64),
    FirstLayer(256, 3, 2, 0, 32),
    FirstLayer(192, 4, 4, 0, 96, "none"),
    FirstLayer(96, 3, 2, 1, 24),
    FirstLayer(256, 9, 1, 4, 64),
    FirstLayer(32, 3, 1, 1, 64),
    FirstLayer(352, 3, 1, 1, 16, "silu"),
    FirstLayer(227, 11, 4, 2, 64),
    FirstLayer(256, 3, 2, 0, 64),
    FirstLayer(128, 5, 2, 2, 64, ci=1),
)

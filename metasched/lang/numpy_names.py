"""Hints for names from NumPy, Python and PyTorch: how the language writes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from metasched.dtypes import DType, spellings
from metasched.functions.registry import functions

# NumPy's integers have 64 bits where C's have 32.
_CASTS = {"int": DType.I64, "astype": DType.F32, "to": DType.F32, **spellings()}
_SPELLINGS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("maximum", "fmax", "amax"), "max(x, y)"),
        **dict.fromkeys(("minimum", "fmin", "amin"), "min(x, y)"),
        "clip": "clamp(x, low, high)",
        **dict.fromkeys(("pad", "reflect"), "mirror(i, N)` as an index, or `clamp(i, 0, N - 1)"),
        **dict.fromkeys(("dot", "matmul", "einsum", "mm", "bmm", "tensordot"), "sum[k](A[i, k] * B[k, j])"),
        **{name: f"{cast}(x)" for name, cast in _CASTS.items()},
        "sum": "sum[k](A[i, k])",
        "max": "max(x, y)` of two values, `max[k](A[i, k])",
        "min": "min(x, y)` of two values, `min[k](A[i, k])",
        "mean": "s[i] = sum[k](A[i, k])`, and divide by the size in the next stage: `s[i] / K",
        "relu": "max(x, 0)",
        "where": "x if c else y",
        "square": "x * x",
        **{
            function: f"x {operator} y"
            for function, operator in (
                ("bitwise_and", "&"),
                ("bitwise_or", "|"),
                ("bitwise_xor", "^"),
                ("left_shift", "<<"),
                ("right_shift", ">>"),
            )
        },
        **dict.fromkeys(("bitwise_not", "invert"), "~x"),
        "reciprocal": "1 / x",
        "log10": "log(x) / log(10)",
        **dict.fromkeys(("round", "around"), "rint(x)"),
        "gelu": "0.5 * x * (1 + erf(x / sqrt(2)))",
        "silu": "x * sigmoid(x)",
        "pi": "3.141592653589793",
        "e": "2.718281828459045",
        "inf": "inf",
        "T": "A[j, i]` for the transpose of `A[i, j]",
        "transpose": "A[j, i]` for the transpose of `A[i, j]",
        "shape": "N`, a parameter: `program p[N=512](A: f32[N])",
        "len": "N`, a parameter: `program p[N=512](A: f32[N])",
    }
)


def spelling_hint(name: str) -> str:
    """A hint for a name of NumPy, Python or PyTorch: how the language writes it; '' for an unknown name."""
    if name in _SPELLINGS:
        return f"write `{_SPELLINGS[name]}`"
    if name in functions():
        return f"functions are called by their names alone: write `{functions()[name].usage}`"
    known = next((function for function in functions().values() if name in function.numpy_names), None)
    if known is not None:
        return f"write `{known.usage}`"
    return ""


def hint_in_python(name: str) -> str:
    """A hint for a function of NumPy on an expression of a program built in Python; '' for one that there is not."""
    found = next((one for key, one in functions().items() if key == name or name in one.numpy_names), None)
    return f"write `ms.{found.usage}`" if found is not None else spelling_hint(name)

"""Math functions by name, found by importing this package, and their definitions in LLVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from metasched.compiler.cpu.emit.native import Native
from metasched.compiler.cpu.emit.types import Value, suffix, type_text
from metasched.compiler.cpu.math.lanes import Formula, Lanes
from metasched.dtypes import DType
from metasched.ir.functions import FUNCTIONS
from metasched.support.imports import imports

Definition = Callable[..., Lanes]
# What emission has instructions for: these results are exact, a square root is rounded correctly, and its reciprocal
# once more.
_INSTRUCTIONS: Mapping[str, float] = MappingProxyType({"abs": 0, "floor": 0, "ceil": 0, "sqrt": 0.5, "rsqrt": 1.5})


@dataclass(frozen=True)
class MathFunction:
    """A function of the language as a formula over lanes; `ulp` is the largest error, in units in the last place."""

    name: str
    arity: int
    ulp: Mapping[DType, float]
    formula: Definition


def math_function(*, f32: float, f64: float) -> Callable[[Definition], MathFunction]:
    """Declare a math function: `fn(formula, x, ...)` with its largest errors in ulp. Its name is the language's."""

    def attach(fn: Definition) -> MathFunction:
        name = fn.__name__
        if name not in FUNCTIONS:
            raise TypeError(f"`{name}` is no function of the language")
        return MathFunction(name, FUNCTIONS[name].arity, MappingProxyType({DType.F32: f32, DType.F64: f64}), fn)

    return attach


@cache
def registry() -> Mapping[str, MathFunction]:
    """Every math function with a formula, by name; the file that declares it has its name.

    Raises TypeError for a function declared in a file of another name.
    """
    found: dict[str, MathFunction] = {}
    for name, module in imports.of_package("metasched.compiler.cpu.math"):
        for value in vars(module).values():
            if isinstance(value, MathFunction):
                if value.name != name:
                    raise TypeError(f"{module.__name__} declares `{value.name}`; a file holds the function of its name")
                found[value.name] = value
    return MappingProxyType(found)


def stated_errors() -> Mapping[str, Mapping[DType, float]]:
    """The largest error in ulp, in float32 and in float64, of every function of the language, in its order."""
    formulas = registry()
    return {
        name: formulas[name].ulp if name in formulas else dict.fromkeys((DType.F32, DType.F64), _INSTRUCTIONS[name])
        for name in FUNCTIONS
    }


def define(name: str, dtype: DType, width: int, native: Native, declarations: dict[str, str]) -> str:
    """The symbol of a math function for `width` lanes (0: a scalar); its definition is added to `declarations`."""
    function = registry()[name]
    symbol = f"@math.{name}.{suffix(dtype, width)}"
    if symbol in declarations:
        return symbol
    type_ = type_text(dtype, width)
    names = [f"%x{n}" for n in range(function.arity)]
    formula = Formula(dtype, width, native, declarations, define)
    result = function.formula(formula, *(Lanes(formula, Value(x, dtype, width)) for x in names))
    body = "\n".join(formula.lines)
    parameters = ", ".join(f"{type_} {x}" for x in names)
    declarations[symbol] = (
        f"define internal {type_} {symbol}({parameters}) alwaysinline nounwind willreturn memory(none) "
        f"{{\n{body}\n  ret {result.value.typed}\n}}"
    )
    return symbol

"""What a file declares of its math function: all that the language, the reference, the compiler, the cost model and the
documentation need to know of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from metasched.dtypes import DType
from metasched.functions.formula import Lanes
from metasched.ir.nodes import Binary, BinOp, Call, Const, Expr, Select
from metasched.support.conditions import require_or
from metasched.support.data_classes import dataclass
from metasched.support.documentation import documentation

# What a division of a vector costs, in vector instructions; square roots are like it.
DIVISION_COST = 18.0
# Vector instructions from which a result is worth keeping: it takes as long as some additions.
_COSTLY_INSTRUCTIONS = 8.0

# What arguments are called where a function is explained.
ARGUMENTS = "xyzw"

Definition = Callable[..., Lanes]
Slopes = Callable[..., tuple[Expr, ...]]


@dataclass(frozen=True)
class MathFunction:
    """A math function. All arguments and the result have one dtype.

    Attributes:
        name: its name in the language.
        doc: the documentation of its file.
        arity: how many arguments it takes.
        formula: its code, over lanes (`metasched.functions.formula`).
        ulp: its largest error in f32 and in f64, in units in the last place.
        cost: roughly how many vector instructions an element takes, where an addition is one: twice the cycles of a
            vector of f32 in a loop (AVX-512, two vector operations a cycle).
        evaluate: the value on Python numbers, in double precision, to fold constants. It raises ValueError,
            OverflowError or ZeroDivisionError outside the function's domain.
        numpy: the value on NumPy scalars, float64 for floats, with NaN and infinities: what the reference interprets.
        numba: the same as an expression of Python that Numba compiles, with the arguments as `{0}`, `{1}`; `np` and
            `math` are known.
        slopes: bounds of its partial derivatives' sizes at arguments that are f64 expressions, one for each argument:
            the reference bounds the rounding error of a result by them.
        integers: whether integer dtypes are taken besides floats.
        in_place: its code is an instruction or two, which stand where it is called.
        exponential: of a sum it is the product of what it is of the summands.
        numpy_names: its other names in NumPy, Python and PyTorch, for hints.

    """

    name: str
    doc: str
    arity: int
    formula: Definition
    ulp: Mapping[DType, float]
    cost: float
    evaluate: Callable[..., float]
    numpy: Callable[..., Any]
    numba: str
    slopes: Slopes
    integers: bool = False
    in_place: bool = False
    exponential: bool = False
    numpy_names: tuple[str, ...] = ()

    @property
    def expensive(self) -> bool:
        """Whether it is a chain of many instructions, more than a division or a root."""
        return not self.in_place

    @property
    def costly(self) -> bool:
        """Whether it takes as long as a division of one element, or longer."""
        return self.cost >= _COSTLY_INSTRUCTIONS

    @property
    def usage(self) -> str:
        """A call of the function as it is written: `pow(x, y)`."""
        return f"{self.name}({', '.join(ARGUMENTS[: self.arity])})"


def math_function(
    *,
    f32: float,
    f64: float,
    cost: float,
    evaluate: Callable[..., float],
    numpy: Callable[..., Any],
    numba: str,
    slopes: Slopes,
    integers: bool = False,
    in_place: bool = False,
    exponential: bool = False,
    numpy_names: tuple[str, ...] = (),
) -> Callable[[Definition], MathFunction]:
    """Declare a math function by its formula `fn(formula, x, ...)`: its name is the language's.

    `f32` and `f64` are its largest errors in ulp; the others are as `MathFunction` has them. Raises TypeError for what
    no function can be.
    """

    def attach(fn: Definition) -> MathFunction:
        name = fn.__name__
        require = require_or(lambda message: TypeError(f"math function `{name}`: {message}"))
        arity = len(inspect.signature(fn).parameters) - 1
        require(arity >= 1, "its formula takes the formula and the arguments, `fn(f, x)`")
        require(min(f32, f64) >= 0, f"its errors are at least 0 ulp, not {f32} and {f64}")
        require(cost > 0, f"its cost is a number of instructions, not {cost}")
        unused = [n for n in range(arity) if f"{{{n}}}" not in numba]
        require(not unused, f"`numba` is an expression of its {arity} argument(s), and has no {{{unused[:1]}}}")
        doc = documentation(inspect.getmodule(fn)) or ""
        require(bool(doc), "its file begins with documentation")
        ulp = MappingProxyType({DType.F32: f32, DType.F64: f64})
        return MathFunction(
            name=name,
            doc=doc,
            arity=arity,
            formula=fn,
            ulp=ulp,
            cost=cost,
            evaluate=evaluate,
            numpy=numpy,
            numba=numba,
            slopes=slopes,
            integers=integers,
            in_place=in_place,
            exponential=exponential,
            numpy_names=numpy_names,
        )

    return attach


# --- what slopes are written in --------------------------------------------------------------------------


def number(value: float) -> Expr:
    """A constant of f64."""
    return Const(value, DType.F64)


def double(name: str, *args: Expr) -> Expr:
    """A math function of f64 expressions."""
    return Call(name, args, DType.F64)


def size(e: Expr) -> Expr:
    """The absolute value of an f64 expression."""
    return double("abs", e)


def over_distance(x: Expr) -> Expr:
    """How steep a jump by one is at a distance from it: one over it.

    On it, it is 0, which is right for what has not been rounded.
    """
    distance = size(x)
    on_it = Binary(BinOp.EQ, distance, number(0.0))
    return Select(on_it, number(0.0), number(1.0) / distance)

"""Element types of buffers and scalars: one table of what there is to know of each.

Adding a type is a member of `DType` and a row of `_ROWS`; what LLVM makes of it is `metasched.compiler.cpu.emit.types`
(and `half_floats` and `small_floats`, for a type of storage). Everything else is derived from the row.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from metasched.support.cached import cached_property
from metasched.support.data_classes import dataclass
from metasched.support.messages import did_you_mean


class DTypeKind(Enum):
    """What the bits of a type mean."""

    FLOAT = "float"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    BOOL = "bool"


class Beyond(Enum):
    """What the codes of a float type are that no finite number has, and so what a number beyond the largest becomes."""

    INFINITY = "the highest exponent is infinity and NaN"
    NAN = "the highest code of either sign is NaN, and there is no infinity"
    ONE_NAN = "the code of a negative zero is NaN, and there is neither that zero nor infinity"
    NOTHING = "every code is a finite number; what is beyond the largest becomes it, and NaN becomes 0"


@dataclass(frozen=True)
class FloatFormat:
    """A sign, `exponent` bits, and `significand` digits in bits, of which the leading one is not kept.

    Codes go up with the numbers that they are: those of exponent 0 are the subnormal ones. Of a format of one digit,
    which has exponents alone, all codes are powers of two: there is no zero, and no sign.
    """

    significand: int
    exponent: int
    beyond: Beyond = Beyond.INFINITY

    @property
    def has_powers_alone(self) -> bool:
        """Whether all numbers are powers of two."""
        return self.significand == 1

    @cached_property
    def bias(self) -> int:
        """What is added to a number's exponent in its code."""
        return int(2 ** (self.exponent - 1)) - (0 if self.beyond is Beyond.ONE_NAN else 1)

    @property
    def smallest_exponent(self) -> int:
        """Normal numbers go from 2 to this on."""
        return (0 if self.has_powers_alone else 1) - self.bias

    @property
    def kept_bits(self) -> int:
        """The bits of a code for the significand."""
        return self.significand - 1

    @property
    def sign(self) -> int:
        """The place of a code's sign, beyond its bits where it has none."""
        return self.kept_bits + self.exponent

    @cached_property
    def largest_code(self) -> int:
        """The code of the largest finite number."""
        highest = int(2**self.sign) - 1
        if self.beyond is Beyond.INFINITY:
            return highest - int(2**self.kept_bits)
        return highest - (self.beyond is Beyond.NAN)

    @cached_property
    def largest(self) -> float:
        """The largest finite number."""
        exponent, digits = divmod(self.largest_code, 2**self.kept_bits)
        return float((2**self.kept_bits + digits) * 2.0 ** (exponent - self.bias - self.kept_bits))

    @property
    def lowest(self) -> float:
        """The lowest finite number."""
        return float(2.0**self.smallest_exponent) if self.has_powers_alone else -self.largest


@dataclass(frozen=True)
class TypeProperties:
    """What there is to know of an element type.

    Attributes:
        kind: what its bits mean.
        bits: its size in memory.
        numpy: NumPy's type of it.
        float: its format, of a float.
        computed_in: the type that its values are computed in, by name, where that is another: it is one of storage.
        spellings: other words for it that a program may have in mind, for hints.
        digits: the bits of an integer's number, where they are less than its size: they are the lowest ones.

    """

    kind: DTypeKind
    bits: int
    numpy: Any
    float: FloatFormat | None = None
    computed_in: str = ""
    spellings: tuple[str, ...] = ()
    digits: int = 0


class DType(Enum):
    """An element type; the value is its name in the language.

    `f16` (IEEE 754 binary16), `bf16` (the upper half of an f32), the floats of 8 bits (Micikevicius et al. 2022, "FP8
    Formats for Deep Learning"; those in `fnuz` are Noune et al. 2022, "8-bit Numerical Formats for Deep Neural
    Networks"), `f4e2m1` and `f8e8m0` (OCP Microscaling Formats 1.0; an element takes a byte) are types of storage:
    values are read as f32, computed in f32, and rounded to nearest, ties to even, where they are stored or cast; those
    of `f8e8m0` to the nearest power of two, of two to the larger one, and what is not above 0 to NaN. Integers of 4 and
    2 bits, which take a byte too, are computed in those of 8, and wrap where they are stored or cast.
    """

    # By identity: an enum's own is a call of Python for each node of a program.
    __hash__ = object.__hash__

    F4E2M1 = "f4e2m1"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F8E8M0 = "f8e8m0"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    U8 = "u8"
    I4 = "i4"
    U4 = "u4"
    I2 = "i2"
    U2 = "u2"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"
    BOOL = "bool"

    def __str__(self) -> str:
        return str(self.value)

    @cached_property
    def properties(self) -> TypeProperties:
        """The type's row of the table."""
        return _ROWS[self.value]

    @cached_property
    def is_float(self) -> bool:
        return self.properties.kind is DTypeKind.FLOAT

    @cached_property
    def is_storage(self) -> bool:
        """Whether it is a type of storage only."""
        return bool(self.properties.computed_in)

    @cached_property
    def is_integer(self) -> bool:
        return self.properties.kind in (DTypeKind.SIGNED, DTypeKind.UNSIGNED)

    @cached_property
    def is_unsigned(self) -> bool:
        """Whether it is an integer without a sign."""
        return self.properties.kind is DTypeKind.UNSIGNED

    @cached_property
    def is_bool(self) -> bool:
        return self.properties.kind is DTypeKind.BOOL

    @cached_property
    def compute(self) -> DType:
        """What values of this type are computed in: another for a type of storage, the type itself for the others."""
        return DType(self.properties.computed_in) if self.is_storage else self

    @cached_property
    def bits(self) -> int:
        return self.properties.bits

    @cached_property
    def digits(self) -> int:
        """The bits of an integer's number."""
        return self.properties.digits or self.bits

    @cached_property
    def bytes(self) -> int:
        return self.bits // 8

    @cached_property
    def significand(self) -> int:
        """The digits of a float's significand, in bits: integers up to 2**significand are exact."""
        return float_format(self).significand

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        found: np.dtype[Any] = np.dtype(self.properties.numpy)
        return found

    @cached_property
    def is_of_numpy(self) -> bool:
        """Whether NumPy itself has it. The others are those of ml_dtypes, which other libraries may not take."""
        return self.numpy.isbuiltin == 1

    @cached_property
    def bit_pattern(self) -> np.dtype[Any]:
        """NumPy's unsigned integers of the same size: what an array is viewed as where a library lacks the type."""
        return np.dtype(f"u{self.bytes}")

    @property
    def ctypes(self) -> Any:
        """How a scalar is passed to compiled code. A bool is a byte there; no scalar is of a type of storage."""
        return ctypes.c_uint8 if self.is_bool else np.ctypeslib.as_ctypes_type(self.numpy)

    @cached_property
    def unit_roundoff(self) -> float:
        """Half the distance from 1 to the next float."""
        return 2.0**-self.significand

    @cached_property
    def highest(self) -> float:
        """What no value of a float type is above: infinity, or the largest number of a type that has none."""
        kind = float_format(self)
        return math.inf if kind.beyond is Beyond.INFINITY else kind.largest

    @cached_property
    def lowest(self) -> float:
        """What no value of a float type is below: negative infinity, or the lowest number of a type that has none."""
        kind = float_format(self)
        return -math.inf if kind.beyond is Beyond.INFINITY else kind.lowest

    @cached_property
    def largest(self) -> float:
        """The largest finite number of a float type."""
        return float_format(self).largest

    @cached_property
    def smallest_normal(self) -> float:
        """The smallest positive float that has all digits."""
        return 2.0 ** float_format(self).smallest_exponent


_ROWS: Mapping[str, TypeProperties] = MappingProxyType(
    {
        "f4e2m1": TypeProperties(
            DTypeKind.FLOAT,
            8,
            ml_dtypes.float4_e2m1fn,
            FloatFormat(2, 2, Beyond.NOTHING),
            "f32",
            ("float4_e2m1fn", "float4e2m1", "f4"),
        ),
        "f8e4m3fn": TypeProperties(
            DTypeKind.FLOAT,
            8,
            ml_dtypes.float8_e4m3fn,
            FloatFormat(4, 4, Beyond.NAN),
            "f32",
            ("float8_e4m3fn", "float8e4m3fn", "f8e4m3", "f8"),
        ),
        "f8e4m3fnuz": TypeProperties(
            DTypeKind.FLOAT,
            8,
            ml_dtypes.float8_e4m3fnuz,
            FloatFormat(4, 4, Beyond.ONE_NAN),
            "f32",
            ("float8_e4m3fnuz", "float8e4m3fnuz"),
        ),
        "f8e5m2": TypeProperties(
            DTypeKind.FLOAT, 8, ml_dtypes.float8_e5m2, FloatFormat(3, 5), "f32", ("float8_e5m2", "float8e5m2")
        ),
        "f8e5m2fnuz": TypeProperties(
            DTypeKind.FLOAT,
            8,
            ml_dtypes.float8_e5m2fnuz,
            FloatFormat(3, 5, Beyond.ONE_NAN),
            "f32",
            ("float8_e5m2fnuz", "float8e5m2fnuz"),
        ),
        "f8e8m0": TypeProperties(
            DTypeKind.FLOAT,
            8,
            ml_dtypes.float8_e8m0fnu,
            FloatFormat(1, 8, Beyond.NAN),
            "f32",
            ("float8_e8m0fnu", "float8e8m0"),
        ),
        "f16": TypeProperties(DTypeKind.FLOAT, 16, np.float16, FloatFormat(11, 5), "f32", ("float16", "half")),
        "bf16": TypeProperties(DTypeKind.FLOAT, 16, ml_dtypes.bfloat16, FloatFormat(8, 8), "f32", ("bfloat16",)),
        "f32": TypeProperties(
            DTypeKind.FLOAT, 32, np.float32, FloatFormat(24, 8), spellings=("float32", "float", "single")
        ),
        "f64": TypeProperties(DTypeKind.FLOAT, 64, np.float64, FloatFormat(53, 11), spellings=("float64", "double")),
        "i8": TypeProperties(DTypeKind.SIGNED, 8, np.int8, spellings=("int8",)),
        "u8": TypeProperties(DTypeKind.UNSIGNED, 8, np.uint8, spellings=("uint8",)),
        "i4": TypeProperties(DTypeKind.SIGNED, 8, ml_dtypes.int4, None, "i8", ("int4",), digits=4),
        "u4": TypeProperties(DTypeKind.UNSIGNED, 8, ml_dtypes.uint4, None, "u8", ("uint4",), digits=4),
        "i2": TypeProperties(DTypeKind.SIGNED, 8, ml_dtypes.int2, None, "i8", ("int2",), digits=2),
        "u2": TypeProperties(DTypeKind.UNSIGNED, 8, ml_dtypes.uint2, None, "u8", ("uint2",), digits=2),
        "i16": TypeProperties(DTypeKind.SIGNED, 16, np.int16, spellings=("int16",)),
        "u16": TypeProperties(DTypeKind.UNSIGNED, 16, np.uint16, spellings=("uint16",)),
        "i32": TypeProperties(DTypeKind.SIGNED, 32, np.int32, spellings=("int32",)),
        "u32": TypeProperties(DTypeKind.UNSIGNED, 32, np.uint32, spellings=("uint32",)),
        "i64": TypeProperties(DTypeKind.SIGNED, 64, np.int64, spellings=("int64",)),
        "u64": TypeProperties(DTypeKind.UNSIGNED, 64, np.uint64, spellings=("uint64",)),
        "bool": TypeProperties(DTypeKind.BOOL, 8, np.bool_, spellings=("bool_",)),
    }
)


INDEX = DType.I64


def float_format(dtype: DType) -> FloatFormat:
    """The format of a float type."""
    found = dtype.properties.float
    assert found is not None, dtype
    return found


def integer_of_size(bits: int) -> DType:
    """The signed integer type of a size. Raises KeyError where there is none."""
    return _SIGNED[bits]


def unsigned_of_size(bits: int) -> DType:
    """The unsigned integer type of a size. Raises KeyError where there is none."""
    return _UNSIGNED[bits]


def _by_bits(kind: DTypeKind) -> dict[int, DType]:
    """The types of a kind that are computed with, by their bits, the narrowest first."""
    found = [dtype for dtype in DType if dtype.properties.kind is kind and not dtype.is_storage]
    return {dtype.bits: dtype for dtype in sorted(found, key=lambda one: one.bits)}


_SIGNED, _UNSIGNED = _by_bits(DTypeKind.SIGNED), _by_bits(DTypeKind.UNSIGNED)


def signed_integers() -> tuple[DType, ...]:
    """The signed integer types, the narrowest first."""
    return tuple(_SIGNED.values())


def spellings() -> Mapping[str, DType]:
    """Every other word for a type that a program may have in mind."""
    return {word: dtype for dtype in DType for word in dtype.properties.spellings}


def integer_range(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    if dtype.is_unsigned:
        return 0, 2**dtype.digits - 1
    return -(2 ** (dtype.digits - 1)), 2 ** (dtype.digits - 1) - 1


def holds_range(dtype: DType, lo: float, hi: float) -> bool:
    """Whether an integer type holds everything from `lo` to `hi`."""
    lowest, highest = integer_range(dtype)
    return lowest <= lo and hi <= highest


def elements(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Numbers as elements of a type, or their magnitudes where it has no numbers below 0: for random ones."""
    powers_alone = dtype.is_float and float_format(dtype).has_powers_alone
    return (np.abs(values) if powers_alone else values).astype(dtype.numpy)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether an array's elements are floats; NumPy does not count those of other packages among them."""
    return dtype.kind == "f" or dtype in _FLOAT_DTYPES


def of_other_package(name: str) -> DType | None:
    """The type that NumPy lacks by its name, which many libraries share: `bfloat16`. None for others."""
    return _DTYPES_BEYOND_NUMPY.get(name)


_DTYPES_BEYOND_NUMPY = {dtype.numpy.name: dtype for dtype in DType if not dtype.is_of_numpy}
_FLOAT_DTYPES = frozenset(dtype.numpy for dtype in DType if dtype.is_float)


def hint_for_type(name: str) -> str:
    """A hint for the name of an element type that is not there."""
    names = [dtype.value for dtype in DType]
    return did_you_mean(name, names) or f"the element types are {', '.join(names)}"

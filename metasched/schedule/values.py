"""The values that schedule methods return: handles, and integer random variables."""

from __future__ import annotations

from dataclasses import field
from operator import index
from typing import NoReturn

from metasched.errors import ScheduleError
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Binary, BinOp, Const, Expr, Unary, UnOp
from metasched.ir.printer import print_expr
from metasched.support.data_classes import dataclass
from metasched.support.messages import with_hint

_DIVISIONS = frozenset({BinOp.FLOORDIV, BinOp.MOD, BinOp.CEILDIV})


def _refuse(what: str, name: str, also: str = "") -> NoReturn:
    raise TypeError(
        with_hint(
            f"cannot {what} the random variable `{name}` inside a module: its value differs between candidates",
            f'for a structural decision write `how = sch.choose("name", [...])`, whose result is a plain value{also}',
        )
    )


def _refuse_text(kind: str, label: str, text: str) -> NoReturn:
    raise TypeError(
        with_hint(
            f"cannot compare the {kind} `{label}` with the text {text!r}: a handle is no name",
            f"`sch.name_of({kind})` is the name of the {kind} it stands for",
        )
    )


@dataclass(frozen=True)
class BlockRV:
    """A handle to a block, by its label in the trace. Comparing it with a text raises TypeError.

    `owner` stands for the schedule that returned it; None for one that is made of a label alone.
    """

    label: str
    owner: object = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.label

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            _refuse_text("block", self.label, other)
        return self.label == other.label if isinstance(other, BlockRV) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.label)


@dataclass(frozen=True)
class LoopRV:
    """A handle to a loop, by its label in the trace. Comparing it with a text raises TypeError.

    `owner` stands for the schedule that returned it; None for one that is made of a label alone.
    """

    label: str
    owner: object = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.label

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            _refuse_text("loop", self.label, other)
        return self.label == other.label if isinstance(other, LoopRV) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.label)


@dataclass(frozen=True)
class LocationRV(LoopRV):
    """A handle to the location that `sample_compute_location` took: a loop, `root` or `inline`.

    Which one depends on the candidate, so comparing, hashing and `bool` raise TypeError, as those of an `Int` do.
    """

    def __eq__(self, other: object) -> bool:
        return other is self or (other is not None and _refuse("compare", self.label))

    def __hash__(self) -> int:  # noqa: PLE0309
        _refuse("hash", self.label)

    def __bool__(self) -> bool:  # noqa: PLE0304
        _refuse("branch on", self.label)

    def __format__(self, spec: str) -> str:
        _refuse("format", self.label)


class Int:
    """An integer random variable, or arithmetic over some.

    Its value belongs to one candidate, not to the module: a branch on it would give every candidate another structure,
    so comparing, hashing, `bool`, `int`, `range`, indexing and f-strings raise TypeError and point at `choose`. `str`
    and `repr` give the expression.
    """

    __slots__ = ("expr",)
    # NumPy's numbers leave arithmetic with one to it.
    __array_ufunc__ = None

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    @classmethod
    def of(cls, value: int) -> Int:
        """A number as an expression, for arithmetic that is to be kept as written in the trace."""
        return cls(const(value))

    def __repr__(self) -> str:
        return print_expr(self.expr)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Int) and self.expr == other.expr:
            return True  # whatever the variables are
        return other is not None and self._refuse("compare")

    def __hash__(self) -> int:  # noqa: PLE0309
        self._refuse("hash")

    def __format__(self, spec: str) -> str:
        self._refuse("format")

    def _refuse(self, what: str) -> NoReturn:
        _refuse(what, repr(self))

    def __bool__(self) -> bool:  # noqa: PLE0304
        self._refuse("branch on")

    def __int__(self) -> int:
        self._refuse("take the value of")

    def __index__(self) -> int:  # noqa: PLE0305
        self._refuse("count or index with")

    def __lt__(self, other: object) -> bool:
        _refuse("compare", repr(self), "; of two numbers, take `ms.minimum(a, b)` or `ms.maximum(a, b)`")

    __le__ = __gt__ = __ge__ = __lt__

    def __add__(self, other: Int | int) -> Int:
        return _combine(BinOp.ADD, self, other)

    def __radd__(self, other: int) -> Int:
        return _combine(BinOp.ADD, other, self)

    def __sub__(self, other: Int | int) -> Int:
        return _combine(BinOp.SUB, self, other)

    def __rsub__(self, other: int) -> Int:
        return _combine(BinOp.SUB, other, self)

    def __mul__(self, other: Int | int) -> Int:
        return _combine(BinOp.MUL, self, other)

    def __rmul__(self, other: int) -> Int:
        return _combine(BinOp.MUL, other, self)

    def __floordiv__(self, other: Int | int) -> Int:
        return _combine(BinOp.FLOORDIV, self, other)

    def __rfloordiv__(self, other: int) -> Int:
        return _combine(BinOp.FLOORDIV, other, self)

    def __mod__(self, other: Int | int) -> Int:
        return _combine(BinOp.MOD, self, other)

    def __rmod__(self, other: int) -> Int:
        return _combine(BinOp.MOD, other, self)

    def __truediv__(self, other: object) -> NoReturn:
        raise TypeError(f"`{self!r} / {other!r}` is no integer: write `//`, which rounds down, or `ms.ceildiv`")

    def __neg__(self) -> Int:
        return Int(Unary(UnOp.NEG, self.expr))


def as_expr(value: Int | int) -> Expr:
    """An integer, of Python or NumPy, or a random variable as an expression. Raises TypeError for anything else."""
    return value.expr if isinstance(value, Int) else const(_integer(value))


def _integer(value: object) -> int:
    # True is an integer to Python, and would be another value in the text of a trace.
    if not isinstance(value, bool):
        try:
            return index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
    raise TypeError(
        f"a random variable cannot be combined with {value!r}: it is an integer, and combines with integers by "
        f"+ - * // %, `ms.ceildiv`, `ms.minimum` and `ms.maximum`"
    )


def _combine(op: BinOp, a: Int | int, b: Int | int) -> Int:
    """The expression `a op b`. Raises ZeroDivisionError for a division by the number zero."""
    first, second = as_expr(a), as_expr(b)
    if op in _DIVISIONS and isinstance(second, Const) and second.value == 0:
        raise ZeroDivisionError(f"{print_expr(Binary(op, first, second))} divides by zero")
    return Int(Binary(op, first, second))


def ceildiv(a: Int | int, b: Int | int) -> Int:
    """`a / b` rounded up, as an expression over random variables.

        >>> sch = ms.Schedule(prog, seed=0)
        >>> _, j = sch.get_loops(sch.get_block("biased"))
        >>> _, t = sch.sample_tile(j, parts=2)
        >>> print(ms.ceildiv(t, 2))
        ceildiv(t1, 2)

    Arguments are integer random variables and integers.
    """
    return _combine(BinOp.CEILDIV, a, b)


def minimum(a: Int | int, b: Int | int) -> Int:
    """The smaller of two, as an expression over random variables; Python's `min` would compare them.

        >>> sch = ms.Schedule(prog, seed=0)
        >>> _, j = sch.get_loops(sch.get_block("biased"))
        >>> _, t = sch.sample_tile(j, parts=2)
        >>> print(ms.minimum(t, 4))
        min(t1, 4)

    Arguments are integer random variables and integers.
    """
    return _combine(BinOp.MIN, a, b)


def maximum(a: Int | int, b: Int | int) -> Int:
    """The larger of two, as an expression over random variables; Python's `max` would compare them.

        >>> sch = ms.Schedule(prog, seed=0)
        >>> _, j = sch.get_loops(sch.get_block("biased"))
        >>> _, t = sch.sample_tile(j, parts=2)
        >>> print(ms.maximum(t, 4))
        max(t1, 4)

    Arguments are integer random variables and integers.
    """
    return _combine(BinOp.MAX, a, b)


def require_handle(op: str, handle: object) -> None:
    """Raises ScheduleError for what is no handle, such as the name of a block."""
    if not isinstance(handle, BlockRV | LoopRV):
        raise ScheduleError(op, f"{handle!r} is no handle", hint="get_block(name) and get_loops(block) return them")


def require_steps(op: str, steps: object) -> None:
    """Raises ScheduleError for what is no function of a schedule, such as what a call of a primitive returned."""
    if not callable(steps):
        raise ScheduleError(
            op, f"{steps!r} is no function of a schedule", hint=f"{op}(lambda s: s.compute_inline(block))"
        )

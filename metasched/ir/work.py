"""How much arithmetic a program does, and how fast that is."""

from __future__ import annotations

from metasched.ir.nodes import Binary, Block, Call, Const, Expr, For, Load, Select, Stmt
from metasched.support.data_classes import dataclass


@dataclass(frozen=True)
class Work:
    """Arithmetic operations of one run: those on floats, and those on integers that are data.

    Each `+ - * /`, `max`, `min` and math function counts one per instance, so that a multiply-add of a reduction counts
    two. A conditional counts its more expensive side. Arithmetic on indices does not count.
    """

    floats: int = 0
    integers: int = 0

    def __add__(self, other: Work) -> Work:
        return Work(self.floats + other.floats, self.integers + other.integers)

    def times(self, instances: int) -> Work:
        return Work(self.floats * instances, self.integers * instances)

    @property
    def operations(self) -> int:
        return self.floats + self.integers

    def gflops(self, seconds: float) -> float | None:
        """Billions of them a second, where all are on floats; else None."""
        return self.floats / seconds / 1e9 if self.floats and not self.integers else None

    def gops(self, seconds: float) -> float | None:
        """Billions of them a second, where some are on integers; else None."""
        return self.operations / seconds / 1e9 if self.integers else None

    def speed(self, seconds: float) -> str:
        """For a person: `125.8 GFLOP/s`, `80.1 GOP/s`, or nothing where nothing is computed."""
        return speed_text(self.gflops(seconds), self.gops(seconds))


def speed_text(gflops: float | None, gops: float | None) -> str:
    """Whichever of the two speeds is known, with its unit; '' where both are None."""
    if gflops is not None:
        return f"{gflops:.1f} GFLOP/s"
    return "" if gops is None else f"{gops:.1f} GOP/s"


def work_of(stmt: Stmt) -> Work:
    """The arithmetic of a statement whose extents are numbers."""
    if isinstance(stmt, For):
        assert isinstance(stmt.extent, Const)
        return work_of(stmt.body).times(int(stmt.extent.value))
    if isinstance(stmt, Block):
        reduction = Work() if stmt.reducer is None else _operation_work(stmt.store.value)
        return sum((_value_work(store.value)[0] for store in stmt.stores), reduction)
    return sum((work_of(child) for child in stmt.children() if isinstance(child, Stmt)), Work())


def _operation_work(e: Expr) -> Work:
    """An operation whose result is of an expression's type."""
    return Work(int(e.dtype.is_float), int(e.dtype.is_integer))


def _value_work(e: Expr) -> tuple[Work, bool]:
    """The arithmetic of a value, and whether it depends on data; if not, it is index arithmetic."""
    if isinstance(e, Load):
        return Work(), True
    if isinstance(e, Select):
        (cond, asks), (then, some), (other, more) = _value_work(e.cond), _value_work(e.then), _value_work(e.otherwise)
        return cond + max(then, other, key=lambda work: work.operations), asks or some or more
    below = [_value_work(child) for child in e.children() if isinstance(child, Expr)]
    work = sum((part for part, _ in below), Work())
    reads = any(found for _, found in below)
    computes = isinstance(e, Call) or (isinstance(e, Binary) and not e.op.is_comparison and not e.op.is_logical)
    if computes and (reads or e.dtype.is_float):
        work = work + _operation_work(e)
    return work, reads

"""The tensor-program IR: every node. What they have in common is in `node_base`.

Two families:

* **expressions** (`Expr`): scalar values and index arithmetic alike. Index arithmetic is `i64`.
* **statements** (`Stmt`): loops around *blocks*. A block is one statement of a program with its own iteration
  variables, each bound to an expression over the loops outside it.

Names are identity: loop variables are unique in a `Func`, block names are unique in a `Func`, buffer names are
unique in a `Func`; a block's iteration variables are local to the block.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from metasched.dtypes import INDEX, DType, integer_range
from metasched.ir.node_base import Node, node
from metasched.support.messages import with_hint

# --- expressions -----------------------------------------------------------------------------------------


class BinOp(Enum):
    """An operation of two operands, by its text."""

    # By identity: an enum's own is a call of Python for each node.
    __hash__ = object.__hash__

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    FLOORDIV = "//"
    MOD = "%"
    CEILDIV = "ceildiv"
    MIN = "min"
    MAX = "max"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    EQ = "=="
    NE = "!="
    AND = "and"
    OR = "or"
    BIT_AND = "&"
    BIT_OR = "|"
    BIT_XOR = "^"
    SHIFT_LEFT = "<<"
    SHIFT_RIGHT = ">>"

    @property
    def is_comparison(self) -> bool:
        return self in _COMPARISONS

    @property
    def is_logical(self) -> bool:
        return self is BinOp.AND or self is BinOp.OR

    @property
    def is_of_bits(self) -> bool:
        """Whether it combines the bits of two integers, each with the one at its place."""
        return self in _BIT_OPERATORS

    @property
    def is_shift(self) -> bool:
        return self is BinOp.SHIFT_LEFT or self is BinOp.SHIFT_RIGHT


_COMPARISONS = frozenset({BinOp.LT, BinOp.LE, BinOp.GT, BinOp.GE, BinOp.EQ, BinOp.NE})
_BIT_OPERATORS = frozenset({BinOp.BIT_AND, BinOp.BIT_OR, BinOp.BIT_XOR})
# What gives a truth value.
_TRUTHS = _COMPARISONS | {BinOp.AND, BinOp.OR}


class UnOp(Enum):
    """An operation of one operand, by its text."""

    NEG = "-"
    NOT = "not"
    INVERT = "~"  # of sources alone: elsewhere it is `^` with all bits


class Expr(Node):
    """A scalar expression. Python operators build nodes as written, without simplifying."""

    @property
    def dtype(self) -> DType:
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise TypeError(
            with_hint(f"the truth of `{self!r}` is not known while a program is being built", "use select(cond, a, b)")
        )

    def __add__(self, other: Expr | float) -> Expr:
        return Binary(BinOp.ADD, self, lift(other, self))

    def __radd__(self, other: float) -> Expr:
        return Binary(BinOp.ADD, lift(other, self), self)

    def __sub__(self, other: Expr | float) -> Expr:
        return Binary(BinOp.SUB, self, lift(other, self))

    def __rsub__(self, other: float) -> Expr:
        return Binary(BinOp.SUB, lift(other, self), self)

    def __mul__(self, other: Expr | float) -> Expr:
        return Binary(BinOp.MUL, self, lift(other, self))

    def __rmul__(self, other: float) -> Expr:
        return Binary(BinOp.MUL, lift(other, self), self)

    def __truediv__(self, other: Expr | float) -> Expr:
        return Binary(BinOp.DIV, self, lift(other, self))

    def __rtruediv__(self, other: float) -> Expr:
        return Binary(BinOp.DIV, lift(other, self), self)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return Binary(BinOp.FLOORDIV, self, lift(other, self))

    def __mod__(self, other: Expr | int) -> Expr:
        return Binary(BinOp.MOD, self, lift(other, self))

    def __neg__(self) -> Expr:
        return Unary(UnOp.NEG, self)

    def __lt__(self, other: Expr | float) -> Expr:
        return Binary(BinOp.LT, self, lift(other, self))

    def __le__(self, other: Expr | float) -> Expr:
        return Binary(BinOp.LE, self, lift(other, self))

    def __gt__(self, other: Expr | float) -> Expr:
        return Binary(BinOp.GT, self, lift(other, self))

    def __ge__(self, other: Expr | float) -> Expr:
        return Binary(BinOp.GE, self, lift(other, self))


@node
class Const(Expr):
    """A number of a type. Constants of other types, and 0.0 and -0.0, are not equal."""

    value: int | float | bool
    type: DType = INDEX

    def _values(self) -> tuple[Any, ...]:
        # 0 == 0.0 == False and 0.0 == -0.0 in Python; none of these are the same constant.
        return (self.value, self.type)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Const) or self.type is not other.type:
            return False
        mine, its = self.value, other.value
        if type(mine) is not type(its):
            return False
        return mine == its if type(mine) is int else repr(mine) == repr(its)

    __hash__ = Node.__hash__

    @property
    def dtype(self) -> DType:
        return self.type


@node
class Var(Expr):
    """A loop variable, a block's iteration variable, a free tile variable, or (a `ScalarVar`) a scalar argument."""

    name: str
    type: DType = INDEX

    @property
    def dtype(self) -> DType:
        return self.type


@node
class ScalarVar(Var):
    """A scalar argument: data, which may be any number of its type."""


@node
class Load(Expr):
    """An element of a buffer."""

    buffer: str
    indices: tuple[Expr, ...]
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@node
class Binary(Expr):
    """An operation of two operands."""

    op: BinOp
    a: Expr
    b: Expr

    @property
    def dtype(self) -> DType:
        return DType.BOOL if self.op in _TRUTHS else self.a.dtype


@node
class Unary(Expr):
    """An operation of one operand."""

    op: UnOp
    a: Expr

    @property
    def dtype(self) -> DType:
        return self.a.dtype


@node
class Call(Expr):
    """A math function (`exp`, `sqrt`, ...); see `metasched.functions` for the names."""

    func: str
    args: tuple[Expr, ...]
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@node
class Select(Expr):
    """`then if cond else otherwise`; lazy: the side not taken is not evaluated, so it may read out of bounds."""

    cond: Expr
    then: Expr
    otherwise: Expr

    @property
    def dtype(self) -> DType:
        return self.then.dtype


@node
class Cast(Expr):
    """A value in another type."""

    value: Expr
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


def lift(value: Expr | int | float | bool, like: Expr | None = None) -> Expr:
    """A Python number as a constant, in the type of `like` when that fits."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return Const(value, DType.BOOL)
    if like is not None and like.dtype.is_float:
        return Const(float(value), like.dtype)
    if isinstance(value, float):
        return Const(value, DType.F32)
    return Const(int(value), like.dtype if like is not None and like.dtype.is_integer else INDEX)


def no_position(dtype: DType) -> Const:
    """The initial position of an arg-reduction, after any other."""
    return Const(integer_range(dtype)[1], dtype)


TRUE = Const(True, DType.BOOL)
FALSE = Const(False, DType.BOOL)


# The most iterations that the loops around a block may have in all: beyond it, index arithmetic overflows 64 bits.
MAX_ITERATIONS = 2**62


# --- statements ------------------------------------------------------------------------------------------


class IterKind(Enum):
    """Whether a block's variable tells its results apart, or the terms of a reduction."""

    SPATIAL = "S"
    REDUCE = "R"


class LoopKind(Enum):
    """How the iterations of a loop are run.

    SERIAL: one after another. PARALLEL: on several threads. VECTORIZED: in the lanes of a vector. UNROLLED: as code of
    their own. SCATTERED: only the one that data says has a term. CARRIED: each goes on from the one before.
    """

    __hash__ = object.__hash__

    SERIAL = "for"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    SCATTERED = "scattered"  # of its iterations, only the one that data says has a term is run
    CARRIED = "carried"  # each iteration goes on from the one before; of terms, only the one that is new is added


class Scope(Enum):
    """Where a buffer lives."""

    GLOBAL = "global"
    LOCAL = "local"  # a per-thread workspace, close to the core
    REGISTER = "register"  # vector registers: every loop that indexes it is unrolled


class Reducer(Enum):
    """What combines the terms of a reduction."""

    SUM = "sum"
    PROD = "prod"
    MAX = "max"
    MIN = "min"
    ARGMAX = "argmax"
    ARGMIN = "argmin"

    @property
    def is_arg(self) -> bool:
        """Whether it finds a position as well as a value."""
        return self is Reducer.ARGMAX or self is Reducer.ARGMIN

    @property
    def allows_repeats(self) -> bool:
        """Whether a term that comes again changes nothing."""
        return self.of_values in (Reducer.MAX, Reducer.MIN)

    @property
    def of_values(self) -> Reducer:
        """The reducer of the values alone."""
        return {Reducer.ARGMAX: Reducer.MAX, Reducer.ARGMIN: Reducer.MIN}.get(self, self)

    @property
    def operation(self) -> BinOp:
        """What combines two values."""
        return _OPERATIONS[self.of_values]

    def identity(self, dtype: DType) -> Const:
        """The value that it leaves any other unchanged with."""
        if self in (Reducer.SUM, Reducer.PROD):
            one = self is Reducer.PROD
            return Const(float(one) if dtype.is_float else int(one), dtype)
        lowest = self.of_values is Reducer.MAX
        if dtype.is_float:
            return Const(dtype.lowest if lowest else dtype.highest, dtype)
        if dtype.is_bool:
            return Const(not lowest, dtype)
        return Const(integer_range(dtype)[0 if lowest else 1], dtype)


_OPERATIONS = {Reducer.SUM: BinOp.ADD, Reducer.PROD: BinOp.MUL, Reducer.MAX: BinOp.MAX, Reducer.MIN: BinOp.MIN}


@node
class IndexMap(Node):
    """`names -> outputs`: maps the indices `names` of an element in one space to its indices in another."""

    names: tuple[str, ...]
    outputs: tuple[Expr, ...]


@node
class Alignment(Node):
    """The stride of dimension `axis` of an array is a multiple of `factor` elements, plus `offset`."""

    axis: int
    factor: Expr
    offset: Expr


@node
class Roll(Node):
    """Storage of a buffer that outlives iterations of the loop around its computation, and keeps a window of it.

    It is allocated in each iteration of the loop `loop`, or once if `loop` is empty. Of dimension `axis` only the last
    `window` indices are kept; each iteration inside computes `step` new ones.
    """

    loop: str
    axis: int
    window: Expr
    step: Expr


@node
class Buffer(Node):
    """An array: an argument, a result or an intermediate of a program.

    `shape` is the logical shape. `layout` maps indices to positions in memory; None is the identity. `alignments`
    apply to the dimensions in memory. An input used to index other buffers holds values in [0, `below`).
    """

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    scope: Scope = Scope.GLOBAL
    const: bool = False
    layout: IndexMap | None = None
    alignments: tuple[Alignment, ...] = ()
    roll: Roll | None = None
    below: Expr | None = None


@node
class IterVar(Node):
    """A variable of a block's iteration domain, from 0 to `extent`."""

    name: str
    extent: Expr
    kind: IterKind


@node
class Store(Node):
    """An element of a buffer, and the value that is written to it."""

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr


@node
class Annotation(Node):
    """What a loop or a block is marked with: a key of `metasched.schedule.annotations`, and its value."""

    key: str
    value: Expr | str


class Stmt(Node):
    """A statement: a block, a loop, or several in order."""


@node
class Block(Stmt):
    """One statement and its iteration domain.

    `bindings[n]` is the value of `iters[n]`, over the loop variables outside. An instance runs when every guard
    holds. The write indices are distinct bare spatial iteration variables (or constants 0 of a unit dimension).

    With a `reducer`, the block means `store.buffer[...] = reducer(store.buffer[...], store.value)`, and `init` is
    the value the element has before the first instance; `init` is None when an earlier block writes it
    (after `decompose_reduction`). Without one, it is a plain store.

    An arg-reduction writes the winning value by `store` and its position by `index`, which is None otherwise; both have
    the same indices. Of (value, position) pairs the first NaN wins, else the best value, else the lowest position. A
    position starts from `no_position` of its type: larger than any.
    """

    name: str
    iters: tuple[IterVar, ...]
    bindings: tuple[Expr, ...]
    guards: tuple[Expr, ...]
    store: Store
    reducer: Reducer | None = None
    init: Expr | None = None
    annotations: tuple[Annotation, ...] = ()
    index: Store | None = None

    @property
    def stores(self) -> tuple[Store, ...]:
        """Everything that an instance writes."""
        return (self.store,) if self.index is None else (self.store, self.index)


@node
class For(Stmt):
    """`for var in range(extent)`. `lanes` is the vector width of a VECTORIZED loop, in elements.

    PARALLEL loops of one `region`, which stand in one sequence, share a parallel region: from the first of them to the
    last, every statement of the sequence is a phase of it, and all threads wait for one another between two phases. A
    phase that is not a parallel loop is run by one thread. An empty name means that the loop does not share its region.
    """

    var: str
    extent: Expr
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL
    lanes: Expr | None = None
    annotations: tuple[Annotation, ...] = ()
    region: str = ""


@node
class Seq(Stmt):
    """Statements in order; never nested in one another, never of length one."""

    stmts: tuple[Stmt, ...]


@node
class Scalar(Node):
    """A scalar argument."""

    name: str
    dtype: DType


@node
class Func(Node):
    """A tensor program, scheduled or not: `inputs` and `scalars` in, `outputs` out, `temps` in between.

    `order` is the arguments' order by name, over inputs and scalars.
    """

    name: str
    inputs: tuple[Buffer, ...]
    scalars: tuple[Scalar, ...]
    order: tuple[str, ...]
    outputs: tuple[Buffer, ...]
    temps: tuple[Buffer, ...]
    body: Stmt

    def buffers(self) -> tuple[Buffer, ...]:
        return self.inputs + self.outputs + self.temps

    def buffer(self, name: str) -> Buffer:
        for buffer in self.buffers():
            if buffer.name == name:
                return buffer
        raise KeyError(name)


def seq(stmts: tuple[Stmt, ...] | list[Stmt]) -> Stmt:
    """A statement of several, flattened."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat.extend(stmt.stmts if isinstance(stmt, Seq) else (stmt,))
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))

"""The low-level loop program between lowering and emission.

Everything is concrete: arrays are flat, indices are single integer expressions over loop variables, and every
choice has been made. `metasched.ir` expressions are reused, with `Load(array, (flat_index,), dtype)`.
"""

from __future__ import annotations

from enum import Enum

from metasched.dtypes import DType
from metasched.ir.node_base import Node, node
from metasched.ir.nodes import BinOp, Expr, Load, Scalar


class ArrayKind(Enum):
    INPUT = "input"
    OUTPUT = "output"
    SHARED = "shared"  # workspace, one for the call
    THREAD = "thread"  # workspace, one slice per thread
    REGISTER = "register"  # SSA values: every index is a constant (plus the lane) once unrolled
    TILE = "tile"  # tile registers: one for every TILE_ELEMENTS elements, the first for the first


@node
class Array(Node):
    """`size` elements of `dtype`, C order, flat.

    With `spare_lanes`, rows are whole vectors, and nothing reads what is behind the last element of a vector loop over
    one: a store may write there.
    """

    name: str
    dtype: DType
    size: int
    kind: ArrayKind
    spare_lanes: bool = False


# 16 rows of 16 sums of 32 bits.
TILE_ELEMENTS = 256


class LoopMode(Enum):
    SERIAL = "serial"
    PARALLEL = "parallel"
    UNROLLED = "unrolled"  # constant extent; the body is repeated


class LStmt(Node):
    pass


@node
class Loop(LStmt):
    """`for var in range(extent)`; the extent may depend on outer loops (`min(8, 127 - i*8)`) unless UNROLLED.

    A PARALLEL one may have a `counter`, which each of its threads has around what it runs.
    """

    var: str
    extent: Expr
    mode: LoopMode
    body: LStmt
    counter: int | None = None


@node
class Region(LStmt):
    """Parallel loops that run one after another in one parallel region: all threads wait between two of them."""

    phases: tuple[Loop, ...]


@node
class VectorLoop(LStmt):
    """`for var in range(extent)`, `lanes` independent iterations at a time; the last strip is masked.

    `unroll_strips` repeats the strips instead of looping (constant extent). The body may hold loops whose
    extents do not depend on `var`, and conditions that do (they become masks).
    """

    var: str
    extent: Expr
    lanes: int
    unroll_strips: bool
    body: LStmt


@node
class AtPlace(LStmt):
    """`body` for the one `var` of `range(extent)` that `place` is, if it is one of them. Not inside a vector loop."""

    var: str
    place: Expr
    extent: int
    body: LStmt


@node
class If(LStmt):
    cond: Expr
    body: LStmt


@node
class Write(LStmt):
    """`array[index] = value`.

    `fast` allows arithmetic more than IEEE does (see `metasched.compiler.cpu.emit.arith`). `streams` sends whole
    vectors past the caches.
    """

    array: str
    index: Expr
    value: Expr
    fast: bool = False
    streams: bool = False


@node
class ArgReduction(LStmt):
    """`values, positions = value, position`, two elements at once, where these come before what is there.

    NaN comes before the others, then the best value does, `better` than the others, then the lowest position. `rising`
    says that the new position is higher than every one before it. `fast` is as in `Write`; what becomes of a NaN is
    undefined then.
    """

    values: Load
    positions: Load
    value: Expr
    position: Expr
    better: BinOp
    rising: bool = False
    fast: bool = False


@node
class Prefetch(LStmt):
    """Ask for the cache lines of `array[index]`, which may be anywhere, into a cache: nothing is read."""

    array: str
    index: Expr
    cache: int = 1


@node
class Reread(LStmt):
    """What was read from memory before is read again after, so that it need not stay in a register."""


@node
class Counted(LStmt):
    """`body`, with the counter `number` around it: the ticks of the CPU's clock that it takes are added up."""

    number: int
    body: LStmt


@node
class Operand(Node):
    """What a tensor intrinsic accesses: its first element, and the stride of each of its axes, in elements."""

    first: Load
    strides: tuple[int, ...]


@node
class IntrinsicCall(LStmt):
    """One use of the tensor intrinsic `name`; see `metasched.schedule.tensor` for what each computes.

    `output` is read and written; `inputs` are in the order of its arguments.
    """

    name: str
    output: Operand
    inputs: tuple[Operand, ...]


@node
class TileMove(LStmt):
    """A tile to or from a register: one of the sides is an array of kind TILE. Without a `source`, it is zeros."""

    name: str
    target: Operand
    source: Operand | None


@node
class Body(LStmt):
    """Statements in order."""

    stmts: tuple[LStmt, ...]


@node
class LoopProgram(Node):
    """A whole kernel as loops over flat arrays.

    `arrays` lists the inputs and outputs in calling order first, then workspace and register arrays. `warnings` are
    sentences about what could not be made as the schedule would have it. `wraps` says that parts of sums in index
    arithmetic may leave 64 bits, though no result does.
    """

    name: str
    order: tuple[str, ...]
    scalars: tuple[Scalar, ...]
    arrays: tuple[Array, ...]
    body: LStmt
    warnings: tuple[str, ...] = ()
    wraps: bool = False

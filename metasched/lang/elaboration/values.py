"""Expressions with types: source expressions of one stage to IR expressions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace

from metasched.dtypes import INDEX, DType, holds_range, integer_range
from metasched.functions.registry import functions
from metasched.ir.integers.affine import free_vars, simplify
from metasched.ir.integers.data import depends_on_data
from metasched.ir.nodes import (
    Binary,
    BinOp,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Reducer,
    ScalarVar,
    Select,
    Unary,
    UnOp,
    Var,
)
from metasched.ir.source import (
    Apply,
    At,
    BoolLit,
    FloatLit,
    IfElse,
    Name,
    Operation,
    Prefix,
    Read,
    Reduce,
    SourceExpr,
)
from metasched.ir.source_printer import print_source
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.elaboration.borders import BORDERS
from metasched.lang.elaboration.bounds import Assumptions, Bound
from metasched.lang.elaboration.conversions import cast_to, nearest_value, round_to_storage
from metasched.lang.elaboration.index_hints import guard_read, moved_axis
from metasched.lang.elaboration.sizes import Number, Sizes
from metasched.lang.numpy_names import spelling_hint
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted, did_you_mean, listing

_DTYPES = {dtype.value: dtype for dtype in DType}
_EXTREMA = {"max": BinOp.MAX, "min": BinOp.MIN}
_BOOL_OPERATORS = {BinOp.BIT_AND: BinOp.AND, BinOp.BIT_OR: BinOp.OR, BinOp.BIT_XOR: BinOp.NE}
_INTEGER_ONLY = frozenset({BinOp.FLOORDIV, BinOp.MOD})


@dataclass(frozen=True)
class BufferInfo:
    """The known properties of a buffer; None for those whose definition was wrong."""

    name: str
    dtype: DType | None
    shape: tuple[int, ...] | None
    at: At
    is_input: bool = False
    # How many positions there are to choose from, in a buffer of positions.
    positions: int | None = None


@dataclass(frozen=True)
class ProgramScope:
    """The names every stage may use: `types` are the parameters for element types, `buffers` those defined so far, and
    `later` has the places of the others. `limits` collects exclusive upper bounds on the values of inputs that serve as
    indices.
    """

    sizes: Sizes
    types: Mapping[str, DType]
    scalars: Mapping[str, DType]
    buffers: Mapping[str, BufferInfo]
    later: Mapping[str, At]
    limits: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class StageScope:
    """The names an expression of one stage may use, its own included."""

    program: ProgramScope
    writes: str
    axes: frozenset[str]

    @property
    def sizes(self) -> Sizes:
        return self.program.sizes

    @property
    def scalars(self) -> Mapping[str, DType]:
        return self.program.scalars

    @property
    def buffers(self) -> Mapping[str, BufferInfo]:
        return self.program.buffers

    @property
    def later(self) -> Mapping[str, At]:
        return self.program.later


class Values:
    """Types and builds the expressions of one stage. A method returns None once it has reported an error."""

    def __init__(self, scope: StageScope, diagnostics: Diagnostics) -> None:
        self._scope = scope
        self._diagnostics = diagnostics
        self._dtypes: dict[int, DType | None] = {}
        self._expanded: dict[int, SourceExpr] = {}
        self._everywhere: Assumptions | None = None  # what holds under no condition
        self._casts = {**_DTYPES, **scope.program.types}

    # --- types -----------------------------------------------------------------------------------------

    def dtype(self, e: SourceExpr) -> DType | None:
        """The element type of `e`; None when it takes the context's, or is unknown. Reports nothing."""
        key = id(e)
        if key not in self._dtypes:
            self._dtypes[key] = self._infer(e)
        return self._dtypes[key]

    def _infer(self, e: SourceExpr) -> DType | None:
        match e:
            case Name(name=name):
                return INDEX if name in self._scope.axes else self._scope.scalars.get(name)
            case BoolLit():
                return DType.BOOL
            case Read(buffer=buffer):
                info = self._scope.buffers.get(buffer)
                return info.dtype if info is not None else None
            case Operation(op=op, a=a) if op.is_shift:
                return self.dtype(a)
            case Operation(op=op, a=a, b=b):
                return DType.BOOL if op.is_comparison or op.is_logical else self._common(a, b)
            case Prefix(op=op, a=a):
                return DType.BOOL if op is UnOp.NOT else self.dtype(a)
            case Apply(func=func, args=args):
                return self._casts[func] if func in self._casts else self._common(*args)
            case IfElse(then=then, otherwise=otherwise):
                return self._common(then, otherwise)
            case Reduce(operand=operand):
                return self.dtype(operand)
        return None

    def _common(self, *expressions: SourceExpr) -> DType | None:
        return next((dtype for e in expressions if (dtype := self.dtype(e)) is not None), None)

    # --- expressions -----------------------------------------------------------------------------------

    def build_stored(self, e: SourceExpr, want: DType, assumed: Assumptions) -> Expr | None:
        """`e` as a value to be stored in a buffer of dtype `want`, under the conditions `assumed`."""
        built = self.build(e, want, assumed)
        return None if built is None else round_to_storage(built, want)

    def build(self, e: SourceExpr, want: DType, assumed: Assumptions) -> Expr | None:
        """`e` as an expression of dtype `want`, under the conditions `assumed`; of f32 where that is what `want`
        computes in."""
        if self._scope.sizes.is_literal(e, self._scope.axes):
            value = self._scope.sizes.value(e)
            return None if value is None else self._constant(value, want, e)
        built = self._build(e, want, assumed)
        got = self.dtype(e)
        if built is not None and got is not None and got is not want:
            self._mismatch(e, got, want)
            return None
        return built

    def _mismatch(self, e: SourceExpr, got: DType, want: DType) -> None:
        text = print_source(e)
        if want.is_bool:
            hint = f"compare it with something: `{text} > 0`"
        elif got.is_bool:
            hint = f"write `1 if {text} else 0`"
        else:
            hint = f"types are never converted silently; cast it: `{want}({text})`"
        self._diagnostics.error(e.start, f"`{text}` is {got} where {want} is needed", hint)

    def _constant(self, value: Number, want: DType, e: SourceExpr) -> Const | None:
        text = print_source(e)
        if isinstance(value, bool) or want.is_bool:
            if isinstance(value, bool) and want.is_bool:
                return Const(value, want)
            hint = "write `True` or `False`" if want.is_bool else ""
            self._diagnostics.error(e.at, f"`{text}` is {'bool' if isinstance(value, bool) else 'a number'}"
                               f" where {want} is needed", hint)  # fmt: skip
            return None
        if want.is_float:
            return Const(float(value), want.compute)
        if isinstance(value, float):
            hint = "indices and sizes are whole numbers" if want is INDEX else "cast the other side: `f32(...)`"
            self._diagnostics.error(e.at, f"`{text}` is not a whole number where {want} is needed", hint)
            return None
        lowest, highest = integer_range(want)
        if not lowest <= value <= highest:
            self._diagnostics.error(e.at, f"{value} does not fit in {want}, which goes from {lowest} to {highest}")
            return None
        return Const(value, want.compute)

    def _build(self, e: SourceExpr, want: DType, assumed: Assumptions) -> Expr | None:
        match e:
            case Name():
                return self._name(e)
            case Read():
                return self._read(e, assumed)
            case Operation():
                return self._operation(e, want, assumed)
            case Prefix(op=UnOp.NOT, a=a):
                inner = self.build(a, DType.BOOL, assumed)
                return None if inner is None else Unary(UnOp.NOT, inner)
            case Prefix(op=UnOp.INVERT, a=a):
                return self._invert(e, self.dtype(a) or want, assumed)
            case Prefix(op=op, a=a):
                dtype = self.dtype(a) or want
                inner = self.build(a, dtype, assumed)
                if dtype.is_bool:
                    self._diagnostics.error(e.at, f"`{print_source(e)}` negates a bool", "write `not`")
                    return None
                return None if inner is None else self._require_64_bits(Unary(op, inner), e, assumed)
            case Apply():
                return self._apply(e, want, assumed)
            case IfElse():
                return self._select(e, want, assumed)
            case Reduce():
                # Reported where the stage is known, with the stages to write instead.
                return None
        raise AssertionError(f"a literal got here: {e}")

    def _name(self, e: Name) -> Expr | None:
        scope = self._scope
        if e.name in scope.axes:
            return Var(e.name, INDEX)
        if e.name in scope.scalars:
            return ScalarVar(e.name, scope.scalars[e.name])
        if e.name in scope.buffers or e.name in scope.later:
            self._diagnostics.error(e.at, f"`{e.name}` is a tensor and needs its indices", f"write `{e.name}[...]`")
            return None
        known = [*scope.sizes.names, *scope.axes, *scope.scalars]
        hint = did_you_mean(e.name, known) or "name it on the left-hand side, in a reduction, or as a parameter"
        self._diagnostics.error(e.at, f"`{e.name}` is not declared", hint)
        return None

    def _operation(self, e: Operation, want: DType, assumed: Assumptions) -> Expr | None:
        op = e.op
        if op.is_shift:
            return self._shift(e, want, assumed)
        if op.is_logical:
            dtype = DType.BOOL
        elif op.is_comparison:
            dtype = self._common(e.a, e.b) or self._natural(e.a, e.b)
        else:
            dtype = self._common(e.a, e.b) or want
        a, b = self.build(e.a, dtype, assumed), self.build(e.b, dtype, assumed)
        if not self._operator_takes(op, dtype, e) or a is None or b is None or self._divides_by_zero(e, a, b, assumed):
            return None
        out = Binary(_BOOL_OPERATORS[op] if dtype.is_bool and op.is_of_bits else op, a, b)
        if op.is_comparison and dtype is INDEX and not depends_on_data(out):
            return simplify(out)
        return self._require_64_bits(out, e, assumed)

    def _shift(self, e: Operation, want: DType, assumed: Assumptions) -> Expr | None:
        """The places are of any integer type where they are known to be fewer than the type has."""
        dtype = self.dtype(e.a) or want
        places = self.dtype(e.b) or (dtype if self._scope.sizes.is_literal(e.b, self._scope.axes) else INDEX)
        a, b = self.build(e.a, dtype, assumed), self.build(e.b, places, assumed)
        if not self._operator_takes(e.op, dtype, e) or a is None or b is None:
            return None
        text, bits = print_source(e.b), a.dtype.bits
        lo, hi = assumed.range(b)
        inside = assumed.dead or (lo >= 0 and hi < bits)
        if isinstance(b, Const) and not inside:
            hint = f"a number of {dtype} is shifted by 0 to {bits - 1} places"
            self._diagnostics.error(e.b.start, f"`{print_source(e)}` shifts {bits} bits by {text}", hint)
            return None
        if b.dtype is not a.dtype and not inside:
            hint = f"types are never converted silently; cast it: `{dtype}({text})`"
            message = f"`{text}` is {places} where {dtype} is needed, as it may not be from 0 to {bits - 1}"
            self._diagnostics.error(e.b.start, message, hint)
            return None
        return self._require_64_bits(Binary(e.op, a, cast_to(b, a.dtype)), e, assumed)

    def _invert(self, e: Prefix, dtype: DType, assumed: Assumptions) -> Expr | None:
        inner = self.build(e.a, dtype, assumed)
        if dtype.is_float:
            hint = "write `-` for what is subtracted from 0"
            self._diagnostics.error(e.at, f"`~` is not defined on {dtype}, in `{print_source(e)}`", hint)
            return None
        if inner is None:
            return None
        if dtype.is_bool:
            return Unary(UnOp.NOT, inner)
        lowest, highest = integer_range(inner.dtype)
        return Binary(BinOp.BIT_XOR, inner, Const(highest if lowest == 0 else -1, inner.dtype))

    def _require_64_bits(self, built: Expr, e: SourceExpr, assumed: Assumptions) -> Expr | None:
        """The expression that was built; None, with a diagnostic, for index arithmetic that may leave 64 bits.

        Conditions are ignored: code may compute a value before it tests whether it is used. Arithmetic over data wraps.
        """
        if built.dtype is not INDEX or assumed.dead or depends_on_data(built):
            return built
        if self._everywhere is None or self._everywhere.extents is not assumed.extents:
            self._everywhere = assumed.drop_conditions()
        if self._everywhere.fits_64_bits(built):
            return built
        lo, hi = self._everywhere.range(built)
        used = sorted(name for name in free_vars(built) if name in assumed.extents)
        ranges = listing([f"{name} < {assumed.extents[name]}" for name in used])
        message = f"`{print_source(e)}` leaves 64 bits"
        if not holds_range(INDEX, lo, hi):
            message += f": it goes from {lo} to {hi}"
        hint = f"index arithmetic must fit in i64 for every {ranges}, whatever conditions are around it"
        self._diagnostics.error(e.at, message, f"{hint}; make the sizes or the constants smaller")
        return None

    def _divides_by_zero(self, e: Operation, a: Expr, b: Expr, assumed: Assumptions) -> bool:
        """Whether index arithmetic divides by an index that may be zero or less: it is simplified as if none were.

        Conditions on the divisor are taken into account, as the value is only used under them.
        """
        if e.op not in _INTEGER_ONLY or b.dtype is not INDEX or isinstance(b, Const) or assumed.dead:
            return False
        if depends_on_data(a) or depends_on_data(b) or assumed.range(b)[0] > 0:
            return False
        divisor = print_source(e.b)
        hint = f"divide by `max({divisor}, 1)`, or under a condition such as `if {divisor} > 0`"
        self._diagnostics.error(e.at, f"`{print_source(e)}` divides by `{divisor}`, which may be zero or less", hint)
        return True

    def _operator_takes(self, op: BinOp, dtype: DType, e: Operation) -> bool:
        text = print_source(e)
        if op is BinOp.DIV and not dtype.is_float:
            hint = "`/` is for floats; write `//`, which floors, or cast both sides"
        elif op in _INTEGER_ONLY and not dtype.is_integer:
            hint = "`//` and `%` are for integers; write `/`" if op is BinOp.FLOORDIV else "`%` is for integers"
        elif (op.is_of_bits or op.is_shift) and dtype.is_float:
            hint = f"`{op.value}` is for the bits of integers"
            if op is BinOp.BIT_XOR:
                hint += "; a power is written `x * x`, or `pow(x, y)`"
        elif dtype.is_bool and not (op.is_logical or op.is_of_bits or op in (BinOp.EQ, BinOp.NE)):
            hint = "combine bools with `and`, `or` and `not`"
        else:
            return True
        self._diagnostics.error(e.at, f"`{op.value}` is not defined on {dtype}, in `{text}`", hint)
        return False

    def _divides_by_nonpositive(self, e: SourceExpr) -> bool:
        """Index arithmetic is simplified under the assumption that divisors are positive constants."""
        for node in e.walk():
            if isinstance(node, Operation) and node.op in _INTEGER_ONLY:
                literal = self._scope.sizes.is_literal(node.b, self._scope.axes)
                value = self._scope.sizes.value(node.b) if literal else None
                if value is None or value <= 0:
                    return True
        return False

    def _natural(self, *expressions: SourceExpr) -> DType:
        """The type of expressions that no context gives one: i64, or f32 when a number has a point."""
        floats = any(isinstance(node, FloatLit) for e in expressions for node in e.walk())
        return DType.F32 if floats else INDEX

    def _select(self, e: IfElse, want: DType, assumed: Assumptions) -> Expr | None:
        dtype = self._common(e.then, e.otherwise) or want
        cond = self.build(e.cond, DType.BOOL, assumed)
        inside = assumed if cond is None else assumed.assume(cond, True)
        outside = assumed if cond is None else assumed.assume(cond, False)
        then, otherwise = self.build(e.then, dtype, inside), self.build(e.otherwise, dtype, outside)
        if cond is None or then is None or otherwise is None:
            return None
        if isinstance(cond, Const):
            return then if cond.value else otherwise
        return Select(cond, then, otherwise)

    def _apply(self, e: Apply, want: DType, assumed: Assumptions) -> Expr | None:
        if e.func in self._casts:
            return self._cast(e, self._casts[e.func], assumed)
        if e.func in BORDERS:
            return self._border(e, want, assumed)
        function = functions().get(e.func)
        if function is None and e.func not in _EXTREMA:
            self._unknown_function(e)
            return None
        arity = function.arity if function is not None else 2
        if len(e.args) != arity:
            self._diagnostics.error(e.at, f"`{e.func}` takes {counted(arity, 'argument')}, not {len(e.args)}")
            return None
        dtype = self._common(*e.args) or want
        if dtype.is_bool or (function is not None and not dtype.is_float and not function.integers):
            hint = f"cast the argument: `{e.func}(f32(...))`"
            self._diagnostics.error(e.at, f"`{e.func}` is not defined on {dtype}", hint)
            return None
        args = [self.build(arg, dtype, assumed) for arg in e.args]
        good = tuple(arg for arg in args if arg is not None)
        if len(good) < len(args):
            return None
        if function is None:
            return self._require_64_bits(Binary(_EXTREMA[e.func], good[0], good[1]), e, assumed)
        return Call(e.func, good, dtype.compute)

    def _border(self, e: Apply, want: DType, assumed: Assumptions) -> Expr | None:
        border = BORDERS[e.func]
        if len(e.args) != border.arity:
            message = f"`{e.func}` takes {border.arity} arguments, not {len(e.args)}"
            self._diagnostics.error(e.at, message, f"write `{border.usage}`")
            return None
        if id(e) not in self._expanded:  # What types are remembered of by identity has to stay.
            self._expanded[id(e)] = border.expand(e.at, *e.args)
        return self.build(self._expanded[id(e)], want, assumed)

    def _unknown_function(self, e: Apply) -> None:
        if e.func in {reducer.value for reducer in Reducer}:
            hint = f"to reduce, name the variables in brackets: `{e.func}[k](...)`"
        elif e.func in self._scope.buffers or e.func in self._scope.later:
            hint = f"`{e.func}` is a tensor: index it with brackets, `{e.func}[...]`"
        else:
            hint = spelling_hint(e.func) or did_you_mean(e.func, [*functions(), *_EXTREMA, *BORDERS, *self._casts])
            hint = hint or "the functions are " + ", ".join([*_EXTREMA, *BORDERS, *functions()])
        self._diagnostics.error(e.at, f"`{e.func}` is not a function", hint)

    def _cast(self, e: Apply, dtype: DType, assumed: Assumptions) -> Expr | None:
        if len(e.args) != 1:
            self._diagnostics.error(e.at, f"the cast `{e.func}` takes 1 argument, not {len(e.args)}")
            return None
        arg = e.args[0]
        if self._scope.sizes.is_literal(arg, self._scope.axes):
            value = self._scope.sizes.value(arg)
            if value is None:
                return None
            if isinstance(value, bool) is dtype.is_bool and (dtype.is_float or isinstance(value, int)):
                return self._constant(nearest_value(value, dtype) if dtype.is_storage else value, dtype, arg)
        source = self.dtype(arg) or self._natural(arg)
        inner = self.build(arg, source, assumed)
        if inner is None:
            return None
        if dtype.is_storage and dtype.is_integer and source.is_float:
            lowest, highest = (Const(end, DType.I32) for end in integer_range(dtype))
            inner = Binary(BinOp.MIN, Binary(BinOp.MAX, cast_to(inner, DType.I32), lowest), highest)
        if dtype.is_storage:
            # An explicit cast rounds at once.
            return Cast(round_to_storage(inner, dtype), dtype.compute)
        return cast_to(inner, dtype)

    # --- reads -----------------------------------------------------------------------------------------

    def _read(self, e: Read, assumed: Assumptions) -> Expr | None:
        info = self._readable(e)
        if info is None or info.shape is None or info.dtype is None:
            return None
        rank = len(info.shape)
        if len(e.indices) != rank:
            message = f"`{print_source(e)}` has {counted(len(e.indices), 'index', 'indices')}"
            shape = ", ".join(str(n) for n in info.shape)
            message += f", and `{e.buffer}` has {counted(rank, 'dimension')}: [{shape}]"
            self._diagnostics.error(e.at, message)
            return None
        indices = [self._index(index, e, dim, info.shape[dim], assumed) for dim, index in enumerate(e.indices)]
        good = tuple(index for index in indices if index is not None)
        return cast_to(Load(e.buffer, good, info.dtype), info.dtype.compute) if len(good) == rank else None

    def _readable(self, e: Read) -> BufferInfo | None:
        scope = self._scope
        if e.buffer == scope.writes:
            hint = "give what it reads another name, in a stage before"
            self._diagnostics.error(e.at, f"`{e.buffer}` is read by the stage that defines it", hint)
        elif e.buffer in scope.buffers:
            return scope.buffers[e.buffer]
        elif e.buffer in scope.later:
            hint = f"stages run in order: move the stage of `{e.buffer}` (line {scope.later[e.buffer].line}) up"
            self._diagnostics.error(e.at, f"`{e.buffer}` is read before the stage that defines it", hint)
        elif e.buffer in scope.scalars or e.buffer in scope.sizes or e.buffer in scope.axes:
            self._diagnostics.error(e.at, f"`{e.buffer}` is a number and has no indices", f"write `{e.buffer}`")
        else:
            hint = did_you_mean(e.buffer, [*scope.buffers, *scope.later])
            self._diagnostics.error(
                e.at, f"`{e.buffer}` is not declared", hint or "name it as an input or define it before"
            )
        return None

    def _index(self, index: SourceExpr, read: Read, dim: int, extent: int, assumed: Assumptions) -> Expr | None:
        data = any(isinstance(node, Read) for node in index.walk())
        dtype = self.dtype(index) if data else INDEX
        # What integers are read as indices is plain: they keep their values in i64.
        built = self.build(index, dtype if dtype is not None and dtype.is_integer else INDEX, assumed)
        if built is None:
            return None
        built = cast_to(built, INDEX)
        if self._divides_by_nonpositive(index):
            message = f"the index `{print_source(index)}` divides by what may not be positive"
            self._diagnostics.error(index.start, message, "in an index, `//` and `%` take a positive size on the right")
            return None
        built = simplify(_fold_quotients(simplify(built), assumed))
        lo, hi = assumed.range(built)
        if assumed.dead or lo > hi or (lo >= 0 and hi < extent):
            return built
        if data:
            return built if self._stays_inside(read, dim, extent) else None
        self._out_of_bounds(read, dim, extent, (lo, hi))
        return None

    def _stays_inside(self, read: Read, dim: int, extent: int) -> bool:
        """Whether data that is an index is an input, which is checked when the kernel is called."""
        index = read.indices[dim]
        is_cast = isinstance(index, Apply) and self._casts.get(index.func) is INDEX
        inner = index.args[0] if isinstance(index, Apply) and is_cast else index
        info = self._scope.buffers.get(inner.buffer) if isinstance(inner, Read) else None
        if info is not None and info.is_input and info.dtype is not None and info.dtype.is_integer:
            limits = self._scope.program.limits
            limits[info.name] = min(limits.get(info.name, extent), extent)
            return True
        text = print_source(index)
        message = (
            f"nothing says that `{text}` stays inside `{read.buffer}`, whose dimension {dim} has {extent} elements"
        )
        hint = "index with an input alone, which is checked at each call, keep the index inside by"
        hint = f"{hint} `clamp({text}, 0, {extent - 1})`, or {guard_read(read, dim, extent, below=True, above=True)}"
        self._diagnostics.error(index.start, message, hint)
        return False

    def _out_of_bounds(self, read: Read, dim: int, extent: int, reached: tuple[Bound, Bound]) -> None:
        index, (lo, hi) = read.indices[dim], reached
        sides = []
        if lo < 0:
            sides.append("any amount below" if math.isinf(lo) else f"{-lo} below")
        if hi >= extent:
            sides.append("any amount above" if math.isinf(hi) else f"{hi - extent + 1} above")
        text = print_source(index)
        message = f"`{print_source(read)}` leaves `{read.buffer}` in dimension {dim}, by {' and '.join(sides)}"
        if not math.isinf(lo) and not math.isinf(hi):
            message += f": `{text}` goes from {lo} to {hi}, and valid are 0 to {extent - 1}"
        hint = guard_read(read, dim, extent, below=lo < 0, above=hi >= extent) if lo != hi else ""
        if isinstance(index, Name) and index.name in self._scope.axes:
            says = f"`{text}` goes as far as its range or a declaration says: is it the index meant, and the extent?"
            hint = f"{says} Or {hint}" if hint else says
        elif hint and lo >= 0:
            axis = moved_axis(index)
            fitting = f": `{axis} < {extent - int(lo)}`" if axis in self._scope.axes and extent > lo else ""
            hint += f", or write a smaller range of its indices{fitting}"
        self._diagnostics.error(index.start, message, hint)


def _fold_quotients(e: Expr, assumed: Assumptions) -> Expr:
    """`e` without the quotients and remainders that the ranges decide: `o // CO` is 0, as one group of channels has."""
    if not isinstance(e, Binary):
        return e
    out = replace(e, a=_fold_quotients(e.a, assumed), b=_fold_quotients(e.b, assumed))
    if out.op not in _INTEGER_ONLY or assumed.dead:
        return out
    lo, hi = assumed.range(out)
    if lo == hi:
        return Const(int(lo), INDEX)
    # A remainder that is its own dividend.
    return out.a if out.op is BinOp.MOD and (lo, hi) == assumed.range(out.a) and lo >= 0 else out

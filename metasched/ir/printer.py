"""Tensor programs as text for people: scheduled or not, with free tile variables or without.

```
func dense_relu(A: f32[64, 64], B: f32[64, 64]) -> D: f32[64, 64]:
    temp C: f32[64, 64] local
    parallel i_0 in ceildiv(64, t1):
        for j in 64:
            for i_1, k in grid(t1, 64):
                dense: C[i, j] += A[i, k] * B[k, j]  init 0.0  with i = i_0*t1 + i_1  if i < 64
```

Parallel loops that share a region have its name, `parallel(region) i in 8:`.
A block's line gives its name and statement; `init`, the value before a reduction's first instance; `with`, the
iteration variables that are not simply the loop of the same name; `if`, those guards that may fail. Programs that
are not well-formed print as well, as far as they go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isinf, isnan

from metasched.dtypes import INDEX, DType
from metasched.ir.integers.affine import simplify
from metasched.ir.integers.ranges import prove
from metasched.ir.nodes import (
    Annotation,
    Binary,
    BinOp,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Func,
    IndexMap,
    Load,
    LoopKind,
    Reducer,
    Scope,
    Select,
    Seq,
    Stmt,
    Unary,
    UnOp,
    Var,
)
from metasched.support.data_classes import dataclass

WIDTH = 110
INDENT = "    "

# --- expressions -----------------------------------------------------------------------------------------

_SELECT, _OR, _AND, _NOT, _COMPARE, _BIT_OR, _BIT_XOR, _BIT_AND, _SHIFT, _SUM, _PRODUCT, _SIGN, _ATOM = range(13)

_PRECEDENCE = {
    BinOp.OR: _OR,
    BinOp.AND: _AND,
    BinOp.LT: _COMPARE,
    BinOp.LE: _COMPARE,
    BinOp.GT: _COMPARE,
    BinOp.GE: _COMPARE,
    BinOp.EQ: _COMPARE,
    BinOp.NE: _COMPARE,
    BinOp.BIT_OR: _BIT_OR,
    BinOp.BIT_XOR: _BIT_XOR,
    BinOp.BIT_AND: _BIT_AND,
    BinOp.SHIFT_LEFT: _SHIFT,
    BinOp.SHIFT_RIGHT: _SHIFT,
    BinOp.ADD: _SUM,
    BinOp.SUB: _SUM,
    BinOp.MUL: _PRODUCT,
    BinOp.DIV: _PRODUCT,
    BinOp.FLOORDIV: _PRODUCT,
    BinOp.MOD: _PRODUCT,
}


def print_expr(e: Expr) -> str:
    """An expression with few parentheses: where precedence asks for them, and around a quotient that is multiplied."""
    return _expr(e)[0]


def print_index_map(index_map: IndexMap) -> str:
    """An index map as the language writes it: `i, j -> j // 16, i, j % 16`."""
    return f"{', '.join(index_map.names)} -> {_list(index_map.outputs)}"


def _parenthesize(e: Expr, least: int) -> str:
    """`e`, in parentheses when it binds looser than `least`."""
    text, precedence = _expr(e)
    return text if precedence >= least else f"({text})"


def _list(items: Iterable[Expr]) -> str:
    return ", ".join(print_expr(e) for e in items)


def _expr(e: Expr) -> tuple[str, int]:
    """The text of `e` and how tightly its outermost operator binds."""
    if isinstance(e, Const):
        return _const(e)
    if isinstance(e, Var):
        return e.name, _ATOM
    if isinstance(e, Load):
        return f"{e.buffer}[{_list(e.indices)}]", _ATOM
    if isinstance(e, Binary):
        return _binary(e)
    if isinstance(e, Unary):
        if e.op is UnOp.NOT:
            return f"not {_parenthesize(e.a, _NOT)}", _NOT
        return f"-{_parenthesize(e.a, _SIGN)}", _SIGN
    if isinstance(e, Call):
        return f"{e.func}({_list(e.args)})", _ATOM
    if isinstance(e, Cast):
        return f"{e.type}({print_expr(e.value)})", _ATOM
    if isinstance(e, Select):
        text = (
            f"{_parenthesize(e.then, _OR)} if {_parenthesize(e.cond, _OR)} else {_parenthesize(e.otherwise, _SELECT)}"
        )
        return text, _SELECT
    raise TypeError(f"not an expression: {e!r}")


def _const(e: Const) -> tuple[str, int]:
    value = e.value
    if isinstance(value, float) and (isinf(value) or isnan(value)):
        text = "nan" if isnan(value) else "-inf" if value < 0 else "inf"
    else:
        text = repr(value)
    return text, _SIGN if text.startswith("-") else _ATOM


def _binary(e: Binary) -> tuple[str, int]:
    precedence = _PRECEDENCE.get(e.op)
    if precedence is None:
        return f"{e.op.value}({print_expr(e.a)}, {print_expr(e.b)})", _ATOM
    # Operators associate to the left; comparisons do not chain.
    left = _parenthesize(e.a, precedence)
    right = _parenthesize(e.b, precedence + 1)
    if _COMPARE <= precedence <= _SHIFT:
        # Few know which of these binds tighter, so one inside another is in parentheses.
        same = precedence > _COMPARE and isinstance(e.a, Binary) and e.a.op is e.op
        left, right = _parenthesize(e.a, precedence if same else _SUM), _parenthesize(e.b, _SUM)
    if e.op is BinOp.MUL and isinstance(e.a, Binary) and e.a.op in (BinOp.FLOORDIV, BinOp.MOD):
        left = f"({print_expr(e.a)})"  # `a // b*c` would read as something else
    tight = e.op is BinOp.MUL and e.dtype is INDEX and not any(isinstance(n, Load) for n in e.walk())
    return (f"{left}*{right}" if tight else f"{left} {e.op.value} {right}"), precedence


# --- statements ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    """Part of a line; `name` is the loop, block or buffer it stands for, '' for none."""

    text: str
    name: str = ""


@dataclass(frozen=True)
class _Line:
    depth: int
    pieces: tuple[_Piece, ...]

    def render(self, mark: frozenset[str]) -> list[str]:
        """The line, and beneath it a line of carets when a piece of it is marked."""
        text = carets = INDENT * self.depth
        for piece in self.pieces:
            text += piece.text
            carets += ("^" if piece.name in mark and piece.name else " ") * len(piece.text)
        return [text.rstrip(), carets.rstrip()] if "^" in carets else [text.rstrip()]


def print_func(func: Func, mark: tuple[str, ...] = ()) -> str:
    """The program as text, without a newline at the end; loops, blocks and buffers named in `mark` are underlined.

    >>> print(print_func(func, mark=("k",)))                                            # doctest: +SKIP
    func rowsum(A: f32[4, 8]) -> R: f32[4]:
        for i, k in grid(4, 8):
               ^
            sum: R[i] += A[i, k]  init 0.0
    """
    marked = frozenset(mark)
    lines = [_signature(func), *(_Line(1, _temp(b)) for b in func.temps)]
    lines += _stmt(func.body, 1, ())
    return "\n".join(text for line in lines for text in line.render(marked))


def _buffer(b: Buffer) -> _Piece:
    shape = f"[{_list(b.shape)}]" if b.shape else ""
    below = "" if b.below is None else f" < {print_expr(b.below)}"
    return _Piece(f"{'const ' if b.const else ''}{b.name}: {b.dtype}{shape}{below}", b.name)


def _temp(b: Buffer) -> tuple[_Piece, ...]:
    scope = "" if b.scope is Scope.GLOBAL else f" {b.scope.value}"
    layout = "" if b.layout is None else f"  layout {print_index_map(b.layout)}"
    rolling = (
        "" if b.roll is None else f"  at {b.roll.loop or 'root'}, {print_expr(b.roll.window)} of axis {b.roll.axis}"
    )
    return (_Piece("temp "), _buffer(b), _Piece(scope + layout + _alignment_text(b, "  ") + rolling))


def _argument(b: Buffer) -> _Piece:
    return _Piece(_buffer(b).text + _alignment_text(b, " "), b.name)


def _alignment_text(b: Buffer, before: str) -> str:
    return "".join(f"{before}aligned({a.axis}, {print_expr(a.factor)}, {print_expr(a.offset)})" for a in b.alignments)


def _signature(func: Func) -> _Line:
    by_name = {b.name: _argument(b) for b in func.inputs}
    by_name |= {s.name: _Piece(f"{s.name}: {s.dtype}", s.name) for s in func.scalars}
    inputs = _separate_pieces([by_name.get(name, _Piece(name)) for name in func.order])
    outputs = _separate_pieces([_argument(b) for b in func.outputs])
    if len(func.outputs) != 1:
        outputs = [_Piece("("), *outputs, _Piece(")")]
    return _Line(0, (_Piece(f"func {func.name}("), *inputs, _Piece(") -> "), *outputs, _Piece(":")))


def _separate_pieces(pieces: list[_Piece]) -> list[_Piece]:
    out: list[_Piece] = []
    for piece in pieces:
        out += [_Piece(", "), piece] if out else [piece]
    return out


def _stmt(stmt: Stmt, depth: int, above: tuple[For, ...]) -> list[_Line]:
    if isinstance(stmt, Seq):
        return [line for child in stmt.stmts for line in _stmt(child, depth, above)]
    if isinstance(stmt, Block):
        return _block(stmt, depth, above)
    assert isinstance(stmt, For)
    if not _is_plain(stmt):
        return [_Line(depth, _loop(stmt)), *_stmt(stmt.body, depth + 1, (*above, stmt))]
    nest = [stmt]
    while isinstance(nest[-1].body, For) and _is_plain(nest[-1].body):
        nest.append(nest[-1].body)
    header = _loop(stmt) if len(nest) == 1 else _grid(nest)
    return [_Line(depth, header), *_stmt(nest[-1].body, depth + 1, (*above, *nest))]


def _is_plain(loop: For) -> bool:
    return loop.kind is LoopKind.SERIAL and not loop.annotations


def _loop(loop: For) -> tuple[_Piece, ...]:
    lanes = "" if loop.lanes is None else f"({print_expr(loop.lanes)})"
    lanes = f"({loop.region})" if loop.region else lanes
    head = f"{loop.kind.value}{lanes} {loop.var} in {print_expr(loop.extent)}"
    return (_Piece(head, loop.var), _Piece(":" + _annotations(loop.annotations)))


def _grid(nest: list[For]) -> tuple[_Piece, ...]:
    names = _separate_pieces([_Piece(loop.var, loop.var) for loop in nest])
    return (_Piece("for "), *names, _Piece(f" in grid({_list(loop.extent for loop in nest)}):"))


def _annotations(annotations: tuple[Annotation, ...]) -> str:
    show: Callable[[Expr | str], str] = lambda v: f'"{v}"' if isinstance(v, str) else print_expr(v)  # noqa: E731
    return "".join(f"  @{a.key}({show(a.value)})" for a in annotations)


_REDUCE = {
    Reducer.SUM: "+=",
    Reducer.PROD: "*=",
    Reducer.MAX: "max=",
    Reducer.MIN: "min=",
    Reducer.ARGMAX: "argmax=",
    Reducer.ARGMIN: "argmin=",
}


def _block(block: Block, depth: int, above: tuple[For, ...]) -> list[_Line]:
    assign = "=" if block.reducer is None else _REDUCE[block.reducer]
    targets = ", ".join(
        print_expr(Load(s.buffer, s.indices, DType.F32)) if s.indices else s.buffer for s in block.stores
    )
    statement = f"{block.name}: {targets} {assign} {_list(s.value for s in block.stores)}"
    clauses = _clauses(block, above)
    whole = "".join(f"  {clause}" for clause in clauses)
    if len(INDENT) * depth + len(statement) + len(whole) <= WIDTH:
        return [_Line(depth, (_Piece(statement, block.name), _Piece(whole)))]
    rest = [_Line(depth + 1, (_Piece(text),)) for text in _fill_lines(clauses, WIDTH - len(INDENT) * (depth + 1))]
    return [_Line(depth, (_Piece(statement, block.name),)), *rest]


def _fill_lines(clauses: list[str], width: int) -> list[str]:
    """Clauses joined into lines of at most `width` where they fit."""
    lines: list[str] = []
    for clause in clauses:
        if lines and len(lines[-1]) + 2 + len(clause) <= width:
            lines[-1] += f"  {clause}"
        else:
            lines.append(clause)
    return lines


def _clauses(block: Block, above: tuple[For, ...]) -> list[str]:
    out: list[str] = []
    if block.init is not None:
        out.append(f"init {print_expr(block.init)}")
    pairs = zip(block.iters, block.bindings, strict=False)
    bound = [f"{it.name} = {print_expr(b)}" for it, b in pairs if b != Var(it.name)]
    if bound:
        out.append("with " + ", ".join(bound))
    extents = {loop.var: loop.extent for loop in above}
    guards = [g for g in block.guards if prove(g, extents) is not True]
    if guards:
        names = _names_of_bindings(block, frozenset(extents))
        out.append("if " + " and ".join(_parenthesize(_substitute_names(g, names), _NOT) for g in guards))
    if block.annotations:
        out.append(_annotations(block.annotations).strip())
    return out


def _names_of_bindings(block: Block, loops: frozenset[str]) -> dict[Expr, Expr]:
    """What a binding may be called in a guard: its iteration variable, unless a loop has that name."""
    return {
        simplify(binding): Var(it.name)
        for it, binding in zip(block.iters, block.bindings, strict=False)
        if it.name not in loops and not isinstance(simplify(binding), Const)
    }


def _substitute_names(e: Expr, names: dict[Expr, Expr]) -> Expr:
    if e.dtype is INDEX and simplify(e) in names:
        return names[simplify(e)]
    return e.map(lambda child: _substitute_names(child, names))

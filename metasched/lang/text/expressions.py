"""Parse tree to source expressions, for programs, modules and traces alike."""

from __future__ import annotations

import json

from lark import Token, Tree

from metasched.ir.nodes import BinOp, Reducer, UnOp
from metasched.ir.source import (
    Apply,
    At,
    Axis,
    BoolLit,
    FloatLit,
    IfElse,
    IntLit,
    Item,
    Keyword,
    ListLit,
    Name,
    NoneLit,
    Operation,
    Prefix,
    Read,
    Reduce,
    SourceExpr,
    Starred,
    TextLit,
    negate,
)
from metasched.ir.source_printer import print_source
from metasched.lang.diagnostics import Diagnostics
from metasched.support.messages import did_you_mean

SyntaxTree = Tree[Token]

_OPERATORS = {op.value: op for op in BinOp if op not in (BinOp.CEILDIV, BinOp.MIN, BinOp.MAX)}
_REDUCERS = {reducer.value: reducer for reducer in Reducer}
_NOT_IN_PROGRAMS = {
    "string": ("there are no texts", "values are numbers, such as `A[i] * 2`"),
    "none": ("there is no `None`", "values are numbers, such as `A[i] * 2`"),
    "list": ("there are no lists", "an element is written with its buffer: `A[i, j]`"),
    "item": ("a function's value has no elements", "a reduction names its variables in brackets: `sum[k](A[i, k])`"),
    "keyword": ("arguments of functions have no names", "give them in order: `pow(x, y)`"),
    "starred": ("`*` multiplies two numbers", "write both: `x * y`"),
}
# The largest u64; whether a number fits its type is decided where its type is known.
MAX_INTEGER = 2**64 - 1
_MAX_DIGITS = len(str(MAX_INTEGER))


def at_token(token: Token) -> At:
    return At(token.line or 1, token.column or 1)


def at_tree(tree: SyntaxTree) -> At:
    return At(tree.meta.line, tree.meta.column)


def token(tree: SyntaxTree, position: int) -> Token:
    """A child that is a token by the grammar."""
    child = tree.children[position]
    assert isinstance(child, Token)
    return child


def subtree(tree: SyntaxTree, position: int) -> SyntaxTree:
    """A child that is a subtree by the grammar."""
    child = tree.children[position]
    assert isinstance(child, Tree)
    return child


def optional_child(tree: SyntaxTree, position: int) -> Token | SyntaxTree | None:
    """A child that is optional in the grammar."""
    return tree.children[position]


def subtrees(tree: SyntaxTree) -> list[SyntaxTree]:
    """The children that are subtrees; options left out and symbols are not."""
    return [child for child in tree.children if isinstance(child, Tree)]


class ExpressionReader:
    """Turns parse trees of expressions into source expressions; reports what the grammar could not exclude."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics

    def read(self, tree: SyntaxTree) -> SourceExpr:
        at = at_tree(tree)
        match tree.data:
            case "integer" | "real" | "truth" | "name":
                return self._atom(tree)
            case "read":
                name, items = self.subscript(subtree(tree, 0))
                return Read(str(name), items, at=at)
            case "binary":
                a, b = self.read(subtree(tree, 0)), self.read(subtree(tree, 2))
                # The place of the operator is shown when the operands do not fit.
                return Operation(_OPERATORS[token(tree, 1)], a, b, at=at_token(token(tree, 1)))
            case "negative":
                return negate(self.read(subtree(tree, 1)), at=at)
            case "inverted":
                return Prefix(UnOp.INVERT, self.read(subtree(tree, 1)), at=at)
            case "logical_not":
                return Prefix(UnOp.NOT, self.read(subtree(tree, 0)), at=at)
            case "conditional":
                then, cond, otherwise = (self.read(child) for child in subtrees(tree))
                return IfElse(then, cond, otherwise, at=at)
            case "call":
                return self.call(tree)
            case "reduction":
                return self._reduction(tree)
            case "string" | "none" | "list" | "item" | "keyword" | "starred":
                return self._read_module_value(tree)
        raise AssertionError(f"the grammar has no expression `{tree.data}`")

    def _atom(self, tree: SyntaxTree) -> SourceExpr:
        at, written = at_tree(tree), token(tree, 0)
        match tree.data:
            case "integer":
                return IntLit(self.integer(written), at=at)
            case "real":
                return FloatLit(float(written), at=at)
            case "truth":
                return BoolLit(written == "True", at=at)
        return Name(str(written), at=at)

    def call(self, tree: SyntaxTree) -> Apply:
        return Apply(str(token(tree, 0)), self.items(subtree(tree, 1)), at=at_tree(tree))

    def items(self, tree: SyntaxTree) -> tuple[SourceExpr, ...]:
        items = tuple(self.read(item) for item in subtrees(tree))
        if tree.data == "filtered_items":
            hint = "a value has both sides, `x if c else 0`; a reduction may have some terms only: `sum[k if c](...)`"
            self._diagnostics.error(items[-1].start, "a condition without `else` belongs to a reduction", hint)
            return items[:-1]
        return items

    def subscript(self, tree: SyntaxTree) -> tuple[Token, tuple[SourceExpr, ...]]:
        return token(tree, 0), self.items(subtree(tree, 1))

    def axes(self, items: tuple[SourceExpr, ...]) -> tuple[Axis, ...]:
        """Iteration variables, each with or without its range."""
        return tuple(axis for item in items if (axis := self._axis(item)) is not None)

    def integer(self, number: Token) -> int:
        # Python refuses to convert very long digit strings, so their length is checked first.
        if len(number) <= _MAX_DIGITS and int(number) <= MAX_INTEGER:
            return int(number)
        self._diagnostics.error(at_token(number), "this number does not fit in 64 bits")
        return 1

    def _read_module_value(self, tree: SyntaxTree) -> SourceExpr:
        """Report an expression that is only allowed in modules and traces."""
        what, hint = _NOT_IN_PROGRAMS[tree.data]
        self._diagnostics.error(at_tree(tree), f"{what} in a program", hint)
        return IntLit(0, at=at_tree(tree))

    def _axis(self, item: SourceExpr) -> Axis | None:
        match item:
            case Name(name=name):
                return Axis(name, at=item.at)
            case Operation(op=BinOp.LT, a=Name(name=name) as variable, b=extent):
                return Axis(name, extent, at=variable.at)
        if any(isinstance(node, Read) for node in item.walk()):
            message = f"`{print_source(item)}` would say by data where to write, or what to reduce over"
            hint = "name the element and choose what goes there: `Y[j] = sum[i](X[i] if i64(I[i]) == j else 0)`"
            self._diagnostics.error(item.start, message, hint)
            return None
        self._diagnostics.error(
            item.start,
            "an iteration variable belongs here",
            "write a name, `k`, or a name with its range, `k < 512`; index arithmetic goes on the right-hand side",
        )
        return None

    def _reduction(self, tree: SyntaxTree) -> SourceExpr:
        at = at_tree(tree)
        name, domain = token(subtree(tree, 0), 0), subtree(subtree(tree, 0), 1)
        items = tuple(self.read(item) for item in subtrees(domain))
        cond = items[-1] if domain.data == "filtered_items" else None
        if cond is not None:
            items = items[:-1]
        operands = self.items(subtree(tree, 1))
        reducer = _REDUCERS.get(name)
        if reducer is None:
            hint = did_you_mean(name, _REDUCERS) or "the reductions are sum, prod, max, min, argmax and argmin"
            self._diagnostics.error(at, f"`{name}` is not a reduction", hint)
            reducer = Reducer.SUM
        axes = self.axes(items)
        if not items:
            self._diagnostics.error(at, f"`{name}[]` reduces over nothing", f"name its variables: `{name}[k](...)`")
        if len(operands) != 1:
            message = f"a reduction has one operand, not {len(operands)}"
            self._diagnostics.error(at, message, f"write `{name}[k](...)` with one expression in the parentheses")
        return Reduce(reducer, axes, operands[0] if operands else IntLit(0, at=at), cond, at=at)


class ValueReader(ExpressionReader):
    """Also reads the values of modules and traces: texts, `None`, lists, and keyword or starred arguments."""

    def _read_module_value(self, tree: SyntaxTree) -> SourceExpr:
        at = at_tree(tree)
        match tree.data:
            case "string":
                return TextLit(self.text(token(tree, 0)), at=at)
            case "list":
                return ListLit(self.items(subtree(tree, 0)), at=at)
            case "item":
                return Item(self.call(subtree(tree, 0)), self.items(subtree(tree, 1)), at=at)
            case "keyword":
                return Keyword(str(token(tree, 0)), self.read(subtree(tree, 1)), at=at)
            case "starred":
                return Starred(self.read(subtree(tree, 1)), at=at)
        return NoneLit(at=at)

    def text(self, written: Token) -> str:
        """The text between the quotes."""
        try:
            value = json.loads(written)
        except ValueError as error:
            # The position in the error counts from the opening quote.
            at = At(written.line or 1, (written.column or 1) + getattr(error, "pos", 0))
            message = "this is not a JSON string"
            self._diagnostics.error(at, message, 'escapes are \\", \\\\, \\/, \\b, \\f, \\n, \\r, \\t and \\uXXXX')
            return ""
        assert isinstance(value, str)
        return value

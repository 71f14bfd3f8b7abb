"""Index maps: text such as `i, j -> j//16, i, j%16` to data.

A name that is no index and stands in a divisor, `t` in `j -> j//t, j%t`, is a *size*: its value is given apart.
"""

from __future__ import annotations

from functools import lru_cache

from lark import Token

from metasched.dtypes import INDEX
from metasched.ir.nodes import Binary, BinOp, Const, Expr, IndexMap, Unary, UnOp, Var
from metasched.ir.source import IntLit, Name, Operation, Prefix, SourceExpr
from metasched.ir.source_printer import print_source
from metasched.lang.diagnostics import Diagnostics
from metasched.lang.text.expressions import ExpressionReader, at_token, subtree
from metasched.lang.text.layout import Start
from metasched.lang.text.syntax import parse
from metasched.support.messages import did_you_mean, listing

_OPERATORS = frozenset({BinOp.ADD, BinOp.SUB, BinOp.MUL, BinOp.FLOORDIV, BinOp.MOD})
_DIVISIONS = frozenset({BinOp.FLOORDIV, BinOp.MOD})


def sizes_of(index_map: IndexMap) -> tuple[str, ...]:
    """The names of a map's sizes, in the order in which they first appear."""
    found = (node.name for e in index_map.outputs for node in e.walk() if isinstance(node, Var))
    return tuple(dict.fromkeys(name for name in found if name not in index_map.names))


@lru_cache(maxsize=256)
def parse_index_map(text: str) -> IndexMap:
    """An index map from its text: names, an arrow, and sums of multiples, quotients and remainders by constants or
    sizes.

    Raises:
        LanguageError: with the first syntax error, or with every other mistake found.
    """
    filename = "<index map>"
    tree = parse(text, Start.INDEX_MAP, filename)
    diagnostics = Diagnostics(text, filename)
    names = [t for t in subtree(tree, 0).children if isinstance(t, Token)]
    for n, name in enumerate(names):
        if name in names[:n]:
            diagnostics.error(at_token(name), f"`{name}` stands for two indices", "give each index a name of its own")
    items = ExpressionReader(diagnostics).items(subtree(tree, 1))
    reader = _Reader(diagnostics, tuple(str(name) for name in names))
    outputs = tuple(reader.read(e) for e in items)
    if not outputs:
        diagnostics.error(at_token(names[-1]), "the map has no indices after the arrow", "write at least one")
    diagnostics.check()
    return IndexMap(reader.names, outputs)


class _Reader:
    def __init__(self, diagnostics: Diagnostics, names: tuple[str, ...]) -> None:
        self._diagnostics = diagnostics
        self.names = names

    def read(self, e: SourceExpr) -> Expr:
        match e:
            case IntLit(value=number):
                return Const(number, INDEX)
            case Name(name=name):
                if name not in self.names:
                    known = listing(self.names)
                    hint = did_you_mean(name, self.names) or f"the indices are {known}"
                    self._diagnostics.error(e.at, f"`{name}` is not an index of the map", hint)
                return Var(name)
            case Prefix(op=UnOp.NEG, a=a):
                return Unary(UnOp.NEG, self.read(a))
            case Operation(op=op, a=a, b=b) if op in _OPERATORS:
                self._check(e, op, a, b)
                if op in _DIVISIONS and (size := self._size(b)) is not None:
                    return Binary(op, self.read(a), size)
                return Binary(op, self.read(a), self.read(b))
        hint = "indices combine with + and -, and with * // % by constants"
        self._diagnostics.error(e.at, f"`{print_source(e)}` has no meaning in an index map", hint)
        return Const(0, INDEX)

    def _size(self, e: SourceExpr) -> Expr | None:
        """A size, or a product of sizes and positive numbers; None for anything else."""
        match e:
            case IntLit(value=number) if number > 0:
                return Const(number, INDEX)
            case Name(name=name) if name not in self.names:
                return Var(name)
            case Operation(op=BinOp.MUL, a=a, b=b):
                sides = self._size(a), self._size(b)
                return None if sides[0] is None or sides[1] is None else Binary(BinOp.MUL, sides[0], sides[1])
        return None

    def _check(self, e: SourceExpr, op: BinOp, a: SourceExpr, b: SourceExpr) -> None:
        if op in _DIVISIONS and self._size(b) is None:
            hint = "write a number, or the name of a size"
            self._diagnostics.error(e.at, "an index is divided by something other than a positive number", hint)
        if op is BinOp.MUL and not any(isinstance(side, IntLit) for side in (a, b)):
            self._diagnostics.error(e.at, "indices are multiplied by numbers only", "write one side as a number")

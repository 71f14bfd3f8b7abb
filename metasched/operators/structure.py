"""Whether two programs have one structure: the same stages, on tensors that are indexed by the same loops."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field

from metasched.dtypes import INDEX
from metasched.ir import query
from metasched.ir.integers.affine import free_vars
from metasched.ir.nodes import Binary, BinOp, Block, Call, Expr, For, Func, Load, Select, Stmt, Store
from metasched.support.data_classes import dataclass

_COMMUTATIVE = frozenset({BinOp.ADD, BinOp.MUL, BinOp.MIN, BinOp.MAX})


@dataclass(frozen=True)
class Names:
    """One program's names for the blocks and tensors of another."""

    blocks: Mapping[str, str] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)


def names_between(one: Func, other: Func) -> Names | None:
    """The names in `other` of the blocks and tensors of `one`; None if the structure differs.

    Element types may differ, and so may every number.
    """
    if _counts(one) != _counts(other):
        return None
    found = _stmt(one.body, other.body, {})
    if found is None:
        return None
    blocks, tensors = ({a: b for (of, a), b in found.items() if of is kind} for kind in (Block, Load))
    return Names(blocks, tensors)


def _counts(func: Func) -> tuple[int, ...]:
    return len(func.inputs), len(func.outputs), len(func.temps), len(func.scalars), len(query.blocks(func))


# A name, and whether it names a block or something loaded from.
_Name = tuple[type[Block] | type[Load], str]
_Known = dict[_Name, str]


def _stmt(a: Stmt, b: Stmt, known: _Known) -> _Known | None:
    if isinstance(a, For) and isinstance(b, For):
        return _stmt(a.body, b.body, known)
    if isinstance(a, Block) and isinstance(b, Block):
        return _block(a, b, known)
    below = [[child for child in s.children() if isinstance(child, Stmt)] for s in (a, b)]
    if type(a) is not type(b) or len(below[0]) != len(below[1]):
        return None
    found: _Known | None = known
    for x, y in zip(*below, strict=True):
        found = None if found is None else _stmt(x, y, found)
    return found


def _block(a: Block, b: Block, known: _Known) -> _Known | None:
    kinds = [[it.kind for it in block.iters] for block in (a, b)]
    if kinds[0] != kinds[1] or a.reducer is not b.reducer or len(a.stores) != len(b.stores):
        return None
    places = tuple({it.name: n for n, it in enumerate(block.iters)} for block in (a, b))
    found = _add_pair((Block, a.name), b.name, known)
    for x, y in zip(a.stores, b.stores, strict=True):
        found = None if found is None else _store(x, y, found, _Scope(*places))
    return found


@dataclass(frozen=True)
class _Scope:
    """Where two blocks have their iteration variables."""

    one: Mapping[str, int]
    other: Mapping[str, int]

    def same_uses(self, a: Expr, b: Expr) -> bool:
        """Whether two indices depend on the same iteration variables."""
        return {self.one.get(n) for n in free_vars(a)} == {self.other.get(n) for n in free_vars(b)}


def _store(a: Store, b: Store, known: _Known, scope: _Scope) -> _Known | None:
    found = _access((a.buffer, a.indices), (b.buffer, b.indices), known, scope)
    return None if found is None else _expr(a.value, b.value, found, scope)


_Access = tuple[str, tuple[Expr, ...]]


def _access(a: _Access, b: _Access, known: _Known, scope: _Scope) -> _Known | None:
    if len(a[1]) != len(b[1]) or not all(scope.same_uses(x, y) for x, y in zip(a[1], b[1], strict=True)):
        return None
    return _add_pair((Load, a[0]), b[0], known)


def _add_pair(a: _Name, b: str, known: _Known) -> _Known | None:
    """`known` with this pair added; None if either name is already paired with another."""
    if a in known:
        return known if known[a] == b else None
    taken = any(of is a[0] and name == b for (of, _), name in known.items())
    return None if taken else {**known, a: b}


def _expr(a: Expr, b: Expr, known: _Known, scope: _Scope) -> _Known | None:
    if a.dtype is INDEX and b.dtype is INDEX and not (query.loads(a) or query.loads(b)):
        return known if scope.same_uses(a, b) else None
    if isinstance(a, Load) and isinstance(b, Load):
        return _access((a.buffer, a.indices), (b.buffer, b.indices), known, scope)
    if type(a) is not type(b) or (isinstance(a, Call) and isinstance(b, Call) and a.func != b.func):
        return None
    if isinstance(a, Select) and isinstance(b, Select) and not (query.loads(a.cond) or query.loads(b.cond)):
        same = scope.same_uses(a.cond, b.cond)
        return _match_all([(a.then, b.then), (a.otherwise, b.otherwise)], known, scope) if same else None
    if isinstance(a, Binary) and isinstance(b, Binary):
        return _binary(a, b, known, scope)
    return _match_all(list(zip(_operands(a), _operands(b), strict=False)), known, scope)


def _binary(a: Binary, b: Binary, known: _Known, scope: _Scope) -> _Known | None:
    if a.op is not b.op:
        return None
    found = _match_all([(a.a, b.a), (a.b, b.b)], known, scope)
    if found is None and a.op in _COMMUTATIVE:
        return _match_all([(a.a, b.b), (a.b, b.a)], known, scope)
    return found


def _match_all(pairs: list[tuple[Expr, Expr]], known: _Known, scope: _Scope) -> _Known | None:
    found: _Known | None = known
    for a, b in pairs:
        found = None if found is None else _expr(a, b, found, scope)
    return found


def _operands(e: Expr) -> list[Expr]:
    return [child for child in e.children() if isinstance(child, Expr)]


# --- digests


def structure_digest(func: Func) -> str:
    """Equal for all functions of one structure, and rarely for others: `names_between` tells those apart."""
    text = f"{_counts(func)}{_outline(func.body)}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _outline(s: Stmt) -> str:
    """A statement without names and numbers."""
    if isinstance(s, For):
        return f"for {_outline(s.body)}"
    if isinstance(s, Block):
        kinds = ",".join(it.kind.value for it in s.iters)
        stores = "; ".join(f"{len(store.indices)} = {_outline_of_value(store.value)}" for store in s.stores)
        return f"block[{kinds}]({s.reducer}: {stores})"
    return f"{type(s).__name__}({' '.join(_outline(child) for child in s.children() if isinstance(child, Stmt))})"


def _outline_of_value(e: Expr) -> str:
    """The outline of a value: an index, and a condition on indices alone, may be any."""
    if e.dtype is INDEX and not query.loads(e):
        return "index"
    if isinstance(e, Load):
        return f"load{len(e.indices)}"
    if isinstance(e, Select) and not query.loads(e.cond):
        return f"select({_outline_of_value(e.then)}, {_outline_of_value(e.otherwise)})"
    operands = [_outline_of_value(child) for child in _operands(e)]
    if isinstance(e, Binary):
        ordered = sorted(operands) if e.op in _COMMUTATIVE else operands
        return f"{e.op.name}({', '.join(ordered)})"
    return f"{e.func if isinstance(e, Call) else type(e).__name__}({', '.join(operands)})"

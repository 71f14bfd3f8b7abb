"""The anchor of a program: the block that most of its work is in, and its kind, whatever the program's names are.

Schedules are chosen for the anchor; what is fused around it follows. So programs whose anchors are of one *kind* have
good schedules in common: a convolution, and the same with another epilogue. A kind is the block's statement with its
variables and buffers numbered, and without its sizes: its text says which indices each operand takes, and of which
element types they are. The sizes are its `extents`, and its `steps`, the strides and dilations of its accesses. The
order in which a program multiplies two matrices does not count: the one whose columns are the result's comes second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf, log2, prod

from metasched.dtypes import INDEX
from metasched.ir import query
from metasched.ir.integers.affine import as_int
from metasched.ir.integers.conjunctions import conjunction, conjuncts
from metasched.ir.integers.linear import Linear, form_of_sum
from metasched.ir.node_base import Node
from metasched.ir.nodes import Binary, BinOp, Block, Cast, Const, Expr, Func, IterKind, Load, Select, Var
from metasched.ir.printer import print_expr
from metasched.ir.work import work_of
from metasched.support.data_classes import dataclass

# How much a stride counts against an extent that differs by the same factor: it changes what is read, not how much.
_STEP = 2.0
_BOUNDS = frozenset({BinOp.LT, BinOp.LE, BinOp.GT, BinOp.GE})


@dataclass(frozen=True)
class Anchor:
    """The block `block` of a program, of a kind and of a size.

    `extents` are those of its variables in their order, `steps` how far each access moves along a dimension for each of
    the variables that it adds up there.
    """

    block: str
    kind: str
    extents: tuple[int, ...]
    steps: tuple[int, ...]

    def distance(self, extents: tuple[int, ...], steps: tuple[int, ...]) -> float:
        """The distance from another size of the same kind, in factors of two; infinite where the ranks differ."""
        if (len(extents), len(steps)) != (len(self.extents), len(self.steps)):
            return inf
        return _size_distance(self.extents, extents) + _STEP * _size_distance(self.steps, steps)


def _size_distance(these: tuple[int, ...], those: tuple[int, ...]) -> float:
    return sum(abs(log2(a / b)) for a, b in zip(these, those, strict=True))


def anchor_of(func: Func) -> Anchor:
    """The anchor of an unscheduled program: the reduction with most work, or else the block with most results.

    Of equals it is the last one.
    """
    ranked = max(enumerate(query.blocks(func)), key=lambda numbered: _rank(*numbered))
    return _make_anchor(func, ranked[1])


def further_anchors(func: Func, anchor: Anchor, share: float) -> Iterator[Anchor]:
    """The other reductions of an unscheduled program that have a share of the anchor's work, as anchors."""
    blocks = {block.name: block for block in query.blocks(func)}
    least = share * _rank(0, blocks[anchor.block])[1]
    for number, block in enumerate(blocks.values()):
        reduces, work, _ = _rank(number, block)
        if reduces and work >= least and block.name != anchor.block:
            yield _make_anchor(func, block)


def _make_anchor(func: Func, block: Block) -> Anchor:
    statement = _Statement(block)
    extents = tuple(_size(it.extent) for it in block.iters)
    return Anchor(block.name, statement.kind(func), extents, tuple(statement.steps))


def _rank(number: int, block: Block) -> tuple[bool, int, int]:
    instances = prod(_size(it.extent) for it in block.iters)
    return block.reducer is not None, instances * max(1, work_of(block).operations), number


def _size(extent: Expr) -> int:
    value = as_int(extent)
    assert value is not None, "an unscheduled program has constant extents"
    return max(value, 1)


class _Statement:
    """A block's statement with numbers for names, and without sizes; `steps` are found while it is printed."""

    def __init__(self, block: Block) -> None:
        self.steps: list[int] = []
        self._block = block
        self._variables = _numbered_variables(block)
        self._buffers = {name: f"x{n}" for n, name in enumerate(operands(block))}

    def kind(self, func: Func) -> str:
        """The statement as text, with the element type of each buffer."""
        store = self._block.store
        target = f"y[{', '.join(self._index(i) for i in store.indices)}]"
        how = "=" if self._block.reducer is None else f"{self._block.reducer.value}="
        types = [f"{role}: {func.buffer(name).dtype}" for name, role in self._buffers.items()]
        types.append(f"y: {func.buffer(store.buffer).dtype}")
        value = print_expr(self._canonicalise_names(_canonical_value(self._block)))
        return f"{target} {how} {value} of {', '.join(types)}"

    def _canonicalise_names(self, e: Expr) -> Expr:
        if isinstance(e, Load):
            indices = tuple(Var(self._index(i)) for i in e.indices)
            return Load(self._buffers.get(e.buffer, "y"), indices, e.type)
        if isinstance(e, Const) and e.type is INDEX:
            return Var("_")
        if isinstance(e, Var):
            return Var(self._variables[e.name].name if e.name in self._variables else "a", e.type)
        return e.map(self._canonicalise_names)

    def _index(self, e: Expr) -> str:
        terms = sorted((self._atom(atom), abs(step)) for atom, step in _form(e).terms)
        if len(terms) == 1 and terms[0][1] == 1:
            return terms[0][0]
        self.steps += [step for _, step in terms]
        return "+".join(atom for atom, _ in terms) or "_"

    def _atom(self, e: Expr) -> str:
        return print_expr(self._canonicalise_names(e))


def _canonical_value(block: Block) -> Expr:
    """The value of a block in the form that kinds have."""
    return _columns_last(block, _drop_bounds(block))


def _columns_last(block: Block, value: Expr) -> Expr:
    """A product of two elements, that which moves along the result's last dimension second; any other value as it is.

    Only elements whose indices are variables count: a convolution's data comes before its weights, however they lie.
    """
    if not isinstance(value, Binary) or value.op is not BinOp.MUL or not block.store.indices:
        return value
    first, second = _variables_of(value.a), _variables_of(value.b)
    column = block.store.indices[-1]
    if first is None or second is None or column not in first or column in second:
        return value
    return Binary(BinOp.MUL, value.b, value.a)


def _variables_of(e: Expr) -> frozenset[Expr] | None:
    """The indices of an element that is read, and cast; None for anything else, and where one is no variable."""
    while isinstance(e, Cast):
        e = e.value
    if not isinstance(e, Load) or not all(isinstance(index, Var | Const) for index in e.indices):
        return None
    return frozenset(e.indices)


def _drop_bounds(block: Block) -> Expr:
    """The value of a block, without bounds of indices that keep terms out of its sum, such as those of padding: where
    they are few, the same schedules are good, and where they are many, the sum takes less time.
    """
    value = block.store.value
    if block.reducer is None or not isinstance(value, Select) or value.otherwise != block.init:
        return value
    asked = conjuncts(value.cond)
    kept = [part for part in asked if not _is_bound(part)]
    if len(kept) == len(asked):
        return value
    return Select(conjunction(kept), value.then, value.otherwise) if kept else value.then


def _is_bound(condition: Expr) -> bool:
    """Whether a condition compares a sum of the block's variables with a number."""
    if not isinstance(condition, Binary) or condition.op not in _BOUNDS or not isinstance(condition.b, Const):
        return False
    return all(isinstance(atom, Var) for atom, _ in _form(condition.a).terms)


def operands(block: Block) -> tuple[str, ...]:
    """The buffers that a block reads, each once, in the order that its kind has; not the one that it writes."""
    found = (node.buffer for node in _walk_in_order(_canonical_value(block)) if isinstance(node, Load))
    return tuple(name for name in dict.fromkeys(found) if name != block.store.buffer)


def _walk_in_order(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children():
        yield from _walk_in_order(child)


def _numbered_variables(block: Block) -> Mapping[str, Var]:
    letters = {IterKind.SPATIAL: "s", IterKind.REDUCE: "r"}
    count = dict.fromkeys(letters, 0)
    found: dict[str, Var] = {}
    for it in block.iters:
        found[it.name] = Var(f"{letters[it.kind]}{count[it.kind]}")
        count[it.kind] += 1
    return found


def _form(e: Expr) -> Linear:
    return form_of_sum(e, _form) or Linear.of_atom(e)

"""Traversal that is written out for each kind of node agrees with looking into every field."""

import importlib
from dataclasses import fields, is_dataclass, replace

import pytest

from metasched.compiler.lower import lower
from metasched.dtypes import DType
from metasched.ir.node_base import Node, node
from metasched.ir.node_methods import METHOD_NAMES, write_methods
from metasched.ir.nodes import FALSE, TRUE, Annotation, Binary, BinOp, Const, Load, Var
from metasched.ir.source import FloatLit, SourceNode
from metasched.lang import parse_program
from metasched.operators import TWELVE
from metasched.target import Target

X, Y = Var("i"), Var("j")


@node
class Sum(Node):
    """A kind with fields of every sort. The last is told to hold anything, as its type is not known here."""

    name: str
    first: Var
    others: tuple[Var, ...]
    last: Var | None = None
    note: "Unknown | None" = None  # noqa: F821


def looked_into(value: Node) -> tuple[Node, ...]:
    found: list[Node] = []
    for field in fields(value):  # type: ignore[arg-type]
        held = getattr(value, field.name)
        items = held if isinstance(held, tuple) else (held,)
        found.extend(item for item in items if isinstance(item, Node))
    return tuple(found)


@pytest.mark.parametrize(
    "value",
    [
        X,
        X + 1,
        Load("A", (X, Y), DType.F32),
        Annotation("unroll", Const(4)),
        Annotation("layout", "rows"),
        Sum("s", X, ()),
        Sum("s", X, (Y, X), Y),
        Sum("s", X, (Y,), None, Y),
        Sum("s", X, (Y,), None, (Y, "text", X)),
        Sum("s", X, (Y,), None, ("text", 1)),
    ],
    ids=repr,
)
def test_children_and_map(value: Node) -> None:
    assert value.children() == looked_into(value)
    assert value.map(lambda child: child) is value
    other = Var("k")
    mapped = value.map(lambda child: other if child is X else child)
    assert type(mapped) is type(value)
    assert mapped.children() == tuple(other if child is X else child for child in value.children())
    rest = [(f.name, getattr(value, f.name)) for f in fields(value) if f.name in ("name", "key", "op", "buffer")]
    assert all(getattr(mapped, name) == held for name, held in rest)


@pytest.mark.parametrize("name", ["C2D", "SFM"])
def test_what_programs_are_made_of(name: str) -> None:
    """What the declared types of fields say is what is there, before lowering and after."""
    func = TWELVE[name].program().func
    nodes = [*func.walk(), *lower(func, Target.detect(threads=2)).walk()]
    assert all(each.children() == looked_into(each) for each in nodes)
    assert len({type(each) for each in nodes}) > 15


def test_a_tuple_without_a_change_stays_the_same_object() -> None:
    value = Sum("s", X, (Y, Y))
    assert value.map(lambda child: Var("k") if child is X else child).others is value.others


def kinds() -> list[type[Node]]:
    modules = [
        importlib.import_module(f"metasched.{name}") for name in ("ir.nodes", "compiler.lir", "compiler.lower.nest")
    ]
    return [
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Node) and kind.__module__ == module.__name__
    ]


@pytest.mark.parametrize("kind", [kind for kind in kinds() if is_dataclass(kind)], ids=lambda kind: kind.__name__)
def test_every_kind_has_methods_of_its_own(kind: type[Node]) -> None:
    write_methods(kind, Node)
    assert all(getattr(kind, name) is not getattr(Node, name) for name in METHOD_NAMES)


def test_a_kind_that_writes_one_itself_keeps_it() -> None:
    @node
    class Named(Node):
        name: str
        value: Var

        def children(self) -> tuple[Node, ...]:
            return ()

    assert Named("n", X).children() == ()
    assert Named("n", X).map(lambda _: Y) == Named("n", Y)


def test_kinds_below_others_have_methods_of_their_own() -> None:
    @node
    class Named(Sum):
        beside: Var | None = None

    assert Sum("s", X, ()).children() == (X,)
    assert Named("n", X, (), beside=Y).children() == (X, Y)
    assert Named("n", X, (), beside=Y) != Named("n", X, ())
    assert isinstance(Named("n", X, ()).map(lambda _: Y), Named)


def test_nodes_are_equal_by_kind_and_fields() -> None:
    @node
    class Named(Sum):
        pass

    nodes = [
        Sum("s", X, (Y,)),
        Sum("t", X, (Y,)),
        Sum("s", X, (Y, Y)),
        Named("s", X, (Y,)),
        X,
        Load("s", (), DType.F32),
    ]
    again = [Sum("s", Var("i"), (Var("j"),)), *nodes[1:]]
    assert [[a == b for b in nodes] for a in again] == [[n == m for m in range(6)] for n in range(6)]
    assert [hash(a) == hash(b) for a, b in zip(again, nodes, strict=True)] == [True] * 6
    assert nodes[0] != "s"


def test_constants_are_equal_by_type_and_sign() -> None:
    ones = [Const(1), Const(True, DType.BOOL), Const(1.0, DType.F32), Const(1, DType.I32)]
    assert all((a == b) is (a is b) for a in ones for b in ones)
    assert Const(0.0, DType.F32) != Const(-0.0, DType.F32)
    assert Const(float("nan"), DType.F32) == Const(float("nan"), DType.F32)
    assert Const(2**70) == Const(2**70)
    assert TRUE != FALSE
    assert Binary(BinOp.ADD, X, Const(1)) == X + 1


def test_nodes_of_a_text_are_changed_where_they_are() -> None:
    definition = parse_program(
        "program p(A: f32[4, 8]) -> Y: f32[4]:\n    Y[i] = sum[k < 8 if k < 3](A[i, k] if i > 1 else 2.0)\n"
    ).definition
    for value in definition.walk():
        held = [getattr(value, field.name) for field in fields(value)]
        items = [item for one in held for item in (one if isinstance(one, tuple) else (one,))]
        assert value.children() == tuple(item for item in items if isinstance(item, SourceNode))
        assert value.map(lambda child: child) is value
    (stage,) = definition.stages
    made = stage.map(lambda child: FloatLit(1.0) if child is stage.value else child)
    assert made == replace(stage, value=FloatLit(1.0))
    assert made.at == stage.at

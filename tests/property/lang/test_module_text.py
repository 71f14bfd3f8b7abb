"""Whatever the module, its text reads back; whatever the text, it is a module or a LanguageError."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.errors import LanguageError
from metasched.ir.nodes import BinOp, UnOp
from metasched.ir.source import (
    Apply,
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
    SourceExpr,
    Starred,
    TextLit,
    negate,
)
from metasched.lang.instructions import HOLE, Decision, Ref
from metasched.lang.module_tree import (
    Alternative,
    AssignedName,
    Bind,
    Branch,
    Draw,
    Give,
    LoopStatement,
    ModuleDef,
    Run,
    Setting,
    SkipLine,
    Statement,
    print_module,
)
from metasched.lang.text.modules import read_modules
from metasched.space.text.rules import parse_module

names = st.sampled_from(["i", "j", "k_", "block", "loops", "root", "split", "sample_tile", "name"])
operators = st.sampled_from([op for op in BinOp if op not in (BinOp.CEILDIV, BinOp.MIN, BinOp.MAX)])
literals = st.one_of(
    st.integers(0, 2**63).map(IntLit),
    st.integers(1, 100).map(lambda n: IntLit(-n)),
    st.floats(min_value=0, allow_nan=False).map(FloatLit),
    st.booleans().map(BoolLit),
    st.text().map(TextLit),
    st.just(NoneLit()),
)


def calls(inner: st.SearchStrategy[SourceExpr]) -> st.SearchStrategy[Apply]:
    argument = st.one_of(inner, st.builds(Keyword, names, inner), st.builds(Starred, inner))
    return st.builds(Apply, names, st.lists(argument, max_size=3).map(tuple))


def larger(inner: st.SearchStrategy[SourceExpr]) -> st.SearchStrategy[SourceExpr]:
    some = st.lists(inner, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Operation, operators, inner, inner),
        inner.map(negate),
        st.builds(Prefix, st.just(UnOp.NOT), inner),
        calls(inner),
        st.builds(Read, names, some),
        st.builds(Item, calls(inner), some),
        st.builds(ListLit, some),
        st.builds(IfElse, inner, inner, inner),
    )


expressions = st.recursive(st.one_of(literals, names.map(Name)), larger, max_leaves=8)
decisions: st.SearchStrategy[Decision] = st.recursive(
    st.one_of(st.text(), st.booleans(), st.integers(-9, 99), st.just(HOLE), names.map(Ref)),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


@st.composite
def targets(draw: st.DrawFn) -> tuple[AssignedName, ...]:
    some = draw(st.lists(names, min_size=1, max_size=3))
    star = draw(st.integers(-3, len(some) - 1))
    return tuple(AssignedName(name, n == star) for n, name in enumerate(some))


simple = st.one_of(
    st.builds(Bind, targets(), expressions),
    st.builds(Draw, targets(), calls(expressions), st.none() | st.text(), st.none() | decisions),
    st.builds(Run, calls(expressions)),
    st.builds(Give, st.lists(expressions, max_size=2).map(tuple)),
    st.builds(SkipLine, expressions),
)


def nested(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Statement]:
    body = st.lists(inner, min_size=1, max_size=2).map(tuple)
    alternatives = st.lists(st.builds(Alternative, expressions, body), min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Branch, alternatives, st.just(()) | body), st.builds(LoopStatement, targets(), expressions, body)
    )


modules = st.builds(
    ModuleDef,
    names,
    st.lists(st.builds(Setting, names, expressions), max_size=2).map(tuple),
    st.lists(names.map(AssignedName), max_size=3).map(tuple),
    st.text(),
    st.lists(st.recursive(simple, nested, max_leaves=5), min_size=1, max_size=3).map(tuple),
)


@settings(max_examples=settings.default.max_examples * 2 // 3)
@given(modules)
def test_modules_survive_printing(module: ModuleDef) -> None:
    text = print_module(module)
    (again,), report = read_modules(text, "<text>")
    report.check()
    assert again == module
    assert print_module(again) == text


@settings(max_examples=settings.default.max_examples * 2 // 3)
@given(modules)
def test_checking_any_module_explains(module: ModuleDef) -> None:
    reads_or_explains(print_module(module))


def reads_or_explains(text: str) -> None:
    try:
        parse_module(text)
    except LanguageError as error:
        assert error.diagnostics
        for d in error.diagnostics:
            assert d.message
            assert 1 <= d.line <= text.count("\n") + 1
            assert d.column >= 1


RIGHT = """\
module tile[innermost=64, kinds=["a", None]](dense):
    "What it does."
    if not reduces(dense): skip "it is not a reduction"
    *outer, i, j = get_loops(dense)
    x, y ~ sample_tile(i, parts=2, innermost=innermost) @ "i" := [_, 8]
    how ~ choose("none", "outer")
    if how == "outer":
        parallel(outer[0])
    elif len(outer) > 1:
        reorder(*outer, j)
    else:
        for a, b in [[i, x], [j, 4]]:
            split(a, [kinds[1], b * 2])
    return x, y
"""
WORDS = 'module tile block i skip return for in if elif else choose _ ( ) [ ] , : := = ~ @ * - == 3 "a" \''.split()  # noqa: SIM905


@given(st.data())
def test_texts_with_a_mistake(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(RIGHT)))
    end = data.draw(st.integers(start, min(start + 12, len(RIGHT))))
    new = data.draw(st.one_of(st.just(""), st.sampled_from(WORDS), st.text(max_size=3), st.just("\n    ")))
    reads_or_explains(RIGHT[:start] + new + RIGHT[end:])


@given(st.lists(st.sampled_from([*WORDS, "\n", "\n    ", "\n        "]), max_size=40))
def test_any_words(words: list[str]) -> None:
    reads_or_explains("module m(b):\n    " + " ".join(words))

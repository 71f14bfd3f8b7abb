"""Whatever the text, the parser gives a tree or a LanguageError; whatever the tree, its text reads back."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from metasched.dtypes import INDEX, DType
from metasched.errors import LanguageError
from metasched.ir.nodes import Binary, BinOp, Const, Reducer, UnOp, Var
from metasched.ir.source import (
    Apply,
    Argument,
    Axis,
    BoolLit,
    BufferDeclaration,
    FloatLit,
    IfElse,
    IntLit,
    Let,
    Name,
    Operation,
    Prefix,
    ProgramDef,
    ProgramParameter,
    Read,
    Reduce,
    SourceExpr,
    Stage,
    negate,
)
from metasched.ir.source_printer import print_program
from metasched.lang import parse_definitions, parse_program, parse_trace, print_trace
from metasched.lang.instructions import HOLE, Decision, Instruction, Ref, TraceData, Value

RIGHT = [
    """program conv[H=14, R=3, S=1, P=1](X: f32[H, H], const K: f32[R, R], alpha: f32) -> (Y: f32[OH, OH], m: f32[]):
    let OH = (H + 2*P - R) // S + 1
    Xp: f32[H + 2*P, H + 2*P]
    pad: Xp[h, w] = X[h - P, w - P] if h >= P and h < H + P and w >= P and w < H + P else 0
    conv: Y[h, w] = sum[r, s < 3](Xp[S*h + r, S*w + s] * K[r, s] * alpha)   # the work
    m[] = max[h, w](Y[h, w])
""",
    """program ints[N=8](A: i32[N], B: u8[N]) -> C: f32[N]:
    T[i] = -A[i] // 2 + i32(B[i]) % 3
    C[i] = exp(f32(T[i])) if not (T[i] == 0 or B[i] >= 4) else 1e-5
""",
    """trace 1 of conv[H=14, P=-1]:
    dense = get_block("dense")
    i, j = get_loops(dense)
    t0, t1 ~ sample_tile(i, parts=2) @ "tile/i" := [_, 8]
    i0, i1 = split@2(i, [t0 * 2, ceildiv(t1, 3)])
    f ~ choose("none", None) := "none"
    annotate(i0, "k", flags=[True, -2.5, []])
""",
]
KEYWORDS = "program trace of let const if else and or not True False None inf sum max exp f32 A B C i j k".split()  # noqa: SIM905
SYMBOLS = "( ) [ ] , : := = == < <= + - * / // % @ ~ -> && || ** ; ' ! _ . #".split()  # noqa: SIM905
NUMBERS = '0 1 3 4.5 1e9 99999999999999999999 "text" "\\q"'.split()  # noqa: SIM905
WORDS = KEYWORDS + SYMBOLS + NUMBERS


def check(error: LanguageError, text: str) -> None:
    assert error.diagnostics
    for d in error.diagnostics:
        assert d.message
        assert 1 <= d.line <= text.count("\n") + 1
        assert d.column >= 1


def reads_or_explains(text: str) -> None:
    for parse in (parse_program, parse_trace, parse_definitions):
        try:
            parse(text)
        except LanguageError as error:
            check(error, text)


@given(st.text())
def test_any_text(text: str) -> None:
    reads_or_explains(text)


@given(st.lists(st.sampled_from([*WORDS, "\n", "\n    ", "\n        ", "\t"]), max_size=60))
def test_any_words(words: list[str]) -> None:
    reads_or_explains(" ".join(words))


@given(st.sampled_from(RIGHT), st.data())
def test_texts_with_a_mistake(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 12, len(text))))
    new = data.draw(st.one_of(st.just(""), st.sampled_from(WORDS), st.text(max_size=3), st.just("\n")))
    reads_or_explains(text[:start] + new + text[end:])


@given(st.sampled_from(RIGHT), st.data())
def test_truncated_texts(text: str, data: st.DataObject) -> None:
    reads_or_explains(text[: data.draw(st.integers(0, len(text)))])


# --- programs --------------------------------------------------------------------------------------------

names = st.sampled_from(["A", "B", "C1", "i", "j", "k_", "alpha", "tile"])
dtypes = st.sampled_from(list(DType))
operators = st.sampled_from([op for op in BinOp if op not in (BinOp.CEILDIV, BinOp.MIN, BinOp.MAX)])
sizes = st.integers(0, 2**63)
literals = st.one_of(
    sizes.map(IntLit),
    st.floats(min_value=0, allow_nan=False).map(FloatLit),
    st.booleans().map(BoolLit),
    st.integers(1, 100).map(lambda n: IntLit(-n)),
    st.floats(max_value=0, allow_nan=False).map(lambda x: FloatLit(-abs(x))),
)


def larger(inner: st.SearchStrategy[SourceExpr]) -> st.SearchStrategy[SourceExpr]:
    some = st.lists(inner, max_size=3).map(tuple)
    axes = st.lists(st.builds(Axis, names, st.none() | inner), min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Operation, operators, inner, inner),
        inner.map(negate),
        st.builds(Prefix, st.sampled_from([UnOp.NOT, UnOp.INVERT]), inner),
        st.builds(Apply, names, some),
        st.builds(Read, names, some),
        st.builds(IfElse, inner, inner, inner),
        st.builds(Reduce, st.sampled_from(Reducer), axes, inner, st.none() | inner),
    )


expressions = st.recursive(st.one_of(literals, names.map(Name)), larger, max_leaves=12)
shapes = st.lists(expressions, max_size=3).map(tuple)
declarations = st.builds(BufferDeclaration, names, dtypes, shapes)
arguments = st.one_of(
    st.builds(Argument, names, dtypes, shapes, st.booleans()), st.builds(Argument, names, dtypes, st.none())
)
stages = st.builds(
    lambda label, buffer, axes, value: Stage(None if label == buffer else label, buffer, axes, value),
    st.none() | names,
    names,
    st.lists(st.builds(Axis, names, st.none() | expressions), max_size=3).map(tuple),
    expressions,
)
definitions = st.builds(
    ProgramDef,
    names,
    st.lists(st.builds(ProgramParameter, names, st.integers(-(2**63), 2**63)), max_size=3).map(tuple),
    st.lists(arguments, max_size=3).map(tuple),
    st.lists(declarations, min_size=1, max_size=2).map(tuple),
    st.lists(st.builds(Let, names, expressions), max_size=2).map(tuple),
    st.lists(declarations, max_size=2).map(tuple),
    st.lists(stages, min_size=1, max_size=3).map(tuple),
)


@settings(max_examples=settings.default.max_examples * 2 // 3)
@given(definitions)
def test_programs_survive_printing(definition: ProgramDef) -> None:
    text = print_program(definition)
    (again,) = parse_definitions(text)
    assert again == definition
    assert print_program(again) == text


@settings(max_examples=settings.default.max_examples * 2 // 3)
@given(definitions)
def test_elaboration_of_any_program_gives_ir_or_explains(definition: ProgramDef) -> None:
    reads_or_explains(print_program(definition))


# --- traces ----------------------------------------------------------------------------------------------

LABELS = ["i", "j", "t0", "dense"]
floats = st.floats(allow_nan=False)
plain = st.one_of(st.text(), st.booleans(), st.integers(-(2**63), 2**63), floats)


OF_TRACES = [op for op in BinOp if not (op is BinOp.DIV or op.is_of_bits or op.is_shift)]
arithmetic = st.recursive(
    st.one_of(st.sampled_from(LABELS).map(Var), st.integers(0, 99).map(lambda n: Const(n, INDEX))),
    lambda inner: st.builds(Binary, st.sampled_from(OF_TRACES), inner, inner),
    max_leaves=6,
).filter(lambda e: isinstance(e, Binary))
values: st.SearchStrategy[Value] = st.recursive(
    st.one_of(plain, st.none(), st.sampled_from(LABELS).map(Ref), arithmetic),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
decisions: st.SearchStrategy[Decision] = st.recursive(
    st.one_of(plain, st.just(HOLE), st.sampled_from(["root", *LABELS]).map(Ref)),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)
words = st.sampled_from(["split", "sample_tile", "get_loops", "x", "parts"])


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    random = draw(st.booleans())
    return Instruction(
        draw(words),
        tuple(draw(st.lists(values, max_size=3))),
        tuple(draw(st.dictionaries(words, values, max_size=2)).items()),
        tuple(draw(st.lists(st.sampled_from(LABELS), min_size=int(random), max_size=3))),
        random,
        draw(st.none() | st.text()) if random else None,
        draw(st.none() | decisions) if random else None,
        draw(st.integers(1, 3)),
    )


FIRST = Instruction("get", outputs=tuple(LABELS))


@given(st.lists(st.tuples(names, st.integers(-9, 2**63)), max_size=2), st.lists(instructions(), max_size=4))
def test_traces_survive_printing(params: list[tuple[str, int]], lines: list[Instruction]) -> None:
    trace = TraceData("p", tuple(params), (FIRST, *lines))
    text = print_trace(trace)
    assert parse_trace(text) == trace
    assert print_trace(parse_trace(text)) == text

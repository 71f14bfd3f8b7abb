from __future__ import annotations

import pytest

from metasched.errors import LanguageError
from metasched.ir.nodes import BinOp
from metasched.ir.source import Apply, IntLit, Item, Keyword, ListLit, Name, NoneLit, Operation, Read, Starred, TextLit
from metasched.lang import load_program, parse_program
from metasched.lang.instructions import HOLE, Ref
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

WHOLE = """\
module tile[innermost=64, kinds=["a", None], by=-1](dense, loop):
    "What it does."
    ""
    "And more."
    if not reduces(dense): skip "it is not a reduction"
    *outer, i, j = get_loops(dense)
    x, y ~ sample_tile(i, parts=2, innermost=innermost) @ "i" := [_, 8]
    how ~ choose("none", "outer")
    if how == "outer":
        parallel(outer[0])
    elif len(outer) > 1:
        reorder(*outer)
    else:
        for a, b in [[i, x], [j, 4]]:
            split(a, [None, b * 2])
    return i, get_loops(dense)[-1]
"""


def modules(text: str) -> tuple[ModuleDef, ...]:
    found, diagnostics = read_modules(text, "<text>")
    diagnostics.check()
    return found


def body(*lines: str) -> tuple[Statement, ...]:
    (module,) = modules("module m():\n" + "".join(f"    {line}\n" for line in lines))
    return module.body


def error_of(text: str) -> LanguageError:
    with pytest.raises(LanguageError) as caught:
        modules(text)
    return caught.value


def test_the_canonical_text_is_a_fixed_point() -> None:
    (module,) = modules(WHOLE)
    assert print_module(module) == WHOLE
    assert modules(print_module(module)) == (module,)


def test_the_first_lines() -> None:
    (module,) = modules(WHOLE)
    assert module.name == "tile"
    assert module.settings == (
        Setting("innermost", IntLit(64)),
        Setting("kinds", ListLit((TextLit("a"), NoneLit()))),
        Setting("by", IntLit(-1)),
    )
    assert module.parameters == (AssignedName("dense"), AssignedName("loop"))
    assert module.doc == "What it does.\n\nAnd more."


def test_statements() -> None:
    i = Name("i")
    call = Apply("f", (i, Starred(Name("rest")), Keyword("k", TextLit("x"))))
    cases: dict[str, Statement] = {
        'f(i, *rest, k="x")': Run(call),
        'a, *b = f(i, *rest, k="x",)': Bind((AssignedName("a"), AssignedName("b", starred=True)), call),
        "a = i": Bind((AssignedName("a"),), i),
        "a = loops[-1]": Bind((AssignedName("a"),), Read("loops", (IntLit(-1),))),
        "a = f(i)[0]": Bind((AssignedName("a"),), Item(Apply("f", (i,)), (IntLit(0),))),
        "a ~ f(i)": Draw((AssignedName("a"),), Apply("f", (i,))),
        'a, b ~ f(i) @ "x" := [_, 8]': Draw((AssignedName("a"), AssignedName("b")), Apply("f", (i,)), "x", (HOLE, 8)),
        "a ~ f(i) := root": Draw((AssignedName("a"),), Apply("f", (i,)), None, Ref("root")),
        "return": Give(()),
        "return i, 3": Give((i, IntLit(3))),
        'skip "no"': SkipLine(TextLit("no")),
        "for x, y in i: f(x)": LoopStatement(
            (AssignedName("x"), AssignedName("y")), i, (Run(Apply("f", (Name("x"),))),)
        ),
    }
    for text, expected in cases.items():
        assert body(text) == (expected,), text


def test_branches() -> None:
    def f(n: int) -> tuple[Statement, ...]:
        return (Run(Apply("f", (IntLit(n),))),)

    is_a = Operation(BinOp.EQ, Name("h"), TextLit("a"))
    assert body('if h == "a": f(1)') == (Branch((Alternative(is_a, f(1)),)),)
    assert body('if h == "a": f(1)', "else: f(2)") == (Branch((Alternative(is_a, f(1)),), f(2)),)
    assert body('if h == "a":', "    f(1)", "elif i: f(2)", "elif j:", "    f(3)", "else:", "    f(4)", "    f(5)") == (
        Branch((Alternative(is_a, f(1)), Alternative(Name("i"), f(2)), Alternative(Name("j"), f(3))), (*f(4), *f(5))),
    )


def test_lines_may_be_broken_in_brackets() -> None:
    assert body("f(", "  i,", "  [1,", "   2],", ")") == body("f(i, [1, 2])")


def test_a_file_may_hold_programs_and_modules() -> None:
    program = "program p(A: f32[4]) -> B: f32[4]:\n    B[i] = A[i]\n"
    text = f"{WHOLE}\n{program}\nmodule n(l):\n    unroll(l)\n"
    assert [m.name for m in modules(text)] == ["tile", "n"]
    assert parse_program(text) == parse_program(program)
    with pytest.raises(LanguageError, match="there are modules here, and no program"):
        parse_program(WHOLE)


def test_load_program_passes_modules_by(tmp_path: pytest.TempPathFactory) -> None:
    path = tmp_path / "both.ms"  # type: ignore[operator]
    path.write_text(f"{WHOLE}\nprogram p(A: f32[4]) -> B: f32[4]:\n    B[i] = A[i]\n")
    assert load_program(path).name == "p"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ('module m(b):\n    "Nothing."', (1, 8), "the module `m` does nothing", "write at least one step in it"),
        (
            'module m(b):\n    unroll(b)\n    "late"',
            (3, 5),
            "a text that stands alone describes the module, and belongs before its first line",
            "move it there, or make it a comment: `# ...`",
        ),
        (
            "module m(b):\n    *x, *y = f(b)",
            (2, 10),
            "two names are starred: how the results are shared out is not clear",
            "star one of them",
        ),
        (
            "module m(b):\n    x ~ f(b) := 2 * 3",
            (2, 17),
            "a decision is a plain value, and `2 * 3` is arithmetic",
            "write the number it stands for",
        ),
        (
            "module m(b):\n    x ~ f(b) := None",
            (2, 17),
            "`None` is no decision",
            "leave out `:= None`, and the variable is open",
        ),
        (
            'module m(b):\n    f("\\q")',
            (2, 8),
            "this is not a JSON string",
            'escapes are \\", \\\\, \\/, \\b, \\f, \\n, \\r, \\t and \\uXXXX',
        ),
    ],
)
def test_mistakes(text: str, place: tuple[int, int], message: str, hint: str) -> None:
    (d,) = error_of(text).diagnostics
    assert (d.line, d.column) == place
    assert (d.message, d.hint) == (message, hint)


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ('B[i] = "x"', "there are no texts in a program", "values are numbers, such as `A[i] * 2`"),
        ("B[i] = None", "there is no `None` in a program", "values are numbers, such as `A[i] * 2`"),
        ("B[i] = [A[i]]", "there are no lists in a program", "an element is written with its buffer: `A[i, j]`"),
        ("B[i] = sum(k)[A[i]]", "a function's value has no elements in a program",
         "a reduction names its variables in brackets: `sum[k](A[i, k])`"),
        ("B[i] = pow(x=A[i], y=2)", "arguments of functions have no names in a program",
         "give them in order: `pow(x, y)`"),
        ("B[i] = max(*A[i], 0)", "`*` multiplies two numbers in a program", "write both: `x * y`"),
    ],
)  # fmt: skip
def test_what_programs_have_no_use_for(line: str, message: str, hint: str) -> None:
    with pytest.raises(LanguageError) as caught:
        parse_program(f"program p(A: f32[4]) -> B: f32[4]:\n    {line}")
    assert (message, hint) in [(d.message, d.hint) for d in caught.value.diagnostics]


def test_trailing_commas() -> None:
    lines = "B[i,] = max(A[i,], 0,) + alpha"
    program = f"program p[N=4,](\n    A: f32[N,],\n    alpha: f32,\n) -> (\n    B: f32[N],\n):\n    {lines}"
    assert parse_program(program) == parse_program(
        "program p[N=4](A: f32[N], alpha: f32) -> (B: f32[N]):\n    B[i] = max(A[i], 0) + alpha"
    )

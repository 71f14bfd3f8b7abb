from __future__ import annotations

import pytest

import metasched as ms


def found(text: str) -> list[tuple[str, str, str]]:
    """Each mistake: what its caret points at, the message and the hint."""
    with pytest.raises(ms.LanguageError) as caught:
        ms.parse_module(text)
    lines = text.split("\n")
    return [(lines[d.line - 1][d.column - 1 :], d.message, d.hint) for d in caught.value.diagnostics]


def mistake(*body: str) -> tuple[str, str, str]:
    """The one mistake of a module over block `b` with loops `i` and `j`."""
    head = ["module m(b):", "    i, j = get_loops(b)"]
    use = [] if any(line.startswith(("return", "skip")) for line in body) else ["    unroll(i)"]
    (only,) = found("\n".join([*head, *use, *(f"    {line}" for line in body)]))
    return only


CALLS = [
    ("splitt(i, [None, 2])", "splitt(i", "there is no primitive, fact or module `splitt`", "did you mean `split`?"),
    (
        "if reducs(b): unroll(j)",
        "reducs(b)",
        "there is no primitive, fact or module `reducs`",
        "did you mean `reduces`?",
    ),
    ("split(i)", "split(i)", "`split` misses its argument `factors`", "split(loop, factors)"),
    ("split(i, [None, 2], 3)", "3)", "`split` takes no argument `3`", "split(loop, factors)"),
    ("split(i, factor=[None, 2])", "factor=", "`split` has no parameter `factor`", "did you mean `factors`?"),
    ("unroll(i, loop=j)", "i, loop", "`unroll` takes no argument `i`", "unroll(loop)"),
    ('unroll("i")', '"i")', 'argument `loop` of `unroll` is a loop, not "i"', "give a loop: `i, j = get_loops(block)`"),
    ("split(i, 4)", "4)", "argument `factors` of `split` is a list, not 4", "write `[4]`"),
    ("split(factors=[None, 2], i)", "i)", "an argument without a name comes after one with a name", "put it first"),
    ('cache_read(b, buffer="A", buffer="B")', 'buffer="B"', "`buffer` is given twice", "remove one"),
    (
        "_x = sample_tile(i, parts=2)",
        "sample_tile",
        "`sample_tile` draws a random variable",
        "write `~` instead of `=`",
    ),
    (
        "split(i, sample_tile(i))",
        "sample_tile",
        "`sample_tile` draws a random variable",
        "give it a line: `x ~ sample_tile(...)`",
    ),
    ("_x, _y ~ split(i, [None, 2])", "split(i", "`split` is no random variable", "write `=` instead of `~`"),
    ("_x ~ reduces(b)", "reduces(b)", "`reduces` is no random variable", "write `=` instead of `~`"),
    ("x = unroll(j)", "unroll(j)", "`unroll` gives no result", "write `unroll(...)` on a line of its own"),
    ("x, y = fuse(i, j)", "x, y", "`fuse` gives 1 result, and on the left is `x, y`", ""),
    ("*x = fuse(i, j)", "x = fuse", "`fuse` gives 1 result, and on the left is `*x`", ""),
    ("get_loops(b)", "get_loops", "nothing is done with what `get_loops` gives", "name it, or remove the line"),
    ("reduces(b)", "reduces", "nothing is done with what `reduces` says", "use it in a condition"),
    (
        "if len(b, i) == 2: unroll(j)",
        "len(b",
        "`len` takes 1 argument, not 2",
        "`len(loops)` is how many items a list has",
    ),
    (
        "split(i, [None, min(2, b=3)])",
        "b=3",
        "`min` has no parameter `b`",
        "`min(a, b)` is the smaller of two integers",
    ),
]


@pytest.mark.parametrize(("line", "place", "message", "hint"), CALLS)
def test_calls(line: str, place: str, message: str, hint: str) -> None:
    at, *said = mistake(line)
    assert at.startswith(place)
    assert said[0] == message
    assert said[1] == hint


NAMES = [
    ("unroll(jj)", "jj)", "`jj` is not defined", "did you mean `j`?"),
    ("unroll(zebra)", "zebra)", "`zebra` is not defined", "texts are written in quotes"),
    ("split(i, [_, 2])", "_, 2]", "`_` stands only in decisions", "write `None` for what follows from the others"),
    (
        "x, y ~ sample_tile(i) := [_, sizes]\nsplit(i, [x, y])",
        "x, y ~",
        "`sizes` is not defined",
        "texts are written in quotes",
    ),
    ("x = get_loops(b)", "x = ", "`x` is never used", "remove the line"),
    ("x, y ~ sample_tile(i)", "x, y", "`x` and `y` are never used", "remove the line"),
    ('how ~ choose("a", "b")', "how", "`how` is never used", "remove the line"),
    (
        "return i\nunroll(i)",
        "unroll",
        "this line is never reached: `return` ends the module before",
        "indent the `return` under its condition, or remove the line",
    ),
    (
        'skip "no"\nunroll(i)',
        "unroll",
        "this line is never reached: `skip` ends the module before",
        "indent the `skip` under its condition, or remove the line",
    ),
]


@pytest.mark.parametrize(("lines", "place", "message", "hint"), NAMES)
def test_names(lines: str, place: str, message: str, hint: str) -> None:
    head = [] if "skip" not in lines else ["unroll(j)", "unroll(i)"]
    at, *said = mistake(*head, *lines.split("\n"))
    assert at.startswith(place)
    assert said == [message, hint]


HINT = 'for a structural decision write `how ~ choose("none", "outer")`, whose result is a plain value'


@pytest.mark.parametrize(
    ("lines", "place", "what"),
    [
        ("if x > 2: unroll(j)", "x > 2", "a condition"),
        ("z = y * 2 + 1\nif z == 2: unroll(j)", "z == 2", "a condition"),
        ("if not reduces(b):\n    unroll(j)\nelif x == y and reduces(b): unroll(j)", "x == y", "a condition"),
        ("split(j, [None, 2 if x == 1 else 4])", "x == 1", "a condition"),
        ("unroll(get_loops(b)[x])", "x])", "an index"),
        ("loops = get_loops(b)\nunroll(loops[x])", "x])", "an index"),
        ("for s in [x]:\n    if s == 1: unroll(j)", "s == 1", "a condition"),
    ],
)
def test_no_branch_on_a_random_variable(lines: str, place: str, what: str) -> None:
    text = "module m(b):\n    i, j = get_loops(b)\n    x, y ~ sample_tile(i)\n    split(i, [x, y])\n    unroll(j)\n"
    mistakes = found(text + "".join(f"    {line}\n" for line in lines.split("\n")))
    at, message, hint = mistakes[0]
    assert at.startswith(place)
    name = place[0]
    assert message == f"{what} cannot depend on `{name}`: a random variable's value differs between candidates"
    assert hint == HINT


@pytest.mark.parametrize(
    ("line", "place", "hint"),
    [
        ('if how == "outr": unroll(i)', 'how == "outr"', "did you mean `outer`?"),
        ('if how != "x": unroll(i)', 'how != "x"', "the options are `none` and `outer`"),
    ],
)
def test_options_that_are_none(line: str, place: str, hint: str) -> None:
    ((at, message, said),) = found(f'module m(i):\n    how ~ choose("none", "outer")\n    {line}\n')
    assert at.startswith(place)
    assert message.endswith("is no option of this choice")
    assert said == hint
    ((at, message, _),) = found('module m(i):\n    how ~ choose("a", "b") := "c"\n    if how == "a": unroll(i)\n')
    assert at.startswith("choose")
    assert message == '"c" is no option of this choice'


def test_a_choice_without_options() -> None:
    ((at, message, hint),) = found('module m(b):\n    how ~ choose()\n    if how == "a": unroll(b)\n')
    assert (at, message, hint) == ("choose()", "this choice has no options", 'write them: `choose("none", "outer")`')


HELPER = "module help[size=2](loop):\n    a, b = split(loop, [None, size])\n    return a, b\n\n"


@pytest.mark.parametrize(
    ("line", "place", "message", "hint"),
    [
        ("help(b, b)", "help(b", "`help` takes 1 argument, not 2", "it is defined in line 1"),
        ("help(b, sise=2)", "sise", "module `help` has no parameter `sise`", "did you mean `size`?"),
        (
            "x, y, z = help(b)\n    unroll(x)",
            "x, y, z",
            "module `help` returns 2 results, and on the left is `x, y, z`",
            "",
        ),
        ("x ~ help(b)\n    unroll(x)", "help(b)", "`help` is no random variable", "write `=` instead of `~`"),
        ("hlp(b)", "hlp(b)", "there is no primitive, fact or module `hlp`", "did you mean `help`?"),
    ],
)
def test_calls_of_modules(line: str, place: str, message: str, hint: str) -> None:
    (only,) = found(f"{HELPER}module m(b):\n    {line}\n" + ("" if "b" in line else "    unroll(b)\n"))
    assert only[0].startswith(place)
    assert only[1:] == (message, hint)


def test_a_module_that_returns_nothing() -> None:
    ((at, message, hint),) = found("module f(l):\n    unroll(l)\n\nmodule m(l):\n    x = f(l)\n    unroll(x)\n")
    assert (at, message, hint) == ("f(l)", "module `f` returns nothing", "end it with `return ...`")


def test_modules_do_not_call_themselves() -> None:
    ((at, message, hint),) = found("module m(b):\n    m(b)\n")
    assert (at, message, hint) == ("m(b)", "`m` calls itself", "repeat with `for` over a list")
    text = "module f(b):\n    g(b)\n\nmodule g(b):\n    h(b)\n\nmodule h(b):\n    g(b)\n"
    assert [(at, message) for at, message, _ in found(text)] == [
        ("h(b)", "`g` calls itself"),
        ("g(b)", "`h` calls itself"),
    ]


def test_names_of_modules() -> None:
    for name, kind in (("split", "primitive"), ("reduces", "fact"), ("len", "function")):
        ((at, message, _),) = found(f"module {name}(l):\n    unroll(l)\n")
        assert at.startswith(name)
        assert message == f"`{name}` is a {kind}, and a module of this name would hide it"
    assert ("two(l):", "there are two modules `two`", "rename one") in found(
        "module two(l):\n    unroll(l)\n\nmodule two(l):\n    parallel(l)\n"
    )


def test_parameters() -> None:
    assert found('module m[x=1, y=z](b, x):\n    unroll(b)\n    split(b, [None, x])\n    annotate(b, "k", y)\n')[0][
        1:
    ] == (
        "the default of `y` is `z`",
        "a default is a number, a text, True, False, None, or a list of these",
    )
    assert [m for _, m, _ in found("module m[x=1](b, c, x):\n    unroll(b)\n")] == [
        "`x` is never used",
        "`c` is never used",
        "`x` is named twice",
        "`x` is never used",
    ]


def test_all_mistakes_at_once() -> None:
    mistakes = found("module m(b):\n    unrol(b)\n    x = y\n\nmodule n(c):\n    spilt(c, [2])\n")
    assert [message for _, message, _ in mistakes] == [
        "there is no primitive, fact or module `unrol`",
        "`x` is never used",
        "`y` is not defined",
        "there is no primitive, fact or module `spilt`",
    ]


def test_what_may_stay_unused() -> None:
    ms.parse_module("module m[_later=2](b, _c):\n    i, _j = get_loops(b)\n    _all = get_loops(b)\n    unroll(i)\n")

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
    ("splitt(i, [None, 2])", "splitt(i", "there is no primitive, query or module `splitt`", "did you mean `split`?"),
    (
        "if reducs(b): unroll(j)",
        "reducs(b)",
        "there is no primitive, query or module `reducs`",
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
    ("lines", "place", "name"),
    [
        ('if at == "inline": unroll(j)', 'at == "inline"', "at"),
        ("if at: unroll(j)", "at: unroll", "at"),
        ("if reduces(b) and serial(at): unroll(j)", "at): unroll", "at"),
        ('there = at\nif there != "root": unroll(j)', 'there != "root"', "there"),
    ],
)
@pytest.mark.parametrize("decision", ["", " := root"])
def test_no_branch_on_a_location(lines: str, place: str, name: str, decision: str) -> None:
    draw = f"at ~ sample_compute_location(b){decision}"
    at, message, hint = mistake(draw, "compute_at(b, at)", "unroll(j)", *lines.split("\n"))
    assert at.startswith(place)
    assert message == f"a condition cannot depend on `{name}`: a random variable's value differs between candidates"
    assert hint == HINT


OPEN_SIZES = [
    ("_, q = split(i, [x, y])\nif extent(q) == 4: unroll(q)", "extent(q) == 4", "extent(q)"),
    ("_, q = split(i, [x, y])\nif 4 != extent(loop=q): unroll(q)", "extent(loop=q):", "extent(loop=q)"),
    ("_, q = split(i, [x, y])\nif extent(q) > 4: unroll(q)", "extent(q) > 4", "extent(q)"),
    ("_, q = split(i, [x, y])\nn = extent(q)\nif reduces(b) or n == 4: unroll(q)", "n == 4", "n"),
    ("_, q = split(i, [None, y * 2])\nif extent(q) == 4: unroll(q)", "extent(q) == 4", "extent(q)"),
    ("q, _ = split(i, [None, y])\nif extent(q) == 4: unroll(q)", "extent(q) == 4", "extent(q)"),
    ("*q, _ = split(i, [x, min(y, 8), 2])\nif extent(q[1]) == 4: unroll(q[0])", "extent(q[1])", "extent(q[1])"),
    ("p = split(i, [x, y])\n_, q = p\nif extent(q) == 4: unroll(q)", "extent(q) == 4", "extent(q)"),
    ("q = fuse(split(i, [x, y])[0], j)\nif extent(q) == 4: unroll(q)", "extent(q) == 4", "extent(q)"),
    ("_, p = split(i, [x, y])\nq, _ = split(p, [None, 2])\nif extent(q) == 4: unroll(q)", "extent(q)", "extent(q)"),
    ("t ~ sample_tile(j)\n_, q = split(j, t)\nif extent(q) == 4: unroll(q)", "extent(q) == 4", "extent(q)"),
    (
        "if reduces(b): _, q = split(i, [x, y])\nelse: q, _ = split(j, [y, 2])\nif extent(q) == 4: unroll(q)",
        "extent(q) == 4",
        "extent(q)",
    ),
]


@pytest.mark.parametrize(("lines", "place", "size"), OPEN_SIZES)
def test_sizes_that_random_variables_decide_are_not_compared(lines: str, place: str, size: str) -> None:
    drawn = ["unroll(i)", "unroll(j)", "x, y ~ sample_tile(i)", "split(j, [x, y])"]
    at, message, hint = mistake(*drawn, *lines.split("\n"))
    assert at.startswith(place)
    assert message == f"`{size}` is not known: it depends on tile sizes"
    assert hint == f"test `{size} == None` before"


@pytest.mark.parametrize(
    "lines",
    [
        "_, q = split(i, [x, 4])\nif extent(q) == 4: unroll(q)",
        "_, *q = split(i, [x, y, 4])\nif extent(q[1]) == 4: unroll(q[0])",
        "q, _ = split(i, [None, 4])\nif extent(q) == 4: unroll(q)",
        "z, w ~ sample_tile(i) := [_, 4]\n_, q = split(i, [z, w])\nif extent(q) == 4: unroll(q)",
        "_, q = split(i, [x, y])\nif extent(q) != None and extent(q) == 4: unroll(q)",
        '_, q = split(i, [x, y])\nif extent(q) == None: skip "it is not known"\nif extent(q) == 4: unroll(q)',
        "_, q = split(i, [None, x if reduces(b) else 4])\nif extent(q) == 4: unroll(q)",
        "if reduces(b): _, q = split(i, [x, y])\nelse: q, _ = split(i, [None, 2])\nif extent(q) == 4: unroll(q)",
        "_, q = split(i, [x, y])\nfor l in get_loops(b): q = l\nif extent(q) == 4: unroll(q)",
        "_, q = split(i, [x, y])\nq = j\nif extent(q) == 4: unroll(q)",
        "t ~ sample_tile(j)\nfor s in t: split(j, [None, s])",
        "for s in [x, y] + [x * 2]: split(j, [None, s])",
    ],
)
def test_sizes_that_may_be_known(lines: str) -> None:
    head = ["module m(b):", "    i, j = get_loops(b)", "    x, y ~ sample_tile(i)", "    split(j, [x, y])"]
    ms.parse_module("\n".join([*head, "    unroll(i)", *(f"    {line}" for line in lines.split("\n"))]))


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("x ~ sample_categorical([2, 4])\nfor q in x: split(j, [None, q])", "x"),
        ("x ~ sample_categorical([2, 4]) := 4\nfor q in x * 2 - 1: split(j, [None, q])", "x*2 - 1"),
        ("x, y ~ sample_tile(i)\nz = max(x, y)\nfor q in z: split(j, [None, q])", "z"),
        ("x ~ sample_compute_location(b)\nfor q in x: unroll(q)", "x"),
    ],
)
def test_no_loop_over_a_random_variable(lines: str, what: str) -> None:
    at, message, hint = mistake("unroll(j)", *lines.split("\n"))
    assert at.startswith(what.replace("*", " * "))
    assert message == f"`{what.replace('*', ' * ')}` is a random variable, and no list"
    assert hint == "repeat over a list: `get_loops(block)`"


TILES = "`_` and {}, the innermost at most {}"


@pytest.mark.parametrize(
    ("draw", "decision", "support"),
    [
        ("sample_categorical([4, 8])", "5", "one of 4, 8"),
        ("sample_categorical(values=[4, 8])", "[_, 4]", "one of 4, 8"),
        ("sample_categorical([1, 2], [0.5, 0.5])", "True", "one of 1, 2"),
        ("sample_tile(i)", "8", TILES.format("1 inner factor", 64)),
        ("sample_tile(i)", "[_, 65]", TILES.format("1 inner factor", 64)),
        ("sample_tile(i)", "[_, 0]", TILES.format("1 inner factor", 64)),
        ("sample_tile(i)", "[4, 4]", TILES.format("1 inner factor", 64)),
        ("sample_tile(i, parts=3)", "[_, 4]", TILES.format("2 inner factors", 64)),
        ("sample_tile(i, 2, innermost=8)", "[_, 16]", TILES.format("1 inner factor", 8)),
    ],
)
def test_a_decision_that_no_program_allows(draw: str, decision: str, support: str) -> None:
    at, message, hint = mistake("unroll(j)", f"x ~ {draw} := {decision}", "split(j, x)")
    assert at.startswith(draw)
    assert message == f"the decision {decision} is not in the support ({support})"
    assert hint == "change it, or leave it out"


@pytest.mark.parametrize(
    "draw",
    [
        "sample_categorical([4, 8]) := 8",
        "sample_categorical([4, size]) := 5",
        "sample_categorical([4, 8]) := size",
        "sample_tile(i, parts=3) := [_, 128, 64]",
        "sample_tile(i, innermost=size) := [_, 128]",
        "sample_tile(i) := [_, size]",
        "sample_tile(*[i, 3]) := [_, 1, 2]",
    ],
)
def test_a_decision_that_a_program_may_allow(draw: str) -> None:
    text = f"module m[size=4](b):\n    i, j = get_loops(b)\n    x ~ {draw}\n    split(j, x)\n"
    ms.parse_module(text + "    split(i, [None, size])\n")


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
        ("hlp(b)", "hlp(b)", "there is no primitive, query or module `hlp`", "did you mean `help`?"),
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
    for name, kind in (("split", "primitive"), ("reduces", "query"), ("len", "function")):
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
        "there is no primitive, query or module `unrol`",
        "`x` is never used",
        "`y` is not defined",
        "there is no primitive, query or module `spilt`",
    ]


def test_what_may_stay_unused() -> None:
    ms.parse_module("module m[_later=2](b, _c):\n    i, _j = get_loops(b)\n    _all = get_loops(b)\n    unroll(i)\n")

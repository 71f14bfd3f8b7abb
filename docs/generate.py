"""Write docs/primitives.md, docs/operators.md, tables of other pages, and the types of what is declared in files of its
own (a schedule's methods, math functions) from the code: `make docs`."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path

from metasched import operators
from metasched.doors.jit.elementwise import known_ufuncs
from metasched.doors.jit.registry import traceable
from metasched.doors.jit.scipy_ufuncs import SPECIAL_FORMS
from metasched.doors.pytorch.registry import known_operators
from metasched.dtypes import DType
from metasched.errors import LanguageError
from metasched.functions.declaration import ARGUMENTS
from metasched.functions.registry import functions
from metasched.ir.source_printer import print_params
from metasched.lang.load import parse_definitions
from metasched.lang.text import parse_tables
from metasched.operators import digests
from metasched.operators.files import library_names
from metasched.schedule.annotation import AnnotationKey, known_annotations
from metasched.schedule.distributions.base import Distribution
from metasched.schedule.interpreter import Interpreter
from metasched.schedule.kinds import ArgumentKind
from metasched.schedule.primitive import Declaration, registry
from metasched.search.guesses import guess

PAGE = Path(__file__).parent / "primitives.md"
HEAD = """\
# Primitives and random variables

Every method of a `Schedule`, from its own declaration in `metasched/schedule/primitives/` (written by `make docs`; a
test compares). A block, loop or random variable is given by the handle that an earlier method returned.
"""
KINDS: tuple[tuple[str, Callable[[Declaration], bool]], ...] = (
    ("Looking", lambda d: d.pure and not d.random),
    ("Transforming", lambda d: not d.pure),
    ("Random variables", lambda d: d.random),
)
NOT_BUILT = """\
## Not built

- `blockize` (TVM: a nest of loops as one block) has nothing to do here: blocks are single statements, `tensorize`
  matches loops, and `compute_at` moves a statement at the granularity of the loop that it is given.
- Binding loops to the threads of a GPU: kernels are for CPUs.
"""


def page() -> str:
    """The whole page as text."""
    parts = [HEAD]
    for title, belongs in KINDS:
        chosen = [d for d in registry().values() if belongs(d)]
        if chosen:
            parts.append(f"## {title}\n")
            parts += [entry(declaration) for declaration in chosen]
    return "\n".join([*parts, ANNOTATIONS, *map(annotation_entry, known_annotations().values()), NOT_BUILT])


ANNOTATIONS = """\
## Annotations

What `annotate(target, key, value)` may say to the compiler of a loop or a block, from the files of
`metasched/schedule/annotations/`.
"""


def annotation_entry(key: AnnotationKey) -> str:
    """One annotation: its key, where it may stand, and what it means."""
    by = "" if not key.set_by else f"; `{key.set_by}` puts it there"
    return f'### `"{key.name}"`\n\nOn {key.on.value}: {key.values.value}{by}.\n\n```text\n{key.doc}\n```\n'


def entry(declaration: Declaration) -> str:
    """One primitive: its signature, and its documentation as it is laid out."""
    returns = (
        ""
        if declaration.result.name == "NONE"
        else f"Returns {declaration.result.value}" + (" each.\n\n" if declaration.many_results else ".\n\n")
    )
    return f"### `{declaration.signature}`\n\n```text\n{declaration.doc.rstrip()}\n```\n\n{returns}".rstrip() + "\n"


OPERATORS = Path(__file__).parent / "operators.md"
OPERATORS_HEAD = """\
# The operator library

What `ms.operator(NAME, ...)` loads, and `metasched show op:NAME` shows: a program file each, in
`metasched/operators/`, whose comments these are (written by `make docs`; a test compares). Parameters have defaults;
`T`, `U` and `ACC` are element types (see [language.md](language.md#types)). *[Expert traces](glossary.md#expert-trace)*
are schedules that people wrote, each at one shape: `ms.operators.expert_traces(NAME)`. They replay on others with
`ms.Policy.REPAIR`; where one does so for some shapes only, it says which.
"""
# The shapes that a trace replays on, where these are not all.
SHAPES = {
    "conv2d_nhwc.matmul": "W=14, CI=16 and R=3, and H=14 unless N=1: its index maps have these numbers",
    "matmul_nn.amx_bf16": "M, N and K are multiples of 32",
    "matmul_nn.amx_u8i8": "M and N are multiples of 32, and K is one of 64",
    "matmul_nn.bf16": "N is a multiple of 32, and K is even",
    "matmul_nn.vnni": "N is a multiple of 32, and K one of 4",
    "matmul_nn.vnni_signed": "N is a multiple of 48, and K one of 4",
    "matmul_nn.vnni_tiles": "N is a multiple of 32, and K one of 16",
}


def operators_page() -> str:
    """The whole page as text."""
    return "\n".join([OPERATORS_HEAD, _types(), *(operator_entry(name) for name in library_names())])


def _types() -> str:
    moving = ", ".join(f"`{name}`" for name in library_names() if _takes(name, "bool"))
    text = (
        f"Operators that only move elements take every type as `T`, also `bool`: {moving}. The others compute, with "
        "numbers: sums of `f16` and `bf16` are taken in another type, `ACC=f32`, and what divides or takes roots and "
        "exponentials is of floats. What an operator cannot be made of, it says when it is loaded."
    )
    return textwrap.fill(text, 120) + "\n"


def _takes(name: str, dtype: str) -> bool:
    try:
        operators.load(name, T=dtype)
    except LanguageError:
        return False
    return True


def operator_entry(name: str) -> str:
    """One operator: its parameters, its comment, its expert traces."""
    source = operators.source(name)
    (definition,) = parse_definitions(source)
    params = print_params(tuple((p.name, p.default) for p in definition.params))
    about = " ".join(line.removeprefix("#").strip() for line in source.splitlines() if line.startswith("#"))
    parts = [f"## `{name}{params}`", about]
    experts = [operators.expert(n) for n in operators.expert_names() if n.partition(".")[0] == name]
    parts += [f"- expert trace `{e.variant}`{_shapes(e.name)}: {e.about}" for e in experts]
    return "\n\n".join(parts[:2]) + "\n" + "".join(f"\n{line}" for line in parts[2:]) + ("\n" if experts else "")


def _shapes(name: str) -> str:
    return f" (only where {SHAPES[name]})" if name in SHAPES else ""


METHODS = Path(__file__).parents[1] / "metasched" / "schedule" / "methods.pyi"
METHODS_HEAD = '''\
"""What the methods of a `Schedule` take and return (written by `make docs` from the declarations; a test compares)."""

from collections.abc import Callable, Sequence
from typing import Literal

from metasched.schedule.values import BlockRV, Int, LocationRV, LoopRV

class PrimitiveMethods:
'''
TYPES = {
    ArgumentKind.BLOCK: "BlockRV",
    ArgumentKind.LOOP: "LoopRV",
    ArgumentKind.TARGET: "LoopRV | BlockRV",
    ArgumentKind.LOCATION: 'LoopRV | Literal["root", "inline"]',
    ArgumentKind.INT: "Int | int",
    ArgumentKind.SETTING: "Int | int | bool",
    ArgumentKind.FACTOR: "Int | int | None",
    ArgumentKind.LITERAL: "str | float | bool",
    ArgumentKind.STR: "str",
    ArgumentKind.NUMBER: "int",
    ArgumentKind.BOOL: "bool",
    ArgumentKind.INDEX_MAP: "str | Callable[..., object]",
    ArgumentKind.NONE: "None",
}
LABELS = "labels: Sequence[str] = ..."
SITE = "name: str | None = ..., address: str | None = ..., decision: object = ..."


def methods_stub() -> str:
    """The whole file of types, of all but those that `Schedule` writes out itself."""
    return METHODS_HEAD + "".join(_method(d) for d in registry().values() if d.name not in vars(Interpreter))


def _method(declaration: Declaration) -> str:
    positional: list[str] = []
    keywords: list[str] = []
    for parameter, p in zip(
        declaration.params, list(inspect.signature(declaration.run).parameters.values())[1:], strict=True
    ):
        type_ = TYPES[parameter.kind]
        if parameter.variadic:
            positional.append(f"*{parameter.name}: {type_}")
            continue
        text = f"{parameter.name}: {f'Sequence[{type_}]' if parameter.many else type_}"
        text += "" if parameter.required else f" = {parameter.default!r}"
        (keywords if p.kind is inspect.Parameter.KEYWORD_ONLY else positional).append(text)
    star = [] if any(p.variadic for p in declaration.params) else ["*"]
    asked = [*keywords, *([SITE] if declaration.random else []), LABELS]
    head = f"    def {declaration.name}(self, {', '.join([*positional, *star, *asked])}) -> {_returned(declaration)}:"
    doc = textwrap.indent(declaration.doc, "        ").strip()
    return f'{head}\n        """{doc}\n        """\n'


def _returned(declaration: Declaration) -> str:
    if declaration.drawn is not None:
        return _drawn(declaration, declaration.drawn)
    one = TYPES[declaration.result]
    return f"list[{one}]" if declaration.many_results else one


def _drawn(declaration: Declaration, distribution: type[Distribution]) -> str:
    """The type of what a sampler gives whoever calls it."""
    if distribution.structural:
        return "LocationRV" if declaration.places else TYPES[ArgumentKind.LITERAL]
    return "list[Int]" if distribution.gives_list else "Int"


CALLS = Path(__file__).parents[1] / "metasched" / "lang" / "calls.pyi"
CALLS_HEAD = '''\
"""The math functions in programs built in Python (written by `make docs` from their files; a test compares)."""

from metasched.lang.python_values import Value, ValueLike

'''


def calls_stub() -> str:
    """The types of the math functions for programs built in Python."""
    parts = [CALLS_HEAD, "__all__ = [\n", *(f'    "{name}",\n' for name in functions()), "]\n"]
    for function in functions().values():
        arguments = ", ".join(f"{x}: ValueLike" for x in ARGUMENTS[: function.arity])
        parts.append(f'''\ndef {function.name}({arguments}) -> Value:\n    """{function.doc.splitlines()[0]}"""\n''')
    return "".join(parts)


DIGESTS = Path(__file__).parents[1] / "metasched" / "operators" / digests.FILE


def digests_text() -> str:
    """The operators that have expert traces, by the digests of their structures."""
    return json.dumps(digests.make_digests(), indent=1) + "\n"


TABLES = Path(__file__).parents[1] / "grammar" / parse_tables.FILE


def tables_text() -> str:
    """The parser's tables. Their numbers differ from process to process: what is right stays as it is."""
    grammar = TABLES.with_suffix(".lark").read_text(encoding="utf-8")
    text = TABLES.read_text(encoding="utf-8")
    return text if parse_tables.read_tables(text, grammar) is not None else parse_tables.tables_text(grammar)


COMPILER = Path(__file__).parent / "compiler.md"
LANGUAGE = Path(__file__).parent / "language.md"
NUMPY = Path(__file__).parent / "numpy_functions.md"
PYTORCH = Path(__file__).parent / "pytorch.md"


def compiler_page() -> str:
    """The page with its table of the functions' errors, and the thresholds of a guess, made anew."""
    rows = [f"| `{f.name}` | {_ulp(f.ulp[DType.F32])} | {_ulp(f.ulp[DType.F64])} |" for f in functions().values()]
    table = "\n".join(["| function | float32 | float64 |", "|---|---|---|", *rows])
    text = replaced(COMPILER.read_text(encoding="utf-8"), "functions", f"\n{table}\n\n")
    text = replaced(text, "carried over", str(guess.CARRIED_BETTER_RATIO))
    return replaced(text, "far from its shape", _far_from_its_shape())


def _far_from_its_shape() -> str:
    """When a guess looks beyond what is known, from its thresholds."""
    sentences = (
        f"The space of the rules is looked at as well if a call takes {guess.WORTH_LOOKING_CYCLES:,.0f} cycles or more "
        f"(some {guess.WORTH_LOOKING_CYCLES / 3000:.0f} us), and the trace's arithmetic and what has to be moved would "
        f"take less than {guess.ROOM_OF_EXPERT:g} of its estimated time ({guess.ROOM_OF_NEIGHBOUR:.2f} for what was "
        "found for a neighbour, never where one is near). The favourite there is taken if the cost model expects it to "
        f"take less than {guess.BETTER_RATIO} of the time."
    )
    return f"\n{textwrap.indent(textwrap.fill(sentences, 118), '  ')}\n  "


def language_page() -> str:
    """The page with its list of functions made anew."""
    return replaced(LANGUAGE.read_text(encoding="utf-8"), "functions", f"`{' '.join(functions())}`")


def numpy_page() -> str:
    """The page with its lists of what can be traced made anew."""
    text = replaced(NUMPY.read_text(encoding="utf-8"), "ufuncs", f"\n{_listed(known_ufuncs())}\n")
    text = replaced(text, "scipy ufuncs", f"\n{_listed(sorted(SPECIAL_FORMS))}\n")
    return replaced(text, "numpy functions", f"\n{_listed(traceable())}\n")


def pytorch_page() -> str:
    """The page with its list of operators made anew."""
    operators = sorted({name.split(".")[1] if name.startswith("aten.") else name for name in known_operators()})
    return replaced(PYTORCH.read_text(encoding="utf-8"), "torch operators", f"\n{_listed(operators)}\n")


def _listed(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{name}`" for name in names), 120)


def _ulp(error: float) -> str:
    return f"{error:g}" if error else "exact"


def replaced(text: str, name: str, part: str) -> str:
    """A page with what stands between its marks of a name replaced."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the page has no `{begin}` ... `{end}`")
    return f"{before}{begin}{part}{end}{after}"


if __name__ == "__main__":
    CALLS.write_text(calls_stub(), encoding="utf-8")
    COMPILER.write_text(compiler_page(), encoding="utf-8")
    DIGESTS.write_text(digests_text(), encoding="utf-8")
    LANGUAGE.write_text(language_page(), encoding="utf-8")
    NUMPY.write_text(numpy_page(), encoding="utf-8")
    PYTORCH.write_text(pytorch_page(), encoding="utf-8")
    TABLES.write_text(tables_text(), encoding="utf-8")
    METHODS.write_text(methods_stub(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    OPERATORS.write_text(operators_page(), encoding="utf-8")

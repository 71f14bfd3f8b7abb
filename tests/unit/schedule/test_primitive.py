"""Every primitive of the registry keeps the declaration's promises."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import metasched.schedule.primitives as package
from metasched.errors import ScheduleError
from metasched.ir.nodes import Binary, BinOp, Const, Var
from metasched.lang.instructions import Instruction, Ref, TraceData, Value
from metasched.schedule import primitive as declaring
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.distributions.categorical import Categorical
from metasched.schedule.kinds import ArgumentKind, BlockName, BlockText, BufferText, IntExpr, LoopName, Named
from metasched.schedule.primitive import Declaration, Param, declaration_of, primitive, registry, sampler
from metasched.schedule.trace import Trace
from tests.support.programs import DENSE_RELU
from tests.support.schedules import schedule

FILES = sorted(p.stem for p in Path(next(iter(package.__path__))).glob("*.py") if p.stem != "__init__")
EACH = pytest.mark.parametrize("declaration", registry().values(), ids=lambda d: d.name)

EXAMPLES: dict[ArgumentKind, Value] = {
    ArgumentKind.BLOCK: Ref("block"),
    ArgumentKind.LOOP: Ref("loop"),
    ArgumentKind.TARGET: Ref("loop"),
    ArgumentKind.LOCATION: Ref("root"),
    ArgumentKind.INT: Binary(BinOp.MUL, Var("tile"), Const(2)),
    ArgumentKind.SETTING: True,
    ArgumentKind.FACTOR: Ref("tile"),
    ArgumentKind.LITERAL: "text",
    ArgumentKind.STR: 'a "quoted" text',
    ArgumentKind.NUMBER: 3,
    ArgumentKind.BOOL: True,
    ArgumentKind.INDEX_MAP: "i, j -> j // 16, i, j % 16",
}


def arguments(declaration: Declaration) -> Iterator[tuple[Param, Value]]:
    for param in declaration.params:
        value = EXAMPLES[param.kind]
        yield param, (value, value) if param.many else value


def instruction(declaration: Declaration) -> Instruction:
    args: list[Value] = []
    kwargs: list[tuple[str, Value]] = []
    for param, value in arguments(declaration):
        if param.variadic:
            assert isinstance(value, tuple)
            args.extend(value)
        elif param.keyword:
            kwargs.append((param.name, value))
        else:
            args.append(value)
    outputs = () if declaration.result is ArgumentKind.NONE and not declaration.random else ("one", "two")
    address = "somewhere/else" if declaration.random else None
    return Instruction(
        declaration.name, tuple(args), tuple(kwargs), outputs, declaration.random, address, version=declaration.version
    )


def test_one_primitive_a_file() -> None:
    assert sorted(registry()) == FILES


def test_the_primitives_of_this_version() -> None:
    """A primitive that goes, or changes its name, breaks every recorded trace."""
    assert {
        *("annotate", "cache_read", "cache_write", "choose", "compute_at", "compute_inline", "decompose_reduction"),
        *("fuse", "get_block", "get_consumers", "get_loops", "get_producers", "parallel", "reorder"),
        *("reverse_compute_at", "reverse_compute_inline", "rfactor", "sample_categorical", "sample_compute_location"),
        *("sample_tile", "set_scope", "split", "unroll", "vectorize"),
    } <= registry().keys()


@EACH
def test_documentation(declaration: Declaration) -> None:
    summary, *_ = declaration.doc.splitlines()
    assert summary[0].isupper()
    assert re.search(r"^Args:$", declaration.doc, re.MULTILINE)
    section = re.split(r"^\w[\w ]*:$", declaration.doc, flags=re.MULTILINE)[1]
    for param in declaration.params:
        assert re.search(rf"^    {param.name}: ", section, re.MULTILINE), f"`{param.name}` is not documented"
    if not declaration.pure and not declaration.random:
        assert re.search(r"^Requires:$", declaration.doc, re.MULTILINE)


@EACH
def test_it_is_a_method(declaration: Declaration) -> None:
    method = getattr(schedule(), declaration.name)
    assert method.__name__ == declaration.name
    if declaration.name != "choose":
        assert method.__doc__ == f"{declaration.signature}\n\n{declaration.doc}"


@EACH
def test_its_instructions_print_and_parse(declaration: Declaration) -> None:
    made = (
        Instruction("get_block", ("dense",), outputs=("block",)),
        Instruction("get_loops", (Ref("block"),), outputs=("loop",)),
        Instruction("sample_categorical", ((1, 2),), outputs=("tile",), random=True, address="tile", decision=1),
        instruction(declaration),
    )
    trace = Trace(TraceData("dense", (("N", 3),), made))
    again = Trace.parse(str(trace))
    assert again == trace
    assert str(again) == str(trace)


@EACH
def test_defaults_are_of_their_kind(declaration: Declaration) -> None:
    """A default is left out of the trace, so it has to be what leaving it out means."""
    for param in declaration.params:
        if param.keyword and not param.required:
            assert isinstance(param.default, bool | int | str | tuple)


def test_signatures() -> None:
    assert registry()["split"].signature == "split(loop, factors)"
    assert registry()["fuse"].signature == "fuse(*loops)"
    assert registry()["sample_tile"].signature == "sample_tile(loop, parts=2, innermost=64, perfect=False, step=0)"


def test_messages_show_how_a_named_sampler_is_called_from_python_too() -> None:
    assert registry()["split"].usage == "split(loop, factors)"
    options: Any = [[1], [2]]
    with pytest.raises(ScheduleError, match="got \\[1\\]") as refused:
        schedule(DENSE_RELU).choose("how", options)
    assert refused.value.hint == "choose(name, options), and in texts choose(*options)"


def test_a_declaration_is_read_off_the_signature() -> None:
    @primitive(version=3)
    def swap(ctx: Context, first: LoopName, *others: LoopName, lanes: IntExpr) -> tuple[BlockName, ...]:
        """Swap loops."""
        raise NotImplementedError

    declared = declaration_of(swap)
    assert (declared.name, declared.version, declared.pure, declared.random) == ("swap", 3, False, False)
    assert (declared.result, declared.many_results) == (ArgumentKind.BLOCK, True)
    first, others, lanes = declared.params
    assert (first.kind, first.many, first.required) == (ArgumentKind.LOOP, False, True)
    assert (others.variadic, others.many, others.required) == (True, True, False)
    assert (lanes.kind, lanes.keyword, lanes.required) == (ArgumentKind.INT, True, True)
    assert declared.signature == "swap(first, *others, lanes)"


def test_samplers_look_and_do_not_touch() -> None:
    @sampler
    def toss(ctx: Context) -> Categorical:
        """Toss a coin."""
        raise NotImplementedError

    declared = declaration_of(toss)
    assert declared.random
    assert declared.pure
    assert declared.drawn is Categorical
    assert not declared.branches


def test_a_sampler_says_what_it_draws_from() -> None:
    @sampler
    def toss(ctx: Context) -> Any:
        """Toss a coin."""

    with pytest.raises(
        TypeError, match="sampler toss: its result must be annotated with the class of its distribution"
    ):
        declaration_of(toss)


def test_what_python_may_branch_on_follows_from_the_distribution() -> None:
    assert [name for name, declared in registry().items() if declared.branches] == ["choose"]
    assert [name for name, declared in registry().items() if declared.places] == ["sample_compute_location"]


def first_of_all(loop: LoopName) -> None:
    """Not a context."""


def undocumented(ctx: Context) -> None: ...


def unkind(ctx: Context, loop: str) -> None:
    """Say nothing of what `loop` is."""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (first_of_all, "primitive first_of_all: the first parameter must be `ctx`"),
        (undocumented, "primitive undocumented: a docstring is part of the declaration"),
        (unkind, "primitive unkind: `loop` must be annotated with a name from metasched.schedule.kinds"),
    ],
)
def test_what_says_too_little_is_no_declaration(function: Any, message: str) -> None:
    with pytest.raises(TypeError) as info:
        declaration_of(primitive(function))
    assert str(info.value) == message


def test_a_file_that_declares_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrongly_named.py").write_text(
        "from metasched.schedule.context import Context\n"
        "from metasched.schedule.primitive import primitive\n\n\n"
        "@primitive\n"
        "def another(ctx: Context) -> None:\n"
        '    """Be in the wrong file."""\n'
    )
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    with pytest.raises(TypeError, match="wrongly_named must declare exactly one primitive, named `wrongly_named`"):
        declaring.registry.__wrapped__()


def test_what_names_something_and_what_holds_for_batches_is_declared() -> None:
    """No list elsewhere names primitives for it: traces in other names, and those of batches, read the declarations."""
    naming = {name: dict(d.naming) for name, d in registry().items() if d.naming}
    assert naming == {
        "get_block": {0: Named.BLOCK},
        "cache_read": {1: Named.BUFFER},
        "reindex": {1: Named.BUFFER},
    }

    @primitive(in_batches=unchanged)
    def turn(ctx: Context, block: BlockName, name: BlockText, to: BufferText = "global") -> None:
        """Turn a block."""

    declared = declaration_of(turn)
    assert declared.in_batches is unchanged
    assert dict(declared.naming) == {1: Named.BLOCK, 2: Named.BUFFER}
    assert registry()["compute_at"].in_batches is unchanged
    assert registry()["rfactor"].in_batches is None

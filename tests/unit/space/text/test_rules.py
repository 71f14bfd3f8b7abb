from __future__ import annotations

from pathlib import Path

import pytest

import metasched as ms
from metasched.ir.printer import print_func
from metasched.space import registry, rule_files
from metasched.space.rule import Rule
from metasched.space.text.modules import TextModule
from metasched.space.text.rules import TextRule, load_rules
from tests.support.programs import DENSE_RELU
from tests.support.schedules import program

PROGRAM = program(DENSE_RELU)
TEXT = """
module rows[lanes=4](block):
    "Vectorise."
    ""
    "The innermost loop."
    if reduces(block): skip "it is a reduction"
    strip(get_loops(block)[-1], lanes=lanes)

module strip[lanes=8](loop):
    vectorize(loop, lanes=lanes)
"""
MAIN = 'module main():\n    unroll(get_loops(get_block("relu"))[0])\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.ms"
    path.write_text(TEXT)
    return path


def test_the_module_that_no_other_calls(file: Path) -> None:
    for module in (
        ms.parse_module(TEXT),
        ms.load_module(file),
        ms.load_module(str(file)),
        ms.load_module(f"{file}::rows"),
    ):
        assert isinstance(module, TextRule)
        assert module.name == "rows"
        assert module.doc == "Vectorise.\n\nThe innermost loop."
        assert module.parameters == {"lanes": 4}
    assert ms.load_module(f"{file}::strip").name == "strip"
    assert ms.parse_module(TEXT, "strip").name == "strip"
    assert str(ms.load_module(file)) == TEXT.split("\n\n", maxsplit=1)[0].lstrip() + "\n"


def test_a_module_of_the_whole_program(file: Path) -> None:
    main = ms.parse_module(MAIN)
    assert isinstance(main, TextModule)
    assert not isinstance(main, Rule)
    space = ms.space(PROGRAM, main)
    assert "unroll(i_relu)" in str(space[0].trace)
    refusal = r"module main \(.*main.ms:1\) takes no block, and a rule takes one block\n  hint: it is a space by itself"
    with pytest.raises(ms.RuleError, match=refusal):
        registry.resolve(f"+{_written(file.parent / 'main.ms', MAIN)}")
    with pytest.raises(ms.RuleError, match=r"module main .* takes no block, and a rule takes one block"):
        ms.space(PROGRAM, rules=[main])


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_as_a_rule(file: Path) -> None:
    space = ms.space(PROGRAM, rules=[ms.load_module(file)])
    (sketch,) = space
    assert "vectorized(4) j_relu" in str(sketch)
    assert "rows  not applied: it is a reduction" in space.explain()


def test_configured_and_for_some_blocks(file: Path) -> None:
    rule = ms.load_module(file)
    assert isinstance(rule, TextRule)
    (sketch,) = ms.space(PROGRAM, rules=[rule(lanes=2)])
    assert "vectorized(2) j_relu" in str(sketch)
    with pytest.raises(ms.RuleError, match="rule rows has no parameter `lane`; it has lanes"):
        rule(lane=2)
    assert "vectorized" not in str(ms.space(PROGRAM, rules=[rule.except_for("relu")])[0])
    assert "vectorized" in str(ms.space(PROGRAM, rules=[rule.only("relu")])[0])


@pytest.mark.parametrize("name", ["block", "schedule", "self", "handles", "lambda", "class"])
def test_a_setting_of_any_name(name: str) -> None:
    rule = ms.parse_module(f"module m[{name}=8](b):\n    vectorize(get_loops(b)[-1], {name})\n")
    assert isinstance(rule, TextRule)
    assert rule(**{name: 2}).parameters == {name: 2}
    assert "vectorized(2) j_relu" in str(ms.space(PROGRAM, rules=[rule(**{name: 2})])[0])
    sch = ms.Schedule(PROGRAM)
    rule(sch, sch.get_block("relu"), **{name: 4})
    assert "vectorized(4) j_relu" in print_func(sch.func)
    whole = ms.parse_module(f'module m[{name}=8]():\n    vectorize(get_loops(get_block("relu"))[-1], {name})\n')
    assert "vectorized(2) j_relu" in str(ms.space(PROGRAM, whole(**{name: 2}))[0])


def test_what_it_returns_is_for_callers_not_for_rules() -> None:
    rule = ms.parse_module("module halve(block):\n    a, b = split(get_loops(block)[0], [None, 2])\n    return a, b\n")
    sch = ms.Schedule(PROGRAM)
    a, b = rule(sch, sch.get_block("relu"))
    assert isinstance(a, ms.LoopRV)
    assert str(b) == "i_relu_1"
    assert len(ms.space(PROGRAM, rules=[rule])) == 1


def test_specifications(file: Path) -> None:
    def names(spec: str) -> list[str]:
        return [rule.name for rule in registry.resolve(spec)]

    assert names(f"+{file}") == ["rows"]
    assert names(f"+{file}::strip") == ["strip"]
    assert names(f"+inline,+{file},-inline") == ["rows"]
    assert names(f"+{file},-rows") == []
    assert [r.name for r in registry.resolve([f"{file}", ms.load_module(file)])] == ["rows", "rows"]
    with pytest.raises(ms.RuleError, match=r"cannot read .*none\.ms: No such file"):
        names("+none.ms")
    with pytest.raises(ms.LanguageError, match="there is no module `rwos` here: there is `rows` and `strip`"):
        names(f"+{file}::rwos")


def test_rules_of_a_file(file: Path, tmp_path: Path) -> None:
    assert list(rule_files.rules_of_file(file)) == ["rows"]
    several = _written(
        tmp_path / "several.ms", TEXT + "\n" + MAIN + "\nmodule also(block):\n    unroll(get_loops(block)[0])\n"
    )
    assert [r.name for r in load_rules(several)] == ["rows", "also"]
    with pytest.raises(ms.RuleError, match="has no rules: a rule is a module of one block"):
        load_rules(_written(tmp_path / "main.ms", MAIN))


def test_which_module_is_meant(file: Path) -> None:
    def message(text: str, name: str | None = None) -> str:
        with pytest.raises(ms.LanguageError) as caught:
            ms.parse_module(text, name)
        return str(caught.value)

    assert "there are several modules here: `rows` and `main`" in message(TEXT + "\n" + MAIN)
    assert "hint: name one: `<text>::rows`" in message(TEXT + "\n" + MAIN)
    assert "there is no module `row` here: there is `rows` and `strip`" in message(TEXT, "row")
    assert "hint: did you mean `rows`?" in message(TEXT, "row")
    program = "program p(A: f32[4]) -> B: f32[4]:\n    B[i] = A[i]\n"
    assert "there is no module here\n" in message(program)
    with pytest.raises(FileNotFoundError):
        ms.load_module(file.parent / "none.ms")


def test_a_mistake_in_a_rule_names_its_file(file: Path) -> None:
    rule = ms.load_module(_written(file, "module twice(block):\n    parallel(get_loops(block)[0])\n"))
    with pytest.raises(ms.ScheduleError) as caught:
        list(ms.space(PROGRAM, rules=[rule, rule]))
    notes = "\n".join(caught.value.__notes__)
    assert f"{file}:2:5: in module twice\n        parallel(get_loops(block)[0])\n        ^" in notes
    assert f"in rule twice, on block `relu` of {PROGRAM.key}\n  {file}:1" in notes


def test_without_a_description() -> None:
    rule = ms.parse_module("module bare[n=2](block):\n    split(get_loops(block)[0], [None, n])\n")
    assert isinstance(rule, TextRule)
    assert rule.doc == "bare[n=2](block), which has no description."

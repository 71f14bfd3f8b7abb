"""Tasks: lazily made, and known by a fingerprint of their space."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import metasched as ms
from metasched.search.task import Task
from metasched.space.registry import resolve
from metasched.target import Target
from tests.support.programs import DENSE_RELU
from tests.support.schedules import program

TARGET = Target("generic", frozenset({"avx2", "fma"}), 2, 32768, 1 << 20, 1 << 25, 64)
PROGRAM = program(DENSE_RELU)
TEXT = """\
module inner(block):
    i, *_rest = get_loops(block)
    unroll(i)

module outer[limit=4](block):
    if limit > 3:
        inner(block)
"""


def first_module(sch: ms.Schedule) -> None:
    sch.parallel(sch.get_loops(sch.get_block("dense"))[0])


def second_module(sch: ms.Schedule) -> None:
    sch.parallel(sch.get_loops(sch.get_block("dense"))[1])


def trace(first: object) -> ms.Trace:
    sch = ms.Schedule(PROGRAM, seed=0)
    i, *_ = sch.get_loops(sch.get_block("dense"))
    sch.split(i, sch.sample_tile(i, parts=2))
    return sch.trace.with_decisions(dict.fromkeys(sch.trace.decisions, first))


def fingerprint(space: object = None, **settings: int) -> str:
    return Task(PROGRAM, space, TARGET, **settings).fingerprint  # type: ignore[arg-type]


ADDRESS = "multi_level_tiling(dense)/i"


def test_each_ingredient_of_a_space_changes_its_fingerprint() -> None:
    cpu = resolve("cpu")
    (unroll,) = (rule for rule in cpu if rule.name == "unroll")
    spaces = {
        "the preset": fingerprint("cpu"),
        "a rule less": fingerprint("cpu,-unroll"),
        "another order": fingerprint([*reversed(cpu)]),
        "another configuration": fingerprint([*cpu[:-1], unroll(limits=(0, 3))]),
        "other blocks": fingerprint("cpu,unroll@dense"),
        "other blocks left out": fingerprint("cpu,-unroll@dense"),
        "another name": fingerprint([*cpu[:-1], unroll.named("other")]),
        "a module": fingerprint(first_module),
        "another module": fingerprint(second_module),
        "a trace": fingerprint(trace((None, 8))),
        "another trace": fingerprint(trace((None, 4))),
        "a trace with a hole": fingerprint(trace(None)),
        "a condition": fingerprint(ms.condition("cpu", {ADDRESS: [None, 2, 1, 2]})),
        "another condition": fingerprint(ms.condition("cpu", {ADDRESS: [None, 2, 1, 4]})),
        "text": fingerprint([ms.parse_module(TEXT)]),
        "text, configured": fingerprint([ms.parse_module(TEXT)(limit=5)]),
        "text with another helper": fingerprint([ms.parse_module(TEXT.replace("unroll(i)", "parallel(i)"))]),
        "combined": fingerprint([ms.sequence(cpu[0], cpu[1])]),
        "combined otherwise": fingerprint([ms.choice("c", cpu[0], cpu[1])]),
        "combined, or nothing": fingerprint([ms.choice("c", cpu[0], cpu[1], None)]),
        "a predicate": fingerprint([ms.when(lambda b: b.reduces, cpu[0])]),
        "another predicate": fingerprint([ms.when(lambda b: not b.reduces, cpu[0])]),
    }
    same = {(a, b) for a in spaces for b in spaces if a < b and spaces[a] == spaces[b]}
    assert not same


def test_equal_spaces_have_equal_fingerprints() -> None:
    assert fingerprint(None) == fingerprint("cpu") == fingerprint(list(resolve("cpu")))
    assert fingerprint("cpu,-unroll,+unroll") == fingerprint("cpu"), "it is the last of them"


def test_it_says_the_same_of_a_space_that_is_made() -> None:
    assert fingerprint(ms.space(PROGRAM, "cpu")) == fingerprint("cpu")
    conditioned = ms.condition(ms.space(PROGRAM, "cpu"), {ADDRESS: [None, 2, 1, 2]})
    assert fingerprint(conditioned) == fingerprint(ms.condition("cpu", {ADDRESS: (None, 2, 1, 2)}))


def test_names_of_handles_comments_and_layout_are_no_part_of_it() -> None:
    renamed = str(trace((None, 8))).replace("dense = ", "b = ").replace("get_loops(dense)", "get_loops(b)")
    assert fingerprint(ms.parse_trace(renamed)) == fingerprint(trace((None, 8)))
    text = TEXT.replace("module outer[limit=4](block):\n", 'module outer[limit=4](block):\n    "Says something."\n')
    assert fingerprint([ms.parse_module(text)]) == fingerprint([ms.parse_module(TEXT)])


def test_program_and_target_are_no_part_of_it() -> None:
    small = ms.operator("matmul_nn", M=8, N=8, K=8)
    assert Task(small, "cpu", TARGET).fingerprint == fingerprint("cpu")
    assert Task(PROGRAM, "cpu", TARGET, threads=7).fingerprint == fingerprint("cpu")


SCRIPT = """
import metasched as ms
from metasched.search.task import Task
from metasched.target import Target
def limit(info): return info.reduces and bool({"a", "b", "c", "d"})
p = ms.operator("matmul_nn", M=64, N=64, K=64)
space = ms.condition(["cpu", ms.when(limit, ms.parse_module(%r))], {"multi_level_tiling(matmul)/i": [None, 2, 1, 2]})
print(Task(p, space, Target("generic", frozenset({"avx2", "fma"}), 2, 32768, 1 << 20, 1 << 25, 64)).fingerprint)
"""


def test_it_is_the_same_in_other_processes(capsys: pytest.CaptureFixture[str]) -> None:
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"
    there = subprocess.run(
        [sys.executable, "-c", SCRIPT % TEXT],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    exec(SCRIPT % TEXT, {"__name__": "__main__"})
    assert there == capsys.readouterr().out
    assert re.fullmatch(r"[0-9a-f]{32}\n", there)


def test_a_file_that_moves_keeps_its_fingerprint(tmp_path: Path) -> None:
    rule = '@ms.rule\ndef mine(sch, block):\n    """Mine."""\n    return ms.skip(str(LIMIT))\n'
    text = f"import metasched as ms\nLIMIT = 3\n{rule}"
    found = []
    for n, written in enumerate([text, f"# moved\n\n{text}", text.replace("3", "4")]):
        file = tmp_path / f"f{n}.py"
        file.write_text(written)
        found.append(fingerprint(f"{file}:mine"))
    assert found[0] == found[1] != found[2]


def test_nothing_is_enumerated_before_it_is_wanted() -> None:
    called = []

    def module(sch: ms.Schedule) -> None:
        called.append(sch)

    task = Task(PROGRAM, module, TARGET)
    assert task.fingerprint
    assert repr(task) == f"<task of {PROGRAM.key} for generic with 2 threads>"
    assert not called
    assert len(task.space) == 1
    assert called
    assert task.space is task.space


def test_a_task_has_the_threads_that_are_given() -> None:
    assert Task(PROGRAM, target=TARGET).target == TARGET
    assert Task(PROGRAM, target=TARGET, threads=5).target == TARGET.with_threads(5)
    assert repr(Task(PROGRAM, target=TARGET, threads=1)) == f"<task of {PROGRAM.key} for generic with 1 thread>"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"program": "x"}, "`program` is a str, not a Program"),
        ({"space": "no_such_rule"}, "no_such_rule"),
        ({"space": 3}, "3 describes no space"),
        ({"allow": "fastmath"}, '`allow` is a set of names, such as {"fastmath"}'),
        ({"allow": {"luck"}}, "nothing of the name 'luck' can be allowed"),
    ],
)
def test_mistakes(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ms.MetaschedError, match=re.escape(message)):
        Task(**{"program": PROGRAM, "target": TARGET, **settings})  # type: ignore[arg-type]


def test_inputs_are_of_arguments_before_anything_is_measured() -> None:
    """A search whose trials are all made would not come to look at them."""
    with pytest.raises(ms.KernelError, match="inputs: dense_relu has no argument `Q`; it has A, B"):
        Task(program(DENSE_RELU), inputs={"A": (0, 1), "Q": (0, 1)})


def test_expert_traces_that_the_guess_did_not_take_are_measured_where_no_space_is_named() -> None:
    """They are no guesses in a space that somebody has restricted."""
    product = ms.operator("matmul_nn", M=96, N=80, K=64)
    own, experts = Task(product, None, TARGET).guesses(), Task(product, "cpu", TARGET).guesses().experts
    assert own.default not in own.experts
    assert 1 < len(own.experts) == len(set(own.experts)) <= 5
    for text in own.experts:
        assert ms.parse_trace(text).apply_to(product).trace == ms.parse_trace(text)
        assert "tensorize" not in text, "this target has no such instructions"
    assert experts == ()


def test_the_usual_rules_named_have_one_space_with_those_that_nobody_named() -> None:
    product = ms.operator("matmul_nn", M=8, N=8, K=8)
    named, other = Task(product, "cpu", TARGET), Task(product, "cpu,-inline", TARGET)
    assert named._default_arms(None, 0) is named.arms
    assert other._default_arms(None, 0) is not other.arms

"""What a person sees whose rule is wrong. To accept a change: pytest --update-golden, then read the diff."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from metasched.cli.command import Console
from metasched.cli.main import main

PROGRAM = """\
program dense_relu[N=16, M=16, K=8](A: f32[N, K], B: f32[K, M]) -> D: f32[N, M]:
    dense: C[i, j] = sum[k](A[i, k] * B[k, j])
    relu:  D[i, j] = max(C[i, j], 0)
"""

HEAD = '''\
"""Rules with mistakes."""

import metasched as ms


@ms.rule
def mine(sch, block):
    """Do something."""
'''

# What is wrong, and the body of a rule that does it.
MISTAKES = {
    "a branch on a random variable": """\
    i, *_ = sch.get_loops(block)
    outer, inner = sch.sample_tile(i)
    if inner > 4:
        sch.unroll(i)
""",
    "a loop over a random variable": """\
    i, *_ = sch.get_loops(block)
    for n in range(sch.sample_categorical([1, 2], name="n")):
        sch.split(i, [None, 2])
""",
    "a stale handle": """\
    i, *_ = sch.get_loops(block)
    sch.split(i, [None, 4])
    sch.parallel(i)
""",
    "a block that is not there": """\
    sch.compute_inline(sch.get_block("densee"))
""",
    "a primitive that is not there": """\
    sch.vectorise(sch.get_loops(block)[-1])
""",
    "a name that is not there": """\
    sch.split(loops[0], [None, 4])
""",
    "a block where a loop belongs": """\
    sch.split(block, [None, 4])
""",
    "an argument too many": """\
    sch.parallel(sch.get_loops(block)[0], 4)
""",
    "a step that is not legal": """\
    *_, k = sch.get_loops(block)
    sch.parallel(k)
""",
    "a step that is not legal, in a helper": """\
    helper(sch, block)


def helper(sch, block):
    i, *_, k = sch.get_loops(block)
    sch.fuse(
        i,
        k,
    )
""",
    "a wrong result": """\
    return "not a reduction"
""",
    "a skip that comes too late": """\
    i, *_ = sch.get_loops(block)
    sch.split(i, [None, 4])
    return ms.skip("on second thoughts")
""",
    "an exception of its own": """\
    sizes = {"dense": 4}
    sch.split(sch.get_loops(block)[0], [None, sizes[block.label]])
""",
    "options of two kinds": """\
    sch.choose("how", "none")
""",
}  # fmt: skip

FILES = {
    "no Python": "def mine(sch, block:\n    pass\n",
    "an exception when it is read": "import metasched as ms\n\nLANES = 16 // 0\n",
    "no docstring": "import metasched as ms\n\n\n@ms.rule\ndef mine(sch, block):\n    pass\n",
    "parameters in the wrong place": '@__import__("metasched").rule\ndef mine(sch, block, size):\n    """Do it."""\n',
    "no rule": "def mine(sch, block):\n    pass\n",
    "another name": "import metasched as ms\n\n\n@ms.rule\ndef main(sch, block):\n    '''Do it.'''\n",
    "an import that is not there": "import metashed as ms\n",
}


def message(text: str) -> str:
    Path("mine.py").write_text(text)
    Path("dense.ms").write_text(PROGRAM)
    err = io.StringIO()
    assert main(["show", "dense.ms", "--space", "--rules", "mine.py:mine"], Console(io.StringIO(), err)) == 2
    return err.getvalue()


RULE = "\n" + "-" * 100 + "\n"


def test_mistakes_in_rules(golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [f"# {what}\n\n{body}\n{message(HEAD + body)}" for what, body in MISTAKES.items()]
    golden("space/rule_errors", RULE.join(shown))


def test_mistakes_in_files_of_rules(
    golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [f"# {what}\n\n{text}\n{message(text)}" for what, text in FILES.items()]
    golden("space/rule_file_errors", RULE.join(shown))

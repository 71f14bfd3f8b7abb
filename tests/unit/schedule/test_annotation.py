"""An annotation is one file: annotate, unannotate, the documentation, lowering and the guess read what it declares."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import metasched as ms
from metasched.compiler.lower import lower
from metasched.errors import BuildError
from metasched.ir import query
from metasched.ir.nodes import Annotation, Const, Func
from metasched.ir.printer import print_func
from metasched.schedule import annotation
from metasched.schedule.annotation import known_annotations, problems
from tests.support.programs import DENSE_RELU
from tests.support.schedules import checked, fails, loops_of, schedule
from tests.unit.test_docs import generator

STAGGER = '''\
"""So many cycles pass between threads."""

from metasched.errors import ScheduleError
from metasched.ir.nodes import Block, Expr, For, LoopKind
from metasched.schedule.annotation import AnnotationPlace, AnnotationValues, annotation
from metasched.schedule.context import Context


@annotation(
    on=AnnotationPlace.LOOP,
    values=AnnotationValues.COUNT, counts="cycles",
    not_on={LoopKind.UNROLLED: "it has no threads"},
)
def stagger(ctx: Context, op: str, target: Block | For, value: Expr) -> None:
    """One that runs at all."""
    assert isinstance(target, For)
    if target.var == "k":
        raise ScheduleError(op, "`k` is summed over", ("k",), "take another")
'''
TARGET = ms.Target.detect(threads=1)
FOLDER = importlib.import_module("metasched.schedule.annotations")


@pytest.fixture
def stagger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "stagger.py").write_text(STAGGER)
    monkeypatch.setattr(FOLDER, "__path__", [*FOLDER.__path__, str(tmp_path)])
    known_annotations.cache_clear()
    yield
    known_annotations.cache_clear()
    sys.modules.pop("metasched.schedule.annotations.stagger", None)


@pytest.mark.usefixtures("stagger")
def test_one_file_is_an_annotation_everywhere() -> None:
    sch = schedule(DENSE_RELU)
    i, j, k = loops_of(sch, "dense")
    sch.annotate(i, "stagger", sch.sample_categorical([0, 40]))
    checked(sch)
    assert "@stagger(" in print_func(sch.func)
    lower(sch.func, TARGET)
    with fails('annotate: "stagger" is about a loop, and `dense` is a block', "give a loop around it"):
        sch.annotate(sch.get_block("dense"), "stagger", 1)
    with fails('annotate: "stagger" counts cycles, and is less than 0', "0 is for none"):
        sch.annotate(i, "stagger", -1)
    with fails("annotate: `k` is summed over", "take another"):
        sch.annotate(k, "stagger", 1)
    sch.unroll(j)
    with fails(
        'annotate: "stagger" means nothing on `j`, which is unrolled: it has no threads',
        "split it first, and give the outer loop",
    ):
        sch.annotate(j, "stagger", 1)
    sch.unannotate(i, "stagger")
    checked(sch)
    assert '### `"stagger"`\n\nOn a loop: an integer of at least 0.\n' in generator().page()


def test_one_that_a_primitive_leaves_is_its_own() -> None:
    sch = schedule(DENSE_RELU)
    with fails('annotate: "tensorize" is not to be annotated', "`tensorize` does it"):
        sch.annotate(loops_of(sch, "dense")[0], "tensorize", 1)


def test_lowering_refuses_what_nobody_knows_and_what_is_misplaced() -> None:
    sch = schedule(DENSE_RELU)
    block = query.find_block(sch.func, "dense")

    def with_annotation(key: str) -> Func:
        return query.replace_stmt(sch.func, block, replace(block, annotations=(Annotation(key, Const(1)),)))

    with pytest.raises(BuildError, match='`dense` has an annotation "unrol_limit" that nobody knows'):
        lower(with_annotation("unrol_limit"), TARGET)
    with pytest.raises(BuildError, match='"prefetch" is about a loop, and `dense` is a block'):
        lower(with_annotation("prefetch"), TARGET)
    assert list(problems(with_annotation("fastmath"))) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("def stagger", "def staggered"), "stagger must declare exactly one annotation, named `stagger`"),
        ((', counts="cycles"', ""), "annotation stagger: `counts` says what is counted"),
        (('"""So many cycles pass between threads."""', ""), "annotation stagger: its file begins with documentation"),
    ],
)
def test_a_file_that_says_too_little(
    wrong: tuple[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wrong[0] in STAGGER
    (tmp_path / "stagger.py").write_text(STAGGER.replace(*wrong))
    monkeypatch.setattr(FOLDER, "__path__", [*FOLDER.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "metasched.schedule.annotations.stagger", raising=False)
    with pytest.raises(TypeError, match=message):
        annotation.FILES.load()

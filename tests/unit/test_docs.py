"""Pages that are made from the code are those of this code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import metasched as ms
from metasched import operators
from metasched.measure.records import Limits
from metasched.measure.timing import TimingPlan
from metasched.search.budget.stagnation import least_gain
from metasched.search.task import MOST_KNOWN, MOST_NEIGHBOURS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_primitives_is_current() -> None:
    made = generator()
    assert made.PAGE.read_text(encoding="utf-8") == made.page(), "run `make docs`"


def test_the_page_of_operators_is_current() -> None:
    made = generator()
    assert made.OPERATORS.read_text(encoding="utf-8") == made.operators_page(), "run `make docs`"


def test_the_digests_of_operators_are_current() -> None:
    made = generator()
    assert made.DIGESTS.read_text(encoding="utf-8") == made.digests_text(), "run `make docs`"


def test_the_types_of_methods_are_current() -> None:
    made = generator()
    assert made.METHODS.read_text(encoding="utf-8") == made.methods_stub(), "run `make docs`"


def test_the_tables_of_math_functions_are_made_of_their_files() -> None:
    made = generator()
    assert made.CALLS.read_text(encoding="utf-8") == made.calls_stub(), "run `make docs`"
    assert made.COMPILER.read_text(encoding="utf-8") == made.compiler_page(), "run `make docs`"
    assert made.LANGUAGE.read_text(encoding="utf-8") == made.language_page(), "run `make docs`"


# What is wrong in it is said; what a kernel reports is what it asserts.
CALLER = """
from typing import assert_type
import metasched as ms
from metasched.database import Record
from metasched.schedule.handlers import Repairs
program = ms.parse_program("program p(A: f32[8]) -> B: f32[8]: B[i] = A[i]")
tuned, given = ms.tune(program), ms.compile(program, trace=ms.parse_trace("trace 1 of p:"))
assert_type(tuned.report, ms.TuningReport)
assert_type(given.report, Repairs)
assert_type(ms.compile(program).report, ms.Guess)
assert_type(ms.compile(program, db="sqlite:///t.db").report, Record)
assert_type(ms.compile(program, trials=1, db="sqlite:///t.db").report, ms.TuningReport)
kernels: list[ms.Kernel] = [tuned, given]
assert_type(kernels[0].report, object)
ms.compile(program, inputs={"A": (0.1, 2.0)})
sch = ms.Schedule(program)
block = sch.get_block("B")
(i,) = sch.get_loops(block)
t0, t1 = sch.sample_tile(i, parts=2, name="t")
reveal_type(sch.split(i, [t0, t1 * 2, None]))
reveal_type(sch.choose("how", ["a", "b"]))
reveal_type(sch.sample_categorical([1, 2]))
sch.parallel(block)
sch.vectorize(i, lane=4)
sch.paralel(i)
sch.compute_at(block, "rot")
"""


def test_the_lists_of_what_can_be_traced_are_made_of_their_files() -> None:
    made = generator()
    assert made.NUMPY.read_text(encoding="utf-8") == made.numpy_page(), "run `make docs`"
    assert made.PYTORCH.read_text(encoding="utf-8") == made.pytorch_page(), "run `make docs`"
    assert "`einsum`" in made.numpy_page()
    assert "`addmm`" in made.pytorch_page()


@pytest.mark.slow
def test_a_type_checker_knows_the_methods(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    file = tmp_path / "caller.py"
    file.write_text(CALLER)
    # With the package's own settings: what `make lint` has checked is not checked again.
    out, *_ = api.run(
        [str(file), "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    )
    for expected in (
        'list[metasched.schedule.values.LoopRV]"',
        'str"',
        'metasched.schedule.values.Int"',
        'Argument 1 to "parallel" of "PrimitiveMethods" has incompatible type "BlockRV"; expected "LoopRV"',
        'Unexpected keyword argument "lane" for "vectorize" of "PrimitiveMethods"',
        '"Schedule" has no attribute "paralel"',
        'Argument 2 to "compute_at" of "PrimitiveMethods" has incompatible type',
        'No overload variant of "compile" matches argument types "Program", "dict[str, tuple[float, float]]"',
    ):
        assert expected in out
    assert "[assert-type]" not in out, out


def replays(name: str, **params: int) -> bool:
    expert = operators.expert(name)
    program = operators.load(expert.operator, **{**dict(expert.trace.data.params), **params})
    try:
        expert.trace.apply_to(program, ms.Policy.REPAIR)
    except ms.ScheduleError:
        return False
    return True


OTHER_SHAPES = {
    "conv2d_nhwc.matmul": ({"N": 2, "CO": 64}, ({"N": 2, "H": 28}, {"W": 28}, {"CI": 32}, {"R": 1})),
    "matmul_nn.amx_bf16": ({"M": 32, "N": 96, "K": 160}, ({"M": 48}, {"N": 48}, {"K": 48})),
    "matmul_nn.amx_u8i8": ({"M": 32, "N": 96, "K": 192}, ({"M": 48}, {"N": 48}, {"K": 96})),
    "matmul_nn.bf16": ({"M": 7, "N": 160, "K": 34}, ({"N": 48}, {"K": 33})),
    "matmul_nn.vnni": ({"M": 7, "N": 160, "K": 36}, ({"N": 48}, {"K": 34})),
    "matmul_nn.vnni_signed": ({"M": 7, "N": 144, "K": 36}, ({"N": 64}, {"K": 34})),
    "matmul_nn.vnni_tiles": ({"M": 7, "N": 160, "K": 48}, ({"N": 48}, {"K": 36})),
}


def test_the_shapes_of_every_trace_that_needs_some_are_tested() -> None:
    assert set(generator().SHAPES) == set(OTHER_SHAPES)


@pytest.mark.parametrize("name", OTHER_SHAPES)
def test_traces_for_some_shapes_only_replay_on_these(name: str) -> None:
    right, wrong = OTHER_SHAPES[name]
    assert replays(name, **right)
    assert not [params for params in wrong if replays(name, **params)]


def test_pages_have_the_limits_of_the_code() -> None:
    pages = ((DOCS / name).read_text(encoding="utf-8") for name in ("measuring.md", "sessions.md"))
    measuring, sessions = (" ".join(page.split()) for page in pages)  # sentences go on in the next line
    limits, plan = Limits(), TimingPlan()
    replaced = f"replaced after {limits.recycle_after} candidates, or when they hold more than"
    assert f"{replaced} {limits.recycle_bytes >> 30} GiB between two" in measuring
    assert f"holds more than {limits.memory_bytes >> 30} GiB is killed" in measuring
    assert f"takes more than {plan.long_call_s * 1e3:g} ms" in measuring
    known, neighbours = ({3: "three", 5: "five"}[most] for most in (MOST_KNOWN, MOST_NEIGHBOURS))
    assert f"up to {known} other schedules that are known (up to {neighbours}" in sessions
    least, most = least_gain(0.0), least_gain(1.0)
    assert f"({least:.0%}, or twice the deviation that repetitions show, up to {most:.0%})" in sessions.replace(
        " %", "%"
    )


GLOSSARY = DOCS / "glossary.md"
PAGES = {path: path.read_text(encoding="utf-8") for path in (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")))}
TERMS = re.findall(r"^### (.+)$", PAGES[GLOSSARY], re.MULTILINE)


def test_links_to_the_glossary_are_to_its_terms() -> None:
    anchors = {term.replace(" ", "-") for term in TERMS}
    assert len(anchors) == len(TERMS)
    for path, text in PAGES.items():
        wanted = set(re.findall(r"\(#([\w-]+)\)" if path == GLOSSARY else r"glossary\.md#([\w-]+)\)", text))
        assert wanted <= anchors, f"{path.name} links to what the glossary lacks: {sorted(wanted - anchors)}"


@pytest.mark.parametrize("term", TERMS)
def test_a_page_that_uses_a_term_links_to_the_glossary(term: str) -> None:
    link = re.compile(rf"\[[^\]]*\]\((?:docs/)?glossary\.md#{term.replace(' ', '-')}\)")
    assert any(link.search(text) for path, text in PAGES.items() if path != GLOSSARY), f"no page links to {term}"


def test_every_page_that_people_read_leads_to_the_glossary() -> None:
    # Tables of primitives are made from docstrings, and figures are figures.
    for path, text in PAGES.items():
        if path.name not in ("glossary.md", "primitives.md", "figures.md"):
            assert "glossary.md" in text, path.name

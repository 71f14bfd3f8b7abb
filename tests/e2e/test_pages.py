"""What the documentation shows, works when pasted."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasched as ms
from docs.building.pages import places
from metasched.cost.features import NAMES
from metasched.cost.learning.task_times import TaskTimes
from metasched.cost.model import CostModel
from metasched.schedule.batching import unchanged
from metasched.schedule.context import Context
from metasched.schedule.distributions.categorical import Categorical
from metasched.schedule.kinds import Number
from metasched.schedule.primitive import sampler
from metasched.search.strategy_registry import StrategyInputs
from tests.support.command_line import run as run_command
from tests.support.pages import DOCS, PAGES, README, ROOT, TUTORIALS, fenced, kept_workers, run, title
from tests.support.toys import Bench, Toy, Toys

BLOCKS = fenced(README, "python")
PROGRAMS = [
    pytest.param(text, id=f"{page.name}: {text.split('[')[0]}")
    for page in PAGES
    for text in fenced(page)
    if text.startswith("program ")
]
MODULES = [text for page in PAGES for text in fenced(page) if text.startswith("module ")]


def test_the_example_is_short() -> None:
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 12


def test_the_sampler_that_a_page_shows_says_what_it_needs() -> None:
    (code,) = (block for block in fenced(DOCS / "how_to" / "write_a_part.md", "py") if "def sample_power(" in block)
    names: dict[str, Any] = {"sampler": sampler, "unchanged": unchanged, "Context": Context, "Number": Number}
    names |= {"Categorical": Categorical, "ScheduleError": ms.ScheduleError}
    exec(code, names)
    sample_power = names["sample_power"]
    assert sample_power(None, 9) == Categorical((1, 2, 4, 8), (0.25,) * 4)
    with pytest.raises(ms.ScheduleError, match="largest is 0; it is at least 1\n  hint: 1 is the least power of two"):
        sample_power(None, 0)


@pytest.mark.slow
def test_every_example_of_the_readme_runs_in_order(tmp_path: Path) -> None:
    out = run(re.sub(r"trials=\d+", "trials=2", "\n".join(BLOCKS)), tmp_path)  # a few do, to see that it works
    assert "trace 1 of kernel[" in out
    assert "trace 1 of dense_relu" in out
    assert (tmp_path / "metasched.db").exists()


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    with kept_workers():
        yield


def _folder(page: Path) -> Path:
    return page.parent


# The page of sessions is run twice, below. Pages of a folder run in one, so that what one tunes need not be tuned by
# the next.
SHOWN = [page for page in PAGES if page not in (README, DOCS / "sessions.md") and fenced(page, "python")]
FOLDERS = [
    pytest.param(list(pages), id=title(folder)) for folder, pages in groupby(sorted(SHOWN, key=_folder), _folder)
]


@pytest.mark.parametrize("pages", FOLDERS)
def test_the_examples_of_every_page_run_in_order(pages: list[Path], tmp_path: Path) -> None:
    for page in pages:
        code = "\n".join(fenced(page, "python"))
        said = run(code, tmp_path, title(page))
        if page == DOCS / "schedule.md":
            promised = re.findall(r"print\(.*?# (.*?)(?:\.\.\.\))?$", code, re.MULTILINE)
            assert promised
            assert not [text for text in promised if text not in said]


def shown_part(page: str, name: str) -> Any:
    """A class that a how-to page shows, by its name, without what the page does with it."""
    code, called, _ = fenced(DOCS / "how_to" / page, "python")[0].partition("kernel = ms.tune(")
    assert called
    names: dict[str, Any] = {}
    exec(code, names)
    return names[name]


def test_the_strategy_that_is_shown_trains_its_model_and_can_be_resumed() -> None:
    arms = Toys([Toy(most=4000), Toy(width=3, flavour=1)])
    bench, models = Bench(arms), [CostModel(), CostModel()]
    whole, resumed = (shown_part("write_a_strategy.md", "Favourites")(StrategyInputs(arms, m, 0)) for m in models)
    untrained = models[0].predict(arms[0].features(np.full((1, 4), 9)))
    for _ in range(3):
        batch = bench.measure(whole.propose(6))
        whole.observe(batch)
        resumed.observe(batch)
    assert len(set(bench.seen)) == len(bench.seen) == 18
    assert resumed.propose(6) == whole.propose(6)
    assert models[0].predict(arms[0].features(np.full((1, 4), 9))) != untrained


def test_the_model_that_is_shown_learns() -> None:
    """It ranks as the roofline does before, and by what it has learned after; of nothing, nothing is learned."""
    model = shown_part("write_a_model.md", "Linear")(0)
    rng = np.random.default_rng(0)
    features = (4 * rng.random((40, len(NAMES)))).astype(np.float32)
    features[:, NAMES.index("all.total_cycles")] = np.linspace(20.0, 16.0, 40)
    untrained = model.predict(features)
    assert (np.diff(untrained) > 0).all()
    seconds = np.exp2(-20 + features[:, 0])  # not as the roofline thinks
    seconds[3] = np.inf
    measured = TaskTimes(features, seconds)
    model.fit(measured)
    assert np.corrcoef(-model.predict(features), measured.log_seconds)[0, 1] > 0.9
    model.fit(TaskTimes(features[:0], seconds[:0]))
    assert np.array_equal(model.predict(features), untrained)


def test_the_page_of_sessions_runs_and_goes_on(tmp_path: Path) -> None:
    """Started again it measures nothing."""
    code = "".join(fenced(DOCS / "sessions.md", "python")) + "print(kernel.origin)\n"
    printed = [run(code, tmp_path) for _ in range(2)]
    assert printed[0].count("2 records (the guess, 1 ") == printed[0].count("), 2 of them new") == 2
    assert printed[1].count("), 0 of them new") == 2
    assert all(out.endswith("measured\n") for out in printed)


@pytest.mark.parametrize("text", PROGRAMS)
def test_every_program_parses(text: str) -> None:
    from metasched.lang import parse_program

    assert parse_program(text).name in text


@pytest.mark.parametrize("text", MODULES)
def test_every_module_parses(text: str) -> None:
    from metasched.space.text.rules import parse_module

    assert parse_module(text).name in text


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```$|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them: words in lower case, joined by hyphens."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def test_every_link_leads_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(page))
        if "://" not in target and not leads(page, *target.partition("#")[::2])
    ]
    assert not broken


# Pages that are made when the site is built.
MADE = [DOCS / place.removeprefix("docs/") for place in places() if not (ROOT / place).exists()]


def leads(page: Path, file: str, anchor: str) -> bool:
    there = Path(*_flat((page.parent / file).parts)) if file else page
    if there in MADE:
        return True
    return there.exists() and (not anchor or anchor in headings(there))


# The front page has a table of what leads where.
TABLES = [
    page
    for page in PAGES
    if page.is_relative_to(DOCS) and page != DOCS / "index.md" and "{toctree}" in page.read_text()
]


@pytest.mark.parametrize("page", TABLES, ids=title)
def test_a_table_of_contents_has_links_for_those_who_read_it_in_the_repository(page: Path) -> None:
    name = str(page.relative_to(DOCS).with_suffix(""))
    linked = set(re.findall(r"^- \[.*?\]\(([\w./]+)\)", prose(page), re.MULTILINE))
    here = [entry for entry in listed(name) if (DOCS / f"{entry}.md").exists()]
    assert here
    assert not [entry for entry in here if os.path.relpath(DOCS / f"{entry}.md", page.parent) not in linked]


def listed(page: str) -> list[str]:
    """The pages of the site that the tables of contents of one name."""
    text = page_text(page)
    entries = [
        re.sub(r"^.*<(.*)>$", r"\1", line.strip())  # `A short title <page>`
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
        if line.strip() and not line.startswith(":")
    ]
    folder = Path(page).parent
    return [str(Path(*_flat((folder / entry).parts))) for entry in entries]


def _flat(parts: tuple[str, ...]) -> list[str]:
    out: list[str] = []
    for part in parts:
        if part == "..":
            out.pop()
        else:
            out.append(part)
    return out


def page_text(page: str) -> str:
    for source in (DOCS / f"{page}.md", ROOT / "tutorials" / "README.md"):
        if source.exists() and (
            source.parent == DOCS or source.parent.is_relative_to(DOCS) or page == "tutorials/index"
        ):
            return source.read_text(encoding="utf-8")
    return ""


def test_every_page_is_found_from_the_front_page() -> None:
    """A page that is new goes into the table of contents of its section: docs/guide.md, docs/why/index.md, ..."""
    sources = {str(Path(place).with_suffix("")) for place in places().values()}
    wanted = {page for page in sources if not page.startswith(("tutorials/0", "reference/command_line/"))}
    found, left = set(), ["index"]
    while left:
        page = left.pop()
        if page not in found:
            found.add(page)
            left += [entry for entry in listed(page) if "*" not in entry]
    assert not wanted - found, "no table of contents names them"
    assert not {page for page in found - sources if not page.startswith("reference/command_line")}, (
        "there is no such page"
    )


def test_the_readme_leads_to_the_site_and_the_tutorials() -> None:
    linked = set(re.findall(r"\]\(([\w./]+)\)", README.read_text(encoding="utf-8")))
    assert {"docs/index.md", "docs/first_kernel.md", "tutorials/README.md"} <= linked


def test_the_tutorials_are_listed() -> None:
    text = (ROOT / "tutorials" / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\((\d\w+\.py)\)", text) == [path.name for path in TUTORIALS]


# Tables of contents name pages of the site.
_TABLES = re.compile(r"^```\{toctree\}\n.*?^```$", re.DOTALL | re.MULTILINE)


def test_every_path_that_is_named_exists() -> None:
    """`metasched/operators/traces/` and the like, in prose and in commands; what has a placeholder is left out."""
    top = "|".join(sorted(path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."))
    missing = [
        f"{page.name}: {path}"
        for page in PAGES
        for path in re.findall(rf"(?<![\w/.])((?:{top})/[\w./-]*\w)", _TABLES.sub("", page.read_text(encoding="utf-8")))
        if not re.search(r"[A-Z]{2}", path) and not (ROOT / path).exists()
    ]
    assert not missing


COMMANDS = sorted(
    {
        line.removeprefix("$ ").partition("  #")[0]
        for page in PAGES
        for block in re.findall(r"^```\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        for line in block.splitlines()
        if re.match(r"(\$ )?metasched (?!\w+:)", line)
    }
    | {
        command
        for page in PAGES
        for command in re.findall(r"`(metasched \w+ [^`|]+)`", page.read_text(encoding="utf-8"))
        if "FILE.ms" in command or "examples/" in command or "op:" in command
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_one(command: str) -> None:
    from metasched.cli.main import build_parser

    arguments = build_parser().parse_args(shlex.split(command)[1:])
    given = [getattr(arguments, name, None) for name in ("program", "rule")]
    assert all((ROOT / path).exists() for path in given if path and path.startswith("examples/"))


@pytest.mark.parametrize("command", [command for command in COMMANDS if re.search(" show op:[a-z]", command)])
def test_every_command_that_shows_an_operator_does_so(command: str) -> None:
    status, out, err = run_command(*shlex.split(command)[1:])
    assert status == 0, err
    assert out

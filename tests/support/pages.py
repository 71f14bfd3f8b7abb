"""The pages that people read, and what runs their examples.

Examples run in this process, each page with names of its own, and measure in worker processes that all of them share:
so importing is paid for once. Warnings are errors, as in every test.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from metasched.measure.executor_registry import ExecutorInputs
from metasched.measure.executors import local
from metasched.measure.runner import LocalRunner, RunnerSettings
from tests.support.kept_workers import BRIEFLY, brief_searches

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "tutorials" / "README.md", *sorted(DOCS.rglob("*.md"))]
TUTORIALS = sorted((ROOT / "tutorials").glob("[0-9]*.py"))


def title(page: Path) -> str:
    """A page's path, as tests are named after it."""
    return str(page.relative_to(ROOT))


def fenced(page: Path, mark: str = "") -> list[str]:
    """The blocks of a page between fences of a mark, such as "python"."""
    return re.findall(rf"^```{mark}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def run(code: str, folder: Path, name: str = "pasted") -> str:
    """What a script prints, run in a folder with the examples, as a user would; its name is for tracebacks."""
    script = folder / f"{name.replace('/', '_').removesuffix('.md')}.py"
    script.write_text(code, encoding="utf-8")
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(ROOT / "examples")
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        patch.setenv("METASCHED_CACHE", str(folder / "cache"))  # what it tunes is no other test's
        runpy.run_path(str(script), run_name="pasted")
    return printed.getvalue()


class Kept(LocalRunner):
    """A runner that outlives the sessions that are done with it."""

    def close(self) -> None:
        """Nothing yet."""

    def end(self) -> None:
        super().close()


@contextlib.contextmanager
def kept_workers() -> Iterator[None]:
    """Have all that measures on this machine do so in the same worker processes meanwhile."""
    kept: dict[int, Kept] = {}

    def executor(wanted: ExecutorInputs) -> Kept:
        if wanted.threads not in kept:
            kept[wanted.threads] = Kept(RunnerSettings(threads=wanted.threads, builders=1, plan=BRIEFLY))
        return kept[wanted.threads]

    with brief_searches() as patch:
        patch.setattr(local, "executor", executor)
        try:
            yield
        finally:
            for runner in kept.values():
                runner.end()

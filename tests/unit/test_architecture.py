"""The shape of the house: imports run downward, folders are packages, files stay short."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Bottom first: each layer may import those before it, never those after.
LAYERS = (
    "errors",
    "ir",
    "lang",
    "schedule",
    "operators",
    "space",
    "backend",
    "cost",
    "measure",
    "database",
    "search",
    "api",
    "frontdoor",
    "cli",
)
# The package's own face re-exports `api` and `frontdoor`, and `python -m metasched` starts the command line.
TOP = {"metasched": "frontdoor", "metasched.__main__": "cli"}
# What a rule may import: the public face. A rule that needs more shows what the public face lacks.
PUBLIC = {"metasched"}
MAX_LINES = 600


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "__pycache__" not in path.parts]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every module imported anywhere in a file, at the top or inside a function, with its line."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            yield node.lineno, target
            # `from metasched import api` names a module too.
            for alias in node.names:
                if (ROOT / Path(*target.split("."), alias.name)).with_suffix(".py").exists():
                    yield node.lineno, f"{target}.{alias.name}"


def layer(module: str) -> str | None:
    """The layer of a module of ours; None for the package itself and for other people's."""
    if module in TOP:
        return TOP[module]
    parts = module.split(".")
    return parts[1] if parts[0] == "metasched" and len(parts) > 1 else None


def test_the_layers_are_those_that_exist() -> None:
    modules = {path.stem for path in (ROOT / "metasched").glob("*.py")}
    packages = {path.parent.name for path in (ROOT / "metasched").glob("*/__init__.py")}
    assert (modules | packages) - {"__init__", "__main__"} <= set(LAYERS), "a new package needs a place in LAYERS"


def upward(path: Path) -> list[str]:
    own = layer(module_name(path))
    assert own in LAYERS, path
    wrong = []
    for line, module in imports(path):
        # Importing the package itself from inside is importing its face, which sits on top.
        if module == "metasched" and own not in {"frontdoor", "cli"}:
            wrong.append(f"{path}:{line}: {own} imports the public face `metasched`")
            continue
        other = layer(module)
        if other in LAYERS and LAYERS.index(other) > LAYERS.index(own):
            wrong.append(f"{path}:{line}: {own} imports {module}, which is above it")
    return wrong


def test_imports_run_downward() -> None:
    wrong = [message for path in sources("metasched") for message in upward(path)]
    assert not wrong, "\n".join(wrong)


def test_metasched_never_imports_its_rules() -> None:
    wrong = [
        f"{path}:{line}: {module}"
        for path in sources("metasched")
        for line, module in imports(path)
        if module.startswith("metasched.rules")
    ]
    assert not wrong, "rules are found through their entry point:\n" + "\n".join(wrong)


def test_rules_use_the_public_face_only() -> None:
    wrong = [
        f"{path}:{line}: {module}"
        for path in sources("rules")
        for line, module in imports(path)
        if module.split(".")[0] == "metasched" and module not in PUBLIC and not module.startswith("metasched.rules")
    ]
    assert not wrong, "\n".join(wrong)


def test_nothing_imports_the_mapped_folders_by_their_bare_names() -> None:
    files = sources("metasched", "grammar", "tests", "benchmarks", "tutorials", "examples")
    # Relative imports inside rules/ resolve to `rules...` here and to `metasched.rules...` once installed.
    absolute = [
        (path, node.lineno, name)
        for path in [*files, *sources("rules")]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""] * (node.level == 0)
        )
    ]
    wrong = [f"{path}:{line}: {name}" for path, line, name in absolute if name.split(".")[0] in {"rules", "grammar"}]
    assert not wrong, "a rule imported as `rules.x` registers twice; it is `metasched.rules.x`:\n" + "\n".join(wrong)


def test_no_file_is_too_long() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sources("metasched", "rules", "grammar", "benchmarks", "tests")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long, f"over {MAX_LINES} lines: {long}"


def test_every_module_has_a_docstring() -> None:
    bare = [
        str(path.relative_to(ROOT))
        for path in sources("metasched", "rules", "grammar", "benchmarks")
        if ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert not bare, f"no docstring: {bare}"


def test_every_package_is_installed() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    there = {module_name(path.parent / "__init__.py") for path in sources("metasched") if path.name == "__init__.py"}
    there |= {f"metasched.{module_name(path)}" for path in sources("rules", "grammar") if path.name == "__init__.py"}
    assert set(setup["packages"]) == there, "list every package in pyproject.toml, [tool.setuptools] packages"


@pytest.mark.parametrize("folder", ["rules", "grammar"])
def test_mapped_folders_import_as_subpackages(folder: str) -> None:
    module = __import__(f"metasched.{folder}", fromlist=["__doc__"])
    assert Path(str(module.__file__)).parent == ROOT / folder

"""The shape of the house: imports run downward, folders are packages, files stay short."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from metasched.functions.registry import functions
from metasched.operators.files import library_names
from metasched.support.collection import pause_gc

ROOT = Path(__file__).parents[2]

# Bottom first: each layer may import those before it, never those after.
LAYERS = (
    "support",
    "errors",
    "settings",
    "cache_folder",
    "dtypes",
    "target",
    "ir",
    "permissions",
    "functions",
    "lang",
    "schedule",
    "operators",
    "reference",
    "compiler",
    "runtime",
    "space",
    "cost",
    "calibration",
    "measure",
    "database",
    "knowledge",
    "report",
    "search",
    "graph",
    "doors",
    "doctor",
    "api",
    "kernel_function",
    "cli",
)
# The package's own face re-exports `api` and `kernel_function`, and `python -m metasched` starts the command line.
TOP = {"metasched": "kernel_function", "metasched.__main__": "cli"}
# What a rule may import: the public face. A rule that needs more shows what the public face lacks.
PUBLIC = {"metasched"}
MAX_LINES = 600


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def sources(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if "__pycache__" not in path.parts]


@cache
@pause_gc()
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """Every module imported anywhere in a file, at the top or inside a function, with its line."""
    return tuple(_imports(path))


def statements(path: Path) -> Iterator[ast.AST]:
    """The statements of a file, wherever they are, without the expressions in them: an import is one of them."""
    left: list[ast.AST] = [parsed(path)]
    while left:
        node = left.pop()
        yield node
        left += [
            inside
            for inside in ast.iter_child_nodes(node)
            if isinstance(inside, ast.stmt | ast.excepthandler | ast.match_case)
        ]


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in statements(path):
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
        if module == "metasched" and own not in {"kernel_function", "cli"}:
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


def test_rules_and_examples_use_the_public_face_only() -> None:
    wrong = [
        f"{path}:{line}: {module}"
        for path in sources("rules", "examples")
        for line, module in imports(path)
        if module.split(".")[0] == "metasched" and module not in PUBLIC and not module.startswith("metasched.rules")
    ]
    assert not wrong, "\n".join(wrong)


def names_of_operators(tree: ast.Module) -> list[str]:
    """Where a rule goes by what a program or a block is called: by texts that are names of operators, except those of
    its own decisions, by the program's name, and by comparisons of names with texts."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    decisions = {id(call.args[0]) for call in calls if ast.unparse(call.func).endswith(".choose") and call.args}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in decisions:
            named = node.value in library_names()
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = any(isinstance(x, ast.Constant) and isinstance(x.value, str) for y in sides for x in ast.walk(y))
            named = texts and any(re.search(r"\.name$|\.key$|\.name_of\(.*\)$", ast.unparse(side)) for side in sides)
        else:
            named = isinstance(node, ast.Attribute) and bool(re.search(r"program\.(name|key)$", ast.unparse(node)))
        if named:
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def test_no_rule_names_an_operator() -> None:
    wrong = [f"{path}:{use}" for path in sources("rules") for use in names_of_operators(parsed(path))]
    for path in sorted((ROOT / "rules").glob("*.ms")):
        texts = re.findall(r'"([^"]*)"', path.read_text(encoding="utf-8"))
        wrong += [f"{path}: {text}" for text in texts if text in library_names()]
    assert not wrong, "a rule goes by what a block computes, whatever it is called:\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("code", "finds"),
    [
        ('info.name == "conv"', True),
        ('sch.name_of(block) in ("C", "conv")', True),
        ('sch.program.name.startswith("conv")', True),
        ('KINDS = {"softmax"}', True),
        ('sch.choose("transpose", ["kept", "inlined"]) == "kept"', False),
        ("other.name == info.name", False),
    ],
)
def test_what_names_an_operator(code: str, finds: bool) -> None:
    assert bool(names_of_operators(ast.parse(code))) is finds


# Where a target that nobody gave is looked for. All else is given one: so that another can be scored and searched for.
DETECTS = {
    "calibration/measuring": "code that runs here",
    "api": "of the public face",
    "cli": "of the command line",
    "graph/loading": "a network's",
    "graph/network": "a network's",
    "graph/node_helpers/known_elements": "code that runs here",
    "measure/workers/load": "code that runs here",
    "measure/runner": "code that runs here",
    "measure/workers/worker": "what is built once and thrown away",
    "runtime": "code that runs here",
    "schedule/interpreter": "a schedule's",
    "search/task": "a task's",
    "space/space": "a space's",
    "target": "what of another target runs here",
}


def detects(path: Path) -> bool:
    called = (node.func for node in ast.walk(parsed(path)) if isinstance(node, ast.Call))
    return any(isinstance(fn, ast.Attribute) and fn.attr == "detect" for fn in called)


def test_rules_ask_the_schedule_for_the_target() -> None:
    wrong = [path for path in sources("rules", "examples") if detects(path)]
    assert not wrong, f"a rule asks `sch.target`, which may be another machine: {wrong}"


def test_the_target_is_given_wherever_it_can_be() -> None:
    found = {str(p.relative_to(ROOT / "metasched").with_suffix("")) for p in sources("metasched") if detects(p)}
    wrong = {name for name in found if name not in DETECTS and name.split("/")[0] not in DETECTS}
    assert not wrong, f"these look for a target instead of being given one: {wrong}"


def test_nothing_imports_the_mapped_folders_by_their_bare_names() -> None:
    files = sources("metasched", "grammar", "tests", "benchmarks", "tutorials", "examples")
    # Files in which no such name follows a word of an import, or a comma, are not parsed: most, and most of the time.
    bare = re.compile(r"(?:\bfrom|\bimport|,)[\s\\]+(?:rules|grammar)\b")
    # Relative imports inside rules/ resolve to `rules...` here and to `metasched.rules...` once installed.
    absolute = [
        (path, node.lineno, name)
        for path in [*files, *sources("rules")]
        if bare.search(path.read_text(encoding="utf-8"))
        for node in statements(path)
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
        for path in sources("metasched", "rules", "grammar", "benchmarks", "tests", "docs", "examples", "tutorials")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long, f"over {MAX_LINES} lines: {long}"


def test_every_module_has_a_docstring() -> None:
    bare = [
        str(path.relative_to(ROOT))
        for path in sources("metasched", "rules", "grammar", "benchmarks", "docs", "examples", "tutorials")
        if ast.get_docstring(parsed(path)) is None
    ]
    assert not bare, f"no docstring: {bare}"


def test_every_package_is_installed() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    there = {module_name(path.parent / "__init__.py") for path in sources("metasched") if path.name == "__init__.py"}
    there |= {f"metasched.{module_name(path)}" for path in sources("rules", "grammar") if path.name == "__init__.py"}
    assert set(setup["packages"]) == there, "list every package in pyproject.toml, [tool.setuptools] packages"


def test_every_file_of_data_is_installed() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    folders = {name: ROOT / setup["package-dir"].get(name, name.replace(".", "/")) for name in setup["packages"]}
    installed = {
        path
        for name, patterns in setup["package-data"].items()
        for pattern in patterns
        for path in folders[name].glob(pattern)
    }
    there = {
        path
        for folder in ("metasched", "rules", "grammar")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    assert there == installed, "name every kind of file in pyproject.toml, [tool.setuptools.package-data]"


@pytest.mark.parametrize("folder", ["rules", "grammar"])
def test_mapped_folders_import_as_subpackages(folder: str) -> None:
    module = __import__(f"metasched.{folder}", fromlist=["__doc__"])
    assert Path(str(module.__file__)).parent == ROOT / folder


def defined_as(folder: str, decorator: str) -> dict[str, list[str]]:
    """The functions under a decorator, by the file that has them."""
    found = {}
    for path in sources(folder):
        named = [
            node.name
            for node in parsed(path).body
            if isinstance(node, ast.FunctionDef)
            and any(re.match(rf"(\w+\.)?{decorator}\b", ast.unparse(made)) for made in node.decorator_list)
        ]
        if named:
            found[path.stem] = named
    return found


@pytest.mark.parametrize(
    ("folder", "decorator"), [("metasched/schedule/primitives", "(primitive|sampler)"), ("rules", "rule")]
)
def test_a_file_has_one_definition_of_its_name(folder: str, decorator: str) -> None:
    found = defined_as(folder, decorator)
    assert found == {name: [name] for name in found}
    assert found, "there is none at all"


def test_every_file_of_primitives_has_one() -> None:
    stems = {path.stem for path in sources("metasched/schedule/primitives")} - {"__init__"}
    assert stems == set(defined_as("metasched/schedule/primitives", "(primitive|sampler)"))


def test_an_intrinsic_is_a_pair_of_files() -> None:
    meaning, code = (
        {path.name for path in sources(f"metasched/{side}/intrinsics")} for side in ("schedule", "compiler/cpu")
    )
    assert meaning == code


INTERNALS = {ROOT / f"metasched/support/{name}_internals.py" for name in ("compiler", "numba")}
# The public faces of Numba and llvmlite: https://numba.readthedocs.io, https://llvmlite.readthedocs.io
PUBLIC_COMPILERS = {"numba", "numba.extending", "llvmlite", "llvmlite.binding"}


def compiler_parts(path: Path) -> list[str]:
    """Where a file uses what Numba or llvmlite does not document: their inner modules, and names with an underscore."""
    if not re.search("numba|llvmlite", path.read_text(encoding="utf-8")):
        return []
    found = [
        f"{path}:{line}: {module}"
        for line, module in imports(path)
        if module.split(".")[0] in {"numba", "llvmlite"} and module not in PUBLIC_COMPILERS
    ]
    names = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (node.module if isinstance(node, ast.ImportFrom) else alias.name or "")
        and (node.module or "" if isinstance(node, ast.ImportFrom) else alias.name).startswith(("numba", "llvmlite"))
    }
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            root = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            if isinstance(root, ast.Name) and root.id in names:
                found.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
        # A module that is named in a text is imported, too.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("numba."):
            found.append(f"{path}:{node.lineno}: {node.value}")
    return found


def test_the_private_parts_of_numba_and_llvmlite_are_used_in_two_files() -> None:
    found = {path: parts for path in sources("metasched") if (parts := compiler_parts(path))}
    assert found.keys() == INTERNALS, f"what a release of Numba may change goes through {INTERNALS}: {found}"


def test_data_classes_are_declared_by_what_takes_little_time_for_them() -> None:
    wrong = [
        f"{path}:{node.lineno}"
        for path in sources("metasched")
        for node in statements(path)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if path != ROOT / "metasched/support/data_classes.py" and any(name.name == "dataclass" for name in node.names)
    ]
    assert not wrong, "`dataclass` is imported from metasched.support.data_classes:\n" + "\n".join(wrong)


def test_products_of_sizes_are_integers_of_any_length() -> None:
    """NumPy's are of 64 bits, or floats; along an axis of an array there is no other."""
    wrong = [
        f"{path}:{node.lineno}"
        for path in sources("metasched", "rules")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "prod"
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "np"
        if all(keyword.arg != "axis" for keyword in node.keywords)
    ]
    assert not wrong, "`math.prod` multiplies sizes:\n" + "\n".join(wrong)


def test_a_math_function_is_a_file_of_its_name() -> None:
    assert {path.stem for path in sources("metasched/functions/library")} - {"__init__"} == set(functions())


def test_the_guide_names_every_package_and_the_order_of_layers() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    order = re.search(r"`(support < [^`]*)`", guide)
    assert order is not None
    assert tuple(order[1].replace("\n", " ").split(" < ")) == LAYERS
    folders = {path.parent.name for path in sources("metasched") if path.name == "__init__.py"} - {"metasched"}
    assert not {name for name in folders if f"{name}/`" not in guide}, "a package that CONTRIBUTING.md does not explain"


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in sources("metasched", "rules"):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module_name(path))
    assert not {name: modules for name, modules in places.items() if len(modules) > 1}


def test_unit_tests_mirror_the_package() -> None:
    folders = {path.relative_to(ROOT / "tests/unit").parent for path in sources("tests/unit")} - {Path()}
    strange = {
        str(folder) for folder in folders if not any((ROOT / top / folder).is_dir() for top in ("metasched", ""))
    }
    assert not strange, "a folder of tests is named after the package that it is about"


def our_modules() -> dict[str, Path]:
    """Every module that installs or is run, by the name it is imported by."""
    installed = {"rules": "metasched.rules", "grammar": "metasched.grammar"}
    named = {path: module_name(path) for path in sources("metasched", "rules", "grammar", "benchmarks")}
    return {
        ".".join([installed.get(name.split(".")[0], name.split(".")[0]), *name.split(".")[1:]]): path
        for path, name in named.items()
    }


def named_modules(module: str, path: Path, known: Mapping[str, Path]) -> set[str]:
    """The modules of ours that one imports, at the top, inside a function or for type checkers, or names by a string.

    A package that is named by a string is a registry's: its files import the registry, and are found by it.
    """
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            parts = {f"{source}.{alias.name}" for alias in node.names} & known.keys()
            found |= parts | ({source} if len(parts) < len(node.names) else set())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            name = node.value.partition(":")[0]
            if name in known and known[name].name != "__init__.py":
                found.add(name)
    return found & known.keys() - {module}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The sets of modules that need one another (strongly connected components; Tarjan 1972), less single modules."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = lowest[module] = len(index)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in index:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == index[module]:
            start = stack.index(module)
            found.append(sorted(stack[start:]))
            del stack[start:]

    for module in graph:
        if module not in index:
            visit(module)
    return [component for component in found if len(component) > 1]


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert circles(graph) == [["b", "c"], ["e", "f"]]


def test_no_module_needs_itself_through_others() -> None:
    known = our_modules()
    found = circles({module: named_modules(module, path, known) for module, path in known.items()})
    assert not found, f"modules that import one another; move what both need into a third, below: {found}"


def test_no_two_packages_of_one_folder_need_each_other() -> None:
    """Of packages beside one another, one is above the other: else there is no order in which to read them."""
    known = our_modules()
    packages = {module: package_of(module, path) for module, path in known.items()}
    needs = {
        (packages[module], packages[other])
        for module, path in known.items()
        for other in named_modules(module, path, known)
    }
    both = {(one, other) for one, other in needs if one < other and (other, one) in needs}
    found = sorted(pair for pair in both if pair[0].rpartition(".")[0] == pair[1].rpartition(".")[0])
    assert not found, f"packages that import each other; move what both need into a third: {found}"


def package_of(module: str, path: Path) -> str:
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


# What the docstring of a folder of registered things begins with, instead of naming them.
OF_REGISTERED_FILES = re.compile(r"\ba file (each|for each)\b")


def contents(folder: Path) -> set[str]:
    """What a package holds: its modules by name, and its packages, `name/`."""
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "__main__"}
    return modules | {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize(
    "folder",
    [path.parent for path in sources("metasched", "rules", "benchmarks") if path.name == "__init__.py"],
    ids=lambda folder: str(folder.relative_to(ROOT)),
)
def test_the_docstring_of_a_package_is_its_table_of_contents(folder: Path) -> None:
    doc = ast.get_docstring(parsed(folder / "__init__.py")) or ""
    named = re.findall(r"^- `([\w/]+)`: ", doc, re.MULTILINE)
    there = contents(folder)
    place = f"{folder.relative_to(ROOT)}/__init__.py"
    assert len(named) == len(set(named)), f"{place} names a file twice"
    gone = sorted(set(named) - there)
    assert not gone, f"{place} names {gone}, and there is no such file"
    left = sorted(there - set(named))
    assert not left or (not named and OF_REGISTERED_FILES.search(doc.partition("\n\n")[0])), (
        f"{place} does not name {left}: add a line where a reader comes to it, `- `{left[0]}`: what it is`"
    )


# Tests in tests/unit/ of what no single file has.
CROSS_CUTTING = frozenset(
    {
        *("architecture", "architecture_of_tests", "pickling", "public_names", "reprs", "site"),
        *("cli/modules", "cli/operators", "cli/traces"),
        *("compiler/annotations", "cost/against_lowering", "cost/layouts"),
        *("lang/halves", "lang/limits", "lang/operators", "lang/positions", "lang/type_parameters"),
        *("measure/halves", "operators/torch", "rules/memory_bound", "rules/refused", "rules/rules"),
        *("schedule/arg_reductions", "schedule/get", "schedule/messages", "schedule/refusal", "schedule/refusals"),
        *("schedule/interrupted", "schedule/sample", "schedule/target", "schedule/used"),
    }
)


def is_about_one(path: Path) -> bool:
    """Whether a test file has the name of a file or a package, perhaps with a word more, or is about every file."""
    where = path.relative_to(ROOT / "tests/unit").parent
    name = path.stem.removeprefix("test_")
    if name.startswith("every_"):
        return True
    words = name.split("_")
    names = ["_".join(words[:n]) for n in range(len(words), 0, -1)]
    folders = [ROOT / top / where for top in ("metasched", "")]
    return any((folder / f"{name}.py").exists() or (folder / name).is_dir() for folder in folders for name in names)


def test_a_unit_test_is_named_after_what_it_is_about() -> None:
    tests = [path for path in sources("tests/unit") if path.name.startswith("test_")]
    named = {path: str(path.relative_to(ROOT / "tests/unit").with_suffix("")).replace("test_", "") for path in tests}
    strange = {name for path, name in named.items() if not is_about_one(path)}
    assert strange <= CROSS_CUTTING, (
        f"{sorted(strange - CROSS_CUTTING)}: a test has the folder and the name of the file that it is about"
    )
    assert not CROSS_CUTTING - set(named.values()), "a test that is gone"


def test_properties_are_kept_without_a_lock() -> None:
    """That of functools has one in Python 3.11, for which a forked child may wait without end."""
    found = [
        path for path in sources("metasched") if re.search(r"functools import .*\bcached_property", path.read_text())
    ]
    assert found == []

"""What `import metasched` gives: names that are imported at their first use, and nothing that takes long before."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import metasched as ms

SOURCE = Path(ms.__file__).read_text(encoding="utf-8")
COMPILERS = ("numba", "llvmlite", "lightgbm", "scipy")
# Packages that take long to import, or that a program that only reads or prints has no use for.
HEAVY = ("numpy", "ml_dtypes", "lark", "sqlite3", "psutil", *COMPILERS)


def imported_by(code: str, *arguments: str) -> set[str]:
    """The names of the packages and modules that are there after some code, in a process of its own."""
    script = f"import sys\n{code}\nprint('\\n', *sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def for_checkers() -> dict[str, tuple[str, str]]:
    """Module and name of what type checkers see."""
    block = next(n for n in ast.parse(SOURCE).body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    found = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            names = (
                importlib.import_module(str(node.module)).__all__
                if node.names[0].name == "*"
                else [alias.name for alias in node.names]
            )
            found.update({name: (str(node.module), name) for name in names})
    return found


def test_checkers_see_what_there_is() -> None:
    seen = for_checkers()
    assert seen.pop("operators") == ("metasched", "operators")
    assert {**seen, "operator": ("metasched.operators", "load")} == ms._PLACES, (
        "a name is imported under TYPE_CHECKING, and listed in _NAMES, both in metasched/__init__.py"
    )


@pytest.mark.parametrize("name", ms.__all__)
def test_every_name_is_what_its_module_has(name: str) -> None:
    assert name in dir(ms)
    found = getattr(ms, name)
    if name in ms._PLACES:
        module, attribute = ms._PLACES[name]
        assert found is getattr(importlib.import_module(module), attribute)


def test_what_is_listed_is_what_is_public() -> None:
    assert dir(ms) == sorted(ms.__all__)
    assert not {"Path", "ModuleType", "TYPE_CHECKING", "sys", "support"} & set(dir(ms))


def test_all_of_them_at_once() -> None:
    names: dict[str, object] = {}
    exec("from metasched import *", names)
    assert set(ms.__all__) <= names.keys()


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="module 'metasched' has no attribute 'tun'") as caught:
        ms.tun
    assert (caught.value.name, caught.value.obj) == ("tun", ms)


@pytest.mark.parametrize("first", ["metasched.space.rule", "metasched.api"])
def test_a_folder_does_not_hide_the_function_of_its_name(first: str) -> None:
    code = f"import {first}, metasched as ms, types\nassert isinstance(ms.space, types.FunctionType)"
    imported_by(f"{code}\nimport importlib\nimportlib.reload(ms)\nassert isinstance(ms.space, types.FunctionType)")


def test_what_is_found_by_name_pickles() -> None:
    for value in (ms.Policy.REPAIR, ms.Target.detect(threads=1), ms.sum, ms.Trace):
        assert pickle.loads(pickle.dumps(value)) == value


def test_importing_the_package_imports_nothing_heavy() -> None:
    there = imported_by("import metasched")
    assert not there & set(HEAVY)
    assert {name for name in there if name.startswith("metasched.")} <= {
        f"metasched.{name}" for name in ("support", "support.forks", "support.imports", "support.requirements")
    }


def test_importing_every_name_imports_no_compiler() -> None:
    there = imported_by("import metasched as ms\nfor name in ms.__all__: getattr(ms, name)")
    assert "metasched.kernel_function" in there
    assert not there & set(COMPILERS)


def test_programs_spaces_and_traces_need_no_compiler() -> None:
    code = """
import metasched as ms
program = ms.operator("matmul_nn", M=64, N=64, K=64)
schedule = ms.Schedule(program)
print(program, schedule.trace, ms.operators.expert("matmul_nn.blocked").trace.apply_to(program, ms.Policy.REPAIR))
"""
    assert not imported_by(code) & {*COMPILERS, "sqlite3", "psutil"}


# Each argument is a command.
COMMANDS = """
from metasched.cli.main import main
for command in sys.argv[1:]:
    try: main(command.split())
    except SystemExit as end: assert not end.code, command
"""


def test_help_imports_nothing_heavy() -> None:
    assert not imported_by(COMMANDS, "--help", "--version") & {*HEAVY, "metasched.ir"}


def test_commands_that_only_print_need_no_compiler() -> None:
    there = imported_by(
        COMMANDS, "show op:matmul_nn", "show op:matmul_nn --program", "show --help", "tune --help", "rules --help"
    )
    assert not there & {*COMPILERS, "sqlite3", "metasched.compiler.lower"}

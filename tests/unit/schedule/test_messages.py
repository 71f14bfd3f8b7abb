"""Every message of a ScheduleError is asserted by a test: the longest constant piece of each stands in a test's text.

The messages are read off the sources. What stands in braces is replaced by its alternatives where these are constants:
an assignment or a conditional in the function, or the arguments of its callers in the file.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = sorted(path for folder in ("schedule", "space") for path in (ROOT / "metasched" / folder).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
GOLDEN = sorted((ROOT / "tests" / "golden").rglob("*.txt"))
SHORTEST = 8
HOLE = "\0"
COMPLETES = "what `{}` completes in an iteration of loop `{}` is not a block of consecutive elements: "
# Messages with no constant piece that is long enough, as a test has them; none of what no program is known for.
AS_ASSERTED = {
    "loop `{}` is {}": "loop `i_relu` is parallel",
    "labels={}": "labels='ab'",
    "{}={}": "name=''",
    "`{}` gives {}, and {} names are on the left": "it gives 3 here, and on the left is",
    **dict.fromkeys(
        # Bindings and guards that primitives make do not do this; a row of tile sizes may do the second.
        (
            COMPLETES + "a write index has a shifted quotient",
            COMPLETES + "a tile is larger than its parts",
            "block `{}` has a guard that mixes several of its loops",
            # Found before a module runs.
            "`{}` is a random variable, and no condition",
        ),
        "",
    ),
    "`{}`={} is not {}": "is not a number",
    # What `allow` and `tensor_fits` say is made where the names and the intrinsics are known.
    "{}": "can be allowed",
}

Function = ast.FunctionDef | ast.Lambda


class Site:
    """A place where a ScheduleError is made, or where a function that makes one is given its text."""

    def __init__(self, path: Path, call: ast.Call, function: ast.FunctionDef | None) -> None:
        self.where = f"{path.relative_to(ROOT)}:{call.lineno}"
        self.path, self.call, self.function = path, call, function

    def messages(self) -> list[str]:
        """What it may say, with holes for what is not constant."""
        arguments = {k.arg: k.value for k in self.call.keywords}
        message = self.call.args[1] if len(self.call.args) > 1 else arguments["message"]
        return _texts(message, self.path, self.function, 3)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _calls() -> tuple[tuple[Path, ast.Call, ast.FunctionDef | None], ...]:
    """Every call in the sources, and the function around it."""
    found: list[tuple[Path, ast.Call, ast.FunctionDef | None]] = []

    def visit(path: Path, node: ast.AST, function: ast.FunctionDef | None) -> None:
        if isinstance(node, ast.Call):
            found.append((path, node, function))
        inner = node if isinstance(node, ast.FunctionDef) else function
        for child in ast.iter_child_nodes(node):
            visit(path, child, inner)

    for path in SOURCES:
        visit(path, _tree(path), None)
    return tuple(found)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def sites() -> Iterator[Site]:
    for path, call, function in _calls():
        if _name(call) == "ScheduleError":
            yield Site(path, call, function)


def _texts(node: ast.expr, path: Path, function: ast.FunctionDef | None, depth: int) -> list[str]:
    """The texts that an expression may be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        parts = [_texts(v, path, function, depth) for v in node.values]
        return ["".join(chosen) for chosen in itertools.islice(itertools.product(*parts), 64)]
    if isinstance(node, ast.FormattedValue):
        return _texts(node.value, path, function, depth)
    if isinstance(node, ast.IfExp):
        return _texts(node.body, path, function, depth) + _texts(node.orelse, path, function, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = (_texts(side, path, function, depth) for side in (node.left, node.right))
        return ["".join(pair) for pair in itertools.product(*sides)]
    if isinstance(node, ast.Name) and function is not None and depth:
        return _named(node.id, path, function, depth - 1) or [HOLE]
    return [HOLE]


def _named(name: str, path: Path, function: ast.FunctionDef, depth: int) -> list[str]:
    """What a local variable or a parameter may be; nothing where no text is found."""
    found = [
        text
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target, value in _pairs(node)
        if isinstance(target, ast.Name) and target.id == name
        for text in _texts(value, path, function, depth)
    ]
    parameters = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
    if name in parameters:
        method = parameters[0] == "self"
        for where, call, around in _calls():
            if _name(call) == function.name and where == path:
                at = parameters.index(name) - method
                value = call.args[at] if at < len(call.args) else None
                value = next((k.value for k in call.keywords if k.arg == name), value)
                if value is not None:
                    found += _texts(value, where, around, depth)
    # A word is a name that happens to be constant there; messages are sentences.
    return [text for text in dict.fromkeys(found) if " " in text]


def _pairs(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    """What is assigned to what; `a, b = x, y` is two."""
    target = node.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        return list(zip(target.elts, node.value.elts, strict=False))
    return [(target, node.value)]


@cache
def asserted() -> str:
    """All the texts that tests have, in one."""
    texts = [path.read_text(encoding="utf-8") for path in GOLDEN]
    for path in TESTS:
        if path != Path(__file__):
            texts += [
                n.value for n in ast.walk(_tree(path)) if isinstance(n, ast.Constant) and isinstance(n.value, str)
            ]
    return "\n".join(texts).replace("\\", "")


def pieces(message: str) -> str:
    """The longest constant piece; of what is refused for several reasons, the reason."""
    reason = message.replace(HOLE, "{}").removeprefix(COMPLETES)
    return max(reason.split("{}"), key=len).strip("`'\" ,:")


@pytest.mark.parametrize("path", [p for p in SOURCES if "ScheduleError(" in p.read_text()], ids=lambda p: p.stem)
def test_messages_are_asserted(path: Path) -> None:
    missing = []
    for site in sites():
        if site.path == path:
            for message in site.messages():
                shown = message.replace(HOLE, "{}")
                wanted = AS_ASSERTED.get(shown, pieces(message))
                if (len(wanted) < SHORTEST and shown not in AS_ASSERTED) or wanted not in asserted():
                    missing.append(f"{site.where}: {shown}")
    assert not missing, "no test asserts\n  " + "\n  ".join(dict.fromkeys(missing))


def test_every_site_is_found() -> None:
    count = sum(path.read_text(encoding="utf-8").count("ScheduleError(") for path in SOURCES)
    assert len(list(sites())) == count

"""For every sketch that TVM's default CPU rules make, the preset `cpu` has one of the same loops and placements.

docs/spaces.md says what "the same" leaves aside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import metasched as ms
from metasched import operators
from metasched.ir.integers.affine import as_int, free_vars
from metasched.ir.nodes import Block, For, Func, IterKind, Seq, Stmt
from metasched.lang.instructions import Decision, Ref
from metasched.schedule.handlers import FREE, Free, Site
from metasched.space.registry import resolve
from metasched.space.source import FromRules

FIXTURE = Path(__file__).parent / "tvm" / "sketches.txt"
# What comes after the structure: these fuse or annotate loops of it, as TVM's postprocessors do.
LAST = ("parallelize", "vectorize", "reduction_lanes", "stream", "unroll")
WRITE = "write"
TILED = frozenset({"conv", "C"})


# --- the form in which both are compared: a loop is `S1.0`, the first tile of the block's second spatial variable


@dataclass(frozen=True)
class Leaf:
    """A block: the loops that each iteration variable is bound to, outermost first, by kind."""

    name: str
    spatial: tuple[tuple[str, ...], ...]
    reduction: tuple[tuple[str, ...], ...]

    def label(self, loop: str) -> str | None:
        for kind, iters in (("S", self.spatial), ("R", self.reduction)):
            for n, loops in enumerate(iters):
                if loop in loops:
                    return f"{kind}{n}.{loops.index(loop)}" if len(loops) > 1 else f"{kind}{n}"
        return None


@dataclass(frozen=True)
class Nest:
    """Loops, of which those of one iteration are left out, around leaves and nests."""

    loop: str
    body: tuple[Nest | Leaf, ...]


Tree = tuple[Nest | Leaf, ...]


def leaves(tree: Tree) -> Iterator[Leaf]:
    for item in tree:
        if isinstance(item, Leaf):
            yield item
        else:
            yield from leaves(item.body)


def label(nest: Nest) -> str:
    """By the tiled block inside; else by the last, for which the others are computed."""
    inside = list(leaves(nest.body))
    anchor = next((leaf for leaf in inside if leaf.name in TILED), inside[-1])
    return anchor.label(nest.loop) or "?"


def paths(tree: Tree, above: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """The labels of the loops above each block."""
    out: dict[str, tuple[str, ...]] = {}
    for item in tree:
        if isinstance(item, Leaf):
            out[item.name] = above
        else:
            out |= paths(item.body, (*above, label(item)))
    return out


def text(tree: Tree, depth: int = 0) -> str:
    lines = []
    for item in tree:
        chain, body = [], (item,)
        while len(body) == 1 and isinstance(body[0], Nest):
            chain.append(label(body[0]))
            body = body[0].body
        indent = "  " * depth
        if chain:
            lines += [indent + " ".join(chain), text(body, depth + 1)]
        else:
            lines.append(indent + item.name)  # type: ignore[union-attr]
    return "\n".join(lines)


# --- TVM's


@dataclass(frozen=True)
class Theirs:
    """A sketch of TVM's: `factored` says of each factored reduction which part the partial results are."""

    operator: str
    number: int
    factored: Mapping[str, str]
    tree: Tree
    moved: Mapping[str, int]  # how many loops each block that was moved got where it was put

    def place(self, block: str) -> tuple[str, ...]:
        """The labels of the loops under which a block was put; none for one that stayed."""
        path = paths(self.tree)[block]
        return path[: len(path) - self.moved[block]] if block in self.moved else ()


@cache
def theirs() -> tuple[Theirs, ...]:
    lines = [x for x in FIXTURE.read_text(encoding="utf-8").splitlines() if not x.startswith("#")]
    found = []
    for part in "\n".join(lines).strip().split("\n\n"):
        head, *body = part.splitlines()
        operator, number, *factored = head.split()
        tree, moved = _read(body, 2, ())
        found.append(Theirs(operator, int(number), dict(f.split("=") for f in factored), tree, moved))
    return tuple(found)


def _read(lines: list[str], indent: int, above: tuple[str, ...]) -> tuple[Tree, dict[str, int]]:
    items: list[Nest | Leaf] = []
    moved: dict[str, int] = {}
    for at, line in enumerate(lines):
        if len(line) - len(line.lstrip()) != indent:
            continue
        if " |" in line:
            items.append(_leaf(line, above))
            bound = [x for x in line.split() if x.startswith("ax")]
            moved |= {items[-1].name: sum(x in above for x in bound)} if bound else {}
            continue
        inside = lines[at + 1 :]
        end = next((n for n, x in enumerate(inside) if len(x) - len(x.lstrip()) <= indent), len(inside))
        loops = [x for x in line.split() if not x.endswith(":1")]
        tree, more = _read(inside[:end], indent + 2, (*above, *loops))
        moved |= more
        for loop in reversed(loops):
            tree = (Nest(loop, tree),)
        items += tree
    return tuple(items), moved


def _leaf(line: str, above: tuple[str, ...]) -> Leaf:
    name, _, bound = line.strip().partition(": ")
    spatial, _, reduction = bound.partition("|")

    def loops(iter_name: str) -> tuple[str, ...]:
        tiles = tuple(f"{iter_name}_{n}" for n in range(4))
        return tuple(x for x in above if x == iter_name or (name in TILED and x in tiles))

    return Leaf(name, tuple(map(loops, spatial.split())), tuple(map(loops, reduction.split())))


# --- ours


def ours(func: Func) -> Tree:
    return _tree(func.body, ())


def _tree(stmt: Stmt, above: tuple[For, ...]) -> Tree:
    if isinstance(stmt, Seq):
        return tuple(item for child in stmt.stmts for item in _tree(child, above))
    if isinstance(stmt, For):
        body = _tree(stmt.body, (*above, stmt))
        return body if as_int(stmt.extent) == 1 else (Nest(stmt.var, body),)
    assert isinstance(stmt, Block)
    return (_block(stmt, above),)


def _block(block: Block, above: tuple[For, ...]) -> Leaf:
    name = WRITE if block.name.endswith(".write") else block.name
    found: dict[IterKind, list[tuple[str, ...]]] = {IterKind.SPATIAL: [], IterKind.REDUCE: []}
    for it, binding in zip(block.iters, block.bindings, strict=True):
        loops = tuple(x.var for x in above if x.var in free_vars(binding) and as_int(x.extent) != 1)
        # A block that was moved is bound to loops around it as well; its own one is the last.
        found[it.kind].append(loops if name in TILED else loops[-1:])
    return Leaf(name, tuple(found[IterKind.SPATIAL]), tuple(found[IterKind.REDUCE]))


# --- a schedule of ours with the structure of one of theirs


class Like:
    """Takes the structural decisions under which our space has TVM's sketch, and leaves numbers free."""

    def __init__(self, wanted: Theirs) -> None:
        self.wanted = wanted
        self.schedule: ms.Schedule | None = None

    def decide(self, site: Site) -> Decision | Free:
        if not site.dist.structural:
            return FREE
        rule, _, name = site.address.partition("/")
        block = rule.partition("(")[2].rstrip(")")
        options = site.dist.options()
        fitting = self._locations(block) if site.op == "sample_compute_location" else self._choices(name, block)
        if not fitting:
            return options[0]
        decision = next((d for d in fitting if d in options), None)
        assert decision is not None, f"{site.address}: none of {fitting} is among {options}"
        return decision

    def _choices(self, name: str, block: str) -> list[Decision]:
        blocks = {leaf.name for leaf in leaves(self.wanted.tree)}
        match name:
            case "rfactor":
                return [self.wanted.factored.get(block, "none")]
            case "transpose":
                return ["kept" if block in blocks else "inlined"]
            case "packed":
                return ["none"]
            case "chain":
                return ["apart"]
            case "parities":
                return ["whole"]
            case "padding" | "borders":
                return ["copied"]
            case "fusion":
                return [self._fusion()]
        return []

    def _fusion(self) -> str:
        for moved, how in ((WRITE, "cache"), ("relu", "consumer")):
            if moved in self.wanted.moved:
                level = len(self.wanted.place(moved)) // self.wanted.moved[moved]
                return f"{how} at level {level}"
        return "none"

    def _locations(self, block: str) -> list[Decision]:
        if block not in {leaf.name for leaf in leaves(self.wanted.tree)}:
            return [Ref("inline")]
        place = self.wanted.place(block)
        if not place:
            return [Ref("root")]
        assert self.schedule is not None
        return [Ref(loop) for loop in _loops_at(ours(self.schedule.func), place)]


def _loops_at(tree: Tree, place: tuple[str, ...], above: tuple[str, ...] = ()) -> list[str]:
    """The loops with these labels above and of their own."""
    found: list[str] = []
    for item in tree:
        if isinstance(item, Nest):
            here = (*above, label(item))
            found += [item.loop] if here == place else _loops_at(item.body, place, here)
    return found


@pytest.mark.parametrize("wanted", theirs(), ids=lambda w: f"{w.operator}-{w.number}")
def test_our_space_has_the_sketch(wanted: Theirs) -> None:
    case = operators.TWELVE[wanted.operator]
    # A batch of two, as a dimension of one has no loop here to compare.
    batch = {name: 2 for name, _ in case.program().params if name in {"BATCH", "N"} - case.params.keys()}
    program = operators.load(case.operator, **(dict(case.params) | batch))
    handler = Like(wanted)
    handler.schedule = ms.Schedule(program, handler=handler)
    rules = resolve("cpu")
    FromRules(tuple(r for r in rules if r.name not in LAST)).run(handler.schedule)
    assert text(ours(handler.schedule.func)) == text(wanted.tree), str(handler.schedule)
    FromRules(tuple(r for r in rules if r.name in LAST)).run(handler.schedule)


def test_the_fixture_is_whole() -> None:
    counts = {name: sum(t.operator == name for t in theirs()) for name in operators.TWELVE}
    assert counts == {name: 9 if name == "SFM" else 3 for name in operators.TWELVE}
    assert len({(t.operator, text(t.tree), tuple(t.factored.items())) for t in theirs()}) == len(theirs())

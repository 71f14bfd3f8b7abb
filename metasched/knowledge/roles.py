"""What blocks, buffers and loops of a program are to its anchor: names that mean the same in another program.

A block is `anchor`, or where it lies seen from there: `anchor<1` computes what the anchor reads as its second operand,
`anchor>0` reads the anchor's result first of all, `anchor<0<1`, and so on; `writer` is the last block of a chain after
the anchor, or where there is none, the block that copies a tile of its result out. A buffer is `ROLE#n`, the operand n
of a block, or `ROLE#`, its result; a loop is `ROLE$n`, the one of the block's variable n. In addresses and decisions
they stand in braces: `vectorize({anchor}.{anchor#1}.read)/lanes`. Names that primitives make of these (`i_0`,
`i_0_j_0`, `C.A.read`) are translated part by part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from metasched.ir import query
from metasched.ir.nodes import Block, Const, For, Func, Var
from metasched.knowledge.anchor import Anchor, operands
from metasched.lang.instructions import Decision, Ref
from metasched.support.data_classes import dataclass

ANCHOR = "anchor"
WRITER = "writer"
# In addresses: what follows the anchor, and the copy of its result that a rule makes where it is computed in another
# order.
FOLLOWING = (f"{{{WRITER}}}", f"{{{ANCHOR}}}.{{{ANCHOR}#}}.reindex")
_IN_BRACES = re.compile(r"\{([^{}]*)\}")
_SCOPE = re.compile(r"\(([^()]*)\)")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Roles:
    """The roles of a program's names: `general` of each name by kind of thing, `own` the names of each role."""

    blocks: Mapping[str, str]
    buffers: Mapping[str, str]
    loops: Mapping[str, str]
    own: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, func: Func, anchor: Anchor) -> Roles:
        """The roles in an unscheduled program with this anchor."""
        blocks = _assign_roles(func, anchor.block)
        buffers: dict[str, str] = {}
        loops: dict[str, str] = {}
        for name, role in blocks.items():
            block = query.find_block(func, name)
            buffers.setdefault(block.store.buffer, f"{role}#")
            for n, buffer in enumerate(operands(block)):
                buffers.setdefault(buffer, f"{role}#{n}")
            for n, loop in enumerate(_loops_of(func, block)):
                loops.setdefault(loop.var, f"{role}${n}")
        for name, role in blocks.items():
            for n, made in enumerate(_local_loops(query.find_block(func, name))):
                loops |= {loop: f"{role}${n}" for loop in made if loop not in loops}
        own: dict[str, tuple[str, ...]] = {}
        for table in (blocks, buffers, loops):
            for name, role in table.items():
                own[role] = (*own.get(role, ()), name)
        copy = f"{anchor.block}.{query.find_block(func, anchor.block).store.buffer}.write"
        own[WRITER] = (*own.get(WRITER, ()), copy)
        return cls({**blocks, copy: WRITER}, buffers, loops, own)

    @property
    def follows(self) -> bool:
        """Whether a block follows the anchor that may be computed with it."""
        return len(self.own[WRITER]) > 1  # the other one is a copy of the anchor's result

    # --- to roles

    def general_address(self, address: str) -> str:
        """An address of a random variable, in roles."""
        *scopes, name = _split(address)
        said = [_SCOPE.sub(lambda m: f"({self._general_handle(m[1])})", scope) for scope in scopes]
        base, mark, number = name.partition("#")
        return "/".join([*said, self._general_handle(base) + mark + number])

    def general_decision(self, decision: Decision) -> Decision:
        """A decision, in roles: a place is a loop, and an option may name blocks and buffers."""
        if isinstance(decision, Ref):
            return Ref(self._general_loop(decision.name))
        if isinstance(decision, str):
            return _WORD.sub(lambda m: self._named(m[0], self.buffers, self.blocks) or m[0], decision)
        return decision

    def _general_handle(self, name: str) -> str:
        return self._named(name, self.blocks) or self._general_block(name) or self._general_loop(name)

    def _general_block(self, name: str) -> str | None:
        """A block that a primitive made of another: `C.A.read`, `C.rf`."""
        base = max((b for b in self.blocks if name.startswith(f"{b}.")), key=len, default=None)
        if base is None:
            return None
        parts = name.removeprefix(base).split(".")
        return _brace(self.blocks[base]) + ".".join(self._named(p, self.buffers) or p for p in parts)

    def _general_loop(self, name: str) -> str:
        """A loop that primitives made of others: `i_0`, `i_0_j_0_fused`."""
        known, out, rest = sorted(self.loops, key=len, reverse=True), "", name
        while rest:
            base = next((k for k in known if rest == k or rest.startswith(f"{k}_")), None)
            part = base if base is not None else rest.partition("_")[0]
            out += _brace(self.loops[base]) if base is not None else part
            rest = rest[len(part) :]
            if rest:
                out, rest = f"{out}_", rest[1:]
        return out

    @staticmethod
    def _named(name: str, *tables: Mapping[str, str]) -> str | None:
        found = next((table[name] for table in tables if name in table), None)
        return None if found is None else _brace(found)

    # --- to names

    def own_texts(self, text: str) -> Iterator[str]:
        """What a text in roles is in this program's names: several where a role has several, none where it has none."""
        roles = list(dict.fromkeys(_IN_BRACES.findall(text)))
        for names in product(*(self.own.get(role, ()) for role in roles)):
            chosen = dict(zip(roles, names, strict=True))
            yield _IN_BRACES.sub(lambda m, chosen=chosen: chosen[m[1]], text)  # type: ignore[misc]

    def own_decision(self, decision: Decision) -> Decision | None:
        """A decision in this program's names; None for one about what it does not have."""
        if isinstance(decision, Ref):
            name = next(self.own_texts(decision.name), None)
            return None if name is None else Ref(name)
        if isinstance(decision, str):
            return next(self.own_texts(decision), None)
        return decision


def _brace(role: str) -> str:
    return f"{{{role}}}"


def _split(address: str) -> list[str]:
    """The scopes of an address and its name: a block's name holds no slash."""
    return address.split("/")


def _local_loops(block: Block) -> Iterator[tuple[str, str]]:
    """The names of the loops that computing a block at a place makes, each with the role of that loop."""
    for it in block.iters:
        yield f"{it.name}_{block.name}", f"{it.name}_of_{block.name}"


def _loops_of(func: Func, block: Block) -> list[For]:
    return [stmt for stmt in query.path_to(func, block) if isinstance(stmt, For)]


def _assign_roles(func: Func, anchor: str) -> dict[str, str]:
    """The role of each block that is connected with the anchor, by the shortest way there, the others by number."""
    blocks = query.blocks(func)
    found = {anchor: ANCHOR}
    waiting = [anchor]
    for name in waiting:
        for step, other in _neighbour_blocks(blocks, name):
            if other not in found:
                found[other] = f"{found[name]}{step}"
                waiting.append(other)
    last = next(reversed(list(followers(func, anchor))), None)
    if last is not None:
        found[last] = WRITER
    apart = [block.name for block in blocks if block.name not in found]
    return found | {name: f"other{n}" for n, name in enumerate(apart)}


def _neighbour_blocks(blocks: Iterable[Block], name: str) -> Iterator[tuple[str, str]]:
    """The blocks that compute what one reads, and those that read its result, with the step that leads to each."""
    everything = list(blocks)
    block = next(b for b in everything if b.name == name)
    writers = {b.store.buffer: b.name for b in everything}
    for n, buffer in enumerate(operands(block)):
        if buffer in writers:
            yield f"<{n}", writers[buffer]
    readers = [b.name for b in everything if block.store.buffer in operands(b)]
    for n, other in enumerate(readers):
        yield f">{n}", other


def followers(func: Func, anchor: str) -> Iterator[str]:
    """The blocks that follow a block one after the other: each alone reads the one before, each element where it is, or
    for all of a row.
    """
    blocks = query.blocks(func)
    at: str | None = anchor
    while at is not None:
        result = next(b.store.buffer for b in blocks if b.name == at)
        readers = [b for b in blocks if result in operands(b)]
        at = readers[0].name if len(readers) == 1 and _reads_in_place(readers[0], result) else None
        if at is not None:
            yield at


def _reads_in_place(block: Block, buffer: str) -> bool:
    """Whether a block is no reduction and reads elements of a buffer by its own variables, in another order or fewer of
    them, but no neighbours.
    """
    variables = {it.name for it in block.iters}
    reads = [node.indices for node in query.loads(block.store.value) if node.buffer == buffer]
    alone = all((isinstance(i, Var) and i.name in variables) or isinstance(i, Const) for found in reads for i in found)
    return block.reducer is None and alone

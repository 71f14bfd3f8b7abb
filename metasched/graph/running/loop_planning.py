"""Where values of loops are, and what is done around their steps.

Roots that loops move are addresses of a call's own: a state is read where the step before has written it, and of what a
loop goes through, or puts together, each step has one element, in place. So nothing is copied from step to step, but
what is no result of a kernel of the body.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum, auto

from metasched.dtypes import DType
from metasched.graph.ir import Compute
from metasched.graph.loops.flat_graph import FlatElements, FlatGraph, FlatLoop, FlatState
from metasched.graph.running.execution_plan import ARENA, RootOffset, TableAction
from metasched.graph.running.plan import Lifetime, LoopUses, ValuePlace
from metasched.support.data_classes import dataclass

_WORD = 8  # bytes of a number of a loop's own
_BYTE = 1


class StateWay(Enum):
    """How a state gets to the next step."""

    SAME = auto()  # no step changes it
    IN_PLACE = auto()  # a step writes what is new into it
    FOLLOWS = auto()  # it is the element that the step has made of a value that is put together
    IN_TURNS = auto()  # a step writes it to one of two places, and reads it from the other
    COPIED = auto()  # the same, by a copy


@dataclass(frozen=True)
class Action:
    """An entry of a table that runs no kernel. Places are of values by name, or the numbers of roots with an offset."""

    action: TableAction
    places: tuple[RootOffset, ...] = ()
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class LoopMemory:
    """The memory of all loops of a graph.

    Attributes:
        moving: roots that loops move, by names: of values, or of no value.
        uses: what lifetimes go by.
        ways: how each state goes on, by its name.
        direct: values that are put together of what steps write there, and copy nothing.
        reads: roots that are read by no node.

    """

    moving: tuple[str, ...] = ()
    uses: LoopUses = field(default_factory=LoopUses)
    ways: Mapping[str, StateWay] = field(default_factory=dict)
    direct: frozenset[str] = frozenset()
    reads: tuple[str, ...] = ()


def loop_memory(flat: FlatGraph, place: Mapping[str, ValuePlace]) -> LoopMemory:
    """How the values of a graph's loops are placed."""
    return _Placing(flat, place).memory() if flat.loops else LoopMemory()


def moved_parts(flat: FlatGraph) -> Iterator[str]:
    """Parts of states of loops that begin at a position, which a step computes."""
    parts = flat.graph.parts.items()
    return (name for name, part in parts if part.position is not None and part.of not in flat.graph.states)


# Names of memory and roots that no value has.


def _root_name(what: str, name: str) -> str:
    return f"\0{what} {name}"


def _first_root(name: str) -> str:
    return _root_name("first place of", name)


def _second(name: str) -> str:
    return _root_name("second place of", name)


def _spare_root(name: str) -> str:
    return _root_name("other place of", name)


def _next_root(name: str) -> str:
    return _root_name("next", name)


def _here(name: str) -> str:
    return _root_name("here", name)


def _cursor(name: str) -> str:
    return _root_name("place of", name)


def _cell(what: str, loop: FlatLoop, number: int) -> str:
    return _root_name(f"{what} of loop", f"{number} {loop.name}")


class _Placing:
    def __init__(self, flat: FlatGraph, place: Mapping[str, ValuePlace]) -> None:
        self._flat = flat
        self._types = flat.graph.types
        self._place = place
        self._moving: dict[str, None] = dict.fromkeys(moved_parts(flat))
        self._changed = {place[flat.graph.parts[name].of].root for name in self._moving}
        self._ways: dict[str, StateWay] = {}
        # By what is put together of elements that are written there: the root of these.
        self._direct: dict[str, str] = {}
        self._uses: list[tuple[str, int]] = []
        self._pieces: list[Lifetime] = []
        self._backing: list[tuple[str, tuple[str, ...]]] = []

    def memory(self) -> LoopMemory:
        flat = self._flat
        for number, loop in enumerate(flat.loops):
            self._add(number, loop)
        for number, loop in enumerate(flat.loops):
            self._flag(number, loop)
        in_place = {name: flat.graph.parts[name].position for name in moved_parts(flat)}
        for number, node in enumerate(flat.graph.nodes):
            for position in (in_place.get(name) for name in node.outputs):
                if position is not None:
                    self._use(position.input, number)
        stretches = [(loop.first, loop.end) for loop in flat.loops]
        uses = LoopUses(stretches, self._uses, self._pieces, self._backing)
        roots = tuple(dict.fromkeys(root for root, _ in self._uses))
        return LoopMemory(tuple(self._moving), uses, self._ways, frozenset(self._direct), roots)

    def _use(self, name: str, number: int) -> None:
        self._uses.append((self._place[name].root if name in self._place else name, number))

    def _add(self, number: int, loop: FlatLoop) -> None:
        first, last = loop.first, max(loop.first, loop.end - 1)
        own = self._kernel_roots(loop)
        for name in (loop.limit, loop.condition):
            if name is not None:
                self._use(name, first)
        for what, name in (("step", loop.counter), ("steps", loop.steps), ("limit", None), ("true", None)):
            cell = _cell(what, loop, number) if name is None else name
            self._pieces.append(Lifetime(cell, _WORD, first, last))
        for row in loop.reads:
            self._moving[row.name] = None
            self._use(row.whole, first)
            self._use(row.whole, last)
            self._backing.append((row.name, (self._place[row.whole].root,)))
        for row in loop.makes:
            self._make(row, first, last, own)
        for state in loop.states:
            self._state(state, loop, last, own)

    def _flag(self, number: int, loop: FlatLoop) -> None:
        """Once all loops are known: a loop in this one may move what says whether it goes on."""
        first, last = loop.first, max(loop.first, loop.end - 1)
        if loop.goes_on is not None:
            self._use(loop.goes_on, last)
            if self._place[loop.goes_on].root in self._moving:
                self._pieces.append(Lifetime(_cell("goes on", loop, number), _WORD, first, last))

    def _kernel_roots(self, loop: FlatLoop) -> set[str]:
        """Roots that kernels of a body write, and not those of loops in it."""
        inside = [other for other in self._flat.loops if other.depth > loop.depth and loop.contains(other.first)]
        nodes = self._flat.graph.nodes
        numbers = (n for n in range(loop.first, loop.end) if not any(other.contains(n) for other in inside))
        found = {self._place[name].root for n in numbers if isinstance(nodes[n], Compute) for name in nodes[n].outputs}
        return found - self._moving.keys()

    def _is_whole(self, name: str) -> bool:
        """Whether a value is all of its root."""
        root, offset = self._place[name].root, self._place[name].offset
        return not offset and self._types[root].nbytes == self._types[name].nbytes

    def _make(self, row: FlatElements, first: int, last: int, own: set[str]) -> None:
        self._use(row.whole, first)
        self._use(row.whole, last)
        self._use(row.name, last)
        root = self._place[row.name].root
        if root in own and root not in self._moving and self._is_whole(row.name):
            self._direct[row.whole] = root
            self._moving[root] = None
        else:
            self._moving[_cursor(row.whole)] = None

    def _state(self, state: FlatState, loop: FlatLoop, last: int, own: set[str]) -> None:
        first = loop.first
        self._moving[state.name] = None
        self._use(state.initial, first)
        self._use(state.following, last)
        way = self._ways[state.name] = self._way(state, own)
        nbytes, following = self._types[state.name].nbytes, self._place[state.following].root
        held = [] if way is StateWay.IN_PLACE else [self._place[state.initial].root]
        places: list[str] = []
        if way is StateWay.IN_PLACE:
            places = [_here(state.name)]
        elif way is StateWay.FOLLOWS:
            held += [self._place[whole].root for whole, root in self._direct.items() if root == following]
        elif way is not StateWay.SAME:
            name = following if way is StateWay.IN_TURNS else _next_root(state.name)
            # What takes one step at most writes one of them only.
            places = [_first_root(name), _second(name)][: loop.most]
            self._moving |= dict.fromkeys([name, _spare_root(name)])
        self._pieces += [Lifetime(name, nbytes, first, last) for name in places]
        self._backing.append((state.name, (*held, *places)))

    def _way(self, state: FlatState, own: set[str]) -> StateWay:
        root, is_whole = self._place[state.following].root, self._is_whole(state.following)
        if root == state.name and is_whole:
            return StateWay.IN_PLACE if root in self._changed else StateWay.SAME
        if is_whole and root in self._direct.values():
            return StateWay.FOLLOWS
        return StateWay.IN_TURNS if is_whole and root in own and root not in self._moving else StateWay.COPIED


@dataclass(frozen=True)
class Locations:
    """Where everything of a graph is.

    Attributes:
        numbers: of roots with a number of their own, by name.
        weights: offsets among the weights.
        arena: offsets in the arena.

    """

    place: Mapping[str, ValuePlace]
    numbers: Mapping[str, int]
    weights: Mapping[str, RootOffset]
    arena: Mapping[str, int]

    def locate(self, name: str, more: int = 0) -> RootOffset:
        """Where a value is, or memory that is no value's; `more` bytes behind it."""
        found = self.place.get(name, ValuePlace(name, 0))
        offset = found.offset + more
        if found.root in self.numbers:
            return RootOffset(self.numbers[found.root], offset)
        if found.root in self.weights:
            at = self.weights[found.root]
            return RootOffset(at.root, at.offset + offset)
        return RootOffset(ARENA, self.arena[found.root] + offset)


class LoopActions:
    """What is done before a loop, by it, and after each of its steps."""

    def __init__(self, flat: FlatGraph, memory: LoopMemory, locations: Locations) -> None:
        self._flat = flat
        self._types = flat.graph.types
        self._memory = memory
        self._where = locations

    def actions_before(self, number: int) -> Iterator[Action]:
        """The actions that come before a loop, which is given by its number."""
        loop, at = self._flat.loops[number], self._where.locate
        if loop.limit is None:
            yield Action(TableAction.STORE, (at(_cell("limit", loop, number)),), (loop.most,))
        if loop.condition is None or loop.goes_on is None:
            yield Action(TableAction.STORE, (at(_cell("true", loop, number)),), (1,))
        for row in loop.reads:
            yield self._point(row.name, self._first_element(loop, row))
        for row in loop.makes:
            yield self._point(self._element_root(row), self._first_element(loop, row))
        for state in loop.states:
            yield from self._begin_state(state)

    def _begin_state(self, state: FlatState) -> Iterator[Action]:
        at, way = self._where.locate, self._memory.ways[state.name]
        if way is StateWay.IN_PLACE:
            here = at(_here(state.name))
            yield Action(TableAction.COPY, (here, at(state.initial)), (self._types[state.name].nbytes,))
            yield self._point(state.name, here)
            return
        yield self._point(state.name, at(state.initial))
        if way in (StateWay.IN_TURNS, StateWay.COPIED):
            name = self._next_state_root(state)
            yield self._point(name, at(_first_root(name)))
            other = _second(name) if _second(name) in self._where.arena else _first_root(name)
            yield self._point(_spare_root(name), at(other))

    def loop(self, number: int, count: int) -> Action:
        """The loop itself, which runs so many entries behind it."""
        loop, at = self._flat.loops[number], self._where.locate
        true = at(_cell("true", loop, number))
        places = (
            at(_cell("limit", loop, number) if loop.limit is None else loop.limit),
            true if loop.condition is None else at(loop.condition),
            true if loop.goes_on is None else at(self._flag(number)),
            at(_cell("step", loop, number) if loop.counter is None else loop.counter),
            at(_cell("steps", loop, number) if loop.steps is None else loop.steps),
        )
        return Action(TableAction.LOOP, places, (count, loop.most))

    def actions_after_step(self, number: int) -> Iterator[Action]:
        """The actions after each step of a loop: first those that read its values, then those that move them."""
        loop, at = self._flat.loops[number], self._where.locate
        if loop.goes_on is not None and self._flag(number) != loop.goes_on:
            yield Action(TableAction.COPY, (at(self._flag(number)), at(loop.goes_on)), (_BYTE,))
        for row in loop.makes:
            if row.whole not in self._memory.direct:
                yield Action(TableAction.COPY, (at(_cursor(row.whole)), at(row.name)), (self._types[row.name].nbytes,))
        for state in loop.states:
            if self._memory.ways[state.name] is StateWay.COPIED:
                places = (at(_next_root(state.name)), at(state.following))
                yield Action(TableAction.COPY, places, (self._types[state.name].nbytes,))
        for state in loop.states:
            yield from self._advance_state(state)
        for row in (*loop.reads, *loop.makes):
            name = self._element_root(row) if row in loop.makes else row.name
            nbytes = self._types[row.name].nbytes
            yield Action(TableAction.ADVANCE, (), (self._number(name), -nbytes if row.backwards else nbytes))

    def _advance_state(self, state: FlatState) -> Iterator[Action]:
        way = self._memory.ways[state.name]
        if way is StateWay.FOLLOWS:
            yield self._point(state.name, self._where.locate(state.following))
        elif way in (StateWay.IN_TURNS, StateWay.COPIED):
            name = self._next_state_root(state)
            yield self._point(state.name, RootOffset(self._number(name), 0))
            yield Action(TableAction.SWAP, (), (self._number(name), self._number(_spare_root(name))))

    def place_part(self, name: str) -> Action:
        """The action that finds the place of a part of a state, before the kernel that writes it."""
        graph, at = self._flat.graph, self._where.locate
        part = graph.parts[name]
        assert part.position is not None, name
        size = graph.types[name].dtype.bytes
        position = graph.types[part.position.input].dtype
        assert position in POSITIONS, position
        numbers = (
            self._number(name),
            part.position.step * size,
            part.position.lowest,
            part.position.highest,
            position.bits,
        )
        return Action(TableAction.PLACE, (at(part.of, part.offset * size), at(part.position.input)), numbers)

    # --- names

    def _number(self, name: str) -> int:
        return self._where.numbers[name]

    def _point(self, name: str, at: RootOffset) -> Action:
        return Action(TableAction.POINT, (at,), (self._number(name),))

    def _element_root(self, row: FlatElements) -> str:
        """The root at which a step's element is put."""
        return self._where.place[row.name].root if row.whole in self._memory.direct else _cursor(row.whole)

    def _first_element(self, loop: FlatLoop, row: FlatElements) -> RootOffset:
        behind = (loop.most - 1) * self._types[row.name].nbytes if row.backwards else 0
        return self._where.locate(row.whole, behind)

    def _next_state_root(self, state: FlatState) -> str:
        """The root where a step writes a state."""
        in_turns = self._memory.ways[state.name] is StateWay.IN_TURNS
        return self._where.place[state.following].root if in_turns else _next_root(state.name)

    def _flag(self, number: int) -> str:
        """The place that says after a step whether there is another: a cell where the step's end moves the value
        itself.
        """
        loop = self._flat.loops[number]
        assert loop.goes_on is not None, loop
        moves = self._where.place[loop.goes_on].root in self._memory.moving
        return _cell("goes on", loop, number) if moves else loop.goes_on


# The types of a position that a table reads.
POSITIONS: Sequence[DType] = (DType.I32, DType.I64)

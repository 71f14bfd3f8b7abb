"""What was found for products of matrices, as what is known of the same with several indices of rows, or of a batch.

Pixels, and words of several sentences, are rows of a product: `Y[h, w, o]` sums `X[h, w, c] * W[c, o]` as `Y[m, o]`
sums `X[m, c] * W[c, o]`. Windows and heads of attention are a batch of products: `S[w, h, i, j]` sums `Q[w, h, i, k] *
K[w, j, h, k]` as `S[b, i, j]` sums `Q[b, i, k] * K[b, j, k]`. These are other kinds, for which the same schedules are
good. What is known of the kind with one index is known of it, too: a tile of that is one of the last of the indices,
and where it is larger, of the one before.

*Rows* are the first indices of the result, where they stand alone, one after the other, in each access that has one of
them. Where the first two are none, a *batch* are those that stand alone in each access, wherever that is, but for an
access's last, which vectors may run along; then the first ones of what is left are rows. A batch may share an operand
that has the rows alone, as the filter of a convolution by 1 with channels first: `Y[n, o, l]` sums `W[o, c] *
X[n, c, l]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from metasched.knowledge.anchor import Anchor
from metasched.knowledge.entries import Decisions, Entry
from metasched.lang.instructions import HOLE, Decision, Ref
from metasched.support.data_classes import dataclass

_ACCESS = re.compile(r"\[([^\]]*)\]")
_SPATIAL = re.compile(r"\bs(\d+)\b")
_ANY = re.compile(r"\b[sr]\d+\b")
# A loop of the anchor, by the number of its block's variable, and one that is tiled.
_LOOP = re.compile(r"\{anchor\$(\d+)\}")
_TILED = re.compile(r".*/\{anchor\$(\d+)\}")
# How many loops around the tiles run on all threads.
_DEPTH = "parallelize({anchor})/depth"
# An index that does not depend on any variable.
_FIXED_INDEX = "_"

_Access = list[str]


@dataclass(frozen=True)
class JoinedIndices:
    """An anchor with several indices of a batch or of rows: `joined` has one instead.

    `loops` has, for each variable of `joined`, the numbers of the anchor's in its place, and `sizes` their extents.
    """

    joined: Anchor
    loops: tuple[tuple[int, ...], ...]
    sizes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, anchor: Anchor) -> JoinedIndices | None:
        """An anchor with those indices joined that could be one; None where none could, or stand elsewhere, and none is
        fixed.
        """
        found = _groups(anchor.kind)
        kind = None if found is None else _regroup_kind(anchor.kind, found)
        if found is None or kind is None or kind == anchor.kind:
            return None
        groups = found.in_order()
        terms = range(sum(map(len, groups)), len(anchor.extents))
        loops = (*groups, *((n,) for n in terms))
        sizes = tuple(tuple(anchor.extents[n] for n in group) for group in loops)
        return cls(replace(anchor, kind=kind, extents=tuple(map(prod, sizes))), loops, sizes)

    def spread(self, entry: Entry) -> Entry:
        """An entry of the joined kind, as it is for the anchor."""
        structure, numbers = self._spread(entry.structure), self._spread(entry.numbers)
        return replace(entry, structure=tuple(structure), numbers=tuple(numbers))

    def _spread(self, decisions: Decisions) -> Iterator[tuple[str, Decision]]:
        for address, decision in decisions:
            tiled = _TILED.fullmatch(address)
            if not self._knows(address) or (isinstance(decision, Ref) and not self._knows(decision.name)):
                continue
            if tiled is not None and isinstance(decision, tuple):
                joined = int(tiled[1])
                tiles = _tiles(decision, self.sizes[joined]) if len(self.loops[joined]) > 1 else [decision]
                for loop, sizes in zip(self.loops[joined], tiles, strict=True):
                    yield address.replace(f"{{anchor${joined}}}", f"{{anchor${loop}}}"), sizes
            elif address == _DEPTH and isinstance(decision, int):
                yield address, sum(len(group) for group in self.loops[:decision])
            else:
                yield self._rename_loops(address), self._decision(decision)

    def _knows(self, text: str) -> bool:
        """Whether the anchor has all loops that a text names."""
        return all(int(number) < len(self.loops) for number in _LOOP.findall(text))

    def _rename_loops(self, text: str) -> str:
        """A text about loops; of several in place of one, the last is the one that is tiled."""
        return _LOOP.sub(lambda m: f"{{anchor${self.loops[int(m[1])][-1]}}}", text)

    def _decision(self, decision: Decision) -> Decision:
        if isinstance(decision, Ref):
            return Ref(self._rename_loops(decision.name))
        return self._rename_loops(decision) if isinstance(decision, str) else decision


def _tiles(joined: Sequence[Decision], extents: Sequence[int]) -> list[tuple[Decision, ...]]:
    """The sizes of each index's tiles, where those of all together are given; the outermost follows from the others."""
    left = list(extents)
    sizes: list[tuple[Decision, ...]] = [()] * len(left)
    for size in reversed(joined[1:]):
        parts = _share(max(size, 1) if isinstance(size, int) else 1, left)
        left = [-(-extent // part) for extent, part in zip(left, parts, strict=True)]
        sizes = [(part, *inner) for part, inner in zip(parts, sizes, strict=True)]
    return [(HOLE, *inner) for inner in sizes]


def _share(size: int, extents: list[int]) -> list[int]:
    """Sizes along each extent whose product is about `size`: the last extent first, in equal parts."""
    parts = []
    for extent in reversed(extents):
        count = -(-extent // size)
        parts.append(-(-extent // count))
        size = max(size // extent, 1)
    return parts[::-1]


@dataclass(frozen=True)
class _Groups:
    """The numbers of a kind's spatial variables, those together that one could be: a batch, if there is one, and others
    in the order of the result.
    """

    batch: tuple[int, ...]
    others: tuple[tuple[int, ...], ...]

    def in_order(self) -> tuple[tuple[int, ...], ...]:
        return (self.batch, *self.others) if self.batch else self.others


def _groups(kind: str) -> _Groups | None:
    """The groups of a kind; None where a value depends on an index."""
    accesses = [access[1].split(", ") for access in _ACCESS.finditer(kind)]
    if _SPATIAL.search(_ACCESS.sub("", kind)):
        return None
    result = accesses[0]
    if not all(_SPATIAL.fullmatch(index) for index in result):
        return None
    count = _rows(result, accesses)
    batch: list[str] = []
    if count == 1:
        last = {access[-1] for access in accesses}
        apart = [access for access in accesses if result[-1] in access]
        own = apart if _has_one_row_operand(result, accesses, apart) else accesses
        alone = (index for index in result if all(_stands_alone(index, access) for access in own))
        batch = [index for index in alone if index not in last]
        result = [index for index in result if index not in batch]
        count = _rows(result, accesses)
    others = [result[:count], *([index] for index in result[count:])]
    return _Groups(_numbers(batch), tuple(_numbers(group) for group in others if group))


def _has_one_row_operand(result: _Access, accesses: Sequence[_Access], columns: Sequence[_Access]) -> bool:
    """Whether what lacks the result's last index is one operand, which has one of its indices and a term's."""
    rows = [access for access in accesses if access not in columns]
    if len(rows) != 1 or not all(_ANY.fullmatch(index) for index in rows[0]):
        return False
    return sum(index in result for index in rows[0]) == 1


def _numbers(indices: Sequence[str]) -> tuple[int, ...]:
    return tuple(int(index[1:]) for index in indices)


def _rows(indices: Sequence[str], accesses: Sequence[_Access]) -> int:
    """How many of some indices are rows, if any; else one."""
    counts = range(len(indices), 1, -1)
    return next((n for n in counts if all(_are_consecutive(indices[:n], access) for access in accesses)), 1)


def _stands_alone(index: str, access: _Access) -> bool:
    """Whether an access has an index by itself, once."""
    return sum(index in _ANY.findall(text) for text in access) == 1 and index in access


def _are_consecutive(indices: Sequence[str], access: _Access) -> bool:
    """Whether an access has indices one after the other, each by itself, or none of them."""
    used = {name for text in access for name in _ANY.findall(text)}
    if not used & set(indices):
        return True
    if not all(_stands_alone(index, access) for index in indices):
        return False
    start = access.index(indices[0])
    return access[start : start + len(indices)] == list(indices)


def _regroup_kind(kind: str, groups: _Groups) -> str:
    """The kind with an index for each group: that of a batch comes first, others keep their order."""
    ordered = groups.in_order()
    named = {f"s{group[0]}": f"s{n}" for n, group in enumerate(ordered)}
    further = {f"s{n}" for group in ordered for n in group[1:]}

    def written(found: re.Match[str]) -> str:
        kept = [index for index in found[1].split(", ") if index not in further and index != _FIXED_INDEX]
        indices = [_ANY.sub(lambda m: named.get(m[0], m[0]), index) for index in kept]
        if groups.batch:
            indices = ["s0", *(index for index in indices if index != "s0")]
        return f"[{', '.join(indices)}]"

    return _ACCESS.sub(written, kind)

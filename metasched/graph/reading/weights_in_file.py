"""A model's message without its large weights, which stay where they are in the file.

Protobuf would copy them all: a model of 530 MB was in memory twice, and took 4 s to be read. So the file is walked by
its fields, and in place of every large `raw_data` of a tensor there is a key, by which its place in the file is known.
"""

from __future__ import annotations

import mmap
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from metasched.support.data_classes import dataclass

# The least that stays in the file; what is smaller is read with the message.
LEAST_BYTES = 1 << 16
_KEY_BYTES = 16
# Messages deeper than that have no weights that are looked for: protobuf itself reads a hundred.
_DEEPEST = 32
# Numbers and texts of one message after which no weights are looked for in it: the nodes of an ensemble of trees are
# lists of a million each, a field for every number, and a tensor has a few before its elements.
_MOST_PLAIN_FIELDS = 4096
# How protobuf writes fields: https://protobuf.dev/programming-guides/encoding/
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FIXED_FIELD_BYTES: Mapping[int, int] = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_MOST_VARINT_BYTES = 10
_TENSOR, _ELEMENTS = "TensorProto", "raw_data"


class FilePlace(NamedTuple):
    """Bytes of a file."""

    offset: int
    length: int


@dataclass(frozen=True)
class CutMessage:
    """A message whose large weights are keys, and the place of each in the file.

    Keys are drawn at random for every file that is read, so that no file can have one.
    """

    data: bytes
    places: Mapping[bytes, FilePlace]


class _Field(NamedTuple):
    """A field: its number, where it begins, where its contents do, and where it ends."""

    number: int
    kind: int
    begin: int
    inside: int
    end: int


def cut(pages: mmap.mmap, message_type: Any) -> CutMessage:
    """A file's message without its large weights; `message_type` is protobuf's descriptor of it.

    What is no such message is returned as it is.
    """
    cutting = _Cutting(pages)
    try:
        pieces = cutting.pieces(message_type, 0, len(pages), 0)
    except _DamagedMessage:
        return CutMessage(pages[:], {})
    return CutMessage(b"".join(pieces), cutting.places)


class _DamagedMessage(Exception):
    """The bytes are not fields of protobuf."""


@dataclass
class _Cutting:
    pages: mmap.mmap
    places: dict[bytes, FilePlace] = field(default_factory=dict)

    def pieces(self, message_type: Any, begin: int, end: int, depth: int) -> list[bytes]:
        """What a message becomes, in pieces: fields that stay as they are, and those that do not."""
        found, kept = [], begin
        plain, seen = {one.number for one in message_type.fields if one.message_type is None}, 0
        for each in self._fields(begin, end):
            seen += each.number in plain
            if seen > _MOST_PLAIN_FIELDS:
                break
            if each.kind != _BYTES or each.end - each.inside < LEAST_BYTES:
                continue
            said = message_type.fields_by_number.get(each.number)
            inside = None if said is None else self._cut_contents(said, each, depth)
            if inside is not None:
                found += [self.pages[kept : each.begin], _number(each.number << 3 | _BYTES)]
                found += [_number(sum(map(len, inside))), *inside]
                kept = each.end
        return [*found, self.pages[kept:end]]

    def _cut_contents(self, said: Any, each: _Field, depth: int) -> list[bytes] | None:
        """What the contents of a large field become; None where they stay."""
        if said.message_type is not None:
            return self.pieces(said.message_type, each.inside, each.end, depth + 1) if depth < _DEEPEST else None
        if said.containing_type.name != _TENSOR or said.name != _ELEMENTS:
            return None
        key = secrets.token_bytes(_KEY_BYTES)
        self.places[key] = FilePlace(each.inside, each.end - each.inside)
        return [key]

    def _fields(self, at: int, end: int) -> Iterator[_Field]:
        """The fields between two places. Raises _Damaged."""
        while at < end:
            begin = at
            tag, at = self._varint(at, end)
            kind = tag & 7
            inside = at
            if kind == _VARINT:
                _, at = self._varint(at, end)
            elif kind == _BYTES:
                length, inside = self._varint(at, end)
                at = inside + length
            elif kind in _FIXED_FIELD_BYTES:
                at += _FIXED_FIELD_BYTES[kind]
            else:
                raise _DamagedMessage
            if at > end:
                raise _DamagedMessage
            yield _Field(tag >> 3, kind, begin, inside, at)

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """A number, and the place behind it."""
        value = 0
        for n in range(min(_MOST_VARINT_BYTES, end - at)):
            byte = self.pages[at + n]
            value |= (byte & 0x7F) << 7 * n
            if byte < 0x80:
                return value, at + n + 1
        raise _DamagedMessage


def _number(value: int) -> bytes:
    """A number as protobuf writes it."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)

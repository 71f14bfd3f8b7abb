"""What an ELF object of 64 bits refers to and does not define: functions of libraries, by name."""

from __future__ import annotations

import struct

_SYMBOL_TABLE = 2
_BYTES_OF_SECTION, _BYTES_OF_SYMBOL = 64, 24


def undefined_symbols(data: bytes) -> list[str]:
    """The names that code has to be given addresses for before it runs."""
    sections_at, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + _BYTES_OF_SECTION * n) for n in range(count)]
    found = []
    for section in sections:
        if section[1] != _SYMBOL_TABLE:
            continue
        start, size, names = section[4], section[5], sections[section[6]][4]
        for at in range(start, start + size, _BYTES_OF_SYMBOL):
            name_at, _, _, defined_in = struct.unpack_from("<IBBH", data, at)
            if name_at and not defined_in:
                found.append(data[names + name_at : data.index(b"\0", names + name_at)].decode())
    return found

"""Small Arm ELF files made by hand: code, a symbol table, and no compiler."""

from __future__ import annotations

import struct
from collections.abc import Mapping

STT_OBJECT, STT_FUNC = 1, 2


def arm_elf(
    code: bytes,
    functions: Mapping[str, tuple[int, int]],
    *,
    at: int = 0x10000000,
    data: Mapping[str, tuple[int, int]] = {},
) -> bytes:
    """An ELF whose one segment is ``code`` at ``at``; symbols are (address, size) by name."""
    names = b"\0"
    symbols = bytes(16)
    for kind, table in ((STT_FUNC, functions), (STT_OBJECT, data)):
        for text, (address, size) in table.items():
            symbols += struct.pack("<IIIBBH", len(names), address, size, 0x10 | kind, 0, 1)
            names += text.encode() + b"\0"
    section_names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0"
    head = 52 + 32
    places = []
    body = b""
    for part in (code, symbols, names, section_names):
        body += bytes(-len(body) % 4)
        places.append((head + len(body), len(part)))
        body += part
    body += bytes(-len(body) % 4)
    sections = bytes(40)
    for name, kind, flags, address, place, link, entry in (
        (1, 1, 6, at, places[0], 0, 0),
        (7, 2, 0, 0, places[1], 3, 16),
        (15, 3, 0, 0, places[2], 0, 0),
        (23, 3, 0, 0, places[3], 0, 0),
    ):
        info = 1 if kind == 2 else 0
        sections += struct.pack("<10I", name, kind, flags, address, *place, link, info, 4, entry)
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack(
        "<HHIIIIIHHHHHH", 2, 40, 1, at, 52, head + len(body), 0, 52, 32, 1, 40, 5, 4
    )
    segment = struct.pack("<8I", 1, places[0][0], at, at, len(code), len(code), 5, 4)
    return header + segment + body + sections

"""What an ELF holds: sections and symbols, for comparing images; and whether it is all there."""

from __future__ import annotations

import struct
from pathlib import Path

from harness.errors import ToolError


def image_shape(path: Path) -> dict[str, str]:
    """What occupies memory, by name: each section's size and each symbol's sizes, in bytes.

    Addresses are no part of it: arduino-cli archives the core's objects in the order in which its
    parallel compilers finish.  Raises :class:`ToolError` when the file is not an ELF.
    """
    # Imported here: it takes a tenth of a second, and only a new library is compared.
    from elftools.common.exceptions import ELFError
    from elftools.elf.constants import SH_FLAGS
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as stream:
            elf = ELFFile(stream)
            shape = {
                f"section {section.name}": str(section["sh_size"])
                for section in elf.iter_sections()
                if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section.name not in _NOT_CONTENT
            }
            sizes: dict[str, list[int]] = {}
            table = elf.get_section_by_name(".symtab")
            for symbol in table.iter_symbols() if table is not None else ():
                if symbol["st_size"] and symbol["st_shndx"] != "SHN_UNDEF":
                    sizes.setdefault(f"symbol {symbol.name}", []).append(symbol["st_size"])
            return shape | {name: " ".join(map(str, sorted(all_))) for name, all_ in sizes.items()}
    except (OSError, ELFError, ValueError) as error:
        raise ToolError(
            f"{path.name} is not a readable ELF: {error}", remedy="build the sketch again"
        ) from error


def symbol_address(path: Path, name: str) -> int | None:
    """Where the symbol ``name`` lies, or None when the file does not have it.

    Raises :class:`ToolError` when the file is not an ELF.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as stream:
            table = ELFFile(stream).get_section_by_name(".symtab")
            found = table.get_symbol_by_name(name) if table is not None else None
            for symbol in found or ():
                if symbol["st_shndx"] != "SHN_UNDEF":
                    return int(symbol["st_value"])
    except (OSError, ELFError, ValueError) as error:
        raise ToolError(
            f"{path.name} is not a readable ELF: {error}", remedy="build the sketch again"
        ) from error
    return None


def last_bytes(path: Path, nbytes: int) -> tuple[int, bytes]:
    """Where the image of an ELF ends in flash, and its last bytes, at most ``nbytes`` of them.

    Of the segment that holds the program; what is copied to RAM at the start may lie behind it.
    Raises :class:`ToolError` when the file is not an ELF; gives nothing for one without a program.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.constants import P_FLAGS
    from elftools.elf.elffile import ELFFile

    try:
        with path.open("rb") as stream:
            loaded = [
                (segment["p_vaddr"], segment.data())
                for segment in ELFFile(stream).iter_segments("PT_LOAD")
                if segment["p_flags"] & P_FLAGS.PF_X and segment["p_filesz"]
            ]
    except (OSError, ELFError, ValueError) as error:
        raise ToolError(
            f"{path.name} is not a readable ELF: {error}", remedy="build the sketch again"
        ) from error
    if not loaded:
        return 0, b""
    address, data = max(loaded)
    kept = data[-nbytes:]
    return address + len(data) - len(kept), kept


def is_whole(path: Path) -> bool:
    """Whether an object file was written to its end.

    The assembler writes the section headers last, and the file's own header, which says where they
    are, after them.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as stream:
            head = stream.read(64)
    except OSError:
        return False
    if len(head) < 52 or head[:4] != b"\x7fELF":
        return False
    if head[4] == _CLASS_32:
        (at,), (each, count) = (
            struct.unpack_from("<I", head, 32),
            struct.unpack_from("<HH", head, 46),
        )
    else:
        (at,), (each, count) = (
            struct.unpack_from("<Q", head, 40),
            struct.unpack_from("<HH", head, 58),
        )
    return bool(at) and at + each * count <= size


_CLASS_32 = 1
_NOT_CONTENT = frozenset({".note.gnu.build-id"})
"""It differs whenever anything in the debug information does."""

"""Where a firmware's globals, its pool and what its core reserves lie, read from the ELF."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ToolError

RESERVED = ("__hil_heap_start", "__hil_heap_end", "__hil_stack_start", "__hil_stack_end")
"""Symbols around what the core keeps, as the stand-in's linker script names them.  Inferred that a
real core exports no such symbols: there the board file's numbers are used."""


@dataclass(frozen=True)
class Region:
    """Addresses from ``start`` up to, not including, ``end``."""

    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Its length."""
        return self.end - self.start

    def overlap_bytes(self, other: Region) -> int:
        """Bytes that both have."""
        return max(0, min(self.end, other.end) - max(self.start, other.start))

    def __contains__(self, address: int) -> bool:
        return self.start <= address < self.end


@dataclass(frozen=True)
class Image:
    """The RAM of one firmware: the pool, everything static around it, and the reservation.

    ``globals`` is from the first to the last byte that holds a named variable, the pool included.
    ``reserved`` is None where the ELF does not say.
    """

    pool: Region
    globals: Region
    reserved: Region | None


def read_image(elf: Path, pool_name: str, *, ram_bytes: int) -> Image:
    """The image in ``elf``, for a board with ``ram_bytes`` of RAM around its pool.

    Raises :class:`ToolError` when it holds no such pool.
    """
    # Imported here: it takes a tenth of a second, and most commands read no ELF.
    from elftools.common.exceptions import ELFError
    from elftools.elf.constants import SH_FLAGS
    from elftools.elf.elffile import ELFFile

    writable = SH_FLAGS.SHF_WRITE | SH_FLAGS.SHF_ALLOC
    variables: list[tuple[str, Region]] = []
    places: dict[str, int] = {}
    try:
        with elf.open("rb") as stream:
            parsed = ELFFile(stream)
            in_ram = {
                number: Region(section["sh_addr"], section["sh_addr"] + section["sh_size"])
                for number, section in enumerate(parsed.iter_sections())
                if section["sh_flags"] & writable == writable
            }
            table = parsed.get_section_by_name(".symtab")
            for symbol in table.iter_symbols() if table is not None else ():
                if symbol["st_shndx"] == "SHN_UNDEF":
                    continue
                if symbol.name in RESERVED:
                    places[symbol.name] = symbol["st_value"]
                if symbol["st_info"]["type"] == "STT_OBJECT" and symbol["st_shndx"] in in_ram:
                    start = symbol["st_value"]
                    variables.append((symbol.name, Region(start, start + symbol["st_size"])))
    except (OSError, ELFError, ValueError) as error:
        raise ToolError(
            f"{elf.name} is not a readable ELF: {error}", remedy="build the sketch again"
        ) from error
    mangled = re.compile(rf"(?:_ZL?{len(pool_name)})?{re.escape(pool_name)}")
    pools = [region for name, region in variables if mangled.fullmatch(name)]
    if len(pools) != 1:
        raise ToolError(
            f"{elf.name} has {len(pools)} variables {pool_name!r}, not one",
            remedy="the sketch's pool was optimised away or its symbols were stripped: look at"
            " the link map",
        )
    kept = [places[name] for name in RESERVED if name in places]
    # Tables of addresses in flash are writable by their section's flags.
    near = Region(pools[0].start - ram_bytes, pools[0].end + ram_bytes)
    in_reach = [region for _, region in variables if region.start in near]
    return Image(
        pool=pools[0],
        globals=Region(
            min(region.start for region in in_reach), max(region.end for region in in_reach)
        ),
        reserved=Region(min(kept), max(kept)) if len(kept) == len(RESERVED) else None,
    )

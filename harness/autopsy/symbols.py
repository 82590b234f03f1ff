"""What stands at an address: function, file and line, from the ELF that was flashed.

The symbol table names the function, the DWARF line table the line where there is one.  This only
ever explains another error, so an ELF that is stripped, cut short or damaged is no error here: what
cannot be told is left out, down to the bare address.
"""

from __future__ import annotations

import io
import shutil
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import process
from harness.errors import ToolError

MOST_BYTES = 256 << 20
"""Largest ELF that is looked into; a Uno Q's with all debug information is about 20 MB."""

FAR_BYTES = 1 << 20
"""A symbol without a size ends here at the latest."""

DEMANGLERS = ("arm-none-eabi-c++filt", "c++filt")
DEMANGLE_TIMEOUT_S = 10.0

NONCE_SYMBOL = "hil_build_nonce"
"""Holds the build's nonce as text in flash; every build for a board with a back door has it."""

NONCE_BYTES = 16


@dataclass(frozen=True)
class Place:
    """An address and what is known of it; ``offset`` is bytes from the function's beginning."""

    address: int
    function: str | None = None
    offset: int = 0
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.function is None:
            return f"{self.address:#010x}"
        if self.file is not None:
            return f"{self.function} ({self.file}:{self.line})"
        return f"{self.function}+{self.offset:#x}"


@dataclass(frozen=True)
class Nonce:
    """Where a build keeps its nonce, and what it is."""

    address: int
    text: bytes


@dataclass(frozen=True)
class _Function:
    address: int
    nbytes: int
    name: str


@dataclass(frozen=True)
class Symbols:
    """An ELF's functions and lines.  ``problem`` says in a few words why there are none."""

    functions: Sequence[_Function] = ()
    code: Sequence[tuple[int, bytes]] = ()
    nonce: Nonce | None = None
    problem: str | None = None
    _dwarf: Any = None
    _starts: Sequence[int] = field(default=(), repr=False)

    def place(self, address: int) -> Place:
        """What stands at ``address``; bit 0, which marks Thumb code, is ignored."""
        at = address & ~1
        function = self._function(at)
        if function is None:
            return Place(address)
        file, line = _line_of(self._dwarf, at)
        return Place(address, function.name, at - function.address, file, line)

    def caller(self, link: int) -> Place | None:
        """Where a call was made that returns to ``link``; None when no call stands before it."""
        if not link & 1 or not self._follows_call(link & ~1):
            return None
        # The call itself: the line after it may be another one.
        place = self.place((link & ~1) - 2)
        return place if place.function is not None else None

    def _function(self, address: int) -> _Function | None:
        number = bisect_right(self._starts, address) - 1
        if number < 0:
            return None
        found = self.functions[number]
        ends = self._starts[number + 1 : number + 2]
        nbytes = found.nbytes or min([FAR_BYTES, *(end - found.address for end in ends)])
        return found if address < found.address + nbytes else None

    def _follows_call(self, address: int) -> bool:
        """Whether a Thumb ``bl`` or ``blx`` ends at ``address``."""
        wide, narrow = self._halfword(address - 4), self._halfword(address - 2)
        if narrow is None:
            return False
        if narrow & 0xFF87 in (0x4780, 0x4784):
            return True
        return wide is not None and wide & 0xF800 == 0xF000 and narrow & 0xD000 == 0xD000

    def _halfword(self, address: int) -> int | None:
        for start, data in self.code:
            if start <= address <= start + len(data) - 2:
                return int.from_bytes(data[address - start : address - start + 2], "little")
        return None


def load_symbols(elf: Path | None) -> Symbols:
    """What the ELF tells; never raises, see :attr:`Symbols.problem`."""
    if elf is None:
        return Symbols(problem="no ELF is known")
    try:
        if elf.stat().st_size > MOST_BYTES:
            return Symbols(problem=f"{elf.name} is larger than {MOST_BYTES} bytes")
        data = elf.read_bytes()
    except OSError as error:
        return Symbols(problem=f"{elf.name} cannot be read: {error.strerror or error}")
    return read_symbols(data, elf.name)


def read_symbols(data: bytes, name: str) -> Symbols:
    """:func:`load_symbols` for the bytes of the file called ``name``."""
    # Imported here: it takes a tenth of a second, and only a failure is explained.
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(data))
        functions = sorted(_functions(elf), key=lambda each: (each.address, -each.nbytes))
    except Exception as error:  # damaged input makes pyelftools raise nearly anything
        return Symbols(problem=f"{name} is not a readable ELF: {type(error).__name__}: {error}")
    functions = [
        each
        for n, each in enumerate(functions)
        if not n or functions[n - 1].address != each.address
    ]
    return Symbols(
        functions=functions,
        code=tuple(_loaded(elf)),
        nonce=_nonce(elf),
        problem=None if functions else f"{name} has no function in its symbol table",
        _dwarf=_dwarf_of(elf),
        _starts=[each.address for each in functions],
    )


def demangled(lines: Sequence[str]) -> tuple[str, ...]:
    """The lines with C++ names as people write them, where a demangler is installed."""
    if not any("_Z" in line for line in lines):
        return tuple(lines)
    found = next(filter(None, map(shutil.which, DEMANGLERS)), None)
    if found is None:
        return tuple(lines)
    text = "\n".join(lines).encode("utf-8", "backslashreplace")
    try:
        done = process.run((found, "-p"), timeout_s=DEMANGLE_TIMEOUT_S, stdin=text)
    except ToolError:
        return tuple(lines)
    plain = done.stdout.split("\n")
    return tuple(plain) if done.ok and len(plain) == len(lines) else tuple(lines)


def _functions(elf: Any) -> Iterator[_Function]:
    table = elf.get_section_by_name(".symtab")
    for symbol in table.iter_symbols() if table is not None else ():
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF":
            yield _Function(symbol["st_value"] & ~1, symbol["st_size"], symbol.name)


def _loaded(elf: Any) -> Iterator[tuple[int, bytes]]:
    try:
        for segment in elf.iter_segments("PT_LOAD"):
            if segment["p_flags"] & 1:
                yield segment["p_vaddr"], segment.data()
    except Exception:  # a damaged program header: calls are then not recognized
        return


def _nonce(elf: Any) -> Nonce | None:
    try:
        table = elf.get_section_by_name(".symtab")
        for symbol in (table.get_symbol_by_name(NONCE_SYMBOL) or ()) if table is not None else ():
            address = symbol["st_value"]
            for segment in elf.iter_segments("PT_LOAD"):
                at = address - segment["p_vaddr"]
                if 0 <= at <= segment["p_filesz"] - NONCE_BYTES:
                    return Nonce(address, segment.data()[at : at + NONCE_BYTES])
    except Exception:  # damaged: then the build cannot be told by its nonce
        return None
    return None


def _dwarf_of(elf: Any) -> Any:
    try:
        return elf.get_dwarf_info() if elf.has_dwarf_info() else None
    except Exception:  # damaged debug information: the symbol table still names functions
        return None


def _line_of(dwarf: Any, address: int) -> tuple[str | None, int | None]:
    """File name and line, or nothing."""
    if dwarf is None:
        return None, None
    try:
        for unit in _units(dwarf, address):
            program = dwarf.line_program_for_CU(unit)
            if program is not None and (found := _row(program, address)) is not None:
                return found
    except Exception:  # damaged debug information: the function's name is enough
        return None, None
    return None, None


def _units(dwarf: Any, address: int) -> Iterator[Any]:
    """The compile units that may cover ``address``: the one that says so, else all."""
    aranges = dwarf.get_aranges()
    offset = None if aranges is None else aranges.cu_offset_at_addr(address)
    if offset is not None:
        yield dwarf.get_CU_at(offset)
    else:
        yield from (unit for unit in dwarf.iter_CUs() if _covers(unit, address))


def _covers(unit: Any, address: int) -> bool:
    top = unit.get_top_DIE().attributes
    if "DW_AT_ranges" in top:
        return True
    low, high = top.get("DW_AT_low_pc"), top.get("DW_AT_high_pc")
    if low is None or high is None:
        return False
    end = high.value if high.form == "DW_FORM_addr" else low.value + high.value
    return bool(low.value <= address < end)


def _row(program: Any, address: int) -> tuple[str, int] | None:
    before = None
    for entry in program.get_entries():
        state = entry.state
        if state is None:
            continue
        if before is not None and before.address <= address < state.address:
            files = program["file_entry"]
            # Files count from 1 up to DWARF 4, from 0 since.
            number = before.file if program["version"] >= 5 else before.file - 1
            return Path(files[number].name.decode("utf-8", "replace")).name, before.line
        before = None if state.end_sequence else state
    return None

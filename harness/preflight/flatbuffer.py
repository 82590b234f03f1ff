"""A reader of FlatBuffers tables that trusts nothing in the file.

Every offset is checked before it is followed, every field against the length and the alignment
that a correct writer gives it, and the whole walk against a budget: a few bytes can otherwise
describe a program of any size, by letting a million references point at one table.  The layout is
that of the FlatBuffers "internals" document; no generated code is used.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from harness.errors import DutFailure

# A network for a microcontroller has a few thousand; the walk must end within half a second.
MAX_TABLES = 30_000
MAX_ELEMENTS = 1_000_000

_SIZES = {"b": 1, "B": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8, "d": 8}
_CODECS = {code: struct.Struct(f"<{code}") for code in _SIZES}


class CorruptProgram(DutFailure):
    """A program file says something that cannot be.

    Cause: the file was cut short, damaged on the way, or written by something else.  Remedy: export
    it again, and compare digests end to end.
    """

    def __init__(self, message: str, *, evidence: tuple[str, ...] = ()) -> None:
        super().__init__(
            message,
            remedy="export the model again and compare the file's digest after every copy",
            evidence=evidence,
        )


class FlatBuffer:
    """The bytes of one buffer and what is left of the budget for walking it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._tables_left = MAX_TABLES
        self._elements_left = MAX_ELEMENTS

    def root(self) -> Table:
        """The root table; raises :class:`CorruptProgram`."""
        return self.table_at(self.offset_at(0, "root"), "root")

    def table_at(self, at: int, what: str) -> Table:
        """The table at ``at``; ``what`` names it in messages."""
        self._tables_left -= 1
        if self._tables_left < 0:
            raise CorruptProgram(f"the program refers to more than {MAX_TABLES} tables")
        vtable = at - self.scalar_at(at, "i", what)
        size = self.scalar_at(vtable, "H", f"layout of {what}")
        if size < 4 or size % 2 or vtable + size > len(self.data):
            raise CorruptProgram(f"{what} at byte {at} has a layout of {size} bytes")
        # The table's own length follows, and is not believed: the Python writer lets tables of
        # different lengths share one layout.
        return Table(self, at, vtable, size, what)

    def scalar_at(self, at: int, code: str, what: str) -> int:
        """One little-endian whole number of ``struct`` code ``code``."""
        self._check(at, _SIZES[code], what, align=_SIZES[code])
        value: int = _CODECS[code].unpack_from(self.data, at)[0]
        return value

    def double_at(self, at: int, what: str) -> float:
        """One little-endian double."""
        self._check(at, 8, what, align=8)
        value: float = _CODECS["d"].unpack_from(self.data, at)[0]
        return value

    def offset_at(self, at: int, what: str) -> int:
        """Where the forward reference at ``at`` points."""
        step = self.scalar_at(at, "I", what)
        if step < 4:
            raise CorruptProgram(f"the reference to {what} at byte {at} is {step}")
        return at + step

    def length_at(self, at: int, width: int, what: str) -> int:
        """Number of elements, each ``width`` bytes, of the vector at ``at``."""
        count = self.scalar_at(at, "I", what)
        self._check(at + 4, count * width, what, align=min(width, 8) if count else 1)
        return count

    def elements(self, at: int, code: str, what: str) -> tuple[int, ...]:
        """The whole numbers of the vector at ``at``."""
        count = self.length_at(at, _SIZES[code], what)
        self._spend(count)
        return struct.unpack_from(f"<{count}{code}", self.data, at + 4)

    def doubles(self, at: int, what: str) -> tuple[float, ...]:
        """The doubles of the vector at ``at``."""
        count = self.length_at(at, 8, what)
        self._spend(count)
        return struct.unpack_from(f"<{count}d", self.data, at + 4)

    def text_at(self, at: int, what: str) -> str:
        """The string at ``at``; it must be UTF-8 and end in the zero byte a C reader needs."""
        count = self.length_at(at, 1, what)
        self._spend(count)
        end = at + 4 + count
        if end >= len(self.data) or self.data[end]:
            raise CorruptProgram(f"{what} at byte {at} does not end in a zero byte")
        try:
            return self.data[at + 4 : end].decode("utf-8")
        except UnicodeDecodeError as error:
            raise CorruptProgram(f"{what} at byte {at} is not UTF-8") from error

    def _spend(self, count: int) -> None:
        self._elements_left -= count
        if self._elements_left < 0:
            raise CorruptProgram(f"the program's lists have more than {MAX_ELEMENTS} elements")

    def _check(self, at: int, size: int, what: str, *, align: int) -> None:
        if at < 0 or at + size > len(self.data):
            raise CorruptProgram(
                f"{what} is at bytes {at} to {at + size}, outside the program's {len(self.data)}"
            )
        if at % align:
            # A Cortex-M faults on some of these, and no correct writer makes them.
            raise CorruptProgram(f"{what} is at byte {at}, not aligned to {align}")


@dataclass(frozen=True, slots=True)
class Table:
    """One table.  ``slot`` is the field's number in schema order, a union taking two."""

    buffer: FlatBuffer
    at: int
    vtable: int
    vtable_size: int
    what: str

    def number(self, slot: int, code: str, name: str, default: int = 0) -> int:
        """A whole number, or its default where the writer left it out."""
        at = self._field(slot, name)
        return default if at is None else self.buffer.scalar_at(at, code, f"{self.what}.{name}")

    def double(self, slot: int, name: str) -> float:
        """A double, or 0.0 where the writer left it out."""
        at = self._field(slot, name)
        return 0.0 if at is None else self.buffer.double_at(at, f"{self.what}.{name}")

    def table(self, slot: int, name: str) -> Table | None:
        """A table below this one, or None."""
        at = self._reference(slot, name)
        return None if at is None else self.buffer.table_at(at, f"{self.what}.{name}")

    def text(self, slot: int, name: str) -> str | None:
        """A string, or None."""
        at = self._reference(slot, name)
        return None if at is None else self.buffer.text_at(at, f"{self.what}.{name}")

    def numbers(self, slot: int, code: str, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers, or None."""
        at = self._reference(slot, name)
        return None if at is None else self.buffer.elements(at, code, f"{self.what}.{name}")

    def doubles(self, slot: int, name: str) -> tuple[float, ...] | None:
        """A list of doubles, or None."""
        at = self._reference(slot, name)
        return None if at is None else self.buffer.doubles(at, f"{self.what}.{name}")

    def byte_count(self, slot: int, name: str) -> int:
        """Length of a list of bytes whose content is of no interest; 0 where there is none."""
        at = self._reference(slot, name)
        return 0 if at is None else self.buffer.length_at(at, 1, f"{self.what}.{name}")

    def tables(self, slot: int, name: str) -> tuple[Table, ...] | None:
        """A list of tables, or None."""
        at = self._reference(slot, name)
        if at is None:
            return None
        what = f"{self.what}.{name}"
        steps = self.buffer.elements(at, "I", what)
        found = []
        for number, step in enumerate(steps):
            if step < 4:
                raise CorruptProgram(f"the reference to {what}[{number}] is {step}")
            found.append(self.buffer.table_at(at + 4 + 4 * number + step, f"{what}[{number}]"))
        return tuple(found)

    def _reference(self, slot: int, name: str) -> int | None:
        at = self._field(slot, name)
        return None if at is None else self.buffer.offset_at(at, f"{self.what}.{name}")

    def _field(self, slot: int, name: str) -> int | None:
        entry = 4 + 2 * slot
        if entry + 2 > self.vtable_size:
            return None
        offset = self.buffer.scalar_at(self.vtable + entry, "H", self.what)
        if not offset:
            return None
        if offset < 4:
            raise CorruptProgram(f"{self.what}.{name} is at {offset}, inside the table's head")
        return self.at + offset

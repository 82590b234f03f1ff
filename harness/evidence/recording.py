"""A recorded conversation: the raw bytes of ``serial/`` with the times and marks of its index.

What is read is checked against itself: offsets without gaps, no byte beyond the files, times that
do not go back.  A run that was killed may lack the end of a last line, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.evidence.plain import Damaged, Plain, damaged, decode

MAX_ENTRIES = 3_000_000
"""Most pieces and marks of one run; an emulated board that talks all the time leaves 3,000 a second
and is quiet otherwise."""

MAX_LINE_BYTES = 1024 * 1024
"""Longest line of the index; a crash with its registers takes 1 KB."""

INDEX, RX, TX = "serial.jsonl", "serial.rx.bin", "serial.tx.bin"

Way = Literal["rx", "tx", "mark"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the index: bytes ``start`` to ``end`` of their direction, or a mark.

    ``number`` is the line's own, counted from 0 and with the heads, as ``case.json`` counts.
    """

    number: int
    at_s: float
    way: Way
    start: int = 0
    end: int = 0
    kind: str = ""
    facts: Plain | None = None


@dataclass(frozen=True)
class Recording:
    """All entries of a run in order; bytes are read from the files when they are asked for."""

    folder: Path
    entries: tuple[Entry, ...]
    remarks: tuple[str, ...] = ()

    def data(self, entry: Entry) -> bytes:
        """The bytes of a piece; raises :class:`Damaged` when the file no longer has them."""
        name = RX if entry.way == "rx" else TX
        try:
            with (self.folder / name).open("rb") as stream:
                stream.seek(entry.start)
                data = stream.read(entry.end - entry.start)
        except OSError as error:
            raise damaged(f"'serial/{name}'", f"cannot be read: {error.strerror}") from error
        if len(data) != entry.end - entry.start:
            raise damaged(f"'serial/{name}'", f"ends before byte {entry.end}")
        return data


def read_recording(folder: Path, *, whole: bool) -> Recording:
    """The conversation in ``folder``, empty where the run never opened a port.

    ``whole``: the run ended in order, so nothing may be missing.  Raises :class:`Damaged`.
    """
    index = folder / INDEX
    if not index.is_file() or index.is_symlink():
        if index.is_symlink() or (folder / RX).exists():
            raise damaged(f"'serial/{INDEX}'", "is missing beside the bytes that it describes")
        return Recording(folder, ())
    sizes = {"rx": _size(folder / RX), "tx": _size(folder / TX)}
    reader = _Reader(sizes, whole=whole)
    try:
        with index.open("rb") as stream:
            for number, line in enumerate(_lines(stream)):
                if not reader.take(number, line):
                    break
    except OSError as error:
        raise damaged(f"'serial/{INDEX}'", f"cannot be read: {error.strerror}") from error
    reader.finish()
    return Recording(folder, tuple(reader.entries), tuple(reader.remarks))


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_file():
        raise damaged(f"'serial/{path.name}'", "is missing")
    return path.stat().st_size


def _lines(stream: object) -> Iterator[bytes]:
    read = stream.readline  # type: ignore[attr-defined]  # a binary file
    while line := read(MAX_LINE_BYTES + 1):
        if len(line) > MAX_LINE_BYTES:
            raise damaged(f"'serial/{INDEX}'", f"has a line of over {MAX_LINE_BYTES} B")
        yield line


class _Reader:
    def __init__(self, sizes: dict[str, int], *, whole: bool) -> None:
        self.entries: list[Entry] = []
        self.remarks: list[str] = []
        self._sizes = sizes
        self._whole = whole
        self._next = {"rx": 0, "tx": 0}
        self._base_s = 0.0
        self._last_s = 0.0

    def take(self, number: int, line: bytes) -> bool:
        """Add one line; False when it is the torn end of a run that was killed."""
        what = f"'serial/{INDEX}', line {number + 1},"
        if number >= MAX_ENTRIES:
            raise damaged(f"'serial/{INDEX}'", f"has more than {MAX_ENTRIES} lines")
        torn = not line.endswith(b"\n")
        try:
            plain = decode(what, line)
        except Damaged:
            if not torn or self._whole:
                raise
            self.remarks.append("the index ends in the middle of a line: the run was killed")
            return False
        if "transcript" in plain.content:
            # A port that was opened anew: its clock begins again.
            self._base_s = self._last_s
            return True
        at_s = self._base_s + plain.seconds("at_s")
        if at_s + 1e-6 < self._last_s:
            raise damaged(what, "goes back in time")
        self._last_s = max(self._last_s, at_s)
        if "mark" in plain.content:
            self.entries.append(
                Entry(number, at_s, "mark", kind=plain.text("mark")[:40], facts=plain)
            )
            return True
        self._piece(number, at_s, plain)
        return True

    def _piece(self, number: int, at_s: float, plain: Plain) -> None:
        direction = plain.text("direction")
        way: Way = "rx" if direction == "rx" else "tx"
        if direction not in ("rx", "tx"):
            raise damaged(plain.what, f"has the direction {direction[:20]!r}")
        start, length = plain.count("offset"), plain.count("bytes")
        if start != self._next[way]:
            raise damaged(plain.what, f"begins at byte {start} of {way}, not at {self._next[way]}")
        self._next[way] = start + length
        if start + length > self._sizes[way]:
            raise damaged(
                f"'serial/serial.{way}.bin'",
                f"has {self._sizes[way]} B, and the index speaks of {start + length}",
            )
        self.entries.append(Entry(number, at_s, way, start, start + length))

    def finish(self) -> None:
        """Bytes without a line: kept when a killed run wrote them last, damage otherwise."""
        for way in ("rx", "tx"):
            left = self._sizes[way] - self._next[way]
            if left and self._whole:
                raise damaged(
                    f"'serial/serial.{way}.bin'", f"has {left} B that the index does not know"
                )
            if left:
                self.remarks.append(f"the last {left} B of {way} have no time: the run was killed")

"""Everything a port said and was told, in order, with monotonic times, in memory and on disk.

Append-only.  A byte is on disk when :meth:`Transcript.append` returns, so a killed run keeps its
evidence.  Files in the run's folder: ``serial.rx.bin`` and ``serial.tx.bin`` hold the raw bytes of
each direction, ``serial.jsonl`` one line per piece with time, direction, offset and length, and
one line per mark: what else happened, between which bytes.  That is enough to replay the
conversation.  A transcript begun in a folder that holds one goes on where that one ended.

Memory is bounded: past ``memory_bytes`` the oldest quarter of the received bytes is dropped from
memory, never from disk; offsets stay absolute.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.clock import monotonic_s, wall_iso
from harness.errors import BenchError

Direction = Literal["rx", "tx"]

MEMORY_BYTES = 32 * 1024 * 1024
"""Most received bytes that are kept in memory."""

MAX_PIECES = 100_000
"""Most timed pieces that are kept in memory; disk keeps all."""

SHOWN_LINE_CHARS = 400
"""Where a shown line is cut; the file keeps all of it."""


@dataclass(frozen=True)
class Piece:
    """Bytes as they came: seconds since the transcript began, and the offset in their direction."""

    at_s: float
    direction: Direction
    offset: int
    data: bytes


class Transcript:
    """One conversation; made by :func:`open_transcript`, safe to use from several threads."""

    def __init__(
        self,
        folder: Path | None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        clock: Callable[[], float] = monotonic_s,
    ) -> None:
        self.folder = folder
        self._clock = clock
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._began_s = clock()
        self._entries = 0
        self._rx = bytearray()
        self._rx_start = 0
        self._tx_length = 0
        self._pieces: deque[Piece] = deque()
        self._held_bytes = 0
        self._files: dict[str, int] = {}

    @property
    def rx_length(self) -> int:
        """Bytes received so far: the offset at which the next one will stand."""
        with self._lock:
            return self._rx_start + len(self._rx)

    @property
    def entries(self) -> int:
        """Lines of the index so far, pieces and marks: a place in the whole conversation."""
        with self._lock:
            return self._entries

    @property
    def rx_start(self) -> int:
        """Offset of the oldest received byte still in memory."""
        with self._lock:
            return self._rx_start

    def received(self, start: int = 0, end: int | None = None) -> bytes:
        """Received bytes from offset ``start`` to ``end``, as far as memory still holds them."""
        with self._lock:
            low = max(0, start - self._rx_start)
            high = None if end is None else max(0, end - self._rx_start)
            return bytes(self._rx[low:high])

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The timed pieces still in memory, both directions, oldest first."""
        with self._lock:
            return tuple(self._pieces)

    def append(self, direction: Direction, data: bytes) -> None:
        """Add bytes to memory, then to disk.

        Raises :class:`BenchError` the first time the disk refuses; memory has the bytes all the
        same, and later calls keep to memory.
        """
        if not data:
            return
        with self._lock:
            offset = self._tx_length
            if direction == "rx":
                offset = self._rx_start + len(self._rx)
                self._rx += data
            else:
                self._tx_length += len(data)
            piece = Piece(self._clock() - self._began_s, direction, offset, data)
            self._pieces.append(piece)
            self._held_bytes += len(data)
            self._trim()
            entry: dict[str, object] = {
                "at_s": round(piece.at_s, 6),
                "direction": direction,
                "offset": offset,
                "bytes": len(data),
            }
            self._store({direction: data}, entry)

    def mark(self, kind: str, facts: Mapping[str, object]) -> None:
        """Note what happened between two pieces: its time, its place, and ``facts`` as JSON.

        Raises :class:`BenchError` as :meth:`append` does.
        """
        with self._lock:
            rx, tx = self._rx_start + len(self._rx), self._tx_length
            at_s = round(self._clock() - self._began_s, 6)
            entry = {"at_s": at_s, "mark": kind, "rx": rx, "tx": tx, **facts}
            self._store({}, entry)

    def tail(self, lines: int = 40) -> tuple[str, ...]:
        """The last lines of the conversation, made safe to show.

        Sent lines begin with ``-> ``.  A last line that has no newline yet is shown, too, marked
        ``[no newline]``: it is where a crash happened.
        """
        with self._lock:
            recent: list[Piece] = []
            held = 0
            for piece in reversed(self._pieces):
                recent.append(piece)
                held += len(piece.data)
                if held > lines * SHOWN_LINE_CHARS:
                    break
        return _shown(reversed(recent))[-lines:]

    @property
    def elapsed_s(self) -> float:
        """Seconds since the transcript began: a mark for :meth:`shown_since`."""
        return self._clock() - self._began_s

    def shown_since(self, at_s: float) -> tuple[str, ...]:
        """The conversation from a mark on, as lines made safe to show, as :meth:`tail` has them.

        As far as memory still holds it.
        """
        return _shown(piece for piece in self.pieces if piece.at_s >= at_s)

    def close(self) -> None:
        """Close the files; memory stays readable."""
        with self._lock:
            self._close_files()

    def _trim(self) -> None:
        if len(self._rx) > self._memory_bytes:
            excess = len(self._rx) - self._memory_bytes * 3 // 4
            del self._rx[:excess]
            self._rx_start += excess
        while len(self._pieces) > MAX_PIECES or self._held_bytes > self._memory_bytes:
            self._held_bytes -= len(self._pieces.popleft().data)

    def _store(self, data: Mapping[str, bytes], entry: Mapping[str, object]) -> None:
        self._entries += 1
        if not self._files:
            return
        try:
            for direction, piece in data.items():
                _write_all(self._files[direction], piece)
            _write_all(self._files["index"], (json.dumps(entry) + "\n").encode("ascii"))
        except OSError as error:
            self._close_files()
            raise _not_stored(self.folder, error) from error

    def _open_files(self) -> None:
        assert self.folder is not None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for key, name in _FILES.items():
                self._files[key] = os.open(
                    self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
                )
            # Whatever an earlier port of the same run left: offsets are those of the files.
            self._rx_start = os.fstat(self._files["rx"]).st_size
            self._tx_length = os.fstat(self._files["tx"]).st_size
            self._entries = (self.folder / _FILES["index"]).read_bytes().count(b"\n")
            head = {"transcript": 1, "began": wall_iso()}
            self._entries += 1
            _write_all(self._files["index"], (json.dumps(head) + "\n").encode("ascii"))
        except OSError as error:
            self._close_files()
            raise _not_stored(self.folder, error) from error

    def _close_files(self) -> None:
        for descriptor in self._files.values():
            with suppress(OSError):
                os.close(descriptor)
        self._files = {}


_FILES = {"rx": "serial.rx.bin", "tx": "serial.tx.bin", "index": "serial.jsonl"}


def open_transcript(folder: Path | None, *, memory_bytes: int = MEMORY_BYTES) -> Transcript:
    """Begin a transcript in ``folder``, which is created; None keeps it in memory only.

    Raises :class:`BenchError` when the folder cannot be written.
    """
    transcript = Transcript(folder, memory_bytes=memory_bytes)
    if folder is not None:
        transcript._open_files()
    return transcript


def printable(data: bytes) -> str:
    """Device output as one safe line of text: bad UTF-8 and control characters as escapes."""
    cut = len(data) - SHOWN_LINE_CHARS
    text = data[:SHOWN_LINE_CHARS].rstrip(b"\r").decode("utf-8", "backslashreplace")
    safe = "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode()
        for each in text
    )
    return safe if cut <= 0 else f"{safe} [{cut} bytes more]"


def _shown(pieces: Iterable[Piece]) -> tuple[str, ...]:
    runs = _merged(pieces)
    last_rx = max((i for i, (direction, _) in enumerate(runs) if direction == "rx"), default=-1)
    shown: list[str] = []
    for index, (direction, data) in enumerate(runs):
        mark = "-> " if direction == "tx" else ""
        shown += [mark + printable(line) for line in data.split(b"\n") if line.strip()]
        if index == last_rx and data.rpartition(b"\n")[2].strip():
            shown[-1] += " [no newline]"
    return tuple(shown)


def _merged(pieces: Iterable[Piece]) -> list[tuple[Direction, bytes]]:
    runs: list[tuple[Direction, bytearray]] = []
    for piece in pieces:
        if runs and runs[-1][0] == piece.direction:
            runs[-1][1].extend(piece.data)
        else:
            runs.append((piece.direction, bytearray(piece.data)))
    return [(direction, bytes(data)) for direction, data in runs]


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _not_stored(folder: Path | None, error: OSError) -> BenchError:
    return BenchError(
        f"the transcript in {str(folder)!r} cannot be written: {error.strerror or error}",
        remedy="free space on that disk or choose another folder with --out;"
        " the run kept its bytes in memory only",
        evidence=(str(error),),
    )

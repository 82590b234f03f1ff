"""Finds records in whatever a port delivers, and says what is damaged.

Feed it pieces of any size; it gives records, plain log and damage in the order of the stream.  It
holds at most :data:`MAX_HELD_BYTES`, whatever arrives: a log line of 10 MB comes out in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from harness.runner.protocol import (
    MARKER,
    MAX_LINE_BYTES,
    MalformedRecord,
    Record,
    decode_body,
    looks_framed,
    split_frame,
)

MAX_RECORD_BYTES: Final = 2 * MAX_LINE_BYTES
"""A line that began as a record and grew past this is oversize; twice what a board may send."""

MAX_HELD_BYTES: Final = 4096
"""Longest unfinished log line that is held back before it is handed out in pieces."""

DamageKind: TypeAlias = Literal["torn", "corrupt", "interleaved", "oversize", "malformed", "echo"]

_ESCAPE = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class ReceivedRecord:
    """A whole record whose checksum is right."""

    record: Record
    offset: int


@dataclass(frozen=True)
class LogText:
    """Bytes between records; ``ended`` says whether a newline closed them (it is not included)."""

    data: bytes
    offset: int
    ended: bool


@dataclass(frozen=True)
class Damage:
    """A record that did not arrive as it was sent.

    *torn*: it stops before its checksum; *corrupt*: the checksum is wrong; *interleaved*: other
    output runs into it or follows it on its line; *oversize*: no end within
    :data:`MAX_RECORD_BYTES`; *malformed*: the checksum is right and the content is no record;
    *echo*: it is a command of ours that came back.
    """

    kind: DamageKind
    data: bytes
    offset: int
    detail: str = ""


Item: TypeAlias = ReceivedRecord | LogText | Damage


class RecordStream:
    """Decoder of one direction of one stream; ``offset`` of items counts from ``start``."""

    def __init__(self, start: int = 0) -> None:
        self._held = bytearray()
        self._offset = start

    @property
    def pending(self) -> bytes:
        """What has arrived and is not yet decided."""
        return bytes(self._held)

    def feed(self, data: bytes) -> list[Item]:
        """Take the next bytes and return what they complete."""
        items: list[Item] = []
        view = memoryview(data)
        # Bounded steps keep both memory and the cost of deleting from the front bounded.
        for low in range(0, len(view), MAX_HELD_BYTES):
            self._held += view[low : low + MAX_HELD_BYTES]
            items.extend(self._complete())
        return items

    def finish(self) -> list[Item]:
        """The stream ended: what is pending is log, or a torn record."""
        rest = self._take(len(self._held))
        return list(self._line(rest, self._offset - len(rest), ended=False)) if rest else []

    def _complete(self) -> Iterator[Item]:
        while (end := self._held.find(b"\n")) >= 0:
            at = self._offset
            line = self._take(end + 1)[:-1]
            yield from self._line(line, at, ended=True)
        marker = self._held.find(MARKER)
        if marker < 0:
            if len(self._held) >= MAX_HELD_BYTES:
                yield self._log(len(self._held) - len(MARKER) + 1)
        elif len(self._held) - marker > MAX_RECORD_BYTES:
            yield from self._too_long(marker)

    def _too_long(self, marker: int) -> Iterator[Item]:
        if marker:
            yield self._log(marker)
        # A second marker may begin a good record: give up only what stands before it.
        second = self._held.find(MARKER, 1)
        at = self._offset
        if second > 0:
            yield from self._segment(self._take(second), at, last=False)
        else:
            yield Damage("oversize", self._take(MAX_RECORD_BYTES), at)

    def _line(self, line: bytes, at: int, *, ended: bool) -> Iterator[Item]:
        first = line.find(MARKER)
        if first < 0:
            yield LogText(line.removesuffix(b"\r"), at, ended)
            return
        if first > 0:
            yield LogText(line[:first], at, ended=False)
        position = first
        while position >= 0:
            following = line.find(MARKER, position + 1)
            stop = len(line) if following < 0 else following
            yield from self._segment(
                line[position:stop], at + position, last=following < 0, ended=ended
            )
            position = following

    def _segment(self, raw: bytes, at: int, *, last: bool, ended: bool = True) -> Iterator[Item]:
        segment = raw[len(MARKER) :]
        if len(raw) > MAX_RECORD_BYTES:
            yield Damage("oversize", raw[:MAX_RECORD_BYTES], at)
            return
        framed = split_frame(segment)
        if framed is None:
            yield self._undecodable(raw, segment, at, last=last, ended=ended)
            return
        body, trailing = framed
        if not body.startswith(b"{"):
            yield Damage("echo", raw, at, "a command of the bench came back")
            return
        try:
            yield ReceivedRecord(decode_body(body), at)
        except MalformedRecord as error:
            yield Damage("malformed", raw, at, str(error))
            return
        rest = _ESCAPE.sub(b"", trailing).strip(b"\r\0 ")
        if rest:
            yield Damage("interleaved", raw, at, "other output follows the record on its line")
        elif not last:
            yield Damage("interleaved", raw, at, "its newline is missing")

    @staticmethod
    def _undecodable(raw: bytes, segment: bytes, at: int, *, last: bool, ended: bool) -> Damage:
        if not last:
            return Damage("interleaved", raw, at, "another record begins inside it")
        if looks_framed(_ESCAPE.sub(b"", segment).rstrip(b"\r\0 ")):
            return Damage("corrupt", raw, at, "its checksum is wrong")
        how = "it ends without a checksum" if ended else "the stream stops inside it"
        return Damage("torn", raw, at, how)

    def _log(self, length: int) -> LogText:
        at = self._offset
        return LogText(self._take(length), at, ended=False)

    def _take(self, length: int) -> bytes:
        taken = bytes(self._held[:length])
        del self._held[:length]
        self._offset += length
        return taken

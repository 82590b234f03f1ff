"""Lines of the runner protocol: checksums, commands to the board, records from it.

The whole of it is specified in ``docs/protocol.md``; this module codes and decodes single lines,
:mod:`harness.runner.record_stream` finds them in what a port delivers.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.errors import UsageError

PROTOCOL_VERSION: Final = 1
MARKER: Final = b"@hil "
MAX_LINE_BYTES: Final = 200
"""Longest line in either direction, marker and newline included."""

CHUNK_BYTES: Final = 72
"""Raw bytes of a tensor in one line, as 96 base64 characters."""

MAX_SEQUENCE: Final = 0xFFFFFFFF

_FRAMED = re.compile(rb"(?P<body>.*)\*(?P<crc>[0-9A-F]{4})", re.DOTALL)


class MalformedRecord(ValueError):
    """A line that begins like a record and is none; ``str()`` says why."""


@dataclass(frozen=True)
class Record:
    """One record of the board.

    ``nonce`` is the build's; ``sequence`` the command's that it answers, 0 for what was not asked
    for; ``verb`` that command's verb, or ``boot`` or ``nak``; ``fields`` everything else.
    """

    nonce: str
    sequence: int
    verb: str
    fields: Mapping[str, object]

    @property
    def ok(self) -> bool:
        """Whether the command succeeded."""
        return self.fields.get("ok") == 1

    def integer(self, key: str) -> int:
        """The field ``key``; raises :class:`MalformedRecord` when it is not a whole number."""
        value = self.fields.get(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise MalformedRecord(f"field {key!r} of {self.verb!r} is {value!r}, not an integer")
        return value

    def text(self, key: str) -> str:
        """The field ``key``; raises :class:`MalformedRecord` when it is not a string."""
        value = self.fields.get(key)
        if not isinstance(value, str):
            raise MalformedRecord(f"field {key!r} of {self.verb!r} is {value!r}, not a string")
        return value

    def integers(self, key: str) -> tuple[int, ...]:
        """The field ``key``; raises :class:`MalformedRecord` when it is no list of integers."""
        value = self.fields.get(key)
        if not isinstance(value, list) or not all(type(each) is int for each in value):
            raise MalformedRecord(f"field {key!r} of {self.verb!r} is {value!r}, not integers")
        return tuple(value)


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE: polynomial 0x1021, start 0xFFFF, not reflected, no final xor."""
    return binascii.crc_hqx(data, 0xFFFF)


def encode_command(sequence: int, verb: str, *arguments: int | str) -> bytes:
    """One command line; raises :class:`UsageError` when it would break the protocol's limits."""
    words = [str(sequence), verb, *(str(each) for each in arguments)]
    body = " ".join(words).encode("ascii", "strict")
    line = MARKER + body + b"*%04X\n" % crc16(body)
    plain = all(word and word.isprintable() and not set(" *@") & set(word) for word in words)
    if not plain or len(line) > MAX_LINE_BYTES or not 0 < sequence <= MAX_SEQUENCE:
        raise UsageError(
            f"the command {words!r} does not fit the runner protocol",
            remedy=f"words hold no space, '*' or '@', a line at most {MAX_LINE_BYTES} bytes",
        )
    return line


def encode_record(nonce: str, sequence: int, verb: str, fields: Mapping[str, object]) -> bytes:
    """One record line, as the board writes it; for stand-ins and tests."""
    content = {"n": nonce, "s": sequence, "v": verb, **fields}
    body = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
    escaped = body.replace("@", "\\u0040").encode("ascii")
    return MARKER + escaped + b"*%04X\n" % crc16(escaped)


def split_frame(segment: bytes) -> tuple[bytes, bytes] | None:
    """Body and what follows its checksum, when ``segment`` (after the marker) has a right one."""
    for match in re.finditer(rb"\*([0-9A-F]{4})", segment):
        body = segment[: match.start()]
        if crc16(body) == int(match.group(1), 16):
            return body, segment[match.end() :]
    return None


def looks_framed(segment: bytes) -> bool:
    """Whether ``segment`` ends in a checksum, right or wrong."""
    return _FRAMED.fullmatch(segment) is not None


def decode_body(body: bytes) -> Record:
    """The record in ``body``, whose checksum was right; raises :class:`MalformedRecord`."""
    try:
        content = json.loads(body.decode("ascii"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"not JSON: {error}") from error
    if not isinstance(content, dict):
        raise MalformedRecord("not a JSON object")
    nonce, sequence, verb = content.pop("n", None), content.pop("s", None), content.pop("v", None)
    if not isinstance(nonce, str) or not isinstance(verb, str) or type(sequence) is not int:
        raise MalformedRecord("it lacks one of n, s, v")
    return Record(nonce, sequence, verb, content)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key occurs twice")
    return content

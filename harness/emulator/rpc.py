"""The remote calls between a microcontroller and the router of its Linux side.

MessagePack-RPC: ``[0, id, method, params]`` asks, ``[1, id, error, result]`` answers, ``[2, method,
params]`` only tells.  What is no such message is skipped; bytes that cannot be MessagePack end the
router's connection, and with it what had arrived of a message (arduino-router 74fcdf0,
msgpackrpc/connection.go: a decoder's error is final, and main.go opens the port again).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgpack

MOST_ITEMS = 65536
MOST_BYTES = 64 << 20
"""A message that claims more is taken as garbage; the real router would wait for all of it."""


@dataclass(frozen=True)
class Call:
    """A request, or a notification where ``number`` is None."""

    number: int | None
    method: str
    params: Sequence[object]


class Decoder:
    """Turns the chip's bytes into calls, whatever they are."""

    def __init__(self) -> None:
        self.broken = 0
        """How often bytes that are not MessagePack ended the connection."""
        self.skipped = 0
        """Messages and loose values that are no call."""
        self._begin()

    def _begin(self) -> None:
        self._unpacker = msgpack.Unpacker(
            raw=False,
            unicode_errors="surrogateescape",
            max_buffer_size=MOST_BYTES,
            max_array_len=MOST_ITEMS,
            max_map_len=MOST_ITEMS,
            ext_hook=_no_extension,
        )

    def forget(self) -> None:
        """Let go of the beginning of a message."""
        self._begin()

    def feed(self, piece: bytes) -> Iterator[Call]:
        """Every call that ``piece`` completes."""
        try:
            self._unpacker.feed(piece)
        except msgpack.BufferFull:
            self._break()
            return
        while True:
            try:
                message = self._unpacker.unpack()
            except msgpack.OutOfData:
                return
            except (ValueError, TypeError, msgpack.UnpackException):
                # What came in the same read is lost with the connection, as in the router.
                self._break()
                return
            call = read_call(message)
            if call is None:
                self.skipped += 1
            else:
                yield call

    def _break(self) -> None:
        self.broken += 1
        self._begin()


def _no_extension(code: int, data: bytes) -> object:
    del data
    raise ValueError(f"unknown extension {code}")


def read_call(message: object) -> Call | None:
    """The call that a decoded message is, or None: an answer, or none of the protocol's."""
    match message:
        case [bool(), *_] | [_, bool(), *_]:
            return None
        case [0, int(number), str(method), [*params]] if number >= 0:
            return Call(number, method, params)
        case [2, str(method), [*params]]:
            return Call(None, method, params)
    return None


def answer(number: int, error: object, result: object) -> bytes:
    """The bytes of an answer; integers as short as they can be, as the router writes them."""
    packed = msgpack.packb([1, number, error, result], unicode_errors="surrogateescape")
    assert isinstance(packed, bytes)
    return packed

"""A byte stream that says what a test has it say, and keeps what it is told."""

from __future__ import annotations

import threading

from harness.clock import Deadline
from harness.serial.byte_stream import StreamGone


class ScriptedStream:
    """Passes the same conformance suite as a serial port."""

    name = "scripted"

    def __init__(self) -> None:
        self.written = b""
        self.closed = False
        self._incoming = bytearray()
        self._ended = False
        self._changed = threading.Condition()

    def say(self, data: bytes) -> None:
        """The board sends ``data``."""
        with self._changed:
            self._incoming += data
            self._changed.notify_all()

    def end(self) -> None:
        """The board vanishes."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """Bytes said and not yet read."""
        with self._changed:
            return len(self._incoming)

    def read(self, max_bytes: int, timeout_s: float) -> bytes:
        deadline = Deadline.after(timeout_s)
        with self._changed:
            while True:
                if self.closed or (self._ended and not self._incoming):
                    raise StreamGone("port 'scripted' vanished", remedy="plug it in")
                if self._incoming:
                    data = bytes(self._incoming[:max_bytes])
                    del self._incoming[:max_bytes]
                    return data
                if deadline.expired:
                    return b""
                self._changed.wait(deadline.remaining_s)

    def write(self, data: bytes) -> None:
        if self.closed or self._ended:
            raise StreamGone("port 'scripted' vanished", remedy="plug it in")
        self.written += data

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()

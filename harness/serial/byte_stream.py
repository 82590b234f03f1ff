"""The one interface between the bench and whatever carries bytes to a board and back.

Every transport, real or imitated, passes ``tests/contract/byte_stream_conformance.py``.
"""

from __future__ import annotations

from typing import Protocol

from harness.errors import DeviceError


class StreamGone(DeviceError):
    """The stream ended: port unplugged, process behind the pty gone, peer closed, or closed here.

    Cause: the path to the board.  Remedy: plug it in again and open a new stream; this one stays
    ended.
    """

    stage = "session"


class ByteStream(Protocol):
    """Bytes in order, both ways, with nothing added, dropped or translated.

    - ``read`` returns as soon as at least one byte is there, never more than ``max_bytes``, and
      ``b""`` only when ``timeout_s`` passed without a byte.
    - ``read`` hands out every byte that arrived before the end, then raises :class:`StreamGone`,
      and does so on every later call.
    - ``write`` returns when every byte was accepted, and raises :class:`DeviceError` when the
      other side takes none for too long, or :class:`StreamGone` when there is no other side.
    - ``close`` may be called twice and from another thread; it wakes a waiting ``read``.
    - One thread reads while another writes; two readers are not supported.
    """

    @property
    def name(self) -> str:
        """What messages call it: an address such as ``/dev/ttyACM0``."""
        ...

    def read(self, max_bytes: int, timeout_s: float) -> bytes:
        """Up to ``max_bytes`` bytes, or ``b""`` after ``timeout_s`` seconds of nothing."""
        ...

    def write(self, data: bytes) -> None:
        """Send all of ``data``."""
        ...

    def close(self) -> None:
        """Give the stream up; whatever it held exclusively is free afterwards."""
        ...

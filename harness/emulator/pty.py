"""The board's serial port: the master side of a pty that outlives firmware and readers.

The owner keeps no slave open, so the kernel itself says whether anybody reads: ``POLLHUP`` on the
master.  Nothing is written while it is set, because the line would keep it for the next reader.
"""

from __future__ import annotations

import os
import select
import termios
import tty
from contextlib import suppress
from pathlib import Path

PIECE_BYTES = 65536


class PtyPort:
    """A pty in raw mode.  :meth:`open` does the I/O; close it once."""

    def __init__(self, master: int, slave_path: str, link: Path) -> None:
        self.fd = master
        self.link = link
        self._open = True
        self.slave_path = slave_path
        self._poll = select.poll()
        self._poll.register(master, select.POLLIN)

    @classmethod
    def open(cls, link: Path) -> PtyPort:
        """Make a pty in raw mode and ``link`` to its slave.  Raises :class:`OSError`."""
        master, slave = os.openpty()
        try:
            # Set once, through a slave of our own: the settings live as long as the master.
            tty.setraw(slave)
            path = os.ttyname(slave)
        finally:
            os.close(slave)
        os.set_blocking(master, False)
        link.symlink_to(path)
        return cls(master, path, link)

    def look(self) -> tuple[bool, bool]:
        """Whether somebody has the port open, and whether there is input; never blocks."""
        events = dict(self._poll.poll(0)).get(self.fd, 0)
        return not events & select.POLLHUP, bool(events & select.POLLIN)

    def read(self) -> bytes:
        """What was typed; empty when there is nothing, reader or not."""
        try:
            return os.read(self.fd, PIECE_BYTES)
        except OSError:
            return b""

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Bytes taken by the line; 0 when it is full."""
        try:
            return os.write(self.fd, data)
        except OSError:
            return 0

    def forget_unread(self) -> None:
        """Drop what the reader that just left did not read, or the next one would get it."""
        with suppress(OSError, termios.error):
            termios.tcflush(self.fd, termios.TCOFLUSH)
            # The line discipline's own buffer can be emptied from the slave side only.
            slave = os.open(self.slave_path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                termios.tcflush(slave, termios.TCIFLUSH)
            finally:
                os.close(slave)

    def close(self) -> None:
        """Hang up on whoever still has the port open; a second time does nothing."""
        if self._open:
            self._open = False
            os.close(self.fd)

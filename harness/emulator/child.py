"""The process that plays the chip: its pipes, its pauses and how it ended."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness import process

PIECE_BYTES = 65536
STDERR_KEPT_BYTES = 8192
STDERR_LINES = 24
NOISE = "warning: nic "
"""What QEMU says of a machine's network chip that is connected to nothing, as ours should be."""


@dataclass(frozen=True)
class Ending:
    """How a chip's process ended: exit code, or the signal's name, and its last words."""

    exit_code: int | None
    signal: str | None
    stderr: tuple[str, ...]

    def told(self, what: str) -> str:
        """``"it exited with code 1"`` or ``"it was ended by SIGSEGV"``, ``what`` being "it"."""
        if self.signal is not None:
            return f"{what} was ended by {self.signal}"
        return f"{what} exited with code {self.exit_code}"


class Child:
    """A running chip.  Standard output is left unread by whoever wants backpressure."""

    def __init__(self, running: process.Process, nudge: socket.socket | None) -> None:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        self._running = running
        self._nudge = nudge
        self.stdin = running.stdin.fileno()
        self.stdout = running.stdout.fileno()
        self.stderr = running.stderr.fileno()
        self.ended: set[int] = set()
        self.paused = False
        self._last_words = bytearray()

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        cwd: Path,
        nudge: socket.socket | None = None,
        pass_fds: Sequence[int] = (),
    ) -> Child:
        """Start ``argv``; it dies with this process.  Raises :class:`ToolError`."""
        running = process.spawn(
            argv, cwd=cwd, stdin=process.PIPE, die_with_parent=True, pass_fds=pass_fds
        )
        child = cls(running, nudge)
        for fd in (child.stdin, child.stdout, child.stderr):
            os.set_blocking(fd, False)
        return child

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._running.pid

    def read(self) -> bytes:
        """What the sketch printed; empty when there is nothing now."""
        return self._read(self.stdout)

    def listen(self) -> None:
        """Take what it wrote on standard error; only the end is kept."""
        self._last_words += self._read(self.stderr)
        del self._last_words[:-STDERR_KEPT_BYTES]

    def _read(self, fd: int) -> bytes:
        try:
            piece = os.read(fd, PIECE_BYTES)
        except BlockingIOError:
            return b""
        if not piece:
            self.ended.add(fd)
        return piece

    def write(self, data: bytes | bytearray) -> int:
        """Bytes its serial input took; what a dead one gets is taken as lost."""
        try:
            return os.write(self.stdin, data[:PIECE_BYTES])
        except BlockingIOError:
            return 0
        except OSError:
            self.ended.add(self.stdin)
            return len(data)

    def nudge(self) -> bool:
        """Turn its main loop if it has left input lying; whether it had."""
        if self._nudge is None or self.stdin in self.ended or self.paused:
            return False
        left = fcntl.ioctl(self.stdin, termios.FIONREAD, bytes(4))
        if not int.from_bytes(left, sys.byteorder):
            return False
        with suppress(OSError):
            self._nudge.send(b"\n")
        with suppress(OSError):
            # Its prompts.
            self._nudge.recv(PIECE_BYTES)
        return True

    def pause(self, wanted: bool) -> None:
        """Stop it, or let it go on; nothing happens when it already is so."""
        if wanted != self.paused:
            process.signal_session(self.pid, signal.SIGSTOP if wanted else signal.SIGCONT)
            self.paused = wanted

    def ending(self) -> Ending | None:
        """How it ended, or None while it lives."""
        code = self._running.poll()
        if code is None:
            return None
        self.listen()
        text = self._last_words.decode("utf-8", "replace")
        said = [line for line in text.splitlines() if line.strip() and NOISE not in line]
        lines = tuple(said[-STDERR_LINES:])
        if code >= 0:
            return Ending(code, None, lines)
        with suppress(ValueError):
            return Ending(None, signal.Signals(-code).name, lines)
        return Ending(None, f"signal {-code}", lines)

    def kill(self) -> None:
        """End it at once, as pulling the reset line does, and reap it."""
        process.signal_session(self.pid, signal.SIGKILL)
        process.end(self._running, grace_s=1.0)
        if self._nudge is not None:
            self._nudge.close()

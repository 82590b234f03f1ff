"""The real arduino-router in the place of the model, where the user's configuration names it.

The chip's UART bytes go through a pty to the router, as over ``/dev/ttyHS1``; the router's monitor
port is joined to the board's port while somebody reads that, which is socat's part.  It runs only
for a board that behaves: misbehaviour is the model's.
"""

from __future__ import annotations

import math
import os
import socket
import tty
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgpack

from harness import process
from harness.clock import monotonic_s
from harness.emulator.line import QUEUE_BYTES, Line
from harness.emulator.route import SOCAT_RESTARTS_S
from harness.emulator.wakeup import READ, WRITE

PIECE_BYTES = 65536
RETRY_S = 0.02
"""How soon the monitor port is tried again while the router is starting."""


def argv(program: Path, uart: str, port: int, sock: Path) -> tuple[str, ...]:
    """The router's command line, as its systemd unit has it, at places of this board's own."""
    return (
        str(program), "--unix-port", str(sock), "--serial-port", uart,
        "--serial-baudrate", "115200", "--monitor-port", f"127.0.0.1:{port}",
    )  # fmt: skip


class RealRouter:
    """A route that is a process.  Raises :class:`ToolError` when it does not start.

    ``forget`` is told of a descriptor before it is closed.
    """

    keeps_input = True

    def __init__(
        self, line: Line, folder: Path, program: Path, forget: Callable[[int], None]
    ) -> None:
        self.to_chip = bytearray()
        self._line = line
        self._forget = forget
        self._whole = Whole()
        self._to_router = bytearray()
        self._monitor: socket.socket | None = None
        self._try_at_s = 0.0
        self._speaks = False
        self._uart, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self._uart, False)
        self._port = free_port()
        command = argv(program, os.ttyname(self._slave), self._port, folder / "router.sock")
        with (folder / "router.log").open("wb") as log:
            self._running = process.spawn(
                command, cwd=folder, stdout=log, stderr=log, die_with_parent=True
            )

    @property
    def takes_output(self) -> bool:
        """Whether the router and the port's queue have room."""
        return self._line.takes_output and len(self._to_router) < QUEUE_BYTES

    def wanted(self) -> Mapping[int, int]:
        """The UART, and the monitor port while it is joined."""
        found = {self._uart: READ | (WRITE if self._to_router else 0)}
        if self._monitor is not None:
            says = READ if self._line.takes_output else 0
            hears = WRITE if self._line.incoming else 0
            found[self._monitor.fileno()] = says | hears
        return found

    def ready(self, fd: int) -> bool:
        """Pass on what waits at ``fd``."""
        if fd == self._uart:
            with suppress(OSError):
                piece = os.read(self._uart, PIECE_BYTES)
                # A chip that has not begun to speak has its UART off: late answers are lost.
                self.to_chip += piece if self._speaks else b""
            self._write_uart()
        elif self._monitor is not None and fd == self._monitor.fileno():
            self._pass_monitor(self._monitor)
        else:
            return False
        return True

    def said(self, piece: bytes) -> None:
        """To the router, message by message."""
        self._speaks = True
        self._to_router += self._whole.passed(piece)
        self._write_uart()

    def settle(self, now_s: float) -> float:
        """Join the monitor port to a reader, or let go of it."""
        if not self._line.reader:
            self._leave()
            return math.inf
        if self._monitor is None and now_s >= self._try_at_s:
            self._join(now_s)
        return math.inf if self._monitor is not None else max(0.001, self._try_at_s - now_s)

    def boots(self) -> None:
        """The router lives on; half a message is not sent, as in the model."""
        self._whole = Whole()
        self.ended()
        self._speaks = False
        self._line.wake()

    def ended(self) -> None:
        """Nobody waits for an answer any more."""
        self.to_chip.clear()

    def uploaded(self) -> None:
        """The router does not know."""

    def close(self) -> None:
        """End the router."""
        self._leave()
        process.end(self._running, grace_s=1.0)
        os.close(self._uart)
        os.close(self._slave)

    def _write_uart(self) -> None:
        with suppress(BlockingIOError):
            while self._to_router:
                del self._to_router[: os.write(self._uart, self._to_router[:PIECE_BYTES])]

    def _pass_monitor(self, monitor: socket.socket) -> None:
        try:
            piece = monitor.recv(PIECE_BYTES)
            if not piece:
                raise ConnectionError
            self._line.say(piece)
        except BlockingIOError:
            pass
        except OSError:
            # mon/reset hangs up; socat is started again after a while.
            self._leave()
            self._try_at_s = monotonic_s() + SOCAT_RESTARTS_S
            return
        with suppress(OSError):
            if self._line.incoming:
                del self._line.incoming[: monitor.send(self._line.incoming)]

    def _join(self, now_s: float) -> None:
        joining = socket.socket()
        try:
            joining.connect(("127.0.0.1", self._port))
        except OSError:
            joining.close()
            self._try_at_s = now_s + RETRY_S
            return
        joining.setblocking(False)
        self._monitor = joining

    def _leave(self) -> None:
        if self._monitor is not None:
            self._forget(self._monitor.fileno())
            self._monitor.close()
            self._monitor = None


class Whole:
    """Passes a stream on in whole messages, so that a reset never leaves half of one behind."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._begin()

    def _begin(self) -> None:
        self._unpacker = msgpack.Unpacker(max_buffer_size=PIECE_BYTES * 1024)
        self._ends = 0

    def passed(self, piece: bytes) -> bytes:
        """What is whole by now; what is no MessagePack at once, for the router to judge."""
        self._held += piece
        begins = self._ends
        try:
            self._unpacker.feed(piece)
            while True:
                self._unpacker.skip()
                self._ends = self._unpacker.tell()
        except msgpack.OutOfData:
            size = self._ends - begins
        except (ValueError, TypeError, msgpack.UnpackException):
            self._begin()
            size = len(self._held)
        out = bytes(self._held[:size])
        del self._held[:size]
        return out


def free_port() -> int:
    """A TCP port of this machine that nobody listens at now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert isinstance(port, int)
    return port

"""QEMU's QMP socket: one command at a time, and a chip that stands still for a look.

Both sides use it: the bench that looks into an emulated board, and the stand-in's debugger.
"""

from __future__ import annotations

import io
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import DeviceError

TIMEOUT_S = 5.0
PIECE_BYTES = 1024
"""Most bytes of memory in one command: the answer of the monitor is text of six times that."""


class Monitor:
    """An open QMP connection.  Raises :class:`OSError` or :class:`ValueError` when it breaks."""

    def __init__(self, stream: io.BufferedRWPair) -> None:
        self._stream = stream

    def greet(self) -> None:
        """Take the greeting and leave negotiation mode."""
        self._reply("QMP")
        self.ask("qmp_capabilities")

    def ask(self, execute: str, **arguments: object) -> object:
        """What QEMU returns to one command."""
        request = {"execute": execute, "arguments": arguments}
        self._stream.write(json.dumps(request).encode() + b"\n")
        self._stream.flush()
        return self._reply("return")

    def command(self, line: str) -> str:
        """What the human monitor says to ``line``."""
        return str(self.ask("human-monitor-command", **{"command-line": line}))

    def read(self, address: int, nbytes: int) -> bytes:
        """``nbytes`` of memory as the core sees it; raises :class:`DeviceError` where none is."""
        return b"".join(
            self._read(at, min(PIECE_BYTES, address + nbytes - at))
            for at in range(address, address + nbytes, PIECE_BYTES)
        )

    def _read(self, address: int, nbytes: int) -> bytes:
        size, form = (4, "w") if nbytes % 4 == 0 and address % 4 == 0 else (1, "b")
        text = self.command(f"x /{nbytes // size}{form}x {address:#x}")
        values = re.findall(r"0x([0-9a-f]+)(?=\s|$)", text)
        data = b"".join(int(value, 16).to_bytes(size, "little") for value in values)
        if len(data) != nbytes:
            raise DeviceError(
                f"the chip has no memory at {address:#x}",
                remedy="ask for an address inside its flash, RAM or registers",
                evidence=tuple(text.splitlines()[:4]),
            )
        return data

    def _reply(self, key: str) -> object:
        while line := self._stream.readline():
            message = json.loads(line)
            if key in message:
                return message[key]
            if "error" in message:
                raise OSError(str(message["error"]))
        raise OSError("the connection was closed")


@contextmanager
def connect(path: Path) -> Iterator[Monitor]:
    """A connection to the socket at ``path``; raises as :class:`Monitor` does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(TIMEOUT_S)
        client.connect(str(path))
        with client.makefile("rwb") as stream:
            monitor = Monitor(stream)
            monitor.greet()
            yield monitor


@contextmanager
def stopped(path: Path) -> Iterator[Monitor]:
    """As :func:`connect`; the chip stands still within and goes on afterwards."""
    with connect(path) as monitor:
        monitor.ask("stop")
        try:
            yield monitor
        finally:
            monitor.ask("cont")

"""The control socket's protocol: one JSON object a line each way, both ends of it.

Requests: ``{"op": "flash", "elf": PATH}``, ``reset``, ``status``, ``inspect``, ``unplug``; of a
stand-in also ``adb_state`` and ``{"op": "adb", "argv": [...]}``, answered with ``exit_code``,
``stdout`` and ``stderr``, or never where the real board would hang.
Replies: ``{"ok": true, ...}`` or ``{"ok": false, "error": ..., "remedy": ..., "kind": ...}``: two
sentences, and the name of a class of ``harness.errors``.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from harness.clock import Deadline
from harness.errors import DeviceError

LINE_BYTES = 65536
"""Longest request line; a longer one is answered with an error and the connection closed."""

CONNECTIONS = 32
"""Most clients at once; one more closes the one that came first."""

Reply = Mapping[str, object]
Handler = Callable[[Mapping[str, object]], Reply | None]
"""Answers a request; None leaves whoever asked without an answer."""


def refusal(error: str, remedy: str, kind: str = "ToolError") -> Reply:
    """A reply that says no, in the words of an error."""
    return {"ok": False, "error": error, "remedy": remedy, "kind": kind}


class ControlServer:
    """The listening end.  Never blocks; the owner's loop says which descriptor is ready."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._clients: dict[int, tuple[socket.socket, bytearray]] = {}
        self.before_close: Callable[[int], None] = lambda _: None
        """Told of each descriptor just before it goes; a watcher must forget it then."""

    @classmethod
    def open(cls, path: Path) -> ControlServer:
        """Listen at ``path``.  Raises :class:`OSError`."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(CONNECTIONS)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        return cls(listener)

    def descriptors(self) -> set[int]:
        """What to watch for input."""
        return {self._listener.fileno(), *self._clients}

    def ready(self, fd: int, handle: Handler) -> None:
        """Take what arrived at ``fd`` and answer every whole line of it."""
        if fd == self._listener.fileno():
            self._accept()
        elif fd in self._clients:
            client, held = self._clients[fd]
            try:
                piece = client.recv(LINE_BYTES)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            held += piece
            while b"\n" in held and fd in self._clients:
                line, _, rest = bytes(held).partition(b"\n")
                held[:] = rest
                reply = _answer(line, handle)
                if reply is not None:
                    self._send(fd, reply)
            if len(held) > LINE_BYTES:
                problem = f"the request is longer than {LINE_BYTES} bytes"
                self._send(fd, refusal(problem, "send one JSON object a line"))
                piece = b""
            if not piece:
                self._drop(fd)

    def _accept(self) -> None:
        with suppress(OSError):
            client, _ = self._listener.accept()
            client.setblocking(False)
            self._clients[client.fileno()] = (client, bytearray())
            if len(self._clients) > CONNECTIONS:
                self._drop(next(iter(self._clients)))

    def _send(self, fd: int, reply: Reply) -> None:
        if fd not in self._clients:
            return
        line = json.dumps(reply).encode() + b"\n"
        try:
            # A reply fits the socket's buffer; a client that reads none of many is let go.
            if self._clients[fd][0].send(line) != len(line):
                self._drop(fd)
        except OSError:
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        if fd in self._clients:
            self.before_close(fd)
            self._clients.pop(fd)[0].close()

    def close(self) -> None:
        """Stop listening and hang up."""
        for fd in list(self._clients):
            self._drop(fd)
        self._listener.close()


def _answer(line: bytes, handle: Handler) -> Reply | None:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return refusal("the request is not JSON", "send one JSON object a line")
    if not isinstance(request, dict):
        return refusal("the request is not a JSON object", 'send {"op": ...}')
    return handle(request)


def ask(
    path: Path, request: Mapping[str, object], *, timeout_s: float, until_closed: bool = False
) -> dict[str, object]:
    """Send one request to the socket at ``path`` and return the reply, good or bad.

    ``until_closed`` waits for the other end to hang up afterwards.  Raises :class:`DeviceError`
    when nobody answers within ``timeout_s`` seconds.
    """
    deadline = Deadline.after(timeout_s)
    name = path.parent.name
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.settimeout(timeout_s)
            client.connect(os.fspath(path))
            client.sendall(json.dumps(request).encode() + b"\n")
            held = b""
            while not held.endswith(b"\n"):
                client.settimeout(max(0.001, deadline.remaining_s))
                piece = client.recv(LINE_BYTES)
                if not piece:
                    raise DeviceError(
                        f"board {name!r} hung up on {request.get('op')!r}",
                        remedy="plug it in again with 'hil emulate'",
                    )
                held += piece
            while until_closed and client.recv(LINE_BYTES):
                pass
        except TimeoutError as error:
            raise DeviceError(
                f"board {name!r} did not answer {request.get('op')!r} within {timeout_s:g} s",
                remedy=f"run 'hil emulate --unplug {name}' and plug it in again",
            ) from error
        except OSError as error:
            raise DeviceError(
                f"board {name!r} is not plugged in: {error.strerror or error}",
                remedy="plug it in with 'hil emulate', or see 'hil emulate --list'",
            ) from error
    return _parsed(held, name)


def _parsed(line: bytes, name: str) -> dict[str, object]:
    try:
        reply = json.loads(line)
    except ValueError:
        reply = None
    if not isinstance(reply, dict) or not isinstance(reply.get("ok"), bool):
        raise DeviceError(
            f"board {name!r} answered with something else than a reply: {line[:80]!r}",
            remedy=f"run 'hil emulate --unplug {name}' and plug it in again",
        )
    return reply

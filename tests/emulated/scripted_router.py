"""The router's side of the UART, for a sketch of the stand-in that runs in QEMU alone.

Answers what Bridge and Monitor of Arduino_RouterBridge ask; a test gives the input and may put
anything between the answers.  Messages: https://github.com/msgpack-rpc/msgpack-rpc/blob/master/spec.md
"""

from __future__ import annotations

import os
import selectors
from collections.abc import Callable
from typing import Any

import msgpack

from harness.clock import Deadline
from tests.emulated.direct import Running

HELLO = b"MCU starting RPC Bridge communication"
TIMEOUT_S = 60.0
REQUEST, RESPONSE, NOTIFICATION = 0, 1, 2

Answer = Callable[[str, list[Any]], tuple[Any, Any]]


class ScriptedRouter:
    """Reads the sketch's messages and answers them, until something was printed."""

    def __init__(self, sketch: Running, *, answer: Answer | None = None) -> None:
        self.fragments: list[bytes] = []
        self.calls: list[tuple[str, list[Any]]] = []
        self.answers: list[tuple[int, Any, Any]] = []
        self.input = b""
        self._sketch = sketch
        self._answer = answer or self.answer
        self._greeting = b""
        self._unpacker = msgpack.Unpacker(raw=False, unicode_errors="surrogateescape")

    @property
    def printed(self) -> bytes:
        """What the sketch has written to its port."""
        return b"".join(self.fragments)

    def answer(self, method: str, params: list[Any]) -> tuple[Any, Any]:
        """The error and the result of a call, as the router on the board gives them."""
        match method:
            case "$/reset" | "mon/connected" | "mon/reset":
                return None, True
            case "$/version":
                return None, "0.6.0"
            case "mon/read":
                piece, self.input = self.input[: params[0]], self.input[params[0] :]
                return None, piece
        return [2, f"method {method} not available"], None

    def send(self, data: bytes) -> None:
        """Bytes to the sketch."""
        stream = self._sketch.child.stdin
        assert stream is not None
        deadline = Deadline.after(TIMEOUT_S)
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_WRITE)
            while data:
                assert not deadline.expired, "the sketch takes no input"
                if selector.select(0.1):
                    data = data[os.write(stream.fileno(), data) :]

    def until(self, wanted: bytes) -> bytes:
        """Serve until ``wanted`` was printed; everything printed so far."""
        self.serve(lambda: wanted in self.printed, f"{wanted!r} was printed")
        return self.printed

    def serve(self, done: Callable[[], bool], what: str) -> None:
        """Serve until ``done``."""
        out = self._sketch.child.stdout
        assert out is not None
        deadline = Deadline.after(TIMEOUT_S)
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            while not done():
                said = f"{self.printed[-200:]!r} after calls {self.calls[-5:]!r}"
                assert not deadline.expired, f"waited for {what}: {said}"
                for _ in selector.select(0.1):
                    piece = os.read(out.fileno(), 65536)
                    assert piece, f"the sketch ended before {what}: {said}"
                    self._take(piece)

    def _take(self, piece: bytes) -> None:
        if self._greeting != HELLO:
            # The sketch says that it starts in plain text, before the first message.
            self._greeting += piece
            if len(self._greeting) < len(HELLO):
                return
            assert self._greeting.startswith(HELLO), self._greeting
            self._greeting, piece = HELLO, self._greeting[len(HELLO) :]
        self._unpacker.feed(piece)
        for message in self._unpacker:
            assert isinstance(message, list), message
            match message:
                case [0, number, str(method), params]:
                    self.calls.append((method, params))
                    error, result = self._answer(method, params)
                    self.send(msgpack.packb([RESPONSE, number, error, result]))
                case [2, "mon/write", [str(text)]]:
                    self.fragments.append(text.encode("utf-8", "surrogateescape"))
                case [1, int(number), error, result]:
                    self.answers.append((number, error, result))
                case [2, str(method), params]:
                    self.calls.append((method, params))
                case _:
                    raise AssertionError(f"no message of the protocol: {message!r}")

"""A board that is not there: a pty, and a thread that answers on it as the runner sketch does.

It follows ``docs/protocol.md`` by itself rather than through the sketch, holds a model that adds
one to three floats, and can be told to misbehave in the ways that real ports and boards do.
"""

from __future__ import annotations

import base64
import os
import select
import struct
import threading
import tty
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.model.seeded import seeded_bytes
from harness.runner.protocol import CHUNK_BYTES, MARKER, crc16, encode_record

NONCE = "0011223344556677"
BLOCK_BYTES = 4096
MINIMUM_ARENA_BYTES = 359

Fields = dict[str, object]
Filter = Callable[[bytes, int], list[bytes]]
"""Takes a reply line and its number (from 1), returns the pieces that really go out."""


def honest(line: bytes, number: int) -> list[bytes]:  # noqa: ARG001
    return [line]


class FakeRunner:
    """The thread and its state; :attr:`port` is the address to open."""

    def __init__(self, *, nonce: str = NONCE, filter_reply: Filter = honest) -> None:
        self.nonce = nonce
        self.filter_reply = filter_reply
        self.executed: list[str] = []
        self.reset_on: str | None = None
        self.lose_commands = 0
        self.damage_commands = 0
        self.log_before_reply: dict[str, list[bytes]] = {}
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._wake_r, self._wake_w = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._replies = 0
        self.forget()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        os.write(self._wake_w, b"x")
        self._thread.join(5)
        for each in (self._master, self._slave, self._wake_r, self._wake_w):
            os.close(each)

    def send(self, data: bytes) -> None:
        os.write(self._master, data)

    def forget(self) -> None:
        self._last: tuple[int, bytes] | None = None
        self._arena: int | None = None
        self._input: bytearray | None = None
        self._output = b""
        self._sealed = False

    def boot(self) -> None:
        self.forget()
        self.send(encode_record(self.nonce, 0, "boot", {"proto": 1}))

    def _serve(self) -> None:
        held = b""
        while True:
            ready, _, _ = select.select([self._master, self._wake_r], [], [])
            if self._wake_r in ready:
                return
            held += os.read(self._master, 4096)
            *lines, held = held.split(b"\n")
            for line in lines:
                if line:
                    self._take(line)

    def _take(self, line: bytes) -> None:
        if self.lose_commands:
            self.lose_commands -= 1
            return
        if self.damage_commands:
            self.damage_commands -= 1
            line = line[:-6] + b"#" + line[-5:]
        body = line[len(MARKER) : -5]
        if not line.startswith(MARKER) or line[-5:] != b"*%04X" % crc16(body):
            self.send(encode_record(self.nonce, 0, "nak", {"why": "crc"}))
            return
        number, verb, *arguments = body.decode().split(" ")
        sequence = int(number)
        if self._last is not None and self._last[0] == sequence:
            self._reply(self._last[1])
            return
        if verb != "hello" and (self._last is None or sequence != self._last[0] + 1):
            why = "greet" if self._last is None else "order"
            self.send(encode_record(self.nonce, 0, "nak", {"why": why}))
            return
        if verb == self.reset_on:
            self.boot()
            return
        self.executed.append(verb)
        reply = encode_record(self.nonce, sequence, verb, self._execute(verb, arguments))
        self._last = (sequence, reply)
        for each in self.log_before_reply.get(verb, []):
            self.send(each)
        self._reply(reply)

    def _reply(self, line: bytes) -> None:
        self._replies += 1
        for piece in self.filter_reply(line, self._replies):
            self.send(piece)

    def _execute(self, verb: str, arguments: list[str]) -> Fields:
        tensor: Fields = {
            "ok": 1, "dtype": "float32", "sizes": [3], "order": [0], "bytes": 12, "planned": 1,
        }  # fmt: skip
        simple: dict[str, Fields] = {
            "hello": {"ok": 1, "proto": 1, "unit": "none", "block": BLOCK_BYTES, "pointer": 4},
            "model": {"ok": 1, "digest": "ab" * 32, "bytes": 1156, "crc": 7},
            "library": {"ok": 1, "commit": "cff6f4d"},
            "program": {
                "ok": 1, "inputs": 1, "outputs": 1, "planned": 32, "limit": BLOCK_BYTES - 80,
            },
            "tensor": tensor,
            "mem": {"ok": 1, "used": MINIMUM_ARENA_BYTES, "arena": self._arena or 0, "limit": 4016},
        }  # fmt: skip
        if verb in simple:
            return simple[verb]
        return getattr(self, f"_do_{verb}")(*arguments)  # type: ignore[no-any-return]

    def _do_load(self, size: str) -> Fields:
        if int(size) < MINIMUM_ARENA_BYTES:
            self.send(b"ET| E [ET:memory_allocator.h:105] no memory, 4B available\n")
            return {
                "used": int(size) - 4, "ok": 0, "stage": "load_method", "code": 0x21,
                "msg": "no memory, 4B",
            }  # fmt: skip
        self._arena, self._input = int(size), bytearray(12)
        return {"used": MINIMUM_ARENA_BYTES, "ok": 1}

    def _do_put(self, index: str, offset: str, text: str) -> Fields:
        assert index == "0"
        assert self._input is not None
        data = base64.b64decode(text)
        self._input[int(offset) : int(offset) + len(data)] = data
        return {"ok": 1}

    def _do_fill(self, index: str, seed: str) -> Fields:
        assert index == "0"
        self._input = bytearray(seeded_bytes("float32", 3, int(seed)))
        return {"ok": 1}

    def _do_seal(self, index: str) -> Fields:
        assert index == "0"
        assert self._input is not None
        self._sealed = True
        return {"ok": 1, "bytes": 12, "crc": zlib.crc32(self._input)}

    def _do_run(self, times: str) -> Fields:
        if self._input is None or not self._sealed:
            return {"ok": 0, "stage": "no model is loaded", "code": 0}
        values = struct.unpack("<3f", self._input)
        self._output = struct.pack("<3f", *(each + 1 for each in values))
        return {
            "ok": 1, "runs": int(times), "unit": "instructions", "least": 100, "most": 100,
            "total": 100 * int(times),
        }  # fmt: skip

    def _do_out(self, index: str) -> Fields:
        assert index == "0"
        return {"ok": 1, "bytes": len(self._output), "crc": zlib.crc32(self._output)}

    def _do_get(self, index: str, offset: str) -> Fields:
        assert index == "0"
        piece = self._output[int(offset) : int(offset) + CHUNK_BYTES]
        return {"ok": 1, "at": int(offset), "data": base64.b64encode(piece).decode()}


@contextmanager
def running(fake: FakeRunner) -> Iterator[FakeRunner]:
    fake.start()
    try:
        yield fake
    finally:
        fake.stop()

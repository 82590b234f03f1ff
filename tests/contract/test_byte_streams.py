from __future__ import annotations

import os
import select
import tty
from collections.abc import Iterator
from contextlib import suppress

import pytest

from harness.clock import Deadline
from harness.serial.port import open_serial_port
from tests.contract.byte_stream_conformance import ByteStreamConformance
from tests.unit.scripted_stream import ScriptedStream


class PtyFarEnd:
    """The master of a pty, whose slave is opened as a serial port."""

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        tty.setraw(slave)
        self.address = os.ttyname(slave)
        self.stream = open_serial_port(self.address)
        os.close(slave)
        self._gone = False

    def send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._master, rest) :]

    def received(self, length: int) -> bytes:
        data = b""
        deadline = Deadline.after(10)
        while len(data) < length and not deadline.expired:
            if select.select([self._master], [], [], deadline.remaining_s)[0]:
                data += os.read(self._master, length - len(data))
        return data

    def vanish(self) -> None:
        if not self._gone:
            self._gone = True
            os.close(self._master)


class ScriptedFarEnd:
    """The stream that unit tests use in place of a port."""

    def __init__(self) -> None:
        self.stream = ScriptedStream()

    def send(self, data: bytes) -> None:
        self.stream.say(data)

    def received(self, length: int) -> bytes:
        return self.stream.written[:length]

    def vanish(self) -> None:
        self.stream.end()


class TestSerialPortOnAPty(ByteStreamConformance):
    @pytest.fixture
    def far_end(self) -> Iterator[PtyFarEnd]:
        end = PtyFarEnd()
        yield end
        end.stream.close()
        with suppress(OSError):
            end.vanish()


class TestScriptedStream(ByteStreamConformance):
    @pytest.fixture
    def far_end(self) -> ScriptedFarEnd:
        return ScriptedFarEnd()

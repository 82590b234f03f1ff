"""What every byte stream must do, real or imitated; see :mod:`harness.serial.byte_stream`.

A test module makes a class from :class:`ByteStreamConformance` and gives it a ``far_end`` fixture.
"""

from __future__ import annotations

import threading
from typing import Protocol

import pytest

from harness.clock import Deadline, monotonic_s
from harness.serial.byte_stream import ByteStream, StreamGone


class FarEnd(Protocol):
    """The board's side of a stream under test, and the stream itself."""

    stream: ByteStream

    def send(self, data: bytes) -> None:
        """Send to the stream."""

    def received(self, length: int) -> bytes:
        """Wait for ``length`` bytes that the stream wrote."""

    def vanish(self) -> None:
        """Go away without a word."""


EVERY_BYTE = bytes(range(256))


def read_all(stream: ByteStream, length: int) -> bytes:
    data = b""
    deadline = Deadline.after(10)
    while len(data) < length and not deadline.expired:
        data += stream.read(4096, 0.2)
    return data


class ByteStreamConformance:
    """Derive from it and define ``far_end``."""

    def test_every_byte_value_passes_both_ways(self, far_end: FarEnd) -> None:
        far_end.send(EVERY_BYTE)
        assert read_all(far_end.stream, 256) == EVERY_BYTE
        far_end.stream.write(EVERY_BYTE)
        assert far_end.received(256) == EVERY_BYTE

    def test_a_quiet_read_ends_at_its_timeout_with_nothing(self, far_end: FarEnd) -> None:
        began_s = monotonic_s()
        assert far_end.stream.read(100, 0.1) == b""
        assert 0.05 < monotonic_s() - began_s < 5

    def test_a_read_does_not_wait_for_more_than_there_is(self, far_end: FarEnd) -> None:
        far_end.send(b"x")
        began_s = monotonic_s()
        assert far_end.stream.read(4096, 10) == b"x"
        assert monotonic_s() - began_s < 5

    def test_a_read_gives_no_more_than_asked_and_loses_nothing(self, far_end: FarEnd) -> None:
        far_end.send(b"abcdef")
        pieces = [far_end.stream.read(2, 1) for _ in range(3)]
        assert all(0 < len(each) <= 2 for each in pieces)
        rest = read_all(far_end.stream, 6 - sum(map(len, pieces)))
        assert b"".join(pieces) + rest == b"abcdef"

    def test_a_single_byte_can_be_asked_for(self, far_end: FarEnd) -> None:
        far_end.send(b"ab")
        assert far_end.stream.read(1, 5) == b"a"
        assert far_end.stream.read(1, 5) == b"b"

    def test_more_than_any_buffer_holds_arrives_in_order(self, far_end: FarEnd) -> None:
        data = b"".join(b"%07d\n" % number for number in range(16384))
        sender = threading.Thread(target=far_end.send, args=(data,))
        sender.start()
        assert read_all(far_end.stream, len(data)) == data
        sender.join()

    def test_reading_and_writing_do_not_wait_for_each_other(self, far_end: FarEnd) -> None:
        got: list[bytes] = []
        reader = threading.Thread(target=lambda: got.append(far_end.stream.read(10, 10)))
        reader.start()
        far_end.stream.write(b"question")
        assert far_end.received(8) == b"question"
        far_end.send(b"answer")
        reader.join(5)
        assert got == [b"answer"]

    def test_the_end_is_raised_again_and_again(self, far_end: FarEnd) -> None:
        far_end.vanish()
        for _ in range(3):
            with pytest.raises(StreamGone, match="vanished") as caught:
                far_end.stream.read(100, 1)
            assert caught.value.remedy

    def test_writing_to_nobody_is_an_error(self, far_end: FarEnd) -> None:
        far_end.vanish()
        with pytest.raises(StreamGone):
            far_end.stream.write(b"x")

    def test_close_wakes_a_waiting_read_and_may_be_repeated(self, far_end: FarEnd) -> None:
        errors: list[BaseException] = []

        def wait() -> None:
            try:
                while True:
                    far_end.stream.read(100, 30)
            except StreamGone as error:
                errors.append(error)

        reader = threading.Thread(target=wait)
        reader.start()
        began_s = monotonic_s()
        far_end.stream.close()
        far_end.stream.close()
        reader.join(10)
        assert not reader.is_alive()
        assert monotonic_s() - began_s < 5
        assert len(errors) == 1
        with pytest.raises(StreamGone):
            far_end.stream.read(1, 0.1)

    def test_it_has_a_name_for_messages(self, far_end: FarEnd) -> None:
        assert far_end.stream.name

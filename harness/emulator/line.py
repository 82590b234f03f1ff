"""The serial line of a board: bounded queues between its port and its chip, and what passed."""

from __future__ import annotations

from harness.clock import monotonic_s
from harness.emulator.pty import PtyPort

QUEUE_BYTES = 65536
"""Bytes held each way before the producer is held back; one piece more may be in the queue."""


class Line:
    """Output goes to whoever reads the port, or is dropped; input waits for the chip.

    ``traffic_at_s`` and ``read_at_s`` are monotonic seconds: when a byte last passed, and when the
    port was last seen open.
    """

    def __init__(self, port: PtyPort) -> None:
        self.port = port
        self.outgoing = bytearray()
        self.incoming = bytearray()
        self.reader = False
        self.dropped_bytes = 0
        self.sent_bytes = 0
        self.received_bytes = 0
        self.read_at_s = self.traffic_at_s = monotonic_s()

    @property
    def takes_output(self) -> bool:
        """Whether the chip may say more."""
        return len(self.outgoing) < QUEUE_BYTES

    @property
    def takes_input(self) -> bool:
        """Whether more may be typed."""
        return len(self.incoming) < QUEUE_BYTES

    def look(self) -> bool:
        """See whether somebody reads now; whether there is input by one who has left again.

        A write by somebody who closes at once, as ``echo x > tty`` does, is never signalled.
        """
        reader, typed = self.port.look()
        if self.reader and not reader:
            self.port.forget_unread()
            self.drop()
        self.reader = reader
        if reader:
            self.read_at_s = monotonic_s()
            self._speak()
        return typed and not reader

    def say(self, piece: bytes) -> None:
        """Take what the chip printed: sent, queued, or dropped when nobody reads."""
        if piece:
            self.traffic_at_s = monotonic_s()
            self.outgoing += piece
        self.reader, _ = self.port.look()
        if self.reader:
            self._speak()
        else:
            self.drop()

    def _speak(self) -> None:
        while self.outgoing and (taken := self.port.write(self.outgoing)):
            del self.outgoing[:taken]
            self.sent_bytes += taken
            self.traffic_at_s = monotonic_s()

    def hear(self, *, keep: bool) -> None:
        """Take what was typed; without ``keep`` there is no chip to hear it."""
        piece = self.port.read()
        if piece and keep:
            self.incoming += piece
            self.received_bytes += len(piece)
            self.wake()

    def wake(self) -> None:
        """Count this moment as traffic and as read."""
        self.read_at_s = self.traffic_at_s = monotonic_s()

    def drop(self) -> None:
        """Let go of output that is still queued."""
        self.dropped_bytes += len(self.outgoing)
        self.outgoing.clear()

    def clear(self) -> None:
        """Begin anew for a chip that boots: nothing typed before is for it."""
        while self.port.look()[1] and self.port.read():
            pass
        self.incoming.clear()
        self.drop()
        self.wake()

"""A conversation with a board: a reader that never loses a byte, and ``expect`` over what it kept.

The port is read from :meth:`Session.start` on by a thread of its own, whoever else is busy: what a
board says during an upload is kept.  ``expect`` moves a cursor over the transcript and consumes
nothing.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

import pexpect

from harness.clock import Deadline, monotonic_s
from harness.errors import BenchError, DeviceError, HilError
from harness.serial.byte_stream import ByteStream, StreamGone
from harness.serial.patterns import Patterns, PatternSet, compile_patterns
from harness.serial.session_errors import (
    StreamEnded,
    board_crashed,
    board_silent,
    broken_reader,
    described,
    expect_timeout,
    stream_ended,
)
from harness.serial.transcript import Transcript
from harness.serial.witness import Crash, Witness

READ_BYTES = 65536
POLL_S = 0.5
"""How long one read waits; closing wakes it, so this bounds nothing that matters."""

WATCH_S = 1.0
"""How long nothing arrives before the witness is asked whether the board still lives."""

LAST_BYTES_S = 0.3
"""How long the last bytes of a board that has ended may still be on their way."""

MATCH_SPAN_BYTES = 256 * 1024
"""Longest stretch, of bytes searched before, that one match may begin in: it bounds the work per
arriving byte when a board prints megabytes and nothing matches."""


class Session:
    """One open stream and its transcript; a context manager that starts and closes it.

    ``witness`` sees the board otherwise than through the stream, where that is possible: waits
    then end with what happened to the board instead of a timeout.  ``clock`` and ``entropy`` are
    the machine's own, unless a recorded conversation is played back.
    """

    def __init__(
        self,
        stream: ByteStream,
        transcript: Transcript,
        *,
        witness: Witness | None = None,
        clock: Callable[[], float] = monotonic_s,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.stream = stream
        self.transcript = transcript
        self.clock = clock
        self.entropy = entropy
        self._witness = witness
        self._looked_s = clock()
        self.match: re.Match[bytes] | type[pexpect.TIMEOUT] | type[pexpect.EOF] | None = None
        self.before: bytes = b""
        self.after: bytes | type[pexpect.TIMEOUT] | type[pexpect.EOF] | None = None
        self._cursor = transcript.rx_length
        self._boot_offset = transcript.rx_length
        self._arrived = threading.Condition()
        self._last_rx_s = clock()
        self._end: DeviceError | None = None
        self._pending: HilError | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin to read; calling it again does nothing."""
        if self._thread is None:
            self._last_rx_s = self.clock()
            self._note("opened", stream=self.stream.name)
            name = f"read {self.stream.name}"
            self._thread = threading.Thread(target=self._read, name=name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Close stream and transcript; both can be asked about what was kept."""
        self._stop.set()
        self.stream.close()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        self.transcript.close()

    def resume(self, stream: ByteStream) -> None:
        """Go on with another stream after this one has ended: a port that came back elsewhere.

        The transcript goes on; what is expected next is expected of the new stream.
        """
        self.stream.close()
        if self._thread is not None:
            self._thread.join(timeout=5.0)
        self.stream, self._thread, self._end = stream, None, None
        self.skip_received()
        self.start()

    @property
    def cursor(self) -> int:
        """Offset in the received bytes from which the next ``expect`` looks."""
        return self._cursor

    @property
    def ended(self) -> bool:
        """Whether the stream has ended; what was received can still be expected."""
        with self._arrived:
            return self._end is not None

    def skip_received(self) -> bytes:
        """Move the cursor past everything received so far, and return what it passed.

        For the moment before a board is flashed or reset: see :meth:`received_since_boot`.
        """
        passed = self.transcript.received(self._cursor)
        self._cursor = max(self._cursor, self.transcript.rx_start) + len(passed)
        self._boot_offset = self._cursor
        return passed

    def skip_to(self, offset: int) -> None:
        """Move the cursor to the offset at which the board is known to have booted.

        What comes before it is of an earlier firmware, whether it has arrived yet or not.
        """
        self._cursor = self._boot_offset = max(self._cursor, offset)

    def received_since_boot(self) -> str:
        """What came since the board was last flashed or reset, as text for parsers."""
        said = self.transcript.received(self._boot_offset)
        return said.decode("utf-8", "backslashreplace")

    @property
    def bytes_since_boot(self) -> int:
        """How many bytes came since the board was last flashed or reset."""
        return max(0, self.transcript.rx_length - self._boot_offset)

    def crash(self) -> Crash | None:
        """How the board's core crashed, where somebody can see that it did."""
        seen = self._witness.crash() if self._witness is not None else None
        if seen is not None:
            self._note("crash", why=seen.why, evidence=list(seen.evidence))
        return seen

    def account(self) -> tuple[str, ...]:
        """What can be told of a board that went silent; empty where nobody can see it."""
        told = self._witness.account() if self._witness is not None else ()
        if told:
            self._note("account", lines=list(told))
        return told

    def mark(self, kind: str, **facts: object) -> None:
        """Note in the transcript what happened to the board, with where this session stands."""
        self._note(kind, boot=self._boot_offset, cursor=self._cursor, **facts)

    def _note(self, kind: str, **facts: object) -> None:
        # The bytes count, not the notes: a disk that refuses is said by the next piece.
        with suppress(BenchError):
            self.transcript.mark(kind, facts)

    def write(self, data: bytes) -> None:
        """Send ``data``; it is in the transcript before it is on the wire."""
        self._raise_pending()
        self.transcript.append("tx", data)
        try:
            self.stream.write(data)
        except StreamGone as error:
            raise stream_ended(error, "the bench was writing to it", self.transcript) from error
        except DeviceError as error:
            self._note("refused", **described(error))
            raise

    def write_line(self, text: str) -> None:
        """Send ``text`` as UTF-8 and a newline."""
        self.write(text.encode("utf-8") + b"\n")

    def wait_received(self, offset: int, timeout_s: float) -> bytes:
        """Received bytes from ``offset`` on as soon as there are any; ``b""`` after the timeout.

        Raises :class:`StreamEnded` when none can come any more, and what the witness says.
        """
        self._raise_pending()
        deadline = Deadline.after(timeout_s, self.clock)
        while True:
            ended, late = self.ended, deadline.expired
            data = self.transcript.received(offset)
            if data:
                return data
            if ended:
                raise self._ended("nothing more can be read")
            if late:
                return b""
            self._wait_beyond(offset, deadline.remaining_s)

    def expect(
        self, patterns: Patterns, timeout_s: float = 30.0, idle_s: float | None = None
    ) -> int:
        """Wait until one of ``patterns`` is received after the cursor; return its number.

        Sets ``match``, ``before`` (from the cursor to the match) and ``after`` (what matched), and
        moves the cursor past the match.  ``timeout_s`` bounds the whole wait, ``idle_s`` the time
        without a single byte.  Without ``pexpect.TIMEOUT`` or ``pexpect.EOF`` in the list raises
        :class:`ExpectTimeout`, :class:`BoardSilent` or :class:`StreamEnded`, with the end of the
        whole conversation as evidence.
        """
        return self._expect(compile_patterns(patterns), timeout_s, idle_s)

    def expect_exact(
        self, patterns: Patterns, timeout_s: float = 30.0, idle_s: float | None = None
    ) -> int:
        """:meth:`expect` for literal text."""
        return self._expect(compile_patterns(patterns, exact=True), timeout_s, idle_s)

    def _expect(self, wanted: PatternSet, timeout_s: float, idle_s: float | None) -> int:
        self._raise_pending()
        deadline = Deadline.after(timeout_s, self.clock)
        began_s = self.clock()
        searched_to = self._cursor
        while True:
            start = max(self._cursor, searched_to - MATCH_SPAN_BYTES, self.transcript.rx_start)
            # Looked at before the bytes, so that what came in time is always searched.
            ended, late = self.ended, deadline.expired
            idle = idle_s is not None and self._idle_since(began_s) >= idle_s
            data = self.transcript.received(start)
            found = wanted.search(data)
            if found is not None:
                self._take(found.match, start)
                return found.index
            searched_to = start + len(data)
            self._raise_pending()
            if ended:
                return self._at_end(wanted)
            if late:
                return self._at_timeout(wanted, f"within {timeout_s:g} s")
            if idle:
                return self._at_timeout(wanted, f"and nothing at all came for {idle_s:g} s")
            wait_s = deadline.remaining_s
            if idle_s is not None:
                wait_s = min(wait_s, idle_s - self._idle_since(began_s))
            self._wait_beyond(searched_to, wait_s)

    def _wait_beyond(self, offset: int, wait_s: float) -> None:
        """Wait for a byte past ``offset``, at most ``wait_s`` and not long without a look."""
        longest_s = 3600.0 if self._witness is None else WATCH_S
        if self._nothing_beyond(offset, min(wait_s, longest_s)):
            quiet_s = self.clock() - max(self._last_rx_s, self._looked_s)
            if quiet_s >= WATCH_S:
                self._require_alive(offset)

    def _nothing_beyond(self, offset: int, wait_s: float) -> bool:
        with self._arrived:
            if self.transcript.rx_length <= offset and self._end is None and wait_s > 0:
                self._arrived.wait(wait_s)
            return self.transcript.rx_length <= offset and self._end is None

    def _require_alive(self, offset: int) -> None:
        if self._witness is None:
            return
        self._looked_s = self.clock()
        try:
            self._witness.require_alive()
        except HilError as error:
            if not self._nothing_beyond(offset, LAST_BYTES_S):
                return
            self._note("dead", **described(error))
            error.stage = error.stage or "session"
            error.evidence = (*error.evidence, *self.transcript.tail())
            raise

    def _idle_since(self, began_s: float) -> float:
        return self.clock() - max(self._last_rx_s, began_s)

    def _take(self, match: re.Match[bytes], start: int) -> None:
        self.match = match
        self.before = self.transcript.received(self._cursor, start + match.start())
        self.after = match.group(0)
        self._cursor = start + match.end()

    def _at_timeout(self, wanted: PatternSet, when: str) -> int:
        self.match = self.after = pexpect.TIMEOUT
        self.before = self.transcript.received(self._cursor)
        if wanted.timeout_index is not None:
            return wanted.timeout_index
        self._require_alive(self.transcript.rx_length)
        name, tail = self.stream.name, self.transcript.tail()
        if (crash := self.crash()) is not None:
            raise board_crashed(name, crash, f"{wanted.shown} was expected", tail)
        evidence = (*tail, *self.account())
        if self.bytes_since_boot == 0:
            raise board_silent(name, wanted.shown, when, evidence)
        said = self.transcript.received(self._boot_offset)
        raise expect_timeout(name, wanted.shown, when, said, evidence)

    def _at_end(self, wanted: PatternSet) -> int:
        self.match = self.after = pexpect.EOF
        self.before = self.transcript.received(self._cursor)
        if wanted.eof_index is not None:
            self._cursor = self.transcript.rx_length
            return wanted.eof_index
        raise self._ended(f"{wanted.shown} was expected")

    def _ended(self, doing: str) -> StreamEnded:
        assert self._end is not None
        return stream_ended(self._end, doing, self.transcript)

    def _raise_pending(self) -> None:
        with self._arrived:
            pending, self._pending = self._pending, None
        if pending is not None:
            pending.stage = pending.stage or "session"
            raise pending

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                data = self.stream.read(READ_BYTES, POLL_S)
            except DeviceError as error:
                self._finish(error)
                return
            except Exception as error:  # a reader that dies unseen would look like a silent board
                self._finish(broken_reader(self.stream.name, error))
                return
            if data:
                self._keep(data)

    def _keep(self, data: bytes) -> None:
        pending: HilError | None = None
        try:
            self.transcript.append("rx", data)
        except HilError as error:
            pending = error
        with self._arrived:
            self._last_rx_s = self.clock()
            self._pending = self._pending or pending
            self._arrived.notify_all()

    def _finish(self, error: DeviceError) -> None:
        if not self._stop.is_set():
            self._note("ended", **described(error))
        with self._arrived:
            self._end = error
            self._arrived.notify_all()

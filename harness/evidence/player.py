"""A recorded conversation played to a session: the board's words, at the times they came.

Time is the recording's own.  What the board said after a command is held back until the case has
sent that command; what the case sends must be what was sent, byte for byte, or the answers answer
something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from harness.errors import BenchError
from harness.evidence.recording import Entry, Recording

LATE_S = 0.25
"""How much a wait of the recorded run may have overshot; a busy machine wakes late."""

END_S = 0.5
"""How far a wait may reach beyond the end of the recording: more than a session waits for the last
bytes of a board that died."""

_GREETING = re.compile(rb"@hil (\d{1,10}) hello\*")


class CannotReplay(BenchError):
    """The recording cannot tell what would happen: the case asks or does something else now.

    Cause: cases or bench changed since the run, or the run was cut off.  Remedy: run on a board.
    """

    stage = "replay"


class NotRecorded(CannotReplay, AttributeError):
    """What a case reaches for is no part of a recorded board, such as the process that plays it."""


def cannot_replay(why: str) -> CannotReplay:
    """The error for a case that a recording does not decide."""
    return CannotReplay(why, remedy="run it on a board")


@dataclass
class Player:
    """Where in the recording a replay stands; ``now_s`` is its clock.

    ``cannot`` is why the case that runs cannot be judged, once that is so.
    """

    recording: Recording
    now_s: float = 0.0
    at: int = 0
    limit: int = 0
    cannot: str | None = None
    ran_out: bool = False
    """The case waited for what had not come by the recording's end."""

    _last_sent: bytes = b""
    _numbers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = [entry.number for entry in self.recording.entries]

    def clock(self) -> float:
        """Seconds of the recording's own time."""
        return self.now_s

    def refuse(self, why: str) -> CannotReplay:
        """Note that this case cannot be judged, and return the error that ends it."""
        self.cannot = self.cannot or why
        return cannot_replay(why)

    def place(self, number: int | None) -> int:
        """The entry at or after the index's line ``number``; None is the end."""
        if number is None:
            return len(self._numbers)
        low, high = 0, len(self._numbers)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._numbers[middle] >= number else (middle + 1, high)
        return low

    def bound(self, first: int, last: int | None) -> None:
        """Let only what lies between two lines of the index be played."""
        self.limit = max(self.place(last), self.place(first))
        self.cannot = None
        self.ran_out = False
        self._last_sent = b""

    @property
    def end_s(self) -> float:
        """When the case that is played ended."""
        entries = self.recording.entries
        return entries[self.limit - 1].at_s if self.limit else 0.0

    def peek(self) -> Entry | None:
        """The next entry of this case."""
        return self.recording.entries[self.at] if self.at < self.limit else None

    def take(self) -> Entry:
        """Pass the next entry; the clock goes on to its time."""
        entry = self.recording.entries[self.at]
        self.at += 1
        self.now_s = max(self.now_s, entry.at_s)
        return entry

    def next_of(self, kind: str, *, before: str | None = None) -> int | None:
        """Where the next mark of ``kind`` stands, if it comes before one of kind ``before``."""
        for place in range(self.at, self.limit):
            entry = self.recording.entries[place]
            if entry.way == "mark" and entry.kind == kind:
                return place
            if entry.way == "mark" and entry.kind == before:
                return None
        return None

    def arrives_by(self, until_s: float) -> bool:
        """Whether the next entry is something that the recorded run got before it gave up."""
        entry = self.peek()
        if entry is None or entry.way == "tx":
            return False
        if entry.at_s <= until_s:
            return True
        # Later than the wait is long: only where the recorded run did not try again instead.
        return entry.at_s <= until_s + LATE_S and self._next_sent() != self._last_sent

    def pass_time(self, until_s: float) -> None:
        """Nothing comes until then.

        Raises :class:`CannotReplay` when the recorded run had ended by that time.
        """
        if until_s > self.end_s + END_S:
            self.ran_out = True
            raise self.refuse(
                "the recording ends before the case knows what it waits for"
                f" ({self.end_s:.1f} s, and it waits until {until_s:.1f} s)"
            )
        # A hair more, so that a deadline at this very moment has passed.
        self.now_s = max(self.now_s, until_s + 1e-6)

    def _next_sent(self) -> bytes:
        for place in range(self.at, self.limit):
            entry = self.recording.entries[place]
            if entry.way == "tx":
                return self.recording.data(entry)
            if entry.way == "mark" and entry.kind in ("boot", "reset"):
                break
        return b"(nothing)"

    def sent(self, data: bytes) -> list[Entry]:
        """The case sends ``data``: returns what came in before it, and passes what was sent.

        Raises :class:`CannotReplay` when the recorded run sent something else here.
        """
        before: list[Entry] = []
        while (entry := self.peek()) is not None and entry.way != "tx":
            if entry.kind in ("boot", "reset"):
                entry = None
                break
            before.append(self.take())
        if entry is None:
            raise self.refuse(f"the case sends {data[:60]!r}, and the recorded run sent no more")
        recorded = self.recording.data(entry)
        if recorded != data:
            raise self.refuse(
                f"the case sends {data[:60]!r}, and the recorded run sent {recorded[:60]!r}"
            )
        self.take()
        self._last_sent = data
        return before

    def entropy(self, count: int) -> bytes:
        """What :meth:`RunnerLink.greet` drew when the run was recorded, so that replies fit."""
        for place in range(self.at, self.limit):
            entry = self.recording.entries[place]
            found = None
            if entry.way == "tx" and entry.end - entry.start <= 200:
                found = _GREETING.match(self.recording.data(entry))
            if found is not None:
                number = int(found[1]) - 1
                if 0 <= number < 1 << (8 * count):
                    return number.to_bytes(count, "big")
                break
        return bytes(count)

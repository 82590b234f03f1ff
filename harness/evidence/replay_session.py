"""A session over recorded bytes: the same ``expect``, cursor and errors as over a port."""

from __future__ import annotations

from harness.errors import DeviceError, DutFailure, HilError
from harness.evidence.plain import Plain
from harness.evidence.player import Player
from harness.evidence.recording import Entry
from harness.serial.byte_stream import StreamGone
from harness.serial.session import Session
from harness.serial.session_errors import stream_ended
from harness.serial.transcript import Transcript
from harness.serial.witness import Crash

UNNAMED = "replay"

WITNESSED = frozenset({"dead", "crash", "account"})
"""Marks of what a witness said, each noted when a wait had ended with nothing."""


class ReplayStream:
    """Stands where a port did, under its name; everything real is the player's."""

    def __init__(self) -> None:
        self.name = UNNAMED

    def read(self, max_bytes: int, timeout_s: float) -> bytes:
        """Nothing: what was received is played into the session itself."""
        del max_bytes, timeout_s
        raise StreamGone("a recording has no port to read", remedy="run it on a board")

    def write(self, data: bytes) -> None:
        """Nothing: it was compared with what was sent before."""

    def close(self) -> None:
        """Nothing is held."""


class RecordedWitness:
    """Who saw the board from behind when the run was recorded, as far as that was noted."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def require_alive(self) -> None:
        """Raise what ended the board, where that comes next in the recording."""
        entry = self._next("dead")
        if entry is not None and entry.facts is not None:
            raise recorded_error(entry.facts)

    def crash(self) -> Crash | None:
        """The crash that was seen, where that comes next in the recording."""
        entry = self._next("crash")
        if entry is None or entry.facts is None:
            return None
        return Crash(entry.facts.text("why"), entry.facts.texts("evidence"))

    def account(self) -> tuple[str, ...]:
        """What was told of a board that went silent, where that comes next in the recording."""
        entry = self._next("account")
        return () if entry is None or entry.facts is None else entry.facts.texts("lines")

    def _next(self, kind: str) -> Entry | None:
        entry = self._player.peek()
        if entry is None or entry.way != "mark" or entry.kind != kind:
            return None
        return self._player.take()


def recorded_error(facts: Plain) -> HilError:
    """The error that :func:`harness.serial.session_errors.described` noted."""
    branch = DutFailure if facts.content.get("failed") is True else DeviceError
    return branch(
        facts.text("message"),
        remedy=facts.text("remedy"),
        cause=facts.text("cause"),
        evidence=facts.texts("evidence"),
    )


class ReplaySession(Session):
    """No thread reads: whatever waits has the player bring what came next."""

    def __init__(self, player: Player) -> None:
        self._replay_stream = ReplayStream()
        super().__init__(
            self._replay_stream,
            Transcript(None, clock=player.clock),
            witness=RecordedWitness(player),
            clock=player.clock,
            entropy=player.entropy,
        )
        self._player = player

    def start(self) -> None:
        """Nothing to start."""

    def write(self, data: bytes) -> None:
        """See :class:`Session`; raises :class:`CannotReplay` when something else was sent."""
        self._raise_pending()
        for earlier in self._player.sent(data):
            self._play(earlier)
        self.transcript.append("tx", data)
        if self._end is not None:
            raise stream_ended(self._end, "the bench was writing to it", self.transcript)
        entry = self._player.peek()
        if entry is not None and entry.kind == "refused" and entry.facts is not None:
            self._player.take()
            raise recorded_error(entry.facts)

    def go_to(self, place: int, *, facts: Plain | None = None) -> None:
        """Play everything up to ``place``; ``facts`` of a mark say where the session then stood."""
        while self._player.at < place:
            entry = self._player.take()
            if entry.way == "tx":
                self.transcript.append("tx", self._player.recording.data(entry))
            else:
                self._play(entry)
        if facts is not None:
            length = self.transcript.rx_length
            boot, cursor = facts.count_or_none("boot"), facts.count_or_none("cursor")
            # A board that says at which byte it boots does so before all of them have arrived.
            self._boot_offset = length if boot is None else boot
            self._cursor = length if cursor is None else cursor

    def _nothing_beyond(self, offset: int, wait_s: float) -> bool:
        until_s = self._player.now_s + wait_s
        while self._still_waits(offset) and wait_s > 0:
            entry = self._player.peek()
            if self._is_for_witness(entry) or not self._player.arrives_by(until_s):
                break
            assert entry is not None
            if entry.kind in ("boot", "reset"):
                break
            self._play(self._player.take())
        if self._still_waits(offset) and wait_s > 0:
            self._player.pass_time(until_s)
        return self._still_waits(offset)

    def _is_for_witness(self, entry: Entry | None) -> bool:
        """Whether the wait ended here: what was seen from behind is asked for next."""
        recent_s = self._player.now_s - 1.0
        return entry is not None and entry.kind in WITNESSED and entry.at_s >= recent_s

    def _still_waits(self, offset: int) -> bool:
        return self.transcript.rx_length <= offset and self._end is None

    def _play(self, entry: Entry) -> None:
        if entry.way == "rx":
            self._keep(self._player.recording.data(entry))
        elif entry.kind == "opened" and entry.facts is not None:
            self._replay_stream.name = entry.facts.text("stream")
            self._end = None
        elif entry.kind == "ended" and entry.facts is not None:
            error = recorded_error(entry.facts)
            self._finish(StreamGone(error.message, remedy=error.remedy, evidence=error.evidence))

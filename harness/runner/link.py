"""One command, one record: sequence numbers, retransmission, and what is not to be believed.

A command is sent again when nothing answers; the board runs it once and repeats its reply, so that
a lost line costs time only.  A *damaged* line is another matter: it proves that the stream is not
to be trusted, and ends the exchange with :class:`StreamCorruption` unless ``damage_limit`` allows
for it.  Records of another build are counted and never believed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from harness.clock import Deadline
from harness.errors import DeviceError, DutFailure
from harness.runner.protocol import MAX_SEQUENCE, Record, encode_command
from harness.runner.record_stream import Damage, Item, LogText, ReceivedRecord, RecordStream
from harness.serial.session import Session
from harness.serial.session_errors import board_crashed
from harness.serial.transcript import printable

FIRST_RETRY_S: Final = 2.0
"""How long the first answer is waited for before the command is sent again; doubled each time."""

GREETING_RETRY_S: Final = 0.25
MAX_RETRY_S: Final = 16.0
MAX_SENDS: Final = 8
RESET_LOOP_BOOTS: Final = 3
"""Boot records while greeting that make a reset loop; one is normal, two happen on opening."""

_LOG_LINES: Final = 64
_HEAVY: Final = frozenset({"load", "run"})
"""Commands in which model and library work: silence or a reset there is theirs, not the cable's."""


class StreamCorruption(DeviceError):
    """A record arrived damaged, twice, or out of order.

    Cause: two writers on one port, lost bytes, a router that mixes prints.  Remedy: make sure only
    one program uses the port, and run again; no answer was taken from the damaged stream.
    """

    stage = "session"


class StaleFirmware(DeviceError):
    """Only records of another build come: the upload did not take, or the port is another board's.

    Remedy: upload again.
    """

    stage = "session"


class RunnerSilent(DeviceError):
    """No runner answered.  Cause and remedy: in the message."""

    stage = "session"


class BoardReset(DeviceError):
    """The board started anew in the middle of a conversation, or does so again and again."""

    stage = "session"


class RunnerCrashed(DutFailure):
    """The board reset or fell silent while it loaded or ran the model."""

    stage = "session"


@dataclass
class _Exchange:
    sequence: int
    verb: str
    line: bytes
    sends: int = 0
    log: deque[str] = field(default_factory=lambda: deque(maxlen=_LOG_LINES))


class RunnerLink:
    """Exchanges commands for records with the runner that carries ``nonce``."""

    def __init__(self, session: Session, nonce: str, *, damage_limit: int = 0) -> None:
        self.session = session
        self.nonce = nonce
        self.damage: list[Damage] = []
        self.stale_records = 0
        self.stale_nonce: str | None = None
        self.retransmissions = 0
        self._damage_limit = damage_limit
        self._damage_seen = 0
        self._offset = session.cursor
        self._stream = RecordStream(self._offset)
        self._items: deque[Item] = deque()
        self._outstanding: dict[int, int] = {}
        self._sequence = 0
        self._boots = 0
        self._greeted = False
        self._current = _Exchange(0, "", b"")

    @property
    def log(self) -> tuple[str, ...]:
        """What the runtime logged (``ET| ``) since the last command was sent."""
        return tuple(self._current.log)

    def greet(self, timeout_s: float) -> Record:
        """Find the runner; until it answers, damage and other builds' records are only counted.

        Raises :class:`StaleFirmware`, :class:`RunnerSilent` or :class:`BoardReset`.
        """
        self._greeted = False
        self._boots = 0
        # Random, so that no reply that the board still holds can pass for this one's.
        self._sequence = int.from_bytes(self.session.entropy(3), "big") + 1
        # Ends whatever stands unfinished in the board's line buffer.
        self.session.write(b"\n")
        record = self._exchange("hello", (), timeout_s, GREETING_RETRY_S)
        self._greeted = True
        return record

    def request(self, verb: str, *arguments: int | str, timeout_s: float) -> Record:
        """Send a command and return its record, ``ok`` or not.

        Raises :class:`StreamCorruption`, :class:`BoardReset`, :class:`RunnerCrashed` or
        :class:`RunnerSilent`.
        """
        self._sequence += 1
        return self._exchange(verb, arguments, timeout_s, FIRST_RETRY_S)

    def corrupt(self, what: str, raw: bytes = b"") -> StreamCorruption:
        """The error for a stream found damaged."""
        shown = (f"damaged: {printable(raw)}",) if raw else ()
        return StreamCorruption(
            f"the stream of {self.session.stream.name!r} is corrupt: {what}",
            remedy="make sure that nothing else reads or writes the port and that the sketch"
            " prints from one place, then run again; no answer was taken from it",
            evidence=(*shown, *self.session.transcript.tail(20)),
        )

    def _exchange(
        self, verb: str, arguments: tuple[int | str, ...], timeout_s: float, retry_s: float
    ) -> Record:
        if self._sequence > MAX_SEQUENCE:
            raise self.corrupt("the sequence numbers are used up")
        line = encode_command(self._sequence, verb, *arguments)
        self._current = exchange = _Exchange(self._sequence, verb, line)
        deadline = Deadline.after(timeout_s, self.session.clock)
        while not deadline.expired:
            if self._greeted and exchange.sends >= MAX_SENDS:
                break
            self._send(exchange)
            reply = self._await_reply(min(retry_s, deadline.remaining_s))
            if reply is not None:
                return reply
            retry_s = min(2 * retry_s, MAX_RETRY_S)
        raise self._no_answer(exchange, timeout_s)

    def _send(self, exchange: _Exchange) -> None:
        exchange.sends += 1
        self.retransmissions += exchange.sends > 1
        self._outstanding[exchange.sequence] = exchange.sends
        for old in [each for each in self._outstanding if each < exchange.sequence - 8]:
            del self._outstanding[old]
        self.session.write(exchange.line)

    def _await_reply(self, wait_s: float) -> Record | None:
        """The reply, or None when the command is to be sent again."""
        deadline = Deadline.after(wait_s, self.session.clock)
        while True:
            while self._items:
                verdict = self._judge(self._items.popleft())
                if isinstance(verdict, Record):
                    return verdict
                if verdict == "again":
                    return None
            if deadline.expired:
                return None
            self._offset = max(self._offset, self.session.transcript.rx_start)
            data = self.session.wait_received(self._offset, deadline.remaining_s)
            self._offset += len(data)
            self._items.extend(self._stream.feed(data))

    def _judge(self, item: Item) -> Record | str | None:
        if isinstance(item, LogText):
            if item.data.startswith(b"ET| "):
                self._current.log.append(printable(item.data))
            return None
        if isinstance(item, Damage):
            return self._judge_damage(item)
        return self._judge_record(item)

    def _judge_damage(self, damage: Damage) -> str | None:
        self.damage.append(damage)
        del self.damage[:-32]
        if not self._greeted:
            return None
        self._damage_seen += 1
        if self._damage_seen > self._damage_limit:
            detail = f" ({damage.detail})" if damage.detail else ""
            raise self.corrupt(f"a record arrived {damage.kind}{detail}", damage.data)
        return "again"

    def _judge_record(self, received: ReceivedRecord) -> Record | str | None:
        record = received.record
        if record.nonce != self.nonce:
            self.stale_records += 1
            self.stale_nonce = record.nonce
            return None
        if record.verb == "boot":
            self._judge_boot()
            return None
        if record.verb == "nak":
            return self._judge_refusal(str(record.fields.get("why", "")))
        current = self._current
        left = self._outstanding.get(record.sequence, 0)
        if left <= 0 and self._greeted:
            known = record.sequence <= current.sequence
            what = "more often than it was asked for" if known else "that nothing asked for"
            raise self.corrupt(f"record {record.sequence} ({record.verb!r}) came {what}")
        self._outstanding[record.sequence] = left - 1
        if record.sequence != current.sequence:
            return None
        if record.verb not in (current.verb, "unknown", "overflow"):
            raise self.corrupt(
                f"record {record.sequence} answers {record.verb!r}, and {current.verb!r} was asked"
            )
        return record

    def _judge_boot(self) -> None:
        self._boots += 1
        if self._greeted:
            raise self._reset("started anew")
        if self._boots >= RESET_LOOP_BOOTS:
            raise BoardReset(
                f"the board on {self.session.stream.name!r} resets in a loop:"
                f" it started {self._boots} times and answered nothing",
                remedy="look for a fault before the first command: power, watchdog, or static"
                " constructors of the sketch; flash a small sketch to tell board from sketch",
                evidence=self.session.transcript.tail(20),
            )

    def _judge_refusal(self, why: str) -> str | None:
        if not self._greeted:
            return None
        if why == "greet":
            raise self._reset("forgot the conversation, so it started anew")
        if why == "order":
            raise self.corrupt("the board missed a command and kept its answer to itself")
        # Any other: the command arrived damaged. Nothing was done, so it is sent again.
        return "again"

    def _reset(self, how: str) -> DeviceError | DutFailure:
        verb = self._current.verb
        message = f"the board on {self.session.stream.name!r} {how} during {verb!r}"
        message += self._last_words()
        evidence = self.session.transcript.tail(20)
        if verb in _HEAVY:
            return RunnerCrashed(
                message,
                remedy="the sketch crashed in the runtime: read the last ET| lines; an arena just"
                " below the least size can crash instead of failing",
                evidence=evidence,
            )
        return BoardReset(
            message, remedy="check power and cable, then run again", evidence=evidence
        )

    def _last_words(self) -> str:
        return f"; its last line: {self._current.log[-1]}" if self._current.log else ""

    def _no_answer(self, exchange: _Exchange, timeout_s: float) -> DeviceError | DutFailure:
        name = self.session.stream.name
        tail = self.session.transcript.tail(20)
        if (crash := self.session.crash()) is not None:
            if exchange.verb not in _HEAVY:
                return board_crashed(name, crash, f"{exchange.verb!r} was asked", tail)
            return RunnerCrashed(
                f"the board on {name!r} crashed in {exchange.verb!r}: {crash.why}"
                + self._last_words(),
                remedy="look the program counter up in the link map; an arena just below the"
                " least size can crash instead of failing",
                evidence=(*tail, *crash.evidence),
            )
        tail = (*tail, *self.session.account())
        if self._greeted:
            what = (
                f"the board on {name!r} did not answer {exchange.verb!r}"
                f" ({exchange.sends} times sent, {timeout_s:g} s)"
            )
            if exchange.verb in _HEAVY:
                return RunnerCrashed(
                    what + self._last_words(),
                    remedy="a fatal assertion of the runtime parks the board with interrupts off,"
                    " which looks like silence: read the last ET| lines, reset, try a larger arena",
                    evidence=tail,
                )
            return RunnerSilent(what, remedy="reset the board and run again", evidence=tail)
        if self.stale_records:
            return StaleFirmware(
                f"the board on {name!r} runs another build: its records carry"
                f" {self.stale_nonce!r} and {self.nonce!r} was uploaded",
                remedy="upload again; if it stays, the port belongs to another board",
                evidence=tail,
            )
        if self.damage:
            first = self.damage[0]
            return StreamCorruption(
                f"the stream of {name!r} is corrupt: {len(self.damage)} records arrived damaged and"
                f" none whole within {timeout_s:g} s, the first of them {first.kind}",
                remedy="see that only one program uses the port, and run again",
                evidence=(f"damaged: {printable(first.data)}", *tail),
            )
        kept = self.session.bytes_since_boot
        said = f"it sent {kept} bytes of other output" if kept else "it sent nothing"
        return RunnerSilent(
            f"no runner answers on {name!r} within {timeout_s:g} s: {said}",
            remedy="check that the runner sketch was uploaded to this board and prints to this"
            " port (on a Uno Q, Serial needs Arduino_RouterBridge), and reset it",
            evidence=tail or ("(no byte was received)",),
        )
